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

// TestWhyOfAPlacement: each host is named with its score, or with what keeps the container from it.
func TestWhyOfAPlacement(t *testing.T) {
	p := api.Placement{
		Lease:    api.Lease{Name: "db", Host: "edge-01", Phase: "held", Epoch: "2.7.1", LeftMS: 61_000},
		Verdicts: []api.Verdict{{Host: "edge-01", Score: 1_000_000}, {Host: "edge-02", Score: -5}, {Host: "edge-03", Reason: "not enough memory"}},
	}
	var e explanation
	e.addPlacement(&p)
	want := []string{
		"host edge-01 may run it under epoch 2.7.1; the lease of the host is good for 1m1s",
		"host edge-01 can take it, score 1000000", "host edge-02 can take it, score -5", "host edge-03 cannot take it: not enough memory",
	}
	if !slices.Equal(e.Why, want) {
		t.Errorf("%q, want %q", e.Why, want)
	}
}
