package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/fresh"
)

func TestHelloPrecedesEverything(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.see(func() {
			// The first answer tells the term; the hello that counts in it follows.
			want := []protocol.PresenceKind{protocol.PresenceHello, protocol.PresenceHello, protocol.PresenceOnline}
			if !slices.Equal(w.coord.presences, want) {
				t.Errorf("presences %q, want %q", w.coord.presences, want)
			}
			w.coord.presences = w.coord.presences[1:]
			if len(w.coord.beats) == 0 || w.coord.beats[0].Host == nil {
				t.Error("no full heartbeat followed the hello")
			}
		})
		if err := w.agent.Trigger(t.Context()); err != nil {
			t.Error(err)
		}
		w.pass(time.Second)
		w.coord.see(func() {
			want := []protocol.PresenceKind{protocol.PresenceHello, protocol.PresenceOnline, protocol.PresenceHello, protocol.PresenceOnline}
			if !slices.Equal(w.coord.presences, want) {
				t.Errorf("after a trigger: presences %q, want %q", w.coord.presences, want)
			}
			w.coord.presences = w.coord.presences[:2]
		})
		w.pass(29 * time.Second)
		w.coord.see(func() {
			if w.coord.leases != 3 { // one behind each hello
				t.Errorf("%d leases in 31 s, want 3", w.coord.leases)
			}
			if len(w.coord.presences) != 2 {
				t.Errorf("it goes on saying hello: %q", w.coord.presences)
			}
		})
		s, err := w.agent.Status(t.Context())
		if err != nil || !s.Connected || s.Starts != 1 || s.LeaseUntilMS < 90_000 {
			t.Errorf("status %+v, %v", s, err)
		}
		// Renewed every 30 s, for 90 s each.
		if m := w.agent.Metrics(); m.Lease < 60*time.Second || m.LeaseLowest < 59*time.Second || m.LeaseLowest > 61*time.Second {
			t.Errorf("the lease is good for %v, it never was for less than %v; want 60 s to 90 s, and 60 s", m.Lease, m.LeaseLowest)
		}
		w.line.breaks(true)
		w.pass(100 * time.Second)
		if m := w.agent.Metrics(); m.Lease > -10*time.Second || m.LeaseLowest != m.Lease {
			t.Errorf("100 s after the last grant it is good for %v, never for less than %v", m.Lease, m.LeaseLowest)
		}
	})
}

// TestAnswerToAnOlderHello: a coordinator that answers what was said before its
// term was seen may have been shown an old hello, and knows nothing of this
// process; its challenge must not take the place of the right one.
func TestAnswerToAnOlderHello(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		before := 0
		w.coord.see(func() {
			before = w.coord.leases
			w.coord.receipt(protocol.Seq{Inc: 1, Conn: 1, K: 1}, protocol.Nonce{9})
		})
		w.pass(61 * time.Second)
		w.coord.see(func() {
			if w.coord.leases < before+2 {
				t.Errorf("%d leases arrived in 61 s, want 2", w.coord.leases-before)
			}
		})
	})
}

func TestHelloIsRepeatedUntilItIsAnswered(t *testing.T) {
	in(t, func(c *agent.Config) {}, func(t *testing.T, w *world) {
		w.coord.see(func() { w.coord.mute = true })
		w.line.breaks(false)
		w.pass(2 * time.Minute)
		w.coord.see(func() {
			w.coord.mute = false
			w.coord.presences = nil
		})
		w.pass(time.Minute)
		w.coord.see(func() {
			if n := len(w.coord.presences); n < 2 || w.coord.presences[0] != protocol.PresenceHello {
				t.Errorf("presences %q", w.coord.presences)
			}
		})
	})
}

func TestOrderRunsAndReports(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("true"))
		w.coord.order(actionID(2), command("false"))
		w.coord.order(actionID(3), protocol.Spec{Kind: protocol.KindPing})
		w.pass(100 * time.Millisecond)
		w.expect(actionID(1), "succeed DONE ok")
		w.expect(actionID(2), "exit FAILED exit")
		w.expect(actionID(3), "succeed DONE ok")
		w.coord.see(func() {
			if w.coord.acked[protocol.StreamOrder] != 3 {
				t.Errorf("receipted up to %d", w.coord.acked[protocol.StreamOrder])
			}
			if w.coord.acks > 3 {
				t.Errorf("%d receipts for three orders at once", w.coord.acks)
			}
		})
		m := w.agent.Metrics()
		if m.Accepted != 3 || m.Ended[protocol.StateDone] != 2 || m.Unsent != 0 || m.Running != 0 {
			t.Errorf("metrics %+v", m)
		}
	})
}

func TestWhatCannotBeDoneIsRefusedAndBlocksNothing(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.push(protocol.StreamOrder, protocol.OrderItem{Action: actionID(1), Spec: []byte(`{"kind":"host.fly"}`), Requester: "ann"})
		w.coord.push(protocol.StreamOrder, map[string]string{"nonsense": "yes"})
		w.coord.push(protocol.StreamOrder, protocol.OrderItem{Action: actionID(2), Spec: []byte(`{"kind":"host.run"}`), Requester: "ann"})
		w.coord.push(protocol.StreamControl, protocol.ControlItem{Verb: "dance"})
		w.coord.order(actionID(3), on(protocol.KindStop, 77))
		w.coord.order(actionID(4), command("cannot-start"))
		w.coord.order(actionID(5), command("true"))
		w.pass(100 * time.Millisecond)
		w.expect(actionID(1), "refuse FAILED unknown_kind")
		w.expect(actionID(2), "refuse FAILED bad_spec")
		w.expect(actionID(3), "accept NEW", "target_gone FAILED target_gone")
		w.expect(actionID(4), "no_start FAILED no_start")
		w.expect(actionID(5), "succeed DONE ok")
		w.coord.see(func() {
			if w.coord.acked[protocol.StreamOrder] != 6 || w.coord.acked[protocol.StreamControl] != 1 {
				t.Errorf("receipted %v", w.coord.acked)
			}
		})
	})
}

func TestExpiredOrders(t *testing.T) {
	in(t, func(c *agent.Config) { c.HostRuns = 1 }, func(t *testing.T, w *world) {
		w.coord.see(func() { w.coord.leftMS = 0 })
		w.coord.order(actionID(1), command("true"))
		w.coord.see(func() { w.coord.leftMS = 20_000 })
		w.coord.order(actionID(2), command("sleep", "1m"))
		w.coord.order(actionID(3), command("true")) // waits for its turn
		w.pass(time.Second)
		w.expect(actionID(1), "expire CANCELLED expired")
		w.expect(actionID(3), "accept NEW")
		w.pass(time.Minute)
		w.expect(actionID(2), "start RUNNING", "succeed DONE ok")
		w.expect(actionID(3), "accept NEW", "expire CANCELLED expired")
	})
}

func TestCancel(t *testing.T) {
	in(t, func(c *agent.Config) { c.HostRuns = 1 }, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("hang"))
		w.coord.order(actionID(2), command("true"))
		w.pass(time.Second)
		w.coord.cancel(actionID(2))
		w.coord.cancel(actionID(1))
		w.coord.cancel(actionID(3))
		w.pass(time.Second)
		w.coord.order(actionID(3), command("true"))
		w.pass(time.Second)
		w.expect(actionID(1), "start RUNNING", "tell RUNNING cancelling", "cancelled CANCELLED cancelled")
		w.expect(actionID(2), "accept NEW", "cancelled CANCELLED cancelled")
		w.expect(actionID(3), "cancelled CANCELLED cancelled", "cancelled CANCELLED cancelled")
		if w.cmds.get(actionID(3), 1) != nil {
			t.Error("an action was run whose cancel came first")
		}
	})
}

func TestCancelThatIsImpossible(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.cmds.cannot = true
		w.coord.order(actionID(1), command("sleep", "10s"))
		w.pass(time.Second)
		w.coord.cancel(actionID(1))
		w.pass(time.Minute)
		w.expect(actionID(1), "start RUNNING", "tell RUNNING cancelling", "tell RUNNING", "succeed DONE ok")
	})
}

// TestSupervisorDiesDuringACancel: what was left of the command was ended, as was
// asked for, and nobody is told that it goes on.
func TestSupervisorDiesDuringACancel(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.cmds.deaf = true
		w.coord.order(actionID(1), command("hang"))
		w.pass(time.Second)
		w.coord.cancel(actionID(1))
		w.pass(time.Second)
		w.cmds.get(actionID(1), 1).dies()
		w.pass(time.Second)
		w.expect(actionID(1), "start RUNNING", "tell RUNNING cancelling", "cancelled CANCELLED cancelled")
	})
}

func TestTell(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("true"))
		w.pass(time.Second)
		w.coord.push(protocol.StreamControl, protocol.ControlItem{Verb: protocol.VerbTell, IDs: []protocol.ActionID{actionID(1), actionID(9)}})
		w.pass(time.Second)
		w.expect(actionID(1), "succeed DONE ok", "tell DONE ok")
		w.expect(actionID(9), "tell ")
	})
}

// TestAlertRules: the coordinator's rules are durable and handed on, are told in the next
// heartbeat, and are there again after a restart without a coordinator.
func TestAlertRules(t *testing.T) {
	var taken [][]string
	in(t, func(c *agent.Config) { c.Rules = func(texts []string) { taken = append(taken, texts) } }, func(t *testing.T, w *world) {
		given := protocol.AlertRules{Number: 3, Rules: []string{"host disk=90%/5m", "* ram=80%"}}
		w.coord.push(protocol.StreamControl, protocol.ControlItem{Verb: protocol.VerbRules, Rules: &given})
		w.pass(10 * time.Second)
		if len(taken) != 2 || len(taken[0]) != 0 || !slices.Equal(taken[1], given.Rules) {
			t.Errorf("handed on are %q", taken)
		}
		w.coord.see(func() {
			last := w.coord.beats[len(w.coord.beats)-1]
			if last.Host == nil || last.Host.Rules == nil || *last.Host.Rules != (protocol.RulesInfo{Number: 3, Digest: given.Digest()}) {
				t.Errorf("the heartbeat tells %+v", last.Host)
			}
		})
		w.restart()
		w.pass(time.Second)
		if n := len(taken); !slices.Equal(taken[n-1], given.Rules) {
			t.Errorf("after a restart handed on are %q", taken)
		}
	})
}

// TestPolicyIsTold: whoever asks for the policy in force is told its text, unless
// there is none.
func TestPolicyIsTold(t *testing.T) {
	ask := func(w *world) {
		w.coord.push(protocol.StreamControl, protocol.ControlItem{Verb: protocol.VerbPolicy})
		w.pass(time.Second)
	}
	inRealm(t, nil, func(t *testing.T, w *world, r *realm) {
		ask(w)
		w.coord.see(func() {
			if len(w.coord.reports) != 1 || string(w.coord.reports[0].Policy) != strict {
				t.Errorf("told are %+v", w.coord.reports)
			}
		})
	})
	in(t, nil, func(t *testing.T, w *world) {
		ask(w)
		w.coord.see(func() {
			if len(w.coord.reports) != 0 || w.coord.acked[protocol.StreamControl] != 1 {
				t.Errorf("under the built-in policy told are %+v, receipted %v", w.coord.reports, w.coord.acked)
			}
		})
	})
}

func TestCommandsOutliveTheAgent(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("sleep", "1m"))
		w.coord.order(actionID(2), command("sleep", "2s"))
		w.coord.order(actionID(3), command("hang"))
		w.pass(time.Second)
		w.down()
		w.coord.see(func() {
			if last := w.coord.presences[len(w.coord.presences)-1]; last != protocol.PresenceGoodbye {
				t.Errorf("its last word was %q", last)
			}
		})
		w.pass(10 * time.Second)
		w.cmds.get(actionID(3), 1).dies()
		w.up()
		w.pass(time.Second)
		w.expect(actionID(1), "start RUNNING")
		w.expect(actionID(2), "start RUNNING", "succeed DONE ok")
		w.expect(actionID(3), "start RUNNING", "interrupt FAILED interrupted")
		w.pass(time.Minute)
		w.expect(actionID(1), "start RUNNING", "succeed DONE ok")
		if w.cmds.begun != 3 {
			t.Errorf("%d commands began, want 3", w.cmds.begun)
		}
	})
}

// TestCancelledIsGoneForCertain: where processes of the command may live, it is
// not called CANCELLED, though that was asked for.
func TestCancelledIsGoneForCertain(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.cmds.deaf, w.cmds.loose = true, true
		w.coord.order(actionID(1), command("hang"))
		w.pass(time.Second)
		w.coord.cancel(actionID(1))
		w.pass(time.Second)
		w.cmds.get(actionID(1), 1).dies()
		w.pass(time.Second)
		w.expect(actionID(1), "start RUNNING", "tell RUNNING cancelling", "interrupt FAILED interrupted")
	})
}

// TestPushIsNotRepeatedBesideItself: what may be done again is not while the first
// attempt may live, and is not called CANCELLED either.
func TestPushIsNotRepeatedBesideItself(t *testing.T) {
	for name, c := range map[string]struct {
		signal, cancel bool
		want           []string
	}{
		"its supervisor died":                      {false, false, []string{"start RUNNING", "interrupt FAILED interrupted"}},
		"its supervisor died, cancelled":           {false, true, []string{"start RUNNING", "tell RUNNING cancelling", "interrupt FAILED interrupted"}},
		"somebody killed it, which is seen":        {true, false, []string{"start RUNNING", "retry RUNNING"}},
		"somebody killed it, and it was cancelled": {true, true, []string{"start RUNNING", "tell RUNNING cancelling", "signal FAILED signal"}},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(c *agent.Config) { c.Mover = []string{"hang"} }, func(t *testing.T, w *world) {
				w.cmds.deaf, w.cmds.loose = true, true
				id := actionID(1)
				w.coord.order(id, protocol.Spec{Kind: protocol.KindHostPush, Args: &protocol.PushArgs{Files: &protocol.FileArgs{Paths: []string{"/srv/new"}, Mode: "0644"}}})
				w.pass(time.Second)
				if c.cancel {
					w.coord.cancel(id)
					w.pass(time.Second)
				}
				if r := w.cmds.get(id, 1); c.signal {
					r.killed.Store(true)
					r.once.Do(func() { close(r.cancel) })
				} else {
					r.dies()
				}
				w.pass(time.Second)
				w.expect(id, c.want...)
			})
		})
	}
}

func TestSupervisorDiesUnderTheAgent(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("hang"))
		w.pass(time.Second)
		w.cmds.get(actionID(1), 1).dies()
		w.pass(time.Second)
		w.expect(actionID(1), "start RUNNING", "interrupt FAILED interrupted")
	})
}

func TestNeverBegunIsBegunAnew(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.cmds.lose = true
		w.coord.order(actionID(1), command("true"))
		w.pass(time.Second)
		w.down()
		w.cmds.lose = false
		w.up()
		w.pass(time.Second)
		w.expect(actionID(1), "start RUNNING", "retry RUNNING", "succeed DONE ok")
	})
}

// TestAllThatRanIsTakenUpAgain: what ends as soon as it is taken up hides nobody
// who stands behind it.
func TestAllThatRanIsTakenUpAgain(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.down()
		q, err := queue.Open(context.Background(), queue.Config{Path: w.path})
		if err != nil {
			t.Fatal(err)
		}
		now := queue.Now{WallMS: time.Now().UnixMilli(), BootMS: 1000, Boot: w.boot}
		for i, spec := range []protocol.Spec{{Kind: protocol.KindPing}, command("true"), command("true")} {
			b, err := json.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			o := queue.Order{Action: actionID(byte(i + 1)), Spec: b, Requester: "root", BudgetMS: 60_000, Begin: &queue.Change{}}
			if _, err := q.AcceptOrders(context.Background(), []queue.Arrival{{Order: o}}, now); err != nil {
				t.Fatal(err)
			}
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		w.up()
		w.pass(time.Minute)
		for n := range byte(3) {
			if act, err := w.agent.Action(t.Context(), actionID(n+1)); err != nil || act.State != protocol.StateDone {
				t.Errorf("action %d: %s, %v", n+1, act.State, err)
			}
		}
	})
}

func TestRebootInterruptsOnce(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("hang"))
		w.pass(time.Second)
		w.down()
		w.cmds.get(actionID(1), 1).reboot = true
		w.boot = "boot-2"
		w.up()
		w.pass(time.Second)
		w.expect(actionID(1), "start RUNNING", "interrupt FAILED interrupted")
	})
}

func TestOffline(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.line.breaks(true)
		w.pass(time.Minute)
		spec := []byte(`{"kind":"host.run","argv":["print","hello","1s"]}`)
		act, err := w.agent.Propose(t.Context(), protocol.ActionID{}, spec, "root")
		if err != nil {
			t.Fatal(err)
		}
		if again, err := w.agent.Propose(t.Context(), act.ID, spec, "root"); err != nil || again.AcceptSeq != act.AcceptSeq {
			t.Errorf("asked twice: %+v, %v", again, err)
		}
		if _, err := w.agent.Propose(t.Context(), act.ID, []byte(`{"kind":"host.ping"}`), "root"); !errors.Is(err, agent.ErrExists) {
			t.Errorf("another spec for the same id: %v", err)
		}
		if _, err := w.agent.Propose(t.Context(), protocol.ActionID{}, []byte(`{"kind":"host.run"}`), "root"); !errors.Is(err, protocol.ErrSpec) {
			t.Errorf("a spec that is wrong: %v", err)
		}
		out, err := w.agent.Output(t.Context(), act.ID, agent.LocalRoot, protocol.Stdout, 0, true, false)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(out)
		if err != nil || string(text) != "hello" {
			t.Errorf("output %q, %v", text, err)
		}
		if err := out.Close(); err != nil {
			t.Error(err)
		}
		end, err := w.agent.WaitAction(t.Context(), act.ID)
		if err != nil || end.State != protocol.StateDone {
			t.Fatalf("%+v, %v", end, err)
		}
		if err := w.agent.HeartbeatNow(t.Context()); !errors.Is(err, agent.ErrOffline) {
			t.Errorf("heartbeat: %v", err)
		}
		w.line.heal()
		w.pass(time.Minute)
		w.expect(act.ID, "start RUNNING", "succeed DONE ok")
		w.coord.see(func() {
			if r := w.coord.reports[0]; string(r.Spec) != string(spec) || r.Requester != "root" {
				t.Errorf("first report %+v", r)
			}
		})
	})
}

func TestLocalCancelAndList(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		act, err := w.agent.Propose(t.Context(), protocol.ActionID{}, []byte(`{"kind":"host.run","argv":["hang"],"timeout_ms":-1}`), "root")
		if err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		if act, err = w.agent.CancelLocal(t.Context(), act.ID); err != nil || !act.Cancelling {
			t.Errorf("%+v, %v", act, err)
		}
		if act, err = w.agent.WaitAction(t.Context(), act.ID); err != nil || act.State != protocol.StateCancelled {
			t.Errorf("%+v, %v", act, err)
		}
		if _, err := w.agent.CancelLocal(t.Context(), actionID(9)); !errors.Is(err, agent.ErrUnknown) {
			t.Errorf("an unknown id: %v", err)
		}
		all, err := w.agent.Actions(t.Context(), 0, 10)
		if err != nil || len(all) != 1 || all[0].ID != act.ID {
			t.Errorf("%v, %v", all, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.agent.WaitAction(ctx, actionID(9)); !errors.Is(err, agent.ErrUnknown) {
			t.Errorf("waiting for an unknown id: %v", err)
		}
	})
}

// TestChaos loses, repeats and reorders a fifth of everything, breaks the line
// and restarts the agent: each order runs exactly once and its end arrives.
func TestChaos(t *testing.T) {
	for seed := range uint64(5) {
		in(t, nil, func(t *testing.T, w *world) {
			w.line.mu.Lock()
			w.line.chaos = rand.New(rand.NewPCG(seed, 1))
			w.line.mu.Unlock()
			w.coord.see(func() { w.coord.leftMS = 600_000 }) // of leases every 30 s several are lost in a row
			const orders = 40
			for n := range byte(orders) {
				w.coord.order(actionID(n+1), command("sleep", "3s"))
				switch n % 13 {
				case 5:
					w.line.breaks(false)
				case 11:
					w.restart()
				}
				w.pass(time.Second)
			}
			w.pass(20 * time.Minute)
			for n := range byte(orders) {
				told := w.coord.told(actionID(n + 1))
				ends := slices.DeleteFunc(slices.Clone(told), func(s string) bool { return s != "succeed DONE ok" })
				if len(ends) != 1 || told[len(told)-1] != ends[0] {
					t.Errorf("seed %d: order %d: %q", seed, n+1, told)
				}
			}
			if w.cmds.begun != orders {
				t.Errorf("seed %d: %d commands began, want %d", seed, w.cmds.begun, orders)
			}
		})
	}
}

func TestForeignAndForgedMessagesAreRefused(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.see(func() {
			w.coord.term = protocol.Term{Ring: 1, Counter: 2} // in force from now on
		})
		w.coord.order(actionID(1), command("true"))
		w.pass(time.Second)
		w.coord.see(func() { w.coord.term.Counter = 1 })
		w.coord.order(actionID(2), command("true"))
		w.pass(time.Second)
		w.coord.see(func() {
			w.coord.term.Counter = 2
			w.coord.heard = protocol.Seq{Inc: 7, Conn: 7, K: 7}
			w.coord.send(protocol.StreamOrder, 2)
		})
		w.pass(time.Second)
		w.expect(actionID(1), "succeed DONE ok")
		w.expect(actionID(2))
		topic := protocol.HostTopic(fleetName, host, protocol.ChannelOrder).String()
		w.line.deliver(topic, []byte("garbage"))
		w.pass(time.Second)
		m := w.agent.Metrics()
		if m.Refused[protocol.ErrTerm] == 0 || m.Refused[protocol.ErrHeard] != 1 || m.Refused[protocol.ErrGrammar] != 1 {
			t.Errorf("refused %v", m.Refused)
		}
		w.pass(31 * time.Second) // the next lease is heard
		w.expect(actionID(2), "succeed DONE ok")
	})
}

func TestItemsThatCannotBeReadAreCountedAndBlockNothing(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.push(protocol.StreamOrder, map[string]int{"more": 1})
		w.coord.push(protocol.StreamControl, map[string]string{"verb": "dance"})
		w.coord.order(actionID(1), command("true"))
		w.pass(time.Second)
		w.expect(actionID(1), "succeed DONE ok")
		if n := w.agent.Metrics().Refused[protocol.ErrPayload]; n != 2 {
			t.Errorf("%d items were counted as refused, want 2", n)
		}
	})
}

func TestNewStoreNeedsNewTerm(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("true"))
		w.pass(time.Second)
		swap := func(counter uint64) {
			w.coord.see(func() {
				w.coord.store, w.coord.term.Counter = protocol.StoreID{8}, counter
				w.coord.reset()
			})
		}
		swap(1)
		w.coord.order(actionID(2), command("true"))
		w.pass(20 * time.Second)
		w.expect(actionID(2))
		if w.agent.Metrics().Refused[protocol.ErrStore] == 0 {
			t.Error("a store was swapped within a term")
		}
		swap(2)
		w.coord.order(actionID(2), command("true"))
		w.pass(20 * time.Second)
		w.expect(actionID(2), "succeed DONE ok")
		w.restart()
		w.coord.order(actionID(3), command("true"))
		w.pass(20 * time.Second)
		w.expect(actionID(3), "succeed DONE ok")
	})
}

func TestCoordinatorRestartIsGreeted(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.see(func() {
			w.coord.term.Counter = 5
			w.coord.gate = fresh.HostGate{}
			w.coord.presences = nil
			s := protocol.CoordinatorState{Header: w.coord.header(protocol.TypeCoordinator), Online: true}
			s.To, s.Seq = protocol.Everybody, w.coord.next()
			w.coord.down(protocol.ChannelCoordinator, s)
		})
		w.pass(time.Second)
		w.coord.see(func() {
			want := []protocol.PresenceKind{protocol.PresenceHello, protocol.PresenceOnline}
			if !slices.Equal(w.coord.presences, want) || w.coord.hello.TermSeen.Counter != 5 {
				t.Errorf("presences %q, hello %+v", w.coord.presences, w.coord.hello)
			}
			if w.coord.heard.Conn != 1 || w.coord.heard.K < 3 {
				t.Errorf("the numbers of the connection began anew: %+v", w.coord.heard)
			}
		})
		w.coord.order(actionID(1), command("true"))
		w.pass(time.Second)
		w.expect(actionID(1), "succeed DONE ok")
	})
}

func TestSilentCoordinatorIsGreetedAgain(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.see(func() { // it was started anew, and nobody heard of it
			w.coord.term.Counter = 5
			w.coord.gate, w.coord.heard = fresh.HostGate{}, protocol.Seq{}
		})
		w.coord.order(actionID(1), command("true"))
		w.pass(30 * time.Second)
		w.expect(actionID(1))
		w.pass(2 * time.Minute)
		w.expect(actionID(1), "succeed DONE ok")
	})
}

func TestOrderWaitsForItsRing(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.ring.mu.Lock()
		w.ring.offered = 2
		w.ring.mu.Unlock()
		w.coord.see(func() { w.coord.claims = 2 })
		w.coord.order(actionID(1), command("true"))
		w.pass(time.Second)
		w.expect(actionID(1), "succeed DONE ok")
		w.coord.see(func() { w.coord.claims = 3 })
		w.coord.order(actionID(2), command("true"))
		w.coord.see(func() { w.coord.claims = 0 })
		w.coord.order(actionID(3), command("true"))
		w.coord.see(func() { w.coord.claims = 3 })
		w.pass(30 * time.Second)
		w.expect(actionID(2))
		w.expect(actionID(3))
		w.coord.see(func() { w.coord.claims = 0 })
		w.pass(time.Minute)
		if told := w.coord.told(actionID(2)); len(told) == 0 {
			t.Error("the order is still waiting")
		}
		w.expect(actionID(3), "succeed DONE ok")
	})
}

func TestRingMissing(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.see(func() { w.coord.claims = 3 })
		w.coord.order(actionID(1), command("true"))
		w.pass(59 * time.Second)
		w.expect(actionID(1))
		w.coord.see(func() { w.coord.claims = 0; w.coord.mute = true })
		w.pass(5 * time.Second)
		w.coord.see(func() { w.coord.mute = false })
		w.pass(time.Minute)
		w.expect(actionID(1), "refuse FAILED ring_missing")
	})
}

func TestOutputGoesUp(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		const size = 3 << 20
		w.coord.order(actionID(1), command("bytes", "3145728"))
		w.pass(time.Second)
		w.coord.see(func() {
			if n := len(w.coord.out[protocol.Stdout]); n != protocol.OutputKept {
				t.Errorf("%d bytes went up unasked, want %d", n, protocol.OutputKept)
			}
		})
		for range 10 {
			w.coord.see(func() {
				w.coord.credit = []protocol.Credit{{Action: actionID(1), Attempt: 1, FD: protocol.Stdout, Offset: int64(len(w.coord.out[protocol.Stdout])), Window: protocol.ChunkWindow}}
				conn, chal := w.coord.gate.Conn()
				w.coord.receipt(conn, chal)
			})
			w.pass(time.Second)
		}
		w.coord.see(func() {
			got := w.coord.out[protocol.Stdout]
			if len(got) != size || strings.Count(string(got), "0123456789abcdef") != size/16 {
				t.Errorf("%d bytes arrived, want %d", len(got), size)
			}
			last := w.coord.reports[len(w.coord.reports)-1]
			if last.Output[0].Bytes != size {
				t.Errorf("final report %+v", last)
			}
		})
		w.pass(time.Minute)
		w.coord.see(func() { w.coord.chunks = 0 })
		w.pass(time.Minute)
		w.coord.see(func() {
			if w.coord.chunks != 0 {
				t.Error("chunks go up that nobody asked for")
			}
		})
	})
}

func TestOutputIsLive(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("print", "first", "1m"))
		w.pass(10 * time.Millisecond)
		w.coord.see(func() {
			if string(w.coord.out[protocol.Stdout]) != "first" {
				t.Errorf("after 10 ms: %q", w.coord.out[protocol.Stdout])
			}
		})
		w.cmds.get(actionID(1), 1).write(" second")
		w.pass(10 * time.Millisecond)
		w.coord.see(func() {
			if string(w.coord.out[protocol.Stdout]) != "first second" {
				t.Errorf("after 10 ms: %q", w.coord.out[protocol.Stdout])
			}
		})
	})
}

func TestHeartbeatsAreMergedNotDropped(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.pass(10 * time.Second)
		w.coord.see(func() { w.coord.beats = nil })
		w.coord.order(actionID(1), creation(1, true))
		for n := range byte(8) {
			w.coord.order(actionID(n+2), creation(n+2, false))
			w.pass(time.Second)
		}
		w.pass(10 * time.Second)
		w.coord.see(func() {
			n := len(w.coord.beats)
			if n < 2 || n > 5 {
				t.Fatalf("%d heartbeats within 18 s", n)
			}
			if last := w.coord.beats[n-1]; len(last.Containers) != 9 || last.Containers[0].State != "running" {
				t.Errorf("the last tells %+v", last.Containers)
			}
		})
		w.pass(time.Minute) // the records of the audit log are told of later
		w.coord.see(func() { w.coord.beats = nil })
		w.pass(10 * time.Minute)
		w.coord.see(func() {
			if n := len(w.coord.beats); n != 0 {
				t.Errorf("%d heartbeats although nothing changed", n)
			}
		})
		if err := w.agent.HeartbeatNow(t.Context()); err != nil {
			t.Error(err)
		}
		w.pass(time.Second)
		w.coord.see(func() {
			if n := len(w.coord.beats); n != 1 {
				t.Errorf("%d heartbeats although one was asked for", n)
			}
		})
	})
}

func TestWithoutAnyCoordinator(t *testing.T) {
	in(t, func(c *agent.Config) { c.Link, c.Bulk, c.Trust, c.Signer = nil, nil, nil, nil }, func(t *testing.T, w *world) {
		act, err := w.agent.Propose(t.Context(), protocol.ActionID{}, []byte(`{"kind":"host.run","argv":["true"]}`), "root")
		if err != nil {
			t.Fatal(err)
		}
		if act, err = w.agent.WaitAction(t.Context(), act.ID); err != nil || act.State != protocol.StateDone {
			t.Errorf("%+v, %v", act, err)
		}
		if err := w.agent.Trigger(t.Context()); err != nil {
			t.Error(err)
		}
		s, err := w.agent.Status(t.Context())
		if err != nil || s.Link || s.Unsent != 1 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// stuck is a bulk connection that never takes anything.
type stuck struct{}

func (stuck) Connect(context.Context) error { return nil }

func (stuck) Pace(context.Context) (uint64, int, time.Duration, error) { return 1, 1 << 30, 0, nil }

func (stuck) Publish(ctx context.Context, _ string, _ []byte) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestSlowOutputDelaysNothing(t *testing.T) {
	in(t, func(c *agent.Config) { c.Bulk = stuck{} }, func(t *testing.T, w *world) {
		for n := range byte(50) {
			w.coord.order(actionID(n+1), command("bytes", "262144"))
		}
		w.pass(31 * time.Second)
		for n := range byte(50) {
			if told := w.coord.told(actionID(n + 1)); len(told) == 0 || told[len(told)-1] != "succeed DONE ok" {
				t.Errorf("order %d: %q", n+1, told)
			}
		}
		w.coord.see(func() {
			if w.coord.leases != 2 {
				t.Errorf("%d leases in 32 s, want 2", w.coord.leases)
			}
		})
	})
}
