package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestContained: a host says beforehand that it cannot hold commands together, and
// leaves nothing of the attempt.
func TestContained(t *testing.T) {
	dir := t.TempDir()
	for name, where := range map[string]string{
		"no tree":         "",
		"not to be seen":  filepath.Join(dir, "nowhere"),
		"without a kill":  dir,
		"not a directory": os.DevNull,
	} {
		if err := contained(where); err == nil {
			t.Errorf("%s: commands can be held", name)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
