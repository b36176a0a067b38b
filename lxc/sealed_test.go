//go:build linux && cgo

package lxc_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/builttest"
	"github.com/hostler-io/hostler/lxc"
	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
)

// TestNobodyWritesTheHelper: a command whose interpreter is /proc/self/exe is the
// helper itself, in the container. Whoever opens it there and waits until it does not
// run any more could write to it, and be run by root on the host (CVE-2019-5736).
func TestNobodyWritesTheHelper(t *testing.T) {
	program, err := os.ReadFile(builttest.Program(t, "hostler-lxc"))
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(t.TempDir(), "hostler-lxc")
	if err := builttest.Write(at, string(program)); err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, func(c *lxc.Config) { c.Helper = at })
	spec := m.create(t)
	if err := os.WriteFile(filepath.Join(m.cfg.LXCPath, spec.Name, "rootfs/evil"), []byte("#!/proc/self/exe\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	m.start(t, spec.Name)
	supervisor, err := m.Exec(t.Context(), spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	c := newCommands(t, supervisor)
	c.attempt++
	evil, err := c.runner.Start(runner.Spec{
		Spec: rundir.Spec{
			Action: action(), Attempt: c.attempt, Argv: []string{"/evil"}, Target: supervisor.Target, GraceMS: -1,
			Terminal: &rundir.Terminal{Rows: 24, Cols: 80, HangUpMS: time.Hour.Milliseconds()}, // it waits for its input
		},
		Supervisor: supervisor.Argv,
	})
	if err != nil {
		t.Fatal(err)
	}
	if exit, out := c.do(t, "", "/bin/sh", "-c", `until grep -l "^/proc/self/exe./evil" /proc/[0-9]*/cmdline 2>/dev/null; do usleep 1000; done`); exit.Code != 0 {
		t.Fatalf("looking for it: %+v, %s", exit, out)
	}
	exe := open(t, "/proc/self/exe\x00/evil\x00")
	title := "[lxc monitor] " + m.cfg.LXCPath + " " + spec.Name
	monitor := open(t, title)
	if err := evil.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.runner.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Stop(t.Context(), spec.Name, 0); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil { // what waits for another start executes it, which is another obstacle
		t.Fatal(err)
	}
	for _, f := range []*os.File{exe, monitor} {
		w, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_WRONLY, 0)
		if err == nil {
			_, err = w.Write([]byte("evil"))
			w.Close()
		}
		if !errors.Is(err, syscall.EPERM) {
			t.Errorf("writing to the program of a process of the container: %v, want %v", err, syscall.EPERM)
		}
	}
	if now, err := os.ReadFile(at); err != nil || !bytes.Equal(now, program) {
		t.Errorf("the helper was overwritten: %v", err)
	}
}

// open opens the program of the one process with a command line.
func open(t *testing.T, line string) *os.File {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		b, err := os.ReadFile(name)
		if err != nil || strings.TrimRight(string(b), "\x00") != strings.TrimRight(line, "\x00") {
			continue
		}
		f, err := os.Open(filepath.Join(filepath.Dir(name), "exe"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	t.Fatalf("there is no process %q", line)
	return nil
}
