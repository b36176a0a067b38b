package space

import (
	"testing"

	"golang.org/x/sys/unix"
)

const mib = 1 << 20

func TestBudget(t *testing.T) {
	for name, tc := range map[string]struct {
		s          Space
		used, most int64
		want       int64
	}{
		"configured":           {Space{Total: 100 << 30, Free: 50 << 30}, 1 << 30, 2 << 30, 2 << 30},
		"half of a small one":  {Space{Total: 64 * mib, Free: 60 * mib}, 0, 2 << 30, 32 * mib},
		"others have the rest": {Space{Total: 64 * mib, Free: 4 * mib}, 20 * mib, 2 << 30, 8 * mib},
		"others have all":      {Space{Total: 64 * mib}, 10 * mib, 2 << 30, 0},
		"few files":            {Space{Total: 100 << 30, Free: 50 << 30, Files: 1 << 20, FreeFiles: 300}, 1 << 30, 2 << 30, 1 << 29},
		"files without limit":  {Space{Total: 100 << 30, Free: 50 << 30}, 1 << 30, 2 << 30, 2 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.s.Budget(tc.used, tc.most); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// TestWhatIsSparedLeavesRoom holds the bounds to each other: what can be spared stops
// growing before anything is refused, and after a removal it may grow again.
func TestWhatIsSparedLeavesRoom(t *testing.T) {
	for _, total := range []int64{24 * mib, 64 * mib, 1 << 30, 4 << 40} {
		s := Space{Total: total}
		if s.Free = s.Kept(); s.Spare() || s.Low() {
			t.Errorf("%d: with %d free something may grow, or nothing new begins", total, s.Free)
		}
		used := total / 4
		after := s
		after.Free = s.Free + used - s.Budget(used, total)
		if !after.Spare() || after.Low() {
			t.Errorf("%d: after a removal there is %d free, %d is kept", total, after.Free, after.Kept())
		}
	}
}

func TestOf(t *testing.T) {
	s, err := Of(t.TempDir())
	if err != nil || s.Total <= 0 || s.Free > s.Total {
		t.Errorf("got %+v, %v", s, err)
	}
	if _, err := Of("/nowhere/at/all"); err == nil {
		t.Error("there is no such file system")
	}
}

// TestReserved: what is reserved counts neither as size nor as free, as in df.
func TestReserved(t *testing.T) {
	if got := of(&unix.Statfs_t{Bsize: 10, Blocks: 100, Bfree: 70, Bavail: 10}); got.Total != 400 || got.Free != 100 {
		t.Errorf("got %+v", got)
	}
}
