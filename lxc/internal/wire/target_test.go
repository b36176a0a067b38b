package wire_test

import (
	"testing"

	"github.com/hostler-io/hostler/lxc/internal/wire"
)

func TestTarget(t *testing.T) {
	want := wire.Target{LXCPath: "/var/lib/lxc", Name: "web", InitPID: 4711, InitTicks: 815}
	got, err := wire.ParseTarget(want.Map())
	if err != nil || got != want {
		t.Errorf("ParseTarget(Map()) = %v, %v; want %v", got, err, want)
	}
	for key, bad := range map[string]string{"lxc_path": "relative", "name": "../web", "init_pid": "0", "init_ticks": "0", "extra": "x"} {
		m := want.Map()
		m[key] = bad
		if _, err := wire.ParseTarget(m); err == nil {
			t.Errorf("%s=%q was accepted", key, bad)
		}
		if key == "extra" || key == "init_ticks" {
			continue // agents before this one told no start
		}
		delete(m, key)
		if _, err := wire.ParseTarget(m); err == nil {
			t.Errorf("a target without %s was accepted", key)
		}
	}
}
