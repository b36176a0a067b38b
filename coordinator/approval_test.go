package coordinator_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
)

// asks reads a policy.
func asks(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("test", []byte("version = 1\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Policies by which everything waits for one person or for two, and by which
// only commands do.
const (
	onePerson   = "[[rule]]\nkinds = ['*']\napprovals = 1\n"
	twoPersons  = "[[rule]]\nkinds = ['*']\napprovals = 2\n"
	forCommands = "[[rule]]\nkinds = ['host.run']\napprovals = 1\n"
)

// withPolicy runs a test with a connected host, under a policy, in a fleet whose
// approvers are ann, bob and cat.
func withPolicy(t *testing.T, text string, test func(*testing.T, *crew)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newCrew(t, storetest.NewMem(storetest.Faults{}), text)) })
}

type crew struct {
	*coordtest.Fleet
	t    *testing.T
	host *coordtest.Host
	keys map[string]*coordtest.Key // of each person one
}

func newCrew(t *testing.T, store core.Store, text string) *crew {
	t.Helper()
	c := &crew{Fleet: coordtest.NewOn(t, store), t: t, keys: map[string]*coordtest.Key{}}
	c.Tune(func(cfg *coordinator.Config) { cfg.Policies.Own = asks(t, text) })
	c.Restart()
	for _, person := range []string{"ann", "bob", "cat"} {
		c.keys[person] = c.Trust.AddPerson(person, person)
	}
	c.host = c.AddHost("edge-07")
	c.host.Connect()
	synctest.Wait()
	return c
}

// boss may approve, but is no person of the ring.
func boss() core.Actor {
	return core.Actor{Name: "boss", Role: core.RoleApprover, From: "192.0.2.9"}
}

func (c *crew) request() core.Action {
	c.t.Helper()
	return propose(c.t, c.Fleet, c.host)
}

func target(a core.Action) protocol.Target {
	return protocol.Target{Host: a.Host, Action: a.ID}
}

// approve gives the approval of a person for one action.
func (c *crew) approve(a core.Action, person string) error {
	return c.give(a, c.keys[person], time.Hour, nil)
}

func (c *crew) give(a core.Action, k *coordtest.Key, life time.Duration, change func(*protocol.Approval)) error {
	c.t.Helper()
	signed := c.Approval(k, a.Spec, life, change, target(a))
	given, err := c.Coordinator().Actions().Approve(c.t.Context(), boss(), signed, []protocol.Target{target(a)})
	synctest.Wait()
	if err == nil {
		err = given[0].Err
	}
	return err
}

func (c *crew) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// idle checks that nothing was ordered.
func (c *crew) idle() {
	c.t.Helper()
	synctest.Wait()
	if n := len(c.host.Orders()); n > 0 {
		c.t.Errorf("%d orders were sent", n)
	}
}

// detail returns what is said of an action.
func (c *crew) detail(id protocol.ActionID) string {
	c.t.Helper()
	a, err := c.Coordinator().Actions().Get(c.t.Context(), id)
	c.must(err)
	return a.Detail
}

func TestTwoPersonsApprove(t *testing.T) {
	withPolicy(t, twoPersons, func(t *testing.T, c *crew) {
		a := c.request()
		want(t, c.Fleet, a.ID, protocol.StatePendingApprove, "")
		c.idle()
		c.must(c.approve(a, "ann"))
		want(t, c.Fleet, a.ID, protocol.StatePendingApprove, "")
		// Another key of ann is no other person, and neither is the same again.
		c.must(c.give(a, c.Trust.AddPerson("ann", "ann's other key"), 2*time.Hour, nil))
		c.must(c.approve(a, "ann"))
		want(t, c.Fleet, a.ID, protocol.StatePendingApprove, "")
		c.idle()
		bobs := c.Approval(c.keys["bob"], a.Spec, time.Hour, nil, target(a))
		give := func() error {
			given, err := c.Coordinator().Actions().Approve(t.Context(), boss(), bobs, []protocol.Target{target(a)})
			c.must(err)
			return given[0].Err
		}
		c.must(give())
		o := order(t, c.host)
		if len(o.Item.Approvals) != 2 {
			t.Fatalf("the order has %d approvals", len(o.Item.Approvals))
		}
		var people []string
		for _, g := range o.Item.Approvals {
			doc, who, err := protocol.OpenApproval(g.Signed, protocol.Expect{Fleet: c.ID, FleetName: coordtest.FleetName, Keys: c.Trust})
			if err != nil || !doc.Covers(g, target(a)) || doc.Spec != o.Digest() {
				t.Errorf("an approval in the order: %+v, %v", doc, err)
			}
			people = append(people, who.Person)
		}
		if fmt.Sprint(people) != "[ann bob]" {
			t.Errorf("approved by %v", people)
		}
		coordtest.Succeed("")(c.host, o)
		want(t, c.Fleet, a.ID, protocol.StateDone, protocol.ReasonOK)
		after(2 * time.Minute)
		c.idle()
		if err := c.approve(a, "cat"); !errors.Is(err, core.ErrConflict) {
			t.Errorf("approved when it had ended: %v", err)
		}
		after(time.Minute)
		c.must(give()) // by somebody to whom the answer was lost
	})
}

func TestApprovalIsRecorded(t *testing.T) {
	withPolicy(t, twoPersons, func(t *testing.T, c *crew) {
		a := c.request()
		c.must(c.approve(a, "ann"))
		c.must(c.approve(a, "bob"))
		b := c.request()
		if _, err := c.Coordinator().Actions().Deny(t.Context(), boss(), b.ID, "not today"); err != nil {
			t.Fatal(err)
		}
		var lines []string
		c.must(c.Store().View(t.Context(), func(tx core.Tx) error {
			all, err := tx.Audit.Records(0, 100)
			for _, r := range all {
				lines = append(lines, string(r.Stored))
			}
			return err
		}))
		log := strings.Join(lines, "\n")
		for verb, n := range map[string]int{"approval.give": 2, "action.approve": 1, "action.deny": 1, "action.request": 2} {
			if got := strings.Count(log, `"verb":"`+verb+`"`); got != n {
				t.Errorf("%d records of %s, want %d", got, verb, n)
			}
		}
		if !strings.Contains(log, `"detail":"denied by boss: \"not today\""`) {
			t.Errorf("the reason of the denial is not on record:\n%s", log)
		}
		for _, line := range lines {
			if strings.Contains(line, "approval.give") || strings.Contains(line, "action.deny") || strings.Contains(line, "action.approve") {
				for _, word := range []string{`"actor":"token:boss"`, `"from":"192.0.2.9"`, a.Digest.String()} {
					if !strings.Contains(line, word) {
						t.Errorf("%s is not in %s", word, line)
					}
				}
			}
		}
		want(t, c.Fleet, b.ID, protocol.StateCancelled, protocol.ReasonDisapproved)
		if got := c.detail(b.ID); got != `denied by boss: "not today"` {
			t.Errorf("detail %q", got)
		}
	})
}

func TestOneDenialVetoes(t *testing.T) {
	withPolicy(t, twoPersons, func(t *testing.T, c *crew) {
		a := c.request()
		c.must(c.approve(a, "ann"))
		deny := func() error {
			_, err := c.Coordinator().Actions().Deny(t.Context(), boss(), a.ID, "no")
			return err
		}
		c.must(deny())
		c.must(deny()) // again is nothing
		if err := c.approve(a, "bob"); !errors.Is(err, core.ErrConflict) {
			t.Errorf("approved after the denial: %v", err)
		}
		want(t, c.Fleet, a.ID, protocol.StateCancelled, protocol.ReasonDisapproved)
		after(2 * time.Minute)
		c.idle()
		b := c.request()
		c.must(c.approve(b, "ann"))
		c.must(c.approve(b, "bob"))
		if _, err := c.Coordinator().Actions().Deny(t.Context(), boss(), b.ID, ""); !errors.Is(err, core.ErrConflict) {
			t.Errorf("denied when it was approved: %v", err)
		}
	})
}

// TestApproveOrDeny lets everything come at the same time that ends the wait for
// people: exactly one wins, the others are told so, and what is done afterwards
// is what the winner says.
func TestApproveOrDeny(t *testing.T) {
	won := map[string]int{}
	for n := range 60 {
		withPolicy(t, onePerson, func(t *testing.T, c *crew) { won[c.contest(n)]++ })
	}
	t.Logf("won: %v", won)
	if len(won) < 2 {
		t.Errorf("always the same won: %v", won)
	}
}

// contest is one round; it returns who won.
func (c *crew) contest(n int) string {
	const life = 7 * 24 * time.Hour // of a request that nobody approves
	ctx, co := c.t.Context(), c.Coordinator()
	a := c.request()
	c.SetDate(life - time.Minute)
	signed := c.Approval(c.keys["ann"], a.Spec, time.Hour, nil, target(a))
	var approved, denied error
	all := []func(){
		func() {
			given, err := co.Actions().Approve(ctx, boss(), signed, []protocol.Target{target(a)})
			if approved = err; err == nil {
				approved = given[0].Err
			}
		},
		func() { _, denied = co.Actions().Deny(ctx, boss(), a.ID, "") },
		func() {
			if got, err := co.Actions().Cancel(ctx, c.Admin(), a.ID); err != nil || !got.State.Final() && !got.Cancelling {
				c.t.Errorf("round %d: cancelled, it is %s: %v", n, got.State, err)
			}
		},
		func() {
			c.SetDate(life + time.Minute)
			if _, err := co.Actions().Nudge(ctx, c.Admin(), a.ID); err != nil {
				c.t.Errorf("round %d: nudged when it was due: %v", n, err)
			}
		},
		func() {
			if _, err := co.Actions().Nudge(ctx, c.Admin(), a.ID); err != nil {
				c.t.Errorf("round %d: nudged: %v", n, err)
			}
		},
	}
	start := make(chan struct{})
	var ready, done sync.WaitGroup
	for _, i := range rand.New(rand.NewPCG(uint64(n), 0)).Perm(len(all)) {
		ready.Add(1)
		done.Go(func() { ready.Done(); <-start; all[i]() })
	}
	ready.Wait()
	close(start)
	done.Wait()
	synctest.Wait()
	got, err := co.Actions().Get(ctx, a.ID)
	c.must(err)
	winner := fmt.Sprint(got.State, " ", got.Reason)
	orders, controls := 0, 0
	switch winner {
	case "PENDING_SCHEDULE ":
		orders, controls = 1, 1 // and the cancel follows the order
		if !got.Cancelling {
			c.t.Errorf("round %d: approved, and the cancel was forgotten", n)
		}
	case "CANCELLED disapproved", "CANCELLED cancelled", "CANCELLED expired":
	default:
		c.t.Errorf("round %d: it is %s", n, winner)
	}
	if o, k := len(c.host.Orders()), len(c.host.Controls()); o != orders || k != controls {
		c.t.Errorf("round %d: it is %s, with %d orders and %d controls", n, winner, o, k)
	}
	for what, err := range map[string]error{"PENDING_SCHEDULE ": approved, "CANCELLED disapproved": denied} {
		if (err == nil) != (what == winner) || err != nil && !errors.Is(err, core.ErrConflict) {
			c.t.Errorf("round %d: it is %s; who wanted %s was told %v", n, winner, what, err)
		}
	}
	events, err := co.Journal().Events(ctx, 0, 1000)
	c.must(err)
	left := 0
	for _, e := range events {
		var d struct{ From protocol.State }
		if e.Type == "action.state" && json.Unmarshal(e.Data, &d) == nil && d.From == protocol.StatePendingApprove {
			left++
		}
	}
	if left != 1 {
		c.t.Errorf("round %d: it stopped waiting %d times", n, left)
	}
	return winner
}

// TestUnapprovedDelaysNobody: what waits for approval, or was approved in vain,
// is in no way of others.
func TestUnapprovedDelaysNobody(t *testing.T) {
	withPolicy(t, forCommands, func(t *testing.T, c *crew) {
		c.host.Goodbye()
		synctest.Wait()
		ping := coordtest.Spec(protocol.Spec{Kind: protocol.KindPing})
		var unapproved, revoked []core.Action
		for range 70 { // more than a window
			unapproved = append(unapproved, c.request())
			a := c.request()
			c.must(c.approve(a, "ann"))
			revoked = append(revoked, a)
		}
		a, err := c.Coordinator().Actions().Propose(t.Context(), c.Admin(), actions.Request{Host: c.host.ID, Spec: ping})
		c.must(err)
		c.Trust.DropKey(c.keys["ann"].Key())
		c.host.Connect()
		after(10 * time.Second)
		if o := order(t, c.host); o.Item.Action != a.ID {
			t.Errorf("order of %s, want %s", o.Item.Action, a.ID)
		}
		c.idle()
		want(t, c.Fleet, unapproved[0].ID, protocol.StatePendingApprove, "")
		for _, a := range revoked {
			want(t, c.Fleet, a.ID, protocol.StateCancelled, protocol.ReasonExpired)
		}
		if got := c.detail(revoked[69].ID); !strings.Contains(got, "the ring does not have the key of ann any more") {
			t.Errorf("detail %q", got)
		}
	})
}

func TestApprovalsExpire(t *testing.T) {
	withPolicy(t, twoPersons, func(t *testing.T, c *crew) {
		// Nobody comes.
		a := c.request()
		c.SetDate(7*24*time.Hour - time.Minute)
		after(2 * time.Second)
		want(t, c.Fleet, a.ID, protocol.StatePendingApprove, "")
		c.SetDate(7*24*time.Hour + time.Minute)
		after(2 * time.Second)
		want(t, c.Fleet, a.ID, protocol.StateCancelled, protocol.ReasonExpired)
		if got := c.detail(a.ID); !strings.Contains(got, "2 approval(s) by any person of the ring") {
			t.Errorf("detail %q", got)
		}
		// The first is over when the second comes.
		a = c.request()
		c.must(c.approve(a, "ann"))
		after(time.Hour)
		c.must(c.approve(a, "bob"))
		want(t, c.Fleet, a.ID, protocol.StatePendingApprove, "")
		c.must(c.approve(a, "ann")) // anew
		want(t, c.Fleet, a.ID, protocol.StatePendingSchedule, "")
		<-c.host.Orders()
		// One is over before the host comes back.
		c.host.Goodbye()
		synctest.Wait()
		a = c.request()
		c.must(c.approve(a, "ann"))
		c.must(c.give(a, c.keys["bob"], 2*time.Hour, nil))
		want(t, c.Fleet, a.ID, protocol.StatePendingSchedule, "")
		after(time.Hour + 2*time.Second)
		want(t, c.Fleet, a.ID, protocol.StateCancelled, protocol.ReasonExpired)
		if got := c.detail(a.ID); !strings.Contains(got, "that of ann ended at ") || strings.Contains(got, "bob") {
			t.Errorf("detail %q", got)
		}
		c.host.Connect()
		after(10 * time.Second)
		c.idle()
	})
}

// TestApprovalInTheFuture: one that is to hold later counts later, and without
// anybody asking.
func TestApprovalInTheFuture(t *testing.T) {
	withPolicy(t, onePerson, func(t *testing.T, c *crew) {
		a := c.request()
		c.must(c.give(a, c.keys["ann"], 3*time.Hour, func(d *protocol.Approval) { d.NotBeforeMS += time.Hour.Milliseconds() }))
		want(t, c.Fleet, a.ID, protocol.StatePendingApprove, "")
		after(time.Hour - time.Second)
		c.idle()
		after(62 * time.Second)
		want(t, c.Fleet, a.ID, protocol.StatePendingSchedule, "")
		<-c.host.Orders()
		// Somebody who cannot wait for a minute asks to look again.
		a = c.request()
		c.must(c.give(a, c.keys["ann"], 3*time.Hour, func(d *protocol.Approval) { d.NotBeforeMS += 10_000 }))
		after(11 * time.Second)
		for range 2 {
			got, err := c.Coordinator().Actions().Nudge(t.Context(), c.Admin(), a.ID)
			if err != nil || got.State != protocol.StatePendingSchedule {
				t.Errorf("nudged, it is %s: %v", got.State, err)
			}
		}
		synctest.Wait()
		if n := len(c.host.Orders()); n != 1 {
			t.Errorf("%d orders, want one", n)
		}
	})
}

func TestApprovalOverRestart(t *testing.T) {
	withPolicy(t, twoPersons, func(t *testing.T, c *crew) {
		a := c.request()
		c.must(c.approve(a, "ann"))
		c.Restart()
		after(10 * time.Second)
		want(t, c.Fleet, a.ID, protocol.StatePendingApprove, "")
		c.must(c.approve(a, "bob"))
		c.Restart()
		after(10 * time.Second)
		if o := order(t, c.host); o.Item.Action != a.ID || len(o.Item.Approvals) != 2 {
			t.Errorf("ordered %+v", o.Item)
		}
		c.idle()
	})
}

// TestApprovalsThatCountForNothing gives what must not be believed: the action
// stays where it is.
func TestApprovalsThatCountForNothing(t *testing.T) {
	withPolicy(t, onePerson, func(t *testing.T, c *crew) {
		a, b := c.request(), c.request()
		other := core.Action{ID: a.ID, Host: a.Host, Spec: coordtest.RunSpec("rm", "-rf", "/")}
		elsewhere := core.Action{ID: a.ID, Host: "edge-08", Spec: a.Spec}
		unknown := core.Action{ID: protocol.NewActionID(1, [10]byte{9}), Host: a.Host, Spec: a.Spec}
		ann := c.keys["ann"]
		revoked := c.Trust.AddPerson("dora", "dora")
		c.Trust.RevokeHost("", revoked.Key())
		for name, x := range map[string]struct {
			err  error
			give func() error
		}{
			"a stranger's key":     {core.ErrDenied, func() error { return c.give(a, coordtest.NewKey("mallory"), time.Hour, nil) }},
			"a host's key":         {core.ErrDenied, func() error { return c.give(a, coordtest.NewKey("host edge-07"), time.Hour, nil) }},
			"our own key":          {core.ErrDenied, func() error { return c.give(a, coordtest.NewKey("coordinator"), time.Hour, nil) }},
			"a revoked key":        {core.ErrDenied, func() error { return c.give(a, revoked, time.Hour, nil) }},
			"another spec":         {core.ErrConflict, func() error { return c.give(other, ann, time.Hour, nil) }},
			"another host":         {core.ErrConflict, func() error { return c.give(elsewhere, ann, time.Hour, nil) }},
			"another action":       {core.ErrNotFound, func() error { return c.give(unknown, ann, time.Hour, nil) }},
			"another fleet":        {core.ErrDenied, func() error { return c.give(a, ann, time.Hour, func(d *protocol.Approval) { d.Fleet[0]++ }) }},
			"another kind":         {core.ErrConflict, func() error { return c.give(a, ann, time.Hour, func(d *protocol.Approval) { d.Kind = "host.ping" }) }},
			"a ring of the future": {core.ErrConflict, func() error { return c.give(a, ann, time.Hour, func(d *protocol.Approval) { d.Ring++ }) }},
			"a clock ahead": {core.ErrInvalid, func() error {
				return c.give(a, ann, time.Hour, func(d *protocol.Approval) {
					const day = 86_400_000
					d.IssuedMS, d.NotBeforeMS, d.ExpiresMS = d.IssuedMS+day, d.NotBeforeMS+day, d.ExpiresMS+day
				})
			}},
			"one that is over": {core.ErrInvalid, func() error {
				return c.give(a, ann, time.Hour, func(d *protocol.Approval) {
					const day = 86_400_000
					d.IssuedMS, d.NotBeforeMS, d.ExpiresMS = d.IssuedMS-day, d.NotBeforeMS-day, d.ExpiresMS-day
				})
			}},
			"other targets": {core.ErrInvalid, func() error {
				signed := c.Approval(ann, a.Spec, time.Hour, nil, target(b))
				_, err := c.Coordinator().Actions().Approve(t.Context(), boss(), signed, []protocol.Target{target(a)})
				return err
			}},
			"a target too many": {core.ErrInvalid, func() error {
				signed := c.Approval(ann, a.Spec, time.Hour, nil, target(b))
				_, err := c.Coordinator().Actions().Approve(t.Context(), boss(), signed, []protocol.Target{target(a), target(b)})
				return err
			}},
			"no targets": {core.ErrInvalid, func() error {
				_, err := c.Coordinator().Actions().Approve(t.Context(), boss(), c.Approval(ann, a.Spec, time.Hour, nil, target(a)), nil)
				return err
			}},
			"a changed byte": {core.ErrDenied, func() error {
				signed := c.Approval(ann, a.Spec, time.Hour, nil, target(a))
				signed = []byte(strings.Replace(string(signed), `"count":1`, `"count":2`, 1))
				_, err := c.Coordinator().Actions().Approve(t.Context(), boss(), signed, []protocol.Target{target(a)})
				return err
			}},
			"garbage": {core.ErrInvalid, func() error {
				_, err := c.Coordinator().Actions().Approve(t.Context(), boss(), []byte("yes"), []protocol.Target{target(a)})
				return err
			}},
			"an operator's token": {core.ErrDenied, func() error {
				by := core.Actor{Name: "op", Role: core.RoleOperator}
				_, err := c.Coordinator().Actions().Approve(t.Context(), by, c.Approval(ann, a.Spec, time.Hour, nil, target(a)), []protocol.Target{target(a)})
				return err
			}},
		} {
			if err := x.give(); !errors.Is(err, x.err) {
				t.Errorf("%s: %v, want %v", name, err, x.err)
			}
			want(t, c.Fleet, a.ID, protocol.StatePendingApprove, "")
			want(t, c.Fleet, b.ID, protocol.StatePendingApprove, "")
		}
		c.idle()
		c.must(c.approve(a, "ann"))
		want(t, c.Fleet, a.ID, protocol.StatePendingSchedule, "")
	})
}

// TestOneSignatureForManyHosts signs once for as many hosts as one approval may
// name. What cannot be approved of them keeps the others from nothing.
func TestOneSignatureForManyHosts(t *testing.T) {
	withPolicy(t, onePerson, func(t *testing.T, c *crew) {
		var targets []protocol.Target
		for i := range protocol.MaxTargets {
			id := protocol.HostID(fmt.Sprintf("edge-1%03d", i))
			key := coordtest.NewKey(string(id))
			c.Put(core.Host{ID: id, State: core.HostApproved, Key: key.Key(), PublicKey: key.Certificate()})
			if i == 7 {
				id = c.host.ID // the one that is there
			}
			a, err := c.Coordinator().Actions().Propose(t.Context(), c.Admin(), actions.Request{Host: id, Spec: coordtest.RunSpec("true")})
			c.must(err)
			targets = append(targets, target(a))
		}
		_, err := c.Coordinator().Actions().Deny(t.Context(), boss(), targets[3].Action, "not this one")
		c.must(err)
		signed := c.Approval(c.keys["ann"], coordtest.RunSpec("true"), time.Hour, nil, targets...)
		given, err := c.Coordinator().Actions().Approve(t.Context(), boss(), signed, targets)
		c.must(err)
		synctest.Wait()
		if len(given) != len(targets) {
			t.Fatalf("told of %d targets", len(given))
		}
		for _, g := range given {
			if denied := g.Target == targets[3]; denied != (g.Err != nil) {
				t.Errorf("%s: %v", g.Target, g.Err)
			}
		}
		o := order(t, c.host)
		doc, _, err := protocol.OpenApproval(o.Item.Approvals[0].Signed, protocol.Expect{Fleet: c.ID, FleetName: coordtest.FleetName, Keys: c.Trust})
		if err != nil || !doc.Covers(o.Item.Approvals[0], targets[7]) || doc.Covers(o.Item.Approvals[0], targets[8]) {
			t.Errorf("the approval in the order: %v", err)
		}
	})
}

// TestApprovalsByChance plays random histories of one action against a model: it
// is ordered at most once, only if two persons approved and nobody said no
// before, and it ends in one state.
func TestApprovalsByChance(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		deeds := rapid.SliceOfN(rapid.SampledFrom([]string{"ann", "bob", "cat", "short ann", "deny", "cancel", "nudge", "minutes", "restart", "away", "back"}), 1, 12).Draw(rt, "deeds")
		synctest.Test(t, func(t *testing.T) {
			c := newCrew(t, storetest.NewMem(storetest.Faults{}), twoPersons)
			a := c.request()
			m := model{ends: map[string]time.Time{}, there: true}
			for _, deed := range deeds {
				m.do(c, a, deed)
				after(time.Second)
				m.pass(time.Now())
				got, err := c.Coordinator().Actions().Get(t.Context(), a.ID)
				c.must(err)
				if got.State != m.state() {
					t.Fatalf("after %q of %q it is %s (%s), want %s", deed, deeds, got.State, got.Detail, m.state())
				}
				if n := len(c.host.Orders()); n > 1 || n == 1 && !m.sent {
					t.Fatalf("after %q of %q there are %d orders", deed, deeds, n)
				}
			}
		})
	})
}

// model is what must be true of the one action.
type model struct {
	ends                            map[string]time.Time // of each person's approval
	approved, denied, sent, expired bool
	cancelled, there                bool
}

func (m *model) do(c *crew, a core.Action, deed string) {
	open := !m.denied && !m.cancelled && !m.expired && !m.sent
	switch deed {
	case "ann", "bob", "cat", "short ann":
		life, person := 100*time.Minute, strings.TrimPrefix(deed, "short ")
		if person != deed {
			life = 10 * time.Minute
		}
		err := c.give(a, c.keys[person], life, nil)
		end, known := m.ends[person]
		if better := !known || time.Now().Add(life).After(end); better && open != (err == nil) {
			c.t.Fatalf("%s approved: %v", deed, err)
		}
		if open && time.Now().Add(life).After(end) {
			m.ends[person] = time.Now().Add(life)
		}
	case "deny":
		_, err := c.Coordinator().Actions().Deny(c.t.Context(), boss(), a.ID, "")
		if may := open && !m.approved || m.denied; may != (err == nil) {
			c.t.Fatalf("denied: %v", err)
		}
		m.denied = m.denied || err == nil
	case "cancel":
		_, err := c.Coordinator().Actions().Cancel(c.t.Context(), c.Admin(), a.ID)
		c.must(err)
		m.cancelled = m.cancelled || open
	case "nudge":
		_, err := c.Coordinator().Actions().Nudge(c.t.Context(), c.Admin(), a.ID)
		c.must(err)
	case "minutes":
		after(10 * time.Minute)
	case "restart":
		c.Restart()
		after(5 * time.Second)
	case "away":
		c.host.Goodbye()
		m.there = false
	case "back":
		c.host.Connect()
		m.there = true
		after(5 * time.Second)
	}
}

// pass lets the model see what time has made of it.
func (m *model) pass(now time.Time) {
	if m.denied || m.cancelled || m.expired || m.sent {
		return
	}
	held := 0
	for _, end := range m.ends {
		if end.After(now) {
			held++
		}
	}
	switch {
	case m.approved && held < 2:
		m.expired = true
	case held >= 2:
		m.approved = true
		m.sent = m.there
	}
}

func (m *model) state() protocol.State {
	switch {
	case m.denied || m.cancelled || m.expired:
		return protocol.StateCancelled
	case m.approved:
		return protocol.StatePendingSchedule
	}
	return protocol.StatePendingApprove
}

// TestKilledWhileApproving kills the coordinator at each commit between the
// request and the end of an action that two persons approve. Everybody asks again
// what they were not answered; it runs exactly once, with both approvals.
func TestKilledWhileApproving(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		for n := int64(1); ; n++ {
			if !killedApproving(t, when, n) {
				if n <= 4 {
					t.Errorf("%s: %d commits only: they were not all met", when, n-1)
				}
				break
			}
		}
	}
}

func killedApproving(t *testing.T, when string, n int64) (killed bool) {
	synctest.Test(t, func(t *testing.T) {
		var r reaper
		faults := storetest.Faults{Refuse: r.strike}
		if when == "after" {
			faults = storetest.Faults{Lose: r.strike}
		}
		c := newCrew(t, storetest.NewMem(faults), twoPersons)
		began := 0
		c.host.Auto(func(h *coordtest.Host, o coordtest.Order) {
			began++
			if len(o.Item.Approvals) != 2 {
				t.Errorf("killed %s commit %d: ordered with %d approvals", when, n, len(o.Item.Approvals))
			}
			coordtest.Succeed("")(h, o)
		})
		after(10 * time.Second)
		a := core.Action{ID: protocol.NewActionID(1, [10]byte{7}), Host: c.host.ID, Spec: coordtest.RunSpec("true")}
		steps := []func() error{
			func() error {
				_, err := c.Coordinator().Actions().Propose(t.Context(), c.Admin(), actions.Request{ID: a.ID, Host: a.Host, Spec: a.Spec})
				return err
			},
			func() error { return c.approve(a, "ann") },
			func() error { return c.approve(a, "bob") },
		}
		r.n.Store(n)
		for _, step := range steps {
			err := step()
			after(5 * time.Second)
			if r.dead.Load() && !killed {
				killed = true
				r.n.Store(-1 << 40)
				r.dead.Store(false)
				c.Restart()
				after(10 * time.Second)
			}
			if err != nil {
				if err = step(); err != nil && !errors.Is(err, core.ErrConflict) { // it may have gone on
					t.Fatalf("killed %s commit %d: asked again: %v", when, n, err)
				}
			}
		}
		after(20 * time.Second)
		if !killed {
			r.n.Store(-1 << 40)
		}
		want(t, c.Fleet, a.ID, protocol.StateDone, protocol.ReasonOK)
		if began != 1 {
			t.Errorf("killed %s commit %d: it ran %d times", when, n, began)
		}
	})
	return killed
}

// TestPolicyOfTheFuture: a host counts no approval from before the newest date that it
// has verified, so a policy that was signed a year ahead would outlaw all of that year.
func TestPolicyOfTheFuture(t *testing.T) {
	f := coordtest.New(t)
	h := f.AddHost("edge-07")
	ann := f.Trust.AddPerson("ann", "one")
	text := []byte("version = 1\n")
	for ahead, want := range map[time.Duration]error{-time.Hour: nil, 30 * time.Minute: nil, 365 * 24 * time.Hour: core.ErrInvalid} {
		d := protocol.PolicyDocument{
			Type: protocol.TypePolicy, Fleet: f.ID, Number: 1, Policy: protocol.Sum(text), Ring: f.Trust.Ring(), IssuedMS: time.Now().Add(ahead).UnixMilli(),
		}
		signed, err := d.Seal(ann)
		if err != nil {
			t.Fatal(err)
		}
		spec := coordtest.Spec(protocol.Spec{Kind: protocol.KindPolicySet, Args: &protocol.PolicyArgs{Policy: text, Signed: [][]byte{signed}}})
		_, err = f.Coordinator().Actions().Propose(t.Context(), f.Admin(), actions.Request{Host: h.ID, Spec: spec})
		if !errors.Is(err, want) || want != nil && !strings.Contains(err.Error(), "set the clock") {
			t.Errorf("signed %s ahead: %v", ahead, err)
		}
	}
}

// TestSecretThatNobodyCouldApprove: what sets variables without a word which is asked
// of nobody.
func TestSecretThatNobodyCouldApprove(t *testing.T) {
	withPolicy(t, forCommands, func(t *testing.T, c *crew) {
		ask := func(kind protocol.Kind, names ...string) (core.Action, error) {
			s := protocol.Spec{Kind: kind, Args: &protocol.CommandArgs{Process: protocol.Process{Argv: []string{"true"}}, Secrets: protocol.Secrets{SecretEnv: &protocol.Sealed{Sealed: []byte("x"), Names: names}}}}
			if kind == protocol.KindExec {
				s.Target = protocol.NewCTID(1, [10]byte{1})
			}
			return c.Coordinator().Actions().Propose(t.Context(), c.Admin(), actions.Request{Host: c.host.ID, Spec: coordtest.Spec(s)})
		}
		if _, err := ask(protocol.KindRun); !errors.Is(err, core.ErrDenied) {
			t.Errorf("it waits for people: %v", err)
		}
		if a, err := ask(protocol.KindRun, "TOKEN"); err != nil || a.State != protocol.StatePendingApprove {
			t.Errorf("%+v, %v", a, err)
		}
		if a, err := ask(protocol.KindExec); err != nil || a.State != protocol.StatePendingSchedule {
			t.Errorf("%+v, %v", a, err)
		}
	})
}
