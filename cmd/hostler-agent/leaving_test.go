package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLeaving: a host goes down when systemd says so, and not when systemd says anything
// else, or nothing.
func TestLeaving(t *testing.T) {
	dir := t.TempDir()
	if leaving(filepath.Join(dir, "none")) != nil {
		t.Error("without systemd it is known")
	}
	t.Setenv("PATH", dir)
	host := leaving(dir)
	if host(t.Context()) {
		t.Error("without systemctl it goes down")
	}
	for says, want := range map[string]bool{"stopping": true, "running": false, "degraded": false, "starting": false, "": false} {
		if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte("#!/bin/sh\necho "+says+"\nexit 1\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if got := host(t.Context()); got != want {
			t.Errorf("at %q: %v", says, got)
		}
	}
}
