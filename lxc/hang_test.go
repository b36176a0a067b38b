//go:build linux && cgo

package lxc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/builttest"
)

// TestHookInheritsNothing: what is open where operations are started reaches no hook.
func TestHookInheritsNothing(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.create(t)
	secret, list := t.TempDir(), filepath.Join(t.TempDir(), "list")
	fd, err := unix.Open(secret, unix.O_RDONLY|unix.O_DIRECTORY, 0) // children of this process have it
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	script := filepath.Join(m.cfg.LXCPath, "hook")
	config := filepath.Join(m.cfg.LXCPath, spec.Name, "config")
	err = errors.Join(builttest.Write(script, fmt.Sprintf("#!/bin/sh\nls -l /proc/self/fd >%s\n", list)),
		os.WriteFile(config, []byte(read(t, config)+"lxc.hook.pre-start = "+script+"\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	m.start(t, spec.Name)
	if has := read(t, list); strings.Contains(has, secret) || !strings.Contains(has, list) {
		t.Errorf("the hook has\n%s", has)
	}
}

// TestHookThatHangs: a start that hangs in a hook ends when its context does, and
// a stop ends what is left of it: the container's monitor, and the hook.
func TestHookThatHangs(t *testing.T) {
	for _, hook := range []string{"pre-start", "mount", "start-host"} {
		t.Run(hook, func(t *testing.T) {
			m := newMachine(t, nil)
			spec := m.create(t)
			config := filepath.Join(m.cfg.LXCPath, spec.Name, "config")
			before := read(t, config)
			open := filepath.Join(m.cfg.LXCPath, ".open") // to the hook that is in the container already
			if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777)); err != nil {
				t.Fatal(err)
			}
			ready := filepath.Join(open, "ready")
			script := filepath.Join(m.cfg.LXCPath, "hook")
			text := fmt.Sprintf("#!/bin/sh\necho $$ >%s.new\nmv %s.new %s\nsleep 1000\n", ready, ready, ready)
			if err := builttest.Write(script, text); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(config, []byte(before+"lxc.hook."+hook+" = "+script+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			started := make(chan error, 1)
			go func() {
				_, err := m.Start(ctx, spec.Name)
				started <- err
			}()
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for deadline := time.Now().Add(2 * time.Minute); ; <-tick.C {
				if _, err := os.Stat(ready); err == nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("the hook does not run")
				}
			}
			pid := strings.TrimSpace(read(t, ready))
			cancel()
			if err := <-started; !errors.Is(err, context.Canceled) {
				t.Errorf("the start was ended by %v", err)
			}
			begun := time.Now()
			info, err := m.Stop(t.Context(), spec.Name, 0)
			if err != nil || info.State != container.StateStopped {
				t.Errorf("stopping it: %+v, %v", info, err)
			}
			t.Logf("stopped after %v", time.Since(begun))
			if b, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && strings.Contains(string(b), "hook") {
				t.Errorf("its hook, process %s, lives: %q", pid, b)
			}
			if err := os.WriteFile(config, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
			if info, err := m.Start(t.Context(), spec.Name); err != nil || info.State != container.StateRunning {
				t.Errorf("starting it without the hook: %+v, %v", info, err)
			}
		})
	}
}
