//go:build hostlertest

package failpoint

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// TestMain lets this binary be the process that passes points: before one step,
// twice, and after it.
func TestMain(m *testing.M) {
	if os.Getenv("PASS_STEPS") == "" {
		os.Exit(m.Run())
	}
	Before(OrderTaken)
	Before(OrderTaken)
	After(OrderTaken)
	if err := os.WriteFile(os.Getenv(Variable)+"/survived", nil, 0o600); err != nil {
		panic(err)
	}
	os.Exit(0)
}

// TestHit arms points and looks at who dies.
func TestHit(t *testing.T) {
	for _, c := range []struct {
		name, point, content string
		dies                 bool
	}{
		{"not armed", "", "", false},
		{"armed", OrderTaken.Before(), "", true},
		{"the second hit", OrderTaken.Before(), "2", true},
		{"a hit that never comes", OrderTaken.Before(), "3", false},
		{"after", OrderTaken.After(), "1", true},
		{"another step", OutcomeKept.Before(), "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if c.point != "" {
				put(filepath.Join(dir, c.point), c.content)
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = []string{"PASS_STEPS=1", Variable + "=" + dir}
			err := cmd.Run()
			exit, failed := errors.AsType[*exec.ExitError](err)
			if err != nil && !failed {
				t.Fatal(err)
			}
			killed := failed && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
			if killed != c.dies {
				t.Errorf("killed: %t, want %t (%v)", killed, c.dies, err)
			}
			told, err := os.ReadFile(filepath.Join(dir, c.point+".hit"))
			if c.dies && string(told) != strconv.Itoa(cmd.Process.Pid) {
				t.Errorf("it left %q, %v, and was %d", told, err, cmd.Process.Pid)
			}
			if !c.dies && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it left %q, %v", told, err)
			}
		})
	}
}

// TestEnviron hands on what is armed, and only that.
func TestEnviron(t *testing.T) {
	t.Setenv(Variable, "/somewhere")
	if got := Environ(); len(got) != 1 || got[0] != Variable+"=/somewhere" {
		t.Errorf("got %q", got)
	}
	if err := os.Unsetenv(Variable); err != nil {
		t.Fatal(err)
	}
	if got := Environ(); got != nil {
		t.Errorf("got %q", got)
	}
}
