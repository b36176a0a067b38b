package coordinator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/journal"
	"github.com/hostler-io/hostler/coordinator/relay"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/terminal"
)

// TestSessionsOfTheHost: a session that a user of the host began is for the host's own
// people, unless they share it.
func TestSessionsOfTheHost(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		for _, shared := range []bool{false, true} {
			spec := coordtest.Spec(protocol.Spec{Kind: protocol.KindAttach, Args: &protocol.SessionArgs{TTY: &protocol.TTY{Rows: 24, Cols: 80, Shared: shared}}})
			id := f.Coordinator().Actions().NewActionID()
			h.Report(protocol.Report{
				Action: id, Digest: protocol.Sum(spec), Spec: spec, Requester: "uid:0", Event: protocol.EventSucceed, State: protocol.StateDone, Reason: protocol.ReasonOK,
				AcceptSeq: h.Accept(), Attempt: 1, AtMS: 1, Exit: &protocol.Exit{},
			})
			after(time.Minute)
			for _, look := range []bool{false, true} {
				part, err := f.Coordinator().Relay().Terminals.Attach(t.Context(), f.Admin(), id, terminal.Peer{1}, look)
				if errors.Is(err, core.ErrDenied) == shared {
					t.Errorf("an admin in a session of the host itself, shared %v, only looking %v: %v", shared, look, err)
				}
				if err == nil {
					part.Close()
				}
			}
			if _, err := f.Coordinator().Relay().Output.Extent(t.Context(), f.Admin(), relay.Reading{Action: id, FD: protocol.Stdout}); errors.Is(err, core.ErrDenied) == shared {
				t.Errorf("an admin reads what a session of the host has shown, shared %v: %v", shared, err)
			}
		}
	})
}

// TestWhoMayType: what was approved was approved for whoever asked for it, so
// nobody else types in it but admins; everybody may look; both are written down.
func TestWhoMayType(t *testing.T) {
	f := coordtest.New(t)
	h := f.AddHost("edge-07")
	ann := core.Actor{Name: "ann", Role: core.RoleOperator, From: "192.0.2.7"}
	tty := coordtest.Spec(protocol.Spec{Kind: protocol.KindAttach, Args: &protocol.SessionArgs{TTY: &protocol.TTY{Rows: 24, Cols: 80}}})
	session, err := f.Coordinator().Actions().Propose(t.Context(), ann, actions.Request{Host: h.ID, Spec: tty})
	if err != nil {
		t.Fatal(err)
	}
	command, err := f.Coordinator().Actions().Propose(t.Context(), ann, actions.Request{Host: h.ID, Spec: coordtest.RunSpec("true")})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		by   core.Actor
		id   protocol.ActionID
		look bool
		want error
	}{
		"the requester":       {ann, session.ID, false, nil},
		"an admin":            {f.Admin(), session.ID, false, nil},
		"another operator":    {core.Actor{Name: "bob", Role: core.RoleOperator}, session.ID, false, core.ErrDenied},
		"an approver":         {core.Actor{Name: "eve", Role: core.RoleApprover}, session.ID, false, core.ErrDenied},
		"its viewer":          {core.Actor{Name: "ann", Role: core.RoleViewer}, session.ID, false, core.ErrDenied},
		"a viewer who looks":  {core.Actor{Name: "vic", Role: core.RoleViewer}, session.ID, true, nil},
		"at what is no shell": {ann, command.ID, true, core.ErrInvalid},
		"at nothing":          {ann, protocol.ActionID{15: 1}, true, core.ErrNotFound},
	} {
		part, err := f.Coordinator().Relay().Terminals.Attach(t.Context(), c.by, c.id, terminal.Peer{1}, c.look)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err != nil {
			continue
		}
		if c.look {
			p := terminal.AppendPacket(nil, terminal.Packet{Peer: terminal.Peer{1}, Number: 1})
			if err := part.Type(t.Context(), p); !errors.Is(err, core.ErrDenied) {
				t.Errorf("%s types: %v", name, err)
			}
		}
		part.Close()
		part.Close() // once is enough
	}
	for _, verb := range []string{"session.attach", "session.detach"} {
		records, _, err := f.Coordinator().Journal().Audit(t.Context(), journal.Filter{Verb: verb, Object: session.ID.String(), Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		var who []string
		for _, r := range records {
			who = append(who, r.Actor+" "+r.From)
		}
		if len(records) != 3 || !slices.Contains(who, "token:ann 192.0.2.7") || records[0].Host != h.ID {
			t.Errorf("%s was written down of %q", verb, who)
		}
	}
}

// TestStopWritesDownWhoLeft: a coordinator that stops tells of everybody attached
// that they left, once, and lets nobody in behind that.
func TestStopWritesDownWhoLeft(t *testing.T) {
	f := coordtest.New(t)
	h := f.AddHost("edge-07")
	session, first := attach(t, f, h.ID, terminal.Peer{1})
	before := f.Coordinator()
	second, err := before.Relay().Terminals.Attach(t.Context(), f.Admin(), session, terminal.Peer{2}, true)
	if err != nil {
		t.Fatal(err)
	}
	f.Stop()
	first.Close() // as their connections end
	second.Close()
	if _, err := before.Relay().Terminals.Attach(t.Context(), f.Admin(), session, terminal.Peer{3}, false); err == nil {
		t.Error("somebody was let in behind the end")
	}
	f.Restart()
	for _, verb := range []string{"session.attach", "session.detach"} {
		records, _, err := f.Coordinator().Journal().Audit(t.Context(), journal.Filter{Verb: verb, Object: session.String(), Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		if len(records) != 2 {
			t.Errorf("%d records of %s, want 2", len(records), verb)
		}
	}
}

// TestTypeBeforeItRuns waits with what is typed until the session runs, and takes
// no packet of somebody else.
func TestTypeBeforeItRuns(t *testing.T) {
	f := coordtest.New(t)
	h := f.AddHost("edge-07")
	tty := coordtest.Spec(protocol.Spec{Kind: protocol.KindAttach, Args: &protocol.SessionArgs{TTY: &protocol.TTY{Rows: 24, Cols: 80}}})
	session, err := f.Coordinator().Actions().Propose(t.Context(), f.Admin(), actions.Request{Host: h.ID, Spec: tty})
	if err != nil {
		t.Fatal(err)
	}
	part, err := f.Coordinator().Relay().Terminals.Attach(t.Context(), f.Admin(), session.ID, terminal.Peer{1}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer part.Close()
	other := terminal.AppendPacket(nil, terminal.Packet{Peer: terminal.Peer{2}, Number: 1})
	if err := part.Type(t.Context(), other); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a packet of another peer: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	mine := terminal.AppendPacket(nil, terminal.Packet{Peer: terminal.Peer{1}, Number: 1})
	if err := part.Type(ctx, mine); !errors.Is(err, enough) {
		t.Errorf("before it runs: %v", err)
	}
}

// attach proposes a session and takes part in it.
func attach(t *testing.T, f *coordtest.Fleet, host protocol.HostID, peer terminal.Peer) (protocol.ActionID, *relay.Attached) {
	t.Helper()
	tty := coordtest.Spec(protocol.Spec{Kind: protocol.KindAttach, Args: &protocol.SessionArgs{TTY: &protocol.TTY{Rows: 24, Cols: 80}}})
	a, err := f.Coordinator().Actions().Propose(t.Context(), f.Admin(), actions.Request{Host: host, Spec: tty})
	if err != nil {
		t.Fatal(err)
	}
	part, err := f.Coordinator().Relay().Terminals.Attach(t.Context(), f.Admin(), a.ID, peer, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(part.Close)
	return a.ID, part
}

// heard is what a part was told of its stream; -1 is nothing.
func heard(part *relay.Attached) int64 {
	synctest.Wait()
	select {
	case offset := <-part.Acks():
		return offset
	default:
		return -1
	}
}

// TestOthersTakeNoPart: only the host of a session says how far it has come, and
// only to who typed. Another that did would have what was never typed forgotten.
func TestOthersTakeNoPart(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		other := f.AddHost("edge-08")
		other.Connect()
		synctest.Wait()
		ann, bob := terminal.Peer{1}, terminal.Peer{2}
		id, part := attach(t, f, h.ID, ann)
		_, elsewhere := attach(t, f, other.ID, ann)
		other.Acknowledge(id, 1, terminal.Ack{Peer: ann, Offset: 99})
		if got := heard(part); got != -1 {
			t.Errorf("another host has taken %d bytes of the session", got)
		}
		h.Acknowledge(id, 1, terminal.Ack{Peer: bob, Offset: 77})
		if got := heard(part); got != -1 {
			t.Errorf("what another peer typed was taken for ours: %d", got)
		}
		h.Acknowledge(id, 1, terminal.Ack{Peer: bob, Offset: 77}, terminal.Ack{Peer: ann, Offset: 5})
		if got := heard(part); got != 5 {
			t.Errorf("the session's own host has taken %d bytes, want 5", got)
		}
		if got := heard(elsewhere); got != -1 {
			t.Errorf("the same peer in another session was told %d", got)
		}
	})
}

// TestManyAttached: no more than 64 look at a session at a time, for each costs a
// connection and a reader of its output; who leaves makes room.
func TestManyAttached(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		id, _ := attach(t, f, h.ID, terminal.Peer{1})
		look := func(n int) (*relay.Attached, error) {
			return f.Coordinator().Relay().Terminals.Attach(t.Context(), f.Admin(), id, terminal.Peer{2, byte(n)}, true)
		}
		var parts []*relay.Attached
		for n := range 63 {
			p, err := look(n)
			if err != nil {
				t.Fatalf("number %d: %v", n+2, err)
			}
			parts = append(parts, p)
		}
		if p, err := look(63); !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("number 65: %v", err)
			if err == nil {
				p.Close()
			}
		}
		parts[0].Close()
		p, err := look(64)
		if err != nil {
			t.Fatalf("after one has left: %v", err)
		}
		p.Close()
		for _, p := range parts {
			p.Close()
		}
	})
}

// TestRecordingIsKeptWhole: of a recording all is fetched, though nobody follows it,
// and after a restart too; its digest stands in the audit log.
func TestRecordingIsKeptWhole(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		cast := []byte(strings.Repeat("0123456789abcdef", 64<<10)) // 1 MiB
		recorded := func(h *coordtest.Host, o coordtest.Order) {
			h.Report(o.Started(h))
			h.Write(o.Item.Action, 1, protocol.Recording, cast)
			h.Report(o.Done(protocol.Output{FD: protocol.Recording, Bytes: int64(len(cast)), SHA256: protocol.Sum(cast)}))
		}
		h.Auto(recorded)
		id, _ := attach(t, f, h.ID, terminal.Peer{1})
		synctest.Wait()
		f.Restart() // in the middle of it
		after(time.Minute)
		h.Auto(nil)
		h.Forget(id) // what is not here by now is lost
		var got []byte
		what := relay.Reading{Action: id, FD: protocol.Recording}
		span, err := f.Coordinator().Relay().Output.Read(t.Context(), what, func(b []byte) error { got = append(got, b...); return nil })
		if err != nil || span.Next != -1 || protocol.Sum(got) != protocol.Sum(cast) {
			t.Errorf("%d of %d bytes are kept, go on at %d, %v", len(got), len(cast), span.Next, err)
		}
		records, _, err := f.Coordinator().Journal().Audit(t.Context(), journal.Filter{Verb: "action.succeed", Object: id.String(), Limit: 10})
		if err != nil || len(records) != 1 || records[0].Detail["recording"] != protocol.Sum(cast).String() {
			t.Errorf("the audit log has %+v, %v", records, err)
		}
		believed(t, h)
	})
}
