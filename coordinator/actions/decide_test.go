package actions

import (
	"errors"
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// TestBegin decides about requests without a store.
func TestBegin(t *testing.T) {
	want := core.Action{ID: protocol.ActionID{1}, Host: "edge-07", Kind: protocol.KindRun, Digest: protocol.Digest{1}}
	same, other := want, want
	same.State, other.Digest = protocol.StateRunning, protocol.Digest{2}
	host := func(state core.HostState, quarantined string) *core.Host {
		return &core.Host{ID: "edge-07", State: state, Quarantined: quarantined}
	}
	approved := host(core.HostApproved, "")
	needs := []core.Need{{Persons: 1}}
	const now, hour = 1_000_000, 3_600_000
	for name, c := range map[string]struct {
		k       request
		state   protocol.State
		expires int64
		old     bool
		err     error
	}{
		"granted":             {request{host: approved}, protocol.StatePendingSchedule, now + 24*hour, false, nil},
		"waits for a person":  {request{host: approved, needs: needs}, protocol.StatePendingApprove, now + 7*24*hour, false, nil},
		"asked for before":    {request{host: approved, old: &same, needs: needs}, protocol.StateRunning, 0, true, nil},
		"another of the id":   {request{host: approved, old: &other}, "", 0, false, core.ErrConflict},
		"no such host":        {request{}, "", 0, false, core.ErrUnknownHost},
		"a revoked host":      {request{host: host(core.HostRevoked, "")}, "", 0, false, core.ErrDenied},
		"a host in doubt":     {request{host: host(core.HostApproved, "its disk went back"), old: &same}, "", 0, false, core.ErrDenied},
		"a policy refuses":    {request{host: approved, refused: core.ErrDenied}, "", 0, false, core.ErrDenied},
		"unnamed, free":       {request{host: approved, unnamed: true}, protocol.StatePendingSchedule, now + 24*hour, false, nil},
		"unnamed, to approve": {request{host: approved, unnamed: true, needs: needs}, "", 0, false, core.ErrDenied},
	} {
		a, old, err := begin(want, c.k, now)
		if a.State != c.state || a.ExpiresMS != c.expires || old != c.old || !errors.Is(err, c.err) {
			t.Errorf("%s: %s until %d, old %v, %v", name, a.State, a.ExpiresMS, old, err)
		}
	}
}

// TestUrgent: what is done at once or never waits for no approval. An off that a person
// approves a day later would switch off a host that has recovered.
func TestUrgent(t *testing.T) {
	want := core.Action{Host: "gw-01", Kind: protocol.KindHostFence}
	host := &core.Host{ID: "gw-01", State: core.HostApproved}
	if _, _, err := begin(want, request{host: host, needs: []core.Need{{Persons: 1}}}, 1); !errors.Is(err, core.ErrDenied) {
		t.Errorf("it waits: %v", err)
	}
	if a, _, err := begin(want, request{host: host}, 1); err != nil || a.ExpiresMS != 1+protocol.FenceTTL.Milliseconds() {
		t.Errorf("it may begin until %d, %v", a.ExpiresMS, err)
	}
}

// TestGoOn decides about approvals without a store or a keyring.
func TestGoOn(t *testing.T) {
	const now, day = 1_000_000, 24 * 3_600_000
	two := []core.Need{{Persons: 2, Not: "carol"}}
	until := func(person string, ms int64) core.Approval { return core.Approval{Person: person, ExpiresMS: ms} }
	for name, c := range map[string]struct {
		needs    []core.Need
		counting []core.Approval
		state    protocol.State
		former   bool
		ev       protocol.Event
		released bool
		expires  int64
	}{
		"one is missing":       {two, []core.Approval{until("ann", now+day)}, protocol.StatePendingApprove, false, "", false, 7},
		"one of them twice":    {two, []core.Approval{until("ann", now+day), until("ann", now+2*day)}, protocol.StatePendingApprove, false, "", false, 7},
		"the requester":        {two, []core.Approval{until("ann", now+day), until("carol", now+day)}, protocol.StatePendingApprove, false, "", false, 7},
		"enough":               {two, []core.Approval{until("ann", now+2*day), until("bob", now+3*day)}, protocol.StatePendingApprove, false, protocol.EventApprove, true, now + day},
		"one ends early":       {two, []core.Approval{until("ann", now+5), until("bob", now+3*day)}, protocol.StatePendingApprove, false, protocol.EventApprove, true, now + 5},
		"one more than enough": {two, []core.Approval{until("ann", now+5), until("bob", now+9), until("dan", now+8)}, protocol.StatePendingApprove, false, protocol.EventApprove, true, now + 8},
		"released before":      {two, []core.Approval{until("ann", now+6), until("bob", now+7)}, protocol.StatePendingSchedule, false, "", true, now + 6},
		"of before a recovery": {two, []core.Approval{until("ann", now+6), until("bob", now+7)}, protocol.StatePendingApprove, true, "", false, 7},
		"nothing is asked for": {nil, nil, protocol.StatePendingApprove, false, protocol.EventApprove, true, now + day},
	} {
		a := core.Action{Kind: protocol.KindRun, State: c.state, Former: c.former, Needs: c.needs, ExpiresMS: 7}
		next, ev, released := goOn(a, c.counting, now)
		if ev != c.ev || released != c.released || next.ExpiresMS != c.expires || next.State != c.state {
			t.Errorf("%s: %q, released %v until %d", name, ev, released, next.ExpiresMS)
		}
	}
}
