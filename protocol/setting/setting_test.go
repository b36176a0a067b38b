package setting_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol/limit"
	"github.com/hostler-io/hostler/protocol/setting"
)

func TestParse(t *testing.T) {
	c, err := setting.Parse([]string{"label.app=web=2", "limit.memory=256MiB", "label.empty=", "label.old", "limit.cpu"})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Labelled([]string{"old=1", "app=x", "tier=db"}); !slices.Equal(got, []string{"app=web=2", "empty=", "tier=db"}) {
		t.Errorf("labels are %q", got)
	}
	if c.Limits[limit.Memory] != "256MiB" || c.Limits[limit.CPU] != limit.None {
		t.Errorf("limits are %v", c.Limits)
	}
	for _, bad := range []struct {
		set  []string
		want string
	}{
		{nil, "want 1 to"},
		{[]string{"label.=x"}, "no setting"},
		{[]string{"label.a b=x"}, "want NAME=VALUE"},
		{[]string{"label.a=x,y"}, "without commas"},
		{[]string{"label.a=x", "label.a"}, "given twice"},
		{[]string{"limit.memory=5"}, "want bytes with a unit"},
		{[]string{"limit.weight=5"}, "want RESOURCE=VALUE"},
		{[]string{"env.A=x"}, "is fixed"},
		{[]string{"hostname=X"}, "inner hyphens"},
		{[]string{"hostname="}, "inner hyphens"},
		{[]string{"memory=5MiB"}, "no setting"},
		{slices.Repeat([]string{"label.a=b"}, setting.MaxChanges+1), "want 1 to"},
	} {
		if _, err := setting.Parse(bad.set); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("Parse(%.60q) = %v, want an error with %q", bad.set, err, bad.want)
		}
	}
}

func TestCheck(t *testing.T) {
	if err := setting.CheckEnv([]string{"A=", "B=x y=z"}); err != nil {
		t.Error(err)
	}
	for _, bad := range [][]string{{"A"}, {"=x"}, {"A B=x"}, {"A=x\ny"}, {"A=\x00"}, {"A=1", "A=2"}, {"A=" + strings.Repeat("x", 32<<10)}} {
		if setting.CheckEnv(bad) == nil {
			t.Errorf("variables %.60q were accepted", bad)
		}
	}
	if err := setting.CheckCommand([]string{"echo", "", "a\nb"}); err != nil {
		t.Error(err)
	}
	for _, bad := range [][]string{{""}, {"a\x00"}, {strings.Repeat("x", 32<<10)}} {
		if setting.CheckCommand(bad) == nil {
			t.Errorf("the command %.60q was accepted", bad)
		}
	}
}

// FuzzParse: what is accepted gives labels that stay as they are when they are read again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"label.app=web", "limit.cpu=150%", "limit.=", "label.=", "label.a==", "env.A=b", "="} {
		f.Add(seed, "label.old")
	}
	f.Fuzz(func(t *testing.T, set, other string) {
		c, err := setting.Parse([]string{set, other})
		if err != nil {
			return
		}
		once := c.Labelled([]string{"a=b"})
		if !slices.Equal(c.Labelled(once), once) {
			t.Errorf("%q and %q make %q, and then another", set, other, once)
		}
	})
}
