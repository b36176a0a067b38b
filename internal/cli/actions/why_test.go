package actions

import (
	"slices"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// TestWhyTellsOfCopies: a copy that runs where it may not is told of, before what hosts say.
func TestWhyTellsOfCopies(t *testing.T) {
	var e explanation
	e.addPlacement(&api.Placement{
		Lease:    api.Lease{Name: "db", Host: "edge-01", Phase: "held", Epoch: "1.1.2", LeftMS: 60_000, Copies: []string{"host edge-02 runs a copy, which action 0199f3 stops"}},
		Verdicts: []api.Verdict{{Host: "edge-02", Score: 0}},
	})
	if len(e.Why) != 3 || !slices.Contains(e.Why[1:2], "it runs where it may not: host edge-02 runs a copy, which action 0199f3 stops") {
		t.Errorf("%q", e.Why)
	}
}
