package proc

import "testing"

func TestCPUTicks(t *testing.T) {
	const line = "42 (a (strange) name) S 1 42 42 0 -1 4194560 100 200 0 0 11 22 33 44 20 0 5 0 1000 0 0"
	if own, children, err := cpuTicks(line); err != nil || own != 33 || children != 77 {
		t.Errorf("got %d, %d, %v, want 11+22, 33+44", own, children, err)
	}
	for _, bad := range []string{"", "42 (x", "42 (x) S 1 2"} {
		if _, _, err := cpuTicks(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
