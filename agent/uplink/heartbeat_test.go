package uplink

import (
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

func TestPages(t *testing.T) {
	var all []protocol.Container
	for range 500 {
		all = append(all, protocol.Container{CTID: protocol.NewCTID(1, [10]byte{1}), Name: "a-name", Runtime: "lxc", State: "running", Labels: []string{"site=lab", "tier=db"}})
	}
	pages := paginate(make([]byte, 10<<10), all)
	total := 0
	for _, p := range pages {
		total += len(p)
	}
	if total != 500 || len(pages) < 4 {
		t.Errorf("%d containers in %d pages", total, len(pages))
	}
	if pages := paginate(nil, nil); len(pages) != 1 {
		t.Errorf("%d pages of nothing, want 1: the host is told in it", len(pages))
	}
}
