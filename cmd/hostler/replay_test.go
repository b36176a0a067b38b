package main

import (
	"strings"
	"testing"

	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// TestReplay prints what a terminal has printed if that is what the host's account
// of the recording says, and tells what is wrong with it otherwise.
func TestReplay(t *testing.T) {
	const cast = "{\"version\":2,\"width\":80,\"height\":24}\n[0.1,\"o\",\"hello \"]\n[0.2,\"i\",\"typed\"]\n[0.3,\"o\",\"there\"]\n"
	whole := protocol.Output{FD: protocol.Recording, Bytes: int64(len(cast)), SHA256: protocol.Sum([]byte(cast))}
	other, short, unread := whole, whole, whole
	other.SHA256 = protocol.Sum([]byte("something else"))
	short.Ended = "the disk was full"
	unread.SHA256, unread.Ended = protocol.Digest{}, "it cannot be read on its host"
	s := newSite(t)
	for name, tt := range map[string]struct {
		cast    string
		account protocol.Output
		code    int
		say     []string
	}{
		"whole":                        {cast, whole, 0, []string{"hello there"}},
		"another one than was told of": {cast, other, term.ExitFailed, []string{"its digest differs from the one in the audit logs: it is not what the host recorded"}},
		"ended early":                  {cast, short, 0, []string{"hello there", "ended before the session: the disk was full"}},
		"unreadable there":             {cast, unread, term.ExitFailed, []string{"its host reports no digest: it cannot be read on its host"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := coordtest.Spec(protocol.Spec{Kind: protocol.KindAttach, Args: &protocol.SessionArgs{TTY: &protocol.TTY{Rows: 24, Cols: 80, Record: true}}})
			act, err := s.fleet.Coordinator().Actions().Propose(t.Context(), s.fleet.Admin(), actions.Request{Host: "edge-01", Spec: spec})
			if err != nil {
				t.Fatal(err)
			}
			o := <-s.orders
			s.host.Report(o.Started(s.host))
			s.write(s.host, o, protocol.Recording, []byte(tt.cast))
			s.host.Report(o.Done(protocol.Output{FD: protocol.Stdout}, tt.account))
			s.untilState(act.ID, protocol.State.Final)
			c := newTerminal(t, s, false, "")
			if got := c.run(t.Context(), "action", "replay", act.ID.String(), "--speed", "1000"); got != tt.code {
				t.Errorf("code %d, want %d, shown %q", got, tt.code, c.shown())
			}
			for _, say := range tt.say {
				if !strings.Contains(c.shown(), say) {
					t.Errorf("shown %q, want something about %q", c.shown(), say)
				}
			}
		})
	}
}
