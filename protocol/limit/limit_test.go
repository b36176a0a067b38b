package limit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol/limit"
)

func TestParse(t *testing.T) {
	good := []string{"cpu=150%", "cpuset=0-1,4", "disk=5GiB", "io=10MiB", "memory=256MiB", "net=10Mbit", "pids=200"}
	l, err := limit.Parse(good)
	if err != nil || !slices.Equal(l.Strings(), good) {
		t.Errorf("%v, %v", l.Strings(), err)
	}
	for text, want := range map[string]int64{"cpu=150%": 150, "memory=2kB": 2000, "memory=1KiB": 1024, "pids=7": 7} {
		l, err := limit.Parse([]string{text})
		for r, v := range l {
			if n, e := limit.Number(r, v); e != nil || n != want {
				t.Errorf("%s is %d, %v, %v", text, n, e, err)
			}
		}
	}
	for _, bad := range []string{
		"", "cpu", "cpu=", "cpu=150", "cpu=1.5%", "cpu=0%", "cpu=-1%", "cpu=150 %", "cpu=999999999%", "memory=256", "memory=256mib", "memory=256M", "memory=0MiB",
		"memory=99999999TiB", "memory=0x1MiB", "memory=+1MiB", "memory=01MiB", "pids=1k", "pids=0", "cpuset=", "cpuset=1-0", "cpuset=0,0", "cpuset=a", "cpuset=0-0", "cpuset=00",
		"cpuset=99999", "net=10", "net=10MB", "swap=1MiB", "memory=1MiB\n", "memory=\u0661MiB",
	} {
		if _, err := limit.Parse([]string{bad}); err == nil || !strings.Contains(err.Error(), "want ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := limit.Parse([]string{"pids=1", "pids=2"}); err == nil {
		t.Error("one resource may be limited twice")
	}
	now := l.With(limit.Limits{"cpu": limit.None, "pids": "7"})
	if now["cpu"] != "" || now["pids"] != "7" || l["cpu"] != "150%" {
		t.Errorf("%v with less is %v", l, now)
	}
}

// FuzzParse: what is read is written so, and read as the same again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"cpu=150%", "memory=256MiB", "cpuset=0-1,4", "net=10Mbit", "pids=none", "=", "memory=\x00MiB"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := limit.Parse([]string{text})
		if err == nil && !slices.Equal(l.Strings(), []string{text}) {
			t.Errorf("%q became %q", text, l.Strings())
		}
	})
}
