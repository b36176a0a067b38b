package coordinator_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/access"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/explain"
	"github.com/hostler-io/hostler/coordinator/journal"
	"github.com/hostler-io/hostler/coordinator/policies"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
)

// TestPlan asks what would become of requests, under a policy with something of
// everything.
func TestPlan(t *testing.T) {
	const text = `
[groups]
dba = ["ann", "bob"]
[labels]
prod = ["prod-*"]
[[request]]
kinds = ["host.run"]
labels = ["prod"]
roles = ["admin"]
[[rule]]
kinds = ["container.destroy"]
refuse = true
[[rule]]
kinds = ["host.*"]
labels = ["prod"]
approvals = 2
by = ["@dba", "cat"]
[[rule]]
kinds = ["host.run"]
approvals = 1
`
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, storetest.NewMem(storetest.Faults{}), text)
		key := coordtest.NewKey("prod-1")
		c.Put(core.Host{ID: "prod-1", State: core.HostApproved, Key: key.Key(), PublicKey: key.Certificate()})
		const operator, admin = core.RoleOperator, core.RoleAdmin
		run, ping := coordtest.RunSpec("true"), coordtest.Spec(protocol.Spec{Kind: protocol.KindPing})
		destroy := coordtest.Spec(protocol.Spec{Kind: protocol.KindDestroy, Target: protocol.NewCTID(1, [10]byte{1})})
		for name, x := range map[string]struct {
			role core.TokenRole
			host protocol.HostID
			spec []byte
			want string // what it needs, or why it is refused
		}{
			"by a role that may":     {admin, "prod-1", run, "2 of [ann bob cat]"},
			"by a role that may not": {operator, "prod-1", run, "does not let"},
			"refused to everybody":   {admin, "edge-07", destroy, "refuses it"},
			"another rule":           {operator, "edge-07", run, "1 of []"},
			"by label":               {operator, "prod-1", ping, "2 of [ann bob cat]"},
			"no rule":                {operator, "edge-07", ping, ""},
		} {
			a, err := c.Coordinator().Actions().Plan(t.Context(), core.Actor{Name: "eve", Role: x.role}, actions.Request{Host: x.host, Spec: x.spec})
			got := ""
			switch {
			case err != nil:
				got = err.Error()
				if !errors.Is(err, core.ErrDenied) {
					t.Errorf("%s: %v", name, err)
				}
			case len(a.Needs) == 1:
				got = fmt.Sprintf("%d of %v", a.Needs[0].Persons, a.Needs[0].From)
			}
			if got != x.want && (err == nil || x.want == "" || !strings.Contains(got, x.want)) {
				t.Errorf("%s: %q, want %q", name, got, x.want)
			}
			if err == nil && (a.State == protocol.StatePendingApprove) != (x.want != "") {
				t.Errorf("%s: it would be %s", name, a.State)
			}
		}
		if all, err := c.Coordinator().Actions().List(t.Context(), core.ActionFilter{}); err != nil || len(all) != 0 {
			t.Errorf("a plan has made %d actions, %v", len(all), err)
		}
	})
}

// tune starts the coordinator anew with another configuration.
func (c *crew) tune(change func(*coordinator.Config)) {
	c.Tune(change)
	c.Restart()
	after(10 * time.Second)
}

// TestFourEyes: who asks for something does not approve it.
func TestFourEyes(t *testing.T) {
	withPolicy(t, onePerson, func(t *testing.T, c *crew) {
		c.tune(func(cfg *coordinator.Config) { cfg.Policies.Own, cfg.Policies.FourEyes = asks(t, onePerson), true })
		ask := func(name, person string) (core.Action, error) {
			secret, _, err := c.Coordinator().Access().CreateToken(t.Context(), c.Admin(), access.Wish{Name: name, Person: person, Role: core.RoleOperator})
			c.must(err)
			by, leave, err := c.Coordinator().Access().Authenticate(t.Context(), secret, func(error) {})
			c.must(err)
			defer leave()
			return c.Coordinator().Actions().Propose(t.Context(), by, actions.Request{Host: c.host.ID, Spec: coordtest.RunSpec("true")})
		}
		if _, err := ask("ann", ""); !errors.Is(err, core.ErrDenied) || !strings.Contains(err.Error(), "--person") {
			t.Errorf("a token of a person's name that is bound to none: %v", err)
		}
		a, err := ask("laptop", "ann")
		c.must(err)
		c.must(c.approve(a, "ann"))
		got := want(t, c.Fleet, a.ID, protocol.StatePendingApprove, "")
		if n := got.Needs[0]; c.Coordinator().Approvals().Missing(got, n) != 1 || n.Not != "ann" {
			t.Errorf("%d of %+v are missing", c.Coordinator().Approvals().Missing(got, n), n)
		}
		c.must(c.approve(a, "bob"))
		want(t, c.Fleet, a.ID, protocol.StatePendingSchedule, "")
	})
}

// TestSetPolicies: others count for what is requested from then on, and who may not set
// them does not.
func TestSetPolicies(t *testing.T) {
	withPolicy(t, onePerson, func(t *testing.T, c *crew) {
		before := c.request()
		if err := c.Coordinator().Policies().Set(t.Context(), core.Actor{Name: "ann", Role: core.RoleOperator}, policies.Policies{}); !errors.Is(err, core.ErrDenied) {
			t.Errorf("an operator sets them: %v", err)
		}
		c.must(c.Coordinator().Policies().Set(t.Context(), core.Actor{Name: "signal", Role: core.RoleAdmin}, policies.Policies{}))
		want(t, c.Fleet, c.request().ID, protocol.StatePendingSchedule, "")
		want(t, c.Fleet, before.ID, protocol.StatePendingApprove, "")
		c.must(c.approve(before, "ann"))
		want(t, c.Fleet, before.ID, protocol.StatePendingSchedule, "")
		c.must(c.Coordinator().Policies().Set(t.Context(), core.Actor{Name: "signal", Role: core.RoleAdmin}, policies.Policies{}))
		// What was in force already is no change.
		rows, _, err := c.Coordinator().Journal().Audit(t.Context(), journal.Filter{Verb: "policies.set", Limit: 10})
		if err != nil || len(rows) != 1 {
			t.Errorf("the audit log has %+v, %v, want one change", rows, err)
		}
	})
}

// TestPoliciesOfAStart: what changed while no coordinator ran is in the audit log too.
func TestPoliciesOfAStart(t *testing.T) {
	withPolicy(t, onePerson, func(t *testing.T, c *crew) {
		other := asks(t, "[[rule]]\nkinds = ['*']\napprovals = 1\nby = ['ann']\n")
		c.tune(func(cfg *coordinator.Config) { cfg.Policies.Own = other })
		rows, _, err := c.Coordinator().Journal().Audit(t.Context(), journal.Filter{Verb: "coordinator.start", Limit: 10})
		if err != nil || len(rows) < 2 {
			t.Fatalf("%+v, %v", rows, err)
		}
		for n, want := range map[int]*policy.Policy{len(rows) - 2: asks(t, onePerson), len(rows) - 1: other} {
			if got := rows[n].Detail["own"]; got != want.Digest().String() {
				t.Errorf("start %d tells %v, want %s", n, got, want.Digest())
			}
		}
	})
}

// TestGroupsCount: approvals of people whom nobody asked for count for nothing.
func TestGroupsCount(t *testing.T) {
	const text = "[groups]\ndba = ['bob', 'cat']\n[[rule]]\nkinds = ['*']\napprovals = 1\nby = ['@dba']\n"
	withPolicy(t, text, func(t *testing.T, c *crew) {
		a := c.request()
		c.must(c.approve(a, "ann"))
		want(t, c.Fleet, a.ID, protocol.StatePendingApprove, "")
		c.must(c.approve(a, "cat"))
		want(t, c.Fleet, a.ID, protocol.StatePendingSchedule, "")
	})
}

// TestHostsAskToo: what the coordinator knows a host to ask for is waited for
// here, and not refused there.
func TestHostsAskToo(t *testing.T) {
	withPolicy(t, onePerson, func(t *testing.T, c *crew) {
		c.tune(func(cfg *coordinator.Config) {
			cfg.Policies.Own = asks(t, "[[rule]]\nkinds = ['*']\napprovals = 1\nby = ['ann']\n")
			cfg.Policies.Hosts = asks(t, "[[rule]]\nkinds = ['*']\napprovals = 1\nby = ['bob']\n")
		})
		a := c.request()
		c.must(c.approve(a, "ann"))
		want(t, c.Fleet, a.ID, protocol.StatePendingApprove, "")
		c.must(c.approve(a, "bob"))
		want(t, c.Fleet, a.ID, protocol.StatePendingSchedule, "")
		c.tune(func(cfg *coordinator.Config) { cfg.Policies.Hosts = asks(t, onePerson) })
		a = c.request()
		c.must(c.approve(a, "cat"))
		want(t, c.Fleet, a.ID, protocol.StatePendingSchedule, "")
	})
}

// TestWhyNamesApprovers: what waits for approval says who may give it, and of
// those who are in the ring and have not.
func TestWhyNamesApprovers(t *testing.T) {
	withPolicy(t, "[groups]\ndba = ['bob', 'cat', 'gone']\n[[rule]]\nkinds = ['host.ping']\napprovals = 3\nby = ['@dba']\n[[rule]]\nkinds = ['*']\napprovals = 2\n", func(t *testing.T, c *crew) {
		expect := func(a core.Action, want string) {
			t.Helper()
			if w := why(t, c.Fleet, a.ID); w == nil || w.For != explain.WaitsApproval || w.Text != want {
				t.Errorf("it waits for %+v, want %q", w, want)
			}
		}
		a := c.request()
		expect(a, "it waits for approval by 2 of: ann, bob, cat (the policy of the coordinator)")
		c.must(c.approve(a, "bob"))
		expect(a, "it waits for approval by one of: ann, cat (the policy of the coordinator); approved by bob")
		c.Trust.DropKey(c.keys["ann"].Key())
		expect(a, "it waits for approval by all of: cat (the policy of the coordinator); approved by bob")
		c.Trust.DropKey(c.keys["cat"].Key())
		expect(a, "it waits for an approval that no person of the ring can give; an owner adds a person: hostler fleet ring add-approver (the policy of the coordinator); approved by bob")
		b, err := c.Coordinator().Actions().Propose(t.Context(), c.Admin(), actions.Request{Host: c.host.ID, Spec: coordtest.Spec(protocol.Spec{Kind: protocol.KindPing})})
		c.must(err)
		expect(b, "it waits for approval by all of: bob, and 2 that no other person of the ring can give (the policy of the coordinator)")
	})
}
