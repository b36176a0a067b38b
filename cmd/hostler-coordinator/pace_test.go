package main

import "testing"

func TestPercent(t *testing.T) {
	for bytes, want := range map[uint64]int{0: 400, 4 << 20: 400, 16 << 20: 400, 32 << 20: 200, 64 << 20: 100, 128 << 20: 50, 1 << 40: 33} {
		if got := percent(bytes); got != want {
			t.Errorf("%d MiB: %d %%, want %d", bytes>>20, got, want)
		}
	}
}
