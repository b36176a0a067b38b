package container_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/container"
)

// shots are snapshots that were made one after the other at these times.
func shots(times ...string) (all []container.Snapshot) {
	for i, text := range times {
		at, err := time.Parse("2006-01-02 15:04", text)
		if err != nil {
			panic(err)
		}
		all = append(all, container.Snapshot{Name: text, Order: uint64(i + 1), MadeMS: at.UnixMilli()})
	}
	return all
}

// TestSurplus: of each of the last days and weeks that have a snapshot the newest stays,
// and whatever a clock that jumps has dated.
func TestSurplus(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		days, weeks int
		have        []string
		gone        []string
	}{
		"nothing":             {7, 4, nil, nil},
		"the only one":        {1, 0, []string{"1999-01-01 00:00"}, nil},
		"two of one day":      {7, 4, []string{"2026-11-20 01:00", "2026-11-20 02:00"}, []string{"2026-11-20 01:00"}},
		"days are counted":    {2, 0, []string{"2020-01-01 01:00", "2021-01-01 01:00", "2022-01-01 01:00"}, []string{"2020-01-01 01:00"}},
		"weeks begin Mondays": {0, 2, []string{"2026-11-15 23:59", "2026-11-16 00:00", "2026-11-22 23:59", "2026-11-23 00:00"}, []string{"2026-11-15 23:59", "2026-11-16 00:00"}},
		"both":                {1, 2, []string{"2026-11-02 00:00", "2026-11-09 00:00", "2026-11-10 00:00", "2026-11-16 00:00"}, []string{"2026-11-02 00:00", "2026-11-09 00:00"}},
		"the clock ran ahead": {1, 0, []string{"2026-11-22 00:00", "2030-01-01 00:00", "2026-11-23 00:00"}, []string{"2026-11-22 00:00"}},
		"the clock fell back": {1, 0, []string{"2026-11-22 00:00", "1970-01-01 00:00", "1970-01-02 00:00"}, nil},
		"it is wrong now":     {1, 0, []string{"2026-12-01 00:00", "2026-12-02 00:00", "2026-12-03 00:00"}, nil},
		"no days, no weeks":   {0, 0, []string{"2026-11-20 01:00", "2026-11-21 01:00"}, []string{"2026-11-20 01:00"}},
	} {
		var gone []string
		for _, s := range container.Surplus(shots(tc.have...), tc.days, tc.weeks, now) {
			gone = append(gone, s.Name)
		}
		if !slices.Equal(gone, tc.gone) {
			t.Errorf("%s: %q may go, want %q", name, gone, tc.gone)
		}
	}
}

// TestSurplusKeeps: whatever clocks have done, something stays of what was good, and
// neither what is damaged nor what is dated in the future goes.
func TestSurplusKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []container.Snapshot
		for i := range rapid.IntRange(0, 40).Draw(t, "count") {
			all = append(all, container.Snapshot{
				Order: uint64(i + 1), MadeMS: rapid.Int64Range(0, 4e12).Draw(t, "made"), Damaged: rapid.IntRange(0, 9).Draw(t, "damaged") == 0,
			})
		}
		now := time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "now"))
		days, weeks := rapid.IntRange(0, 8).Draw(t, "days"), rapid.IntRange(0, 8).Draw(t, "weeks")
		gone := container.Surplus(all, days, weeks, now)
		var kept []container.Snapshot
		good := 0
		for _, s := range all {
			if !s.Damaged {
				good++
			}
			if !slices.Contains(gone, s) {
				kept = append(kept, s)
			} else if s.Damaged || s.MadeMS > now.UnixMilli() {
				t.Fatalf("%+v goes", s)
			}
		}
		if good > 0 && len(kept) == 0 {
			t.Fatal("nothing stays")
		}
	})
}

// TestSurplusJumps: a clock that is up to ten years wrong when it is decided what may go
// lets nothing go that would stay otherwise. Two cases are left out, since the dates look
// there as if the wrong clock were the right one: a snapshot is dated ahead of the time, or
// the dates of two snapshots lie on either side of the wrong time, the later one before it.
func TestSurplusJumps(t *testing.T) {
	const year = int64(366 * 24 * time.Hour / time.Millisecond)
	rapid.Check(t, func(t *rapid.T) {
		at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC).UnixMilli()
		var all []container.Snapshot
		for i := range rapid.IntRange(1, 60).Draw(t, "count") {
			at += rapid.Int64Range(0, 10*24*3600*1000).Draw(t, "pause")
			jump := int64(0)
			if rapid.IntRange(0, 9).Draw(t, "jumps") == 0 {
				jump = rapid.Int64Range(-10*year, 10*year).Draw(t, "jump")
			}
			all = append(all, container.Snapshot{Order: uint64(i + 1), MadeMS: at + jump})
		}
		days, weeks := rapid.IntRange(0, 10).Draw(t, "days"), rapid.IntRange(0, 10).Draw(t, "weeks")
		right := make(map[uint64]bool)
		for _, s := range container.Surplus(all, days, weeks, time.UnixMilli(at)) {
			right[s.Order] = true
		}
		if len(right) == len(all) {
			t.Error("nothing stays")
		}
		wrong := time.UnixMilli(at + rapid.Int64Range(-10*year, 10*year).Draw(t, "wrong"))
		ahead, passed, confirmed := false, false, false
		for _, s := range all {
			ahead = ahead || s.MadeMS > at
			confirmed = confirmed || passed && s.MadeMS <= wrong.UnixMilli()
			passed = passed || s.MadeMS > wrong.UnixMilli()
		}
		for _, s := range container.Surplus(all, days, weeks, wrong) {
			if !right[s.Order] && !ahead && !confirmed {
				t.Errorf("with a clock that says %s, %d goes", wrong, s.Order)
			}
		}
	})
}
