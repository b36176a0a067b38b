package explain

import (
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// TestWaits says for what actions wait, from what is known of them and of their hosts.
func TestWaits(t *testing.T) {
	here, away := facts{here: true, seenMS: 1}, facts{seenMS: 1, nowMS: 60_001}
	with := func(f facts, change func(*facts)) facts { change(&f); return f }
	for name, c := range map[string]struct {
		a    core.Action
		f    facts
		want protocol.WaitsFor
	}{
		"approval":            {core.Action{State: protocol.StatePendingApprove}, here, WaitsApproval},
		"recovery":            {core.Action{State: protocol.StatePendingSchedule}, with(here, func(f *facts) { f.recovering = true }), WaitsRecovery},
		"former":              {core.Action{State: protocol.StatePendingApprove, Former: true}, here, WaitsRecovery},
		"former and away":     {core.Action{State: protocol.StateRunning, Former: true}, away, WaitsHost},
		"quarantine":          {core.Action{State: protocol.StateNew}, with(here, func(f *facts) { f.quarantined = true }), WaitsQuarantine},
		"unnumbered":          {core.Action{State: protocol.StatePendingSchedule}, here, WaitsTurn},
		"unnumbered and away": {core.Action{State: protocol.StatePendingSchedule}, away, WaitsHost},
		"sent":                {core.Action{State: protocol.StatePendingSchedule, N: 1}, here, WaitsReceipt},
		"accepted":            {core.Action{State: protocol.StateNew, N: 1}, here, WaitsUnknown},
		"running":             {core.Action{State: protocol.StateRunning, N: 1}, here, WaitsEnd},
		"running and away":    {core.Action{State: protocol.StateRunning, N: 1}, away, WaitsHost},
	} {
		if got := waits(c.a, c.f); got.For != c.want {
			t.Errorf("%s: waits for %s (%s), want %s", name, got.For, got.Text, c.want)
		}
	}
}
