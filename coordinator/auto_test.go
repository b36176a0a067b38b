package coordinator_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/journal"
	"github.com/hostler-io/hostler/coordinator/members"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// applicant asks for enrolment from an address, with an invite of certain labels, and
// returns what it is told, and how it asks again.
func applicant(t *testing.T, f *coordtest.Fleet, id protocol.HostID, from string, labels ...string) (enrol.State, func(from string) enrol.State) {
	t.Helper()
	m, ctx := f.Coordinator().Members(), t.Context()
	_, code, err := m.Invite(ctx, f.Admin(), time.Hour, labels)
	if err != nil {
		t.Fatal(err)
	}
	a := f.Attempt(id, code)
	begin, err := a.Begin()
	if err != nil {
		t.Fatal(err)
	}
	answer, err := m.BeginEnrolment(ctx, begin)
	if err != nil {
		t.Fatal(err)
	}
	_, ring := f.Trust.RingInForce()
	_, own := f.Trust.Own()
	offer, _, err := a.Reveal(answer, ring, own)
	if err != nil {
		t.Fatal(err)
	}
	told, err := m.OfferEnrolment(ctx, netip.MustParseAddr(from), offer)
	if err != nil {
		t.Fatal(err)
	}
	return told.State, func(from string) enrol.State {
		t.Helper()
		poll, err := a.Poll(answer.Exchange)
		if err != nil {
			t.Fatal(err)
		}
		told, err := m.EnrolmentState(ctx, netip.MustParseAddr(from), poll)
		if err != nil {
			t.Fatal(err)
		}
		return told.State
	}
}

func TestAutoApprove(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		m, ctx := f.Coordinator().Members(), t.Context()
		want := func(what string, got, want enrol.State) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		early, again := applicant(t, f, "early", "10.1.0.9", "site=lab")
		want("before there is a rule", early, enrol.Pending)
		rule := members.AutoRule{Name: "lab", Selector: "site=lab,tier!=db", Subnets: []string{"10.1.2.3/16", "2001:db8::/32"}, Count: 3}
		if _, err := m.Auto().Set(ctx, f.Admin(), rule, time.Hour, ""); err != nil {
			t.Fatal(err)
		}
		want("a host that waits, from elsewhere", again("10.2.0.9"), enrol.Pending)
		want("a host that waits asks again", again("10.1.0.9"), enrol.Approved)
		got, _ := applicant(t, f, "rack-1", "::ffff:10.1.0.10", "site=lab")
		want("a host that the rule is for", got, enrol.Approved)
		for name, labels := range map[protocol.HostID][]string{"none": nil, "site-lab": {"site=work"}, "db": {"site=lab", "tier=db"}} {
			got, _ := applicant(t, f, name, "10.1.0.11", labels...)
			want(fmt.Sprintf("labels %v", labels), got, enrol.Pending)
		}
		got, _ = applicant(t, f, "far", "192.0.2.1", "site=lab")
		want("from another network", got, enrol.Pending)
		got, _ = applicant(t, f, "rack-2", "2001:db8::5", "site=lab")
		want("the third host", got, enrol.Approved)
		got, again = applicant(t, f, "rack-3", "10.1.0.12", "site=lab")
		want("one more than the count", got, enrol.Pending)

		h, err := m.Host(ctx, "rack-1")
		if err != nil || h.ApprovedBy != "rule:lab" || strings.Join(h.Labels, ",") != "site=lab" {
			t.Errorf("rack-1 was approved by %q with labels %v, %v", h.ApprovedBy, h.Labels, err)
		}
		rows, _, err := f.Coordinator().Journal().Audit(ctx, journal.Filter{Verb: "host.approve", Host: "rack-1", Limit: 10})
		if err != nil || len(rows) != 1 || rows[0].Actor != "rule:lab" || rows[0].From != "10.1.0.10" || rows[0].Detail["rule"] != "lab" {
			t.Errorf("the audit log says %+v, %v", rows, err)
		}

		// Setting it again counts anew. What has ended its invite waits for a person.
		if _, err := m.Auto().Set(ctx, f.Admin(), rule, 3*time.Hour, ""); err != nil {
			t.Fatal(err)
		}
		after(time.Hour)
		want("its invite has ended", again("10.1.0.12"), enrol.Pending)
		got, _ = applicant(t, f, "rack-4", "10.1.0.13", "site=lab")
		want("the rule is still open", got, enrol.Approved)
		after(2 * time.Hour)
		got, _ = applicant(t, f, "rack-5", "10.1.0.13", "site=lab")
		want("the rule has ended", got, enrol.Pending)
		if all, err := m.Auto().Rules(ctx); err != nil || len(all) != 1 || all[0].Approved != 1 || all[0].Ended(m.Auto().LifeMS()) != "expired" {
			t.Errorf("the rules are %+v, %v", all, err)
		}
		if err := m.Auto().Remove(ctx, f.Admin(), "lab", ""); err != nil {
			t.Fatal(err)
		}
		if err := m.Auto().Remove(ctx, f.Admin(), "lab", ""); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("removed twice: %v", err)
		}
	})
}

// TestAutoApproveLeavesNames: what takes the name of another machine waits for a person.
func TestAutoApproveLeavesNames(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		m, ctx := f.Coordinator().Members(), t.Context()
		if err := m.Relabel(ctx, f.Admin(), h.ID, []string{"site=lab"}, nil, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Auto().Set(ctx, f.Admin(), members.AutoRule{Name: "lab", Selector: "site=lab", Count: 3}, time.Hour, ""); err != nil {
			t.Fatal(err)
		}
		r, err := m.Replace(ctx, f.Admin(), h.ID, time.Hour, "it burned")
		if err != nil {
			t.Fatal(err)
		}
		told, err := claim(t, f, h.ID, "spare", r.Code)
		if err != nil || told.State != enrol.Pending {
			t.Errorf("the new machine is %s, %v, want pending", told.State, err)
		}
	})
}

func TestWrongAutoRules(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		m, ctx := f.Coordinator().Members(), t.Context()
		good := members.AutoRule{Name: "lab", Selector: "site=lab", Count: 3}
		for what, spoil := range map[string]func(*members.AutoRule){
			"no label that must be there": func(a *members.AutoRule) { a.Selector = "tier!=db" },
			"no selector":                 func(a *members.AutoRule) { a.Selector = "" },
			"half a selector":             func(a *members.AutoRule) { a.Selector = "site" },
			"no count":                    func(a *members.AutoRule) { a.Count = 0 },
			"too many":                    func(a *members.AutoRule) { a.Count = 10_001 },
			"an address, no network":      func(a *members.AutoRule) { a.Subnets = []string{"10.1.2.3"} },
			"a network in two forms":      func(a *members.AutoRule) { a.Subnets = []string{"::ffff:10.0.0.0/104"} },
			"a wrong name":                func(a *members.AutoRule) { a.Name = "Lab 1" },
		} {
			a := good
			spoil(&a)
			if _, err := m.Auto().Set(ctx, f.Admin(), a, time.Hour, ""); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, life := range []time.Duration{0, -time.Hour, 91 * 24 * time.Hour} {
			if _, err := m.Auto().Set(ctx, f.Admin(), good, life, ""); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("for %s: %v", life, err)
			}
		}
		approver := core.Actor{Name: "approver", Role: core.RoleApprover}
		if _, err := m.Auto().Set(ctx, approver, good, time.Hour, ""); !errors.Is(err, core.ErrRole) {
			t.Errorf("set by an approver: %v", err)
		}
		if err := m.Auto().Remove(ctx, approver, "lab", ""); !errors.Is(err, core.ErrRole) {
			t.Errorf("removed by an approver: %v", err)
		}
		if all, err := m.Auto().Rules(ctx); err != nil || len(all) != 0 {
			t.Errorf("after nothing but errors: %+v, %v", all, err)
		}
		for n := range 100 {
			good.Name = fmt.Sprintf("rule-%d", n)
			if _, err := m.Auto().Set(ctx, f.Admin(), good, time.Hour, ""); err != nil {
				t.Fatal(err)
			}
		}
		good.Name = "one-more"
		if _, err := m.Auto().Set(ctx, f.Admin(), good, time.Hour, ""); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("one more than is kept: %v", err)
		}
	})
}
