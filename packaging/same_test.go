//go:build heavy

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSameBytes builds once more, from a copy in another place if the tree is that of a
// commit, and compares every byte.
func TestSameBytes(t *testing.T) {
	root := ".."
	if output(t, "git", "status", "--porcelain") == "" {
		root = filepath.Join(t.TempDir(), "another", "place")
		output(t, "git", "clone", "-q", "--no-hardlinks", "..", root)
	}
	out := t.TempDir()
	if err := run(t.Context(), root, out, []string{"amd64"}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for _, e := range entries {
		if e.Name() == "SHA256SUMS" {
			continue
		}
		second, err := os.ReadFile(filepath.Join(out, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		first, err := os.ReadFile(filepath.Join(dist, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Errorf("%s has other bytes when it is built again", e.Name())
		}
		same++
	}
	if same != 12 { // a deb, an rpm and a list of each
		t.Errorf("%d files, want 12: %v", same, entries)
	}
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--quiet", "--check", "SHA256SUMS")
	cmd.Dir = dist
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the sums: %v\n%s", err, out)
	}
}
