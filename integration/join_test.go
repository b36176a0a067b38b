//go:build integration

package integration

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
	keyboard "github.com/hostler-io/hostler/terminal"
)

// TestClosedSessions: a session that root begins beside the agent is root's. No token,
// no member of the socket's group and no thief of the coordinator's key types in it or
// sees anything of it; one that is shared is for others too.
func TestClosedSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", false)
	if err := os.Chmod(h.dir, 0o711); err != nil { // for the socket's group
		t.Fatal(err)
	}
	viewer := show[api.Token](t, w, "token", "create", "vic", "--role", "viewer")
	write(t, w.path("viewer"), viewer.Secret)
	member := []string{"env", "XDG_CONFIG_HOME=/nonexistent", "setpriv", "--reuid", "65534", "--regid", "0", "--clear-groups", w.bin + "/hostler", "--socket", h.socket()}
	begin := func(args ...string) (*person, string) {
		t.Helper()
		p := w.sit(t, append([]string{"--socket", h.socket(), "attach"}, args...)...)
		p.shell()
		id := w.newestAction(t, "--socket", h.socket())
		w.state(t, id, "RUNNING")
		return p, id
	}

	p, id := begin("--record")
	p.types("echo only ro''ot sees this\r")
	p.sees("only root sees this\r\n")
	for name, argv := range map[string][]string{
		"an admin types":            {w.bin + "/hostler", "action", "attach", id},
		"a viewer watches":          {w.bin + "/hostler", "--token-file", w.path("viewer"), "action", "attach", id, "--read-only"},
		"a viewer reads":            {w.bin + "/hostler", "--token-file", w.path("viewer"), "action", "logs", id},
		"a member of the group":     append(member[:len(member):len(member)], "action", "attach", id),
		"a member of the group who": append(member[:len(member):len(member)], "action", "logs", id),
	} {
		q := w.sitAt(t, argv...)
		select {
		case <-q.done:
		case <-time.After(patience):
			t.Fatalf("%s: it goes on", name)
		}
		if got := q.screen.String(); !strings.Contains(got, "--shared") || strings.Contains(got, "only root sees this") || q.err == nil {
			t.Errorf("%s: %v, and sees %q", name, q.err, got)
		}
	}
	root := w.sit(t, "--socket", h.socket(), "action", "attach", id)
	root.types("echo from the oth''er terminal\r")
	p.sees("from the other terminal\r\n")
	if a := show[api.Action](t, w, "action", "show", id); a.Session != api.SessionClosed {
		t.Errorf("it is shown as %q", a.Session)
	}

	shared, open := begin("--shared")
	admin := w.sit(t, "action", "attach", open)
	admin.types("echo from the ad''min\r")
	shared.sees("from the admin\r\n")
	admin.sees("from the admin\r\n")
	if out := w.must(t, "--socket", h.socket(), "action", "ls", "-o", "wide"); !strings.Contains(out, "shared") || !strings.Contains(out, "closed") {
		t.Errorf("the host lists %s", out)
	}
	shared.types("exit\r")
	shared.exits(0)
	admin.exits(0)

	action, err := protocol.ParseActionID(id)
	if err != nil {
		t.Fatal(err)
	}
	w.coordinator.end(t, kill)
	s := newThief(t, w)
	s.met(t, "edge-01")
	for n, who := range []string{"token:admin from 192.0.2.7", "uid:0", "uid:0 from 192.0.2.7"} {
		peer := keyboard.Peer{0xee, byte(n)}
		s.asks("edge-01", action)
		until(t, &s.change, "the host refuses what the thief types as "+who, func() bool {
			s.mu.Lock()
			for _, a := range s.acks {
				if a.Peer == peer && a.Offset == keyboard.Refused {
					s.mu.Unlock()
					return true
				}
			}
			s.mu.Unlock()
			s.types("edge-01", action, peer, who, "echo of the th''ief\r")
			return false
		})
	}
	p.types("echo still h''ere; exit 7\r")
	p.sees("still here\r\n")
	p.exits(7)
	root.exits(7)
	if strings.Contains(p.screen.String(), "of the thief") {
		t.Error("the thief has typed")
	}
	s.told(t, "edge-01", action)
	s.asks("edge-01", action)
	until(t, &s.change, "the host says that there is nothing to see", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.none > 0
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.Contains(string(s.shown), "root") {
		t.Errorf("the thief sees %q", s.shown)
	}
	for line := range strings.SplitSeq(w.must(t, "--socket", h.socket(), "action", "logs", id), "\n") {
		if strings.Contains(line, "only root sees this") {
			return
		}
	}
	t.Error("root does not see what was printed")
}
