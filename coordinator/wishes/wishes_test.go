package wishes

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/api"
)

// TestWishesAreShownAsTheyWereGiven: what is shown of wishes can be given again.
func TestWishesAreShownAsTheyWereGiven(t *testing.T) {
	want := api.Wishes{
		Selector: "site=lab,tier!=db", Prefer: []string{"disk=ssd:50"}, Avoid: []string{"rack=7:100"}, Near: []string{"cache"}, Apart: []string{"web:50"},
		Discover: []string{"never:rack=7", "exclusive:host=edge-01"}, Priority: 3, After: []string{"cache", "dns"},
	}
	wants, err := Read(&want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, Text(wants)); diff != "" {
		t.Error(diff)
	}
	if _, err := Read(&api.Wishes{Discover: []string{"often:rack=7"}}); err == nil {
		t.Error("a mode that is not known is not refused")
	}
}
