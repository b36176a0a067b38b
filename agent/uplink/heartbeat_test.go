package uplink

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/beat"
)

// state is a host with so many containers and alerts.
func state(containers, alerts int) (s beat.State) {
	for i := range containers {
		s.Containers = append(s.Containers, protocol.Container{
			CTID: protocol.NewCTID(int64(i+1), [10]byte{1}), Name: fmt.Sprintf("a-name-%d", i), Runtime: "lxc", State: "running", Intended: "running", Class: "pinned",
			Offline: "keep", Addresses: []string{"10.0.3.17"}, Labels: []string{"site=lab", "tier=db"},
		})
	}
	for i := range alerts {
		s.Alerts = append(s.Alerts, protocol.AlertInfo{ID: fmt.Sprintf("a/%d", i), Severity: "warning", Text: strings.Repeat("x", 500)})
	}
	return s
}

// told returns the pages for a state.
func told(u *Uplink, s beat.State) []protocol.Heartbeat {
	u.beat.number++
	u.beat.sums = beat.Sum(s)
	u.beat.digest = u.beat.sums.Digest()
	return u.beat.pages(s)
}

func TestPages(t *testing.T) {
	var u Uplink
	pages := told(&u, state(500, 40))
	containers, alerts := 0, 0
	for i, p := range pages {
		containers, alerts = containers+len(p.Containers), alerts+len(p.Alerts)
		if (p.Host != nil) != (i == 0) || p.Part != i+1 || p.Parts != len(pages) || weight(&p) > 15<<10 || weight(&p) == 0 {
			t.Errorf("page %d of %d has %d bytes, host %v", p.Part, p.Parts, weight(&p), p.Host != nil)
		}
	}
	if containers != 500 || alerts != 40 || len(pages) < 8 {
		t.Errorf("%d containers and %d alerts in %d pages", containers, alerts, len(pages))
	}
	if pages := told(&u, state(0, 0)); len(pages) != 1 {
		t.Errorf("%d pages of nothing, want 1: the host is told in it", len(pages))
	}
}

// TestChange: one change among fifty containers is a few bytes; what would be longer than
// the whole is told as the whole.
func TestChange(t *testing.T) {
	var u Uplink
	s := state(50, 0)
	full := 0
	for _, p := range told(&u, s) {
		full += weight(&p)
	}
	u.beat.receipted(u.beat.number)
	s.Containers[7].State = "stopped"
	change := told(&u, s)
	if len(change) != 1 || change[0].Base != 1 || change[0].Figures == nil || len(change[0].Containers) != 1 || weight(&change[0])*25 > full {
		t.Errorf("%d bytes beside %d: %+v", weight(&change[0]), full, change)
	}
	u.beat.receipted(u.beat.number - 1) // of before: it is no base any more
	if u.beat.base != 1 {
		t.Errorf("the base is %d", u.beat.base)
	}
	u.beat.heard = false
	told(&u, state(1000, 0))
	u.beat.receipted(u.beat.number)
	if pages := told(&u, state(0, 0)); len(pages) != 1 || pages[0].Base != 0 || pages[0].Host == nil {
		t.Errorf("a thousand containers that are gone: %d pages, base %d", len(pages), pages[0].Base)
	}
}
