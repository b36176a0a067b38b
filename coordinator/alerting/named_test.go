package alerting

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// TestNamed: an alert goes by its id, or by a beginning that no other one has; of several
// the error tells which they are, and never more than a screen shows.
func TestNamed(t *testing.T) {
	all := []protocol.AlertInfo{{ID: "measured.disk.critical///"}, {ID: "measured.disk.critical///var"}, {ID: "host.degraded"}}
	for id, want := range map[string]string{"host.": "host.degraded", "host.degraded": "host.degraded", "measured.disk.critical///": "measured.disk.critical///", "measured.disk.critical///v": "measured.disk.critical///var"} {
		if got, err := named(all, id); err != nil || got.ID != want {
			t.Errorf("%s is %q, %v; want %q", id, got.ID, err, want)
		}
	}
	for _, id := range []string{"", "nothing"} {
		if _, err := named(all, id); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := named(all, "measured."); !errors.Is(err, core.ErrAmbiguous) || !strings.Contains(err.Error(), "measured.disk.critical///, measured.disk.critical///var") {
		t.Errorf("of two: %v", err)
	}
	for i := range 1000 {
		all = append(all, protocol.AlertInfo{ID: fmt.Sprint("measured.", i)})
	}
	if _, err := named(all, "measured."); !errors.Is(err, core.ErrAmbiguous) || !strings.Contains(err.Error(), "1002 alerts") || len(err.Error()) > 300 {
		t.Errorf("of many: %v", err)
	}
}
