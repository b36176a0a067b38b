package conn

import (
	"testing"

	"github.com/hostler-io/hostler/api"
)

// TestShownState: lists show what keeps a host from its work.
func TestShownState(t *testing.T) {
	for want, h := range map[string]api.Host{
		"online":      {State: EnrolmentApproved, Connectivity: "online"},
		"offline":     {State: EnrolmentApproved, Connectivity: "offline", Degraded: "the disk is full"},
		"degraded":    {State: EnrolmentApproved, Connectivity: "online", Degraded: "the disk is full"},
		"quarantined": {State: EnrolmentApproved, Connectivity: "online", Degraded: "the disk is full", Quarantined: "two speak for it"},
		"revoked":     {State: "revoked", Connectivity: "offline", Quarantined: "two speak for it"},
	} {
		if got := ShownState(h); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
