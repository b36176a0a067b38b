//go:build linux && cgo

package helper

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
)

// TestInterruptedRename: killed at any step, the container is whole under one of
// the two names, and renaming it again is what was asked for.
func TestInterruptedRename(t *testing.T) {
	const id = container.CTID("01890a5d-ac96-774b-bcce-b302099a9001")
	for name, interrupt := range map[string]func(t *testing.T, h *host){
		"not at all": func(*testing.T, *host) {},
		"marked":     mark,
		"renamed": func(t *testing.T, h *host) {
			mark(t, h)
			must(t, os.Rename(h.dir("web"), h.dir("db")))
		},
		"configured": func(t *testing.T, h *host) {
			mark(t, h)
			must(t, os.Rename(h.dir("web"), h.dir("db")))
			must(t, h.reconfigure("db", record{CTID: id}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := &host{path: t.TempDir(), locks: t.TempDir(), start: time.Now(), patience: time.Second, timeout: time.Minute}
			rootfs := filepath.Join(h.dir("web"), "rootfs")
			must(t, os.MkdirAll(filepath.Join(rootfs, "etc"), 0o755))
			must(t, os.WriteFile(filepath.Join(rootfs, "etc/hostname"), []byte("web\n"), 0o644))
			must(t, os.WriteFile(filepath.Join(h.dir("web"), "config"), []byte("lxc.uts.name = web\nlxc.net.0.type = empty\nlxc.rootfs.path = dir:"+rootfs+"\n"), 0o640))
			must(t, writeRecord(h.dir("web"), record{CTID: id, Template: "busybox", State: recordReady}))
			interrupt(t, h)
			at, err := h.ours(id)
			if err != nil || at == "" {
				t.Fatalf("it is called %q: %v", at, err)
			}
			// Whoever starts it meanwhile finds it as it is called.
			held, err := h.acquireReady(at)
			must(t, err)
			held.lock.release()
			called(t, h, at)
			for range 2 {
				must(t, naming{h}.rename("web", "db", id))
				called(t, h, "db")
			}
			if _, err := os.Stat(h.dir("web")); !os.IsNotExist(err) {
				t.Errorf("its old directory: %v", err)
			}
		})
	}
}

// TestRehostHostile: the file with a container's name is the container's own. What is
// no file with a name is left as it is, is never waited for, and is no reason to fail.
func TestRehostHostile(t *testing.T) {
	for name, plant := range map[string]func(path string) error{
		"FIFO":   func(p string) error { return unix.Mkfifo(p, 0o644) },
		"device": func(p string) error { return unix.Mknod(p, unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5))) },
		"link to FIFO": func(p string) error {
			return errors.Join(unix.Mkfifo(p+".pipe", 0o644), os.Symlink("hostname.pipe", p))
		},
		"way out": func(p string) error { return os.Symlink("../../out", p) },
		"huge": func(p string) error {
			return errors.Join(os.WriteFile(p, []byte("web\n"), 0o644), os.Truncate(p, 1<<40))
		},
		"longer than a name": func(p string) error { return os.WriteFile(p, []byte("web\n"+strings.Repeat("\n", 300)), 0o644) },
		"nothing":            func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			rootfs := filepath.Join(dir, "rootfs")
			must(t, os.MkdirAll(filepath.Join(rootfs, "etc"), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, "out"), []byte("web\n"), 0o644))
			path := filepath.Join(rootfs, "etc/hostname")
			if err := plant(path); errors.Is(err, unix.EPERM) {
				return // root alone makes devices; a FIFO shows the same
			} else if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- signpost(rootfs, "web", "db") }()
			select {
			case err := <-done:
				must(t, err)
			case <-time.After(10 * time.Second):
				t.Fatal("it hangs")
			}
			out, err := os.ReadFile(filepath.Join(dir, "out"))
			if must(t, err); string(out) != "web\n" {
				t.Errorf("a file outside of the container says %q", out)
			}
		})
	}
}

func mark(t *testing.T, h *host) {
	r, err := readRecord(h.dir("web"))
	must(t, err)
	r.Renaming = true
	must(t, writeRecord(h.dir("web"), r))
}

// called checks that everything of a container says the same name.
func called(t *testing.T, h *host, name string) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(h.dir(name), "config"))
	must(t, err)
	host, err := os.ReadFile(filepath.Join(h.dir(name), "rootfs/etc/hostname"))
	must(t, err)
	for _, want := range []string{"lxc.uts.name = " + name + "\n", "lxc.rootfs.path = dir:" + filepath.Join(h.dir(name), "rootfs") + "\n", "lxc.net.0.type = empty\n"} {
		if !strings.Contains(string(config), want) {
			t.Errorf("%s: no %q in\n%s", name, want, config)
		}
	}
	if string(host) != name+"\n" {
		t.Errorf("%s: its own name is %q", name, host)
	}
	if r, err := readRecord(h.dir(name)); err != nil || r.Renaming {
		t.Errorf("%s: %+v, %v", name, r, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
