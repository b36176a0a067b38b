//go:build linux && cgo

package lxc_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/builttest"
	"github.com/hostler-io/hostler/internal/cgroup"
	"github.com/hostler-io/hostler/protocol/limit"
)

// TestFirstProcessIsLimited: the first process of a container begins within its limits.
func TestFirstProcessIsLimited(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.create(t)
	root := filepath.Join(m.cfg.LXCPath, spec.Name, "rootfs")
	seen := filepath.Join(root, "seen")
	script := "#!/bin/sh\ngrep Cpus_allowed_list /proc/1/status >/seen\nexec sleep 1000000\n"
	init := filepath.Join(root, "sbin", "init")
	if err := os.Remove(init); err != nil {
		t.Fatal(err)
	}
	if err := builttest.Write(init, script); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(seen, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(seen, 0o666); err != nil {
		t.Fatal(err)
	}
	want := limit.Limits{"cpuset": "1", "pids": "77", "memory": "64MiB", "cpu": "50%", "io": "3MiB"}
	files, err := cgroup.Files(want)
	if err != nil {
		t.Fatal(err)
	}
	info, err := m.StartOn(t.Context(), spec.Name, container.Terms{Groups: files})
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		b, err := os.ReadFile(seen)
		if err != nil {
			t.Fatal(err)
		}
		if f := strings.Fields(string(b)); len(f) == 2 {
			if f[1] != "1" {
				t.Errorf("the first process began on processors %s, want 1", f[1])
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal("the first process has written nothing")
		}
	}
	g, err := cgroup.Of(info.InitPID)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := g.Effective(); err != nil || strings.Join(got.Strings(), " ") != strings.Join(want.Strings(), " ") {
		t.Errorf("in force are %v, %v; want %v", got, err, want)
	}
}
