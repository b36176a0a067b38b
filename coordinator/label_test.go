package coordinator_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/journal"
)

// TestRelabel changes the labels that are named and no others, also over a
// restart, and records it once.
func TestRelabel(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		label := func(set, remove []string) error {
			return f.Coordinator().Members().Relabel(t.Context(), f.Admin(), h.ID, set, remove, "")
		}
		for _, step := range []struct{ set, remove, want []string }{
			{[]string{"tier=web", "site=lab"}, nil, []string{"site=lab", "tier=web"}},
			{[]string{"site=lab"}, nil, []string{"site=lab", "tier=web"}}, // nothing new
			{[]string{"site=home"}, []string{"tier", "nosuch"}, []string{"site=home"}},
			{[]string{"empty="}, []string{"site"}, []string{"empty="}},
			{nil, []string{"empty"}, nil},
		} {
			if err := label(step.set, step.remove); err != nil {
				t.Fatal(err)
			}
			f.Restart()
			v, err := f.Coordinator().Members().Host(t.Context(), h.ID)
			if err != nil || !slices.Equal(v.Labels, step.want) {
				t.Errorf("after %v and without %v they are %v, %v", step.set, step.remove, v.Labels, err)
			}
		}
		rows, _, err := f.Coordinator().Journal().Audit(t.Context(), journal.Filter{Verb: "host.label", Limit: 10})
		if err != nil || len(rows) != 4 || rows[0].Actor != "token:admin" || rows[0].Host != h.ID {
			t.Errorf("%d records, %+v, %v", len(rows), rows, err)
		}
		var many []string
		for i := range 65 {
			many = append(many, fmt.Sprintf("k%d=v", i))
		}
		for _, bad := range [][]string{nil, many, {"a"}, {"=a"}, {"a=b", "a=c"}, {"a=b,c=d"}, {"a=b\nc"}, {"a,b=c"}} {
			if err := label(bad, nil); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("%.40v: %v", bad, err)
			}
		}
		if err := f.Coordinator().Members().Relabel(t.Context(), f.Admin(), "nosuch", []string{"a=b"}, nil, ""); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("a host that is not there: %v", err)
		}
	})
}
