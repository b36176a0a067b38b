//go:build linux && cgo

package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/builttest"
	"github.com/hostler-io/hostler/lxc"
	"github.com/hostler-io/hostler/runner/runnertest"
)

func TestMain(m *testing.M) { os.Exit(runnertest.Main(m, os.Args)) }

// guest makes a running container without a network, in which the user nobody
// is known, and tells its name and its root directory.
func guest(t *testing.T, program string) (r *lxc.Runtime, name, root string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hlt") // short enough for liblxc's socket names
	if err == nil {
		err = os.Chmod(dir, 0o711) // containers' own users pass through it
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err = lxc.New(lxc.Config{Helper: program, LXCPath: filepath.Join(dir, "lxc"), LockDir: filepath.Join(dir, "ct")})
	if err != nil {
		t.Fatal(err)
	}
	spec := container.CreateSpec{
		Name:     fmt.Sprintf("hlt-run-%d", os.Getpid()),
		CTID:     container.CTID(fmt.Sprintf("00000000-0000-4000-9000-%012x", os.Getpid())),
		Template: "busybox",
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if _, err := r.Stop(ctx, spec.Name, 0); err != nil {
			t.Error(err)
		}
		for _, litter := range []string{dir, filepath.Join("/run/lxc/lock", dir)} {
			if err := os.RemoveAll(litter); err != nil {
				t.Error(err)
			}
		}
	})
	if err := r.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	root = filepath.Join(dir, "lxc", spec.Name, "rootfs")
	passwd, err := os.OpenFile(filepath.Join(root, "etc/passwd"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer passwd.Close()
	if _, err := passwd.WriteString("nobody:x:65534:65534::/:/bin/sh\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start(t.Context(), spec.Name); err != nil {
		t.Fatal(err)
	}
	return r, spec.Name, root
}

// TestSuperviseConformance holds the supervisor of commands in containers to
// what every supervisor promises.
func TestSuperviseConformance(t *testing.T) {
	r, name, root := guest(t, builttest.Program(t, "hostler-lxc"))
	s, err := r.Exec(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	runnertest.Run(t, runnertest.Harness{
		Supervisor: s.Argv, Target: s.Target, Root: root,
		// It plays a reboot by a PID namespace, in which nobody can enter a
		// container of the machine.
		Without: []string{"reboot"},
	})
}

func TestUsage(t *testing.T) {
	program := builttest.Program(t, "hostler-lxc")
	for _, args := range [][]string{{}, {"--help"}, {"start", "web"}, {"supervise"}, {"supervise", "a", "b"}} {
		out, err := exec.Command(program, args...).CombinedOutput()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), "usage:") {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
	if out, err := exec.Command(program, "version").Output(); err != nil || strings.Count(string(out), ".") < 2 {
		t.Errorf("version: %q, %v", out, err)
	}
}
