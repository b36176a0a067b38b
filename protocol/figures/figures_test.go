package figures_test

import (
	"testing"

	"github.com/hostler-io/hostler/protocol/figures"
)

func TestMoved(t *testing.T) {
	told := figures.Figures{UptimeMS: 1000, ClockMS: 1_000_000, MemoryFree: 500, DiskFree: 5000, Load1000: 1000}
	for name, c := range map[string]struct {
		change func(*figures.Figures)
		want   bool
	}{
		"time passes":     {func(f *figures.Figures) { f.UptimeMS += 60_000; f.ClockMS += 60_000 }, false},
		"an hour passes":  {func(f *figures.Figures) { f.UptimeMS += 3_600_000; f.ClockMS += 3_600_000 }, true},
		"the clock jumps": {func(f *figures.Figures) { f.ClockMS -= 1000 }, true},
		"a bit of memory": {func(f *figures.Figures) { f.MemoryFree -= 49 }, false},
		"much memory":     {func(f *figures.Figures) { f.MemoryFree -= 50 }, true},
		"much disk":       {func(f *figures.Figures) { f.DiskFree += 500 }, true},
		"a bit of load":   {func(f *figures.Figures) { f.Load1000 += 499 }, false},
		"much load":       {func(f *figures.Figures) { f.Load1000 += 500 }, true},
	} {
		now := told
		if c.change(&now); now.Moved(told, 1000, 10_000) != c.want {
			t.Errorf("%s: moved is %v", name, !c.want)
		}
	}
}
