package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUpgradeSelects: hosts are selected for an upgrade by their labels, and a canary that is
// none of them is refused.
func TestUpgradeSelects(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	control := filepath.Join(dir, "tree/DEBIAN/control")
	if err := os.MkdirAll(filepath.Dir(control), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(control, []byte("Package: hostler-agent\nVersion: 9.9.9\nArchitecture: amd64\nMaintainer: tests\nDescription: a test\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	deb := filepath.Join(dir, "agent.deb")
	if out, err := exec.CommandContext(t.Context(), "dpkg-deb", "-Zgzip", "--build", filepath.Join(dir, "tree"), deb).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := newTerminal(t, s, false, "")
	for _, args := range [][]string{{"key", "generate", "releases", "--no-passphrase"}, {"key", "sign", deb, "--key", "releases"}} {
		if code := c.run(t.Context(), args...); code != 0 {
			t.Fatalf("%q: code %d: %s", args, code, c.shown())
		}
	}
	for selector, want := range map[string]struct {
		code int
		says string
	}{
		"site=lab":          {0, "wave 1 of 1 to version 9.9.9: edge-01\n"},
		"site=lab,tier!=db": {0, "wave 1 of 1 to version 9.9.9: edge-01\n"},
		"site=elsewhere":    {3, "no host is selected"},
	} {
		again := newTerminal(t, s, false, "")
		if code := again.run(t.Context(), "host", "upgrade", "-l", selector, "--package", deb, "--dry-run"); code != want.code || !strings.Contains(again.shown(), want.says) || strings.Contains(again.shown(), "edge-02") {
			t.Errorf("-l %s: code %d, shown %q", selector, code, again.shown())
		}
	}
	again := newTerminal(t, s, false, "")
	if code := again.run(t.Context(), "host", "upgrade", "-l", "site=lab", "--package", deb, "--canary", "edge-02", "--dry-run"); code != 3 || !strings.Contains(again.shown(), `host "edge-02" is not among`) {
		t.Errorf("a canary that is not selected: code %d, shown %q", code, again.shown())
	}
}
