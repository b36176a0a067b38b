package main

import "testing"

// TestStrangersLeaveRoom: however many descriptors there are, strangers have the
// smaller part, and all together stay below their number.
func TestStrangersLeaveRoom(t *testing.T) {
	for files, want := range map[uint64]share{
		1024: {192, 576}, 4096: {960, 2880}, 65_536: {4096, 25_000}, 1 << 63: {4096, 25_000}, 0: {8, 24}, 256: {8, 24},
	} {
		got := shareOf(files)
		if got != want {
			t.Errorf("of %d descriptors: %+v, want %+v", files, got, want)
		}
		if files >= 1024 && uint64(got.strangers+got.members+ownFiles) > files {
			t.Errorf("of %d descriptors %+v is too much", files, got)
		}
	}
}
