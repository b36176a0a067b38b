package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStartService: a join enables and starts the service that the package has left
// disabled, and no other: neither without systemd, nor where there is no such service, nor
// for the agent of another configuration.
func TestStartService(t *testing.T) {
	dir := t.TempDir()
	asked := filepath.Join(dir, "asked")
	t.Setenv("PATH", dir)
	start := func(systemctl string) (said, did string, err error) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte("#!/bin/sh\necho \"$@\" >>"+asked+"\n"+systemctl), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(asked, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		err = startService(t.Context(), dir, &out)
		b, readErr := os.ReadFile(asked)
		if readErr != nil {
			t.Fatal(readErr)
		}
		return out.String(), string(b), err
	}
	const enable = "enable --now hostler-agent.service\n"
	if said, did, err := start("case $1 in show) echo loaded ;; --quiet) exit 1 ;; esac\n"); err != nil || !strings.HasSuffix(did, enable) || !strings.Contains(said, "the agent runs now") {
		t.Errorf("disabled: %q, %q, %v", said, did, err)
	}
	if _, did, err := start("case $1$2 in show*) echo loaded ;; --quietis-active) exit 3 ;; esac\n"); err != nil || !strings.HasSuffix(did, enable) {
		t.Errorf("enabled, and stopped: %q, %v", did, err)
	}
	if said, did, err := start("[ $1 != show ] || echo loaded\n"); err != nil || said != "" || strings.Contains(did, enable) {
		t.Errorf("it runs: %q, %q, %v", said, did, err)
	}
	if said, did, err := start("echo not-found\n"); err != nil || said != "" || strings.Contains(did, enable) {
		t.Errorf("no such service: %q, %q, %v", said, did, err)
	}
	if _, _, err := start("case $1 in show) echo masked ;; *) echo 'Unit is masked.' >&2; exit 1 ;; esac\n"); err == nil || !strings.Contains(err.Error(), "Unit is masked.") {
		t.Errorf("masked: %v", err)
	}
	if err := startService(t.Context(), filepath.Join(dir, "none"), nil); err != nil {
		t.Errorf("without systemd: %v", err)
	}

	c, err := defaults()
	if err != nil {
		t.Fatal(err)
	}
	if !ofService("", c) {
		t.Error("the usual configuration is not that of the service")
	}
	if ofService("/root/agent.toml", c) {
		t.Error("a configuration of its own is that of the service")
	}
	c.StateDir = dir
	if ofService("", c) {
		t.Error("a state of its own is that of the service")
	}
}
