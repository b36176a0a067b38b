package main

import "testing"

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 4 << 20: 400, 16 << 20: 400, 32 << 20: 200, 64 << 20: 100, 1 << 40: 100} {
		if got := percent(live); got != want {
			t.Errorf("%d MiB live: %d %%, want %d", live>>20, got, want)
		}
	}
}
