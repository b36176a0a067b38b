package agent_test

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// TestApprovalIsSpentOnce gives a thief of the coordinator an approval that was
// used: it runs nothing else, nor the same again, whatever the host has gone
// through since, and however much of it the host has forgotten.
func TestApprovalIsSpentOnce(t *testing.T) {
	run := specOf(command("true"))
	inRealm(t, nil, func(t *testing.T, w *world, r *realm) {
		first, other := actionID(1), actionID(2)
		days := func(a *protocol.Approval) { a.ExpiresMS = a.IssuedMS + 6*24*time.Hour.Milliseconds() }
		used := r.approve(first, run, days, "alice", "bob")
		w.coord.orderApproved(first, run, used)
		w.pass(time.Second)
		w.expect(first, "succeed DONE ok")
		begun := w.commandsBegun()
		again := func(when string, want string) {
			t.Helper()
			w.coord.see(func() { w.coord.reports = nil })
			w.coord.orderApproved(first, run, used)
			w.pass(2 * time.Second)
			w.expect(first, want)
			if n := w.commandsBegun(); n != begun {
				t.Errorf("%s: %d commands were begun with an approval that was used", when, n-begun)
			}
		}
		w.coord.orderApproved(other, run, used)
		w.pass(time.Second)
		w.expect(other, "refuse FAILED not_approved")
		again("at once", "succeed DONE ok")
		w.restart()
		w.pass(5 * time.Second)
		again("after a restart", "succeed DONE ok")

		for n := range byte(110) { // so it is forgotten, but for its tombstone
			w.coord.order(actionID(100+n), protocol.Spec{Kind: protocol.KindPing})
		}
		w.pass(3 * time.Minute)
		if act := must(w.agent.Action(t.Context(), first)); act.ReportN != 0 {
			t.Fatalf("it is not forgotten: %+v", act)
		}
		again("forgotten", "succeed DONE ok")

		// This host is up for longer than tombstones last, and its date is that of
		// the second day, so that no approval ends by itself.
		w.down()
		w.begun = w.begun.Add(-401 * 24 * time.Hour)
		w.up()
		w.pass(2 * time.Hour)
		if _, err := w.agent.Action(t.Context(), first); err == nil {
			t.Fatal("its tombstone is there")
		}
		again("remembered no more", "refuse FAILED not_approved")
		third := actionID(3)
		w.coord.orderApproved(third, run, r.approve(third, run, nil, "alice", "bob"))
		w.pass(2 * time.Second)
		w.expect(third, "succeed DONE ok")
	})
}

// TestThiefCannotStopAtOnce: what goes past everything that waits is held to the
// policy like everything else. What is reserved stays up, with what runs in it.
func TestThiefCannotStopAtOnce(t *testing.T) {
	inRealm(t, nil, func(t *testing.T, w *world, r *realm) {
		for n := range byte(2) {
			must(w.agent.Propose(t.Context(), actionID(n+1), specOf(creation(n+1, true)), agent.LocalRoot))
		}
		w.pass(10 * time.Second)
		inside := hang(1)
		must(w.agent.Propose(t.Context(), actionID(3), specOf(inside), agent.LocalRoot))
		w.pass(time.Second)
		stop, stopNow, another := specOf(on(protocol.KindStop, 1)), specOf(on(protocol.KindStopNow, 1)), specOf(on(protocol.KindStopNow, 2))
		run := specOf(command("true"))
		begun := w.commandsBegun()
		preempt := func(id protocol.ActionID, spec []byte, approvals []protocol.OrderApproval) {
			item := protocol.OrderItem{Action: id, Spec: spec, Approvals: approvals, Requester: "ann"}
			w.coord.push(protocol.StreamControl, protocol.ControlItem{Verb: protocol.VerbPreempt, Order: &item})
			w.pass(2 * time.Second)
		}
		n := byte(10)
		for how, c := range map[string]struct {
			want string
			spec []byte
			give func(id protocol.ActionID) []protocol.OrderApproval
		}{
			"nobody's": {"not_approved", stopNow, func(protocol.ActionID) []protocol.OrderApproval { return nil }},
			"by itself": {"not_approved", stopNow, func(id protocol.ActionID) []protocol.OrderApproval {
				return r.approve(id, stopNow, nil, "coordinator", "alice")
			}},
			"approved as a stop": {"not_approved", stopNow, func(id protocol.ActionID) []protocol.OrderApproval {
				return r.approve(id, stop, nil, "alice", "bob")
			}},
			"approved for another container": {"not_approved", stopNow, func(id protocol.ActionID) []protocol.OrderApproval {
				return r.approve(id, another, nil, "alice", "bob")
			}},
			"approved for another action": {"not_approved", stopNow, func(protocol.ActionID) []protocol.OrderApproval {
				return r.approve(actionID(9), stopNow, nil, "alice", "bob")
			}},
			"a stop that should wait its turn": {"bad_spec", stop, func(id protocol.ActionID) []protocol.OrderApproval {
				return r.approve(id, stop, nil, "alice", "bob")
			}},
			"a command": {"bad_spec", run, func(id protocol.ActionID) []protocol.OrderApproval {
				return r.approve(id, run, nil, "alice", "bob")
			}},
		} {
			n++
			preempt(actionID(n), c.spec, c.give(actionID(n)))
			t.Log(how)
			w.expect(actionID(n), "refuse FAILED "+c.want)
		}
		if w.state(1) != container.StateRunning || w.state(2) != container.StateRunning || w.commandsBegun() != begun {
			t.Errorf("the containers are %s and %s, and %d commands were begun", w.state(1), w.state(2), w.commandsBegun()-begun)
		}
		if act := must(w.agent.Action(t.Context(), actionID(3))); act.State != protocol.StateRunning {
			t.Errorf("what ran in the container is %s", act.State)
		}

		// What two persons approve stops it, once.
		right := actionID(4)
		approvals := r.approve(right, stopNow, nil, "alice", "bob")
		w.stopped(actionID(3), 1)
		preempt(right, stopNow, approvals)
		w.expect(right, "start RUNNING", "succeed DONE ok")
		w.lxc.SetFault(nil)
		w.coord.order(actionID(5), on(protocol.KindStart, 1))
		w.pass(10 * time.Second)
		preempt(right, stopNow, approvals)
		w.restart()
		w.pass(5 * time.Second)
		preempt(right, stopNow, approvals)
		w.coord.orderApproved(right, stopNow, approvals)
		w.pass(5 * time.Second)
		if w.state(1) != container.StateRunning {
			t.Errorf("stopped twice by one approval: it is %s", w.state(1))
		}
	})
}

// TestOnlyTheRingInForceCounts: a thief has signatures of persons and owners who
// are to come, or were once. Neither runs anything nor brings a policy.
func TestOnlyTheRingInForceCounts(t *testing.T) {
	run := specOf(command("true"))
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		r.guarded(4)
		w := newWorld(t, r.tune(nil))
		defer w.end()
		w.coord.see(func() { w.coord.key, w.coord.ring = r.coordinator, r.ring })
		w.line.breaks(false)
		w.pass(3 * time.Second)
		begun := w.commandsBegun()

		// The owners have prepared a ring: bob goes, dave comes, and odin is to
		// follow oscar. One of them has signed it.
		next := r.keys.Chain().Next()
		next.People = slices.DeleteFunc(next.People, func(p certs.Person) bool { return p.Person == "bob" })
		r.people["dave"] = must(certs.Generate("dave", time.Now()))
		if err := next.AddPersonKey("dave", r.people["dave"].PublicKey()); err != nil {
			t.Fatal(err)
		}
		odin := must(certs.Generate("odin", time.Now()))
		next.Owners = slices.DeleteFunc(next.Owners, func(o certs.Owner) bool { return o.Person == "oscar" })
		next.Owners = append(next.Owners, certs.Owner{Person: "odin", Key: odin.Public()})
		half, whole := must(certs.SignRing(next, r.owners[0])), must(certs.SignRing(next, r.owners[0], r.owners[1]))
		serve := func(ring []byte) {
			w.line.deliver(protocol.FleetTopic(fleetName, protocol.ChannelRing).String(), bytes.Join([][]byte{r.rings[0], ring}, []byte("\n")))
			w.pass(2 * time.Second)
		}
		ringed := func(n uint64) func(*protocol.Approval) { return func(a *protocol.Approval) { a.Ring = n } }
		policyOf := func(ring, number uint64, by ...protocol.Signer) []byte {
			d := protocol.PolicyDocument{Type: protocol.TypePolicy, Fleet: fleet, Number: number, Policy: protocol.Sum([]byte(open)), IssuedMS: time.Now().UnixMilli(), Ring: ring}
			args := protocol.PolicyArgs{Policy: []byte(open)}
			for _, k := range by {
				args.Signed = append(args.Signed, must(d.Seal(k)))
			}
			return specOf(protocol.Spec{Kind: protocol.KindPolicySet, Args: &args})
		}
		refused := func(how string, id protocol.ActionID, spec []byte, approvals []protocol.OrderApproval) {
			t.Helper()
			t.Log(how)
			w.coord.orderApproved(id, spec, approvals)
			w.pass(2 * time.Second)
			w.expect(id, "refuse FAILED not_approved")
		}

		serve(half)
		for _, ring := range []uint64{1, 2} {
			n := byte(10 * ring)
			refused("a person who is to come", actionID(n), run, r.approve(actionID(n), run, ringed(ring), "alice", "dave"))
			refused("an owner who is to come", actionID(n+1), policyOf(ring, 9, r.owners[0], odin), nil)
		}
		refused("persons who are there, for a ring to come", actionID(30), run, r.approve(actionID(30), run, ringed(2), "alice", "carol"))
		refused("owners who are there, for a ring to come", actionID(31), policyOf(2, 9, r.owners[0], r.owners[1]), nil)
		w.restart()
		w.pass(5 * time.Second)
		refused("after a restart", actionID(32), run, r.approve(actionID(32), run, ringed(2), "alice", "dave"))

		// What was given while bob and oscar were there, and was not used.
		late := r.approve(actionID(40), run, nil, "alice", "bob")
		latePolicy := policyOf(1, 9, r.owners[0], r.owners[1])
		stays := r.approve(actionID(41), run, nil, "alice", "carol")
		r.rings = append(r.rings, whole)
		serve(whole)
		if r.Ring() != 2 {
			t.Fatalf("ring %d is in force", r.Ring())
		}
		refused("a person who has gone", actionID(40), run, late)
		refused("… who says that it is of the new ring", actionID(42), run, r.approve(actionID(42), run, ringed(2), "alice", "bob"))
		refused("an owner who has gone", actionID(43), latePolicy, nil)
		refused("… who says that it is of the new ring", actionID(44), policyOf(2, 10, r.owners[0], r.owners[1]), nil)
		// An old ring, served again, brings nobody back.
		w.line.deliver(protocol.FleetTopic(fleetName, protocol.ChannelRing).String(), r.rings[0])
		w.pass(2 * time.Second)
		refused("after the old ring was served", actionID(45), run, r.approve(actionID(45), run, nil, "alice", "bob"))
		if n := w.commandsBegun(); n != begun {
			t.Fatalf("%d commands were begun", n-begun)
		}
		if s := must(w.agent.Status(context.Background())); s.Policy.Number != 4 {
			t.Errorf("policy %d is in force", s.Policy.Number)
		}
		// Who was there before and still is counts, as does who came.
		w.coord.orderApproved(actionID(41), run, stays)
		w.coord.orderApproved(actionID(46), run, r.approve(actionID(46), run, nil, "carol", "alice"))
		w.pass(2 * time.Second)
		w.expect(actionID(41), "succeed DONE ok")
		w.expect(actionID(46), "succeed DONE ok")
	})
}
