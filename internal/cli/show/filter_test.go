package show

import (
	"testing"
)

func TestFilters(t *testing.T) {
	type inner struct {
		Arch string `json:"arch"`
	}
	type thing struct {
		inner
		Name   string   `json:"name"`
		Labels []string `json:"labels"`
		CPUs   int      `json:"cpus"`
		Odd    *int     `json:"odd,omitempty"`
	}
	one := 1
	all := []thing{{inner{"amd64"}, "a", []string{"site=lab", "tier=db"}, 2, nil}, {inner{"arm64"}, "b", nil, 4, &one}}
	for _, c := range []struct {
		filters []string
		want    string
	}{
		{nil, "ab"}, {[]string{"name=a"}, "a"}, {[]string{"name!=a"}, "b"}, {[]string{"labels=tier=db"}, "a"}, {[]string{"labels!=tier=db"}, "b"},
		{[]string{"cpus=4"}, "b"}, {[]string{"cpus=4", "arch=amd64"}, ""}, {[]string{"arch=arm64"}, "b"}, {[]string{"odd="}, "a"}, {[]string{"odd=1"}, "b"},
	} {
		var f Filters
		for _, s := range c.filters {
			if err := f.Set(s); err != nil {
				t.Fatal(err)
			}
		}
		found, err := choose(f, all)
		got := ""
		for _, it := range found {
			got += it.Name
		}
		if err != nil || got != c.want {
			t.Errorf("%q chooses %q, %v, want %q", c.filters, got, err, c.want)
		}
	}
	var f Filters
	if f.Set("name") == nil || f.Set("=x") == nil {
		t.Error("what compares nothing is a filter")
	}
	f = Filters{{member: "nosuch"}}
	if _, err := choose(f, all); err == nil {
		t.Error("a member that nothing has chooses")
	}
}
