package agent_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/terminal"
)

// begins begins a session that prints, as a user of the host.
func (w *world) begins(id protocol.ActionID, user string, shared bool) {
	w.t.Helper()
	s := session()
	args := s.Args.(*protocol.SessionArgs)
	args.Argv, args.TTY.Shared = []string{"print", "what only some may see", "1h"}, shared
	b, err := json.Marshal(s)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.agent.Propose(w.t.Context(), id, b, user); err != nil {
		w.t.Fatal(err)
	}
	w.pass(time.Second)
}

// typesIn reports whether something that the coordinator says that a user types
// reaches the terminal.
func (w *world) typesIn(id protocol.ActionID, who string, peer byte) bool {
	w.t.Helper()
	keys := w.cmds.get(id, 1).keys
	before := len(keys.typed)
	w.types(id, who, peer, "rm -rf /\r")
	w.pass(100 * time.Millisecond)
	return len(keys.typed) > before
}

// TestClosedSession: a session that a user began on the host is for that user and
// root. A thief of the coordinator's key can neither type in it nor read its output,
// under any name, while the session lasts and afterwards.
func TestClosedSession(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		id := actionID(1)
		w.begins(id, agent.LocalRoot, false)
		for n, who := range []string{"token:admin from 192.0.2.7", "coordinator from 192.0.2.7", agent.LocalRoot, agent.LocalRoot + " from 192.0.2.7", "token:" + agent.LocalRoot} {
			if w.typesIn(id, who, byte(n+1)) {
				t.Errorf("%s types by way of the coordinator", who)
			}
		}
		w.coord.see(func() {
			if !slices.ContainsFunc(w.coord.typedAcks, func(a terminal.Ack) bool { return a.Offset == terminal.Refused }) {
				t.Error("who may not type is not told so")
			}
		})
		for _, r := range w.written(id, "session.refuse") {
			if r.Actor == agent.LocalRoot || r.Detail["by"] != "coordinator" {
				t.Errorf("written down of a user of the coordinator: %s %v", r.Actor, r.Detail)
			}
		}
		if n := len(w.written(id, "session.refuse")); n != 5 || len(w.written(id, "session.attach")) != 0 {
			t.Errorf("%d refusals are written down, and attached: %v", n, w.written(id, "session.attach"))
		}
		for user, may := range map[string]bool{agent.LocalRoot: true, "uid:1000": false, "local": false, "": false} {
			_, err := w.agent.Attach(t.Context(), id, user, terminal.Peer{9}, true)
			if errors.Is(err, agent.ErrNotYours) == may || (err == nil) != may {
				t.Errorf("%q watches it: %v", user, err)
			}
			if _, err := w.agent.Output(t.Context(), id, user, protocol.Stdout, 0, false, false); (err == nil) != may {
				t.Errorf("%q reads it: %v", user, err)
			}
		}
		nothing := func(when string) {
			w.give(0)
			w.pass(time.Second)
			w.coord.see(func() {
				if len(w.coord.out[protocol.Stdout]) > 0 {
					t.Errorf("%s it shows %q", when, w.coord.out[protocol.Stdout])
				}
			})
		}
		nothing("while it lasts")
		if _, err := w.agent.CancelLocal(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		nothing("afterwards")
		w.coord.see(func() {
			if len(w.coord.nothing) == 0 {
				t.Error("who asks for what it has shown is not told that there is nothing")
			}
		})
	})
}

// TestRequesterOnTheHost: who began a session takes part in it, root does, and no
// other user.
func TestRequesterOnTheHost(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.begins(actionID(1), "uid:1000", false)
		w.coord.order(actionID(2), session()) // of ann
		w.pass(time.Second)
		for user, want := range map[string][2]bool{agent.LocalRoot: {true, true}, "uid:1000": {true, false}, "uid:1001": {}, "ann": {}} {
			for i, may := range want {
				_, err := w.agent.Attach(t.Context(), actionID(byte(i+1)), user, terminal.Peer{9}, false)
				if (err == nil) != may {
					t.Errorf("%s in session %d: %v", user, i+1, err)
				}
			}
		}
	})
}

// oneForSessions asks for the approval of one person for sessions of the host.
const oneForSessions = `version = 1
allow_bypass = true
[[rule]]
kinds = ["host.attach"]
by = ["ann"]
approvals = 1
`

// TestJoin: an actor may join a session that is not closed if the policy would let that
// actor begin it. The coordinator cannot let an actor join as a user of the host.
func TestJoin(t *testing.T) {
	for name, c := range map[string]struct {
		policy         string
		admin, another bool
	}{
		"built-in policy": {admin: true, another: true},
		"approvals":       {policy: oneForSessions},
		"some request it": {policy: "version = 1\n[[request]]\nkinds = [\"host.attach\"]\npeople = [\"admin\", \"uid:1000\"]\n", admin: true},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(cfg *agent.Config) {
				if c.policy != "" {
					cfg.Policies.Local = must(policy.Parse("test", []byte(c.policy)))
				}
			}, func(t *testing.T, w *world) {
				id := actionID(1)
				w.begins(id, agent.LocalRoot, true)
				for n, who := range []struct {
					name string
					may  bool
				}{{"token:admin from 192.0.2.7", c.admin}, {"token:bob from 192.0.2.7", c.another}, {"uid:1000", false}} {
					if got := w.typesIn(id, who.name, byte(n+1)); got != who.may {
						t.Errorf("%s types: %v", who.name, got)
					}
				}
				if _, err := w.agent.Attach(t.Context(), id, "uid:1000", terminal.Peer{9}, false); (err == nil) != c.admin {
					t.Errorf("a user of the socket: %v", err)
				}
				w.give(0)
				w.pass(time.Second)
				w.coord.see(func() {
					if len(w.coord.out[protocol.Stdout]) == 0 {
						t.Error("a shared session shows nothing")
					}
				})
			})
		})
	}
}

// TestApprovedForItsRequester: what was approved was approved for its requester, who
// types; others may not, whatever the coordinator says of them.
func TestApprovedForItsRequester(t *testing.T) {
	in(t, func(c *agent.Config) {
		c.Policies.Local = must(policy.Parse("test", []byte("version = 1\n[[request]]\nkinds = [\"host.attach\"]\npeople = [\"ann\"]\n")))
	}, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), session())
		b, err := json.Marshal(session())
		if err != nil {
			t.Fatal(err)
		}
		w.coord.push(protocol.StreamOrder, protocol.OrderItem{Action: actionID(2), Spec: b, Requester: agent.LocalRoot})
		w.pass(time.Second)
		w.expect(actionID(2), "refuse FAILED not_approved")
		if w.typesIn(actionID(1), "token:admin from 192.0.2.7", 1) {
			t.Error("an admin types in a session that the policy lets another begin")
		}
		if !w.typesIn(actionID(1), "token:ann from 192.0.2.7", 2) {
			t.Error("the requester does not type")
		}
	})
}
