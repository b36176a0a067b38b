//go:build linux && cgo && heavy

package lxc_test

import "testing"

// TestThousandAndFirstStart: liblxc numbers the monitor cgroups that a caller
// leaves behind and gives up at a thousand. Each of our starts leaves none.
func TestThousandAndFirstStart(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.create(t)
	for n := range 1001 {
		if _, err := m.Start(t.Context(), spec.Name); err != nil {
			t.Fatalf("start %d: %v", n+1, err)
		}
		if _, err := m.Stop(t.Context(), spec.Name, 0); err != nil {
			t.Fatalf("stop %d: %v", n+1, err)
		}
	}
	if left := cgroups(t, spec.Name); len(left) > 0 {
		t.Errorf("cgroups are left: %q", left)
	}
}
