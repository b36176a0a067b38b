//go:build linux && cgo

package lxc_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/lxc"
)

// owner is the user of the host to whom a file belongs.
func owner(t *testing.T, path string) uint32 {
	t.Helper()
	i, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return i.Sys().(*syscall.Stat_t).Uid
}

// TestUnprivileged: root in a container is a user of the host that no other container
// has, unless it was asked for otherwise, and a container that was there before stays
// as it is.
func TestUnprivileged(t *testing.T) {
	m := newMachine(t, func(c *lxc.Config) { c.IDs = container.IDRange{First: 1_300_000_000, Count: 3 << 16} })
	first, second, root := m.specs(), m.specs(), m.specs()
	root.Privileged = true
	for i, want := range []struct {
		spec container.CreateSpec
		id   uint32
	}{{first, 1_300_000_000}, {second, 1_300_065_536}, {root, 0}} {
		if err := m.Create(t.Context(), want.spec); err != nil {
			t.Fatal(err)
		}
		rootfs := filepath.Join(m.cfg.LXCPath, want.spec.Name, "rootfs")
		for _, file := range []string{"", "bin/busybox", "bin/sh", "etc/passwd"} {
			if got := owner(t, filepath.Join(rootfs, file)); got != want.id {
				t.Errorf("container %d: %s belongs to %d, want %d", i, file, got, want.id)
			}
		}
		if passwd, err := os.Stat(filepath.Join(rootfs, "bin/passwd")); err != nil || passwd.Mode()&os.ModeSetuid == 0 {
			t.Errorf("container %d: a program lost its set-user-id: %v, %v", i, passwd.Mode(), err)
		}
		info := m.start(t, want.spec.Name)
		if info.Privileged != (want.id == 0) {
			t.Errorf("container %d: shown as %+v", i, info)
		}
		s, err := m.Exec(t.Context(), want.spec.Name)
		if err != nil {
			t.Fatal(err)
		}
		exit, out := newCommands(t, s).do(t, "", "/bin/sh", "-c", "id -u; >/made; grep Seccomp: /proc/self/status; mknod /disk b 254 0 && head -c 1 /disk; readlink /proc/1/ns/user >/dev/null && echo seen")
		if !strings.HasPrefix(out, "0\n") || !strings.Contains(out, "Seccomp:\t2") || !strings.HasSuffix(out, "seen") {
			t.Errorf("container %d: %+v, %q", i, exit, out)
		}
		if got := owner(t, filepath.Join(rootfs, "made")); got != want.id {
			t.Errorf("container %d: what root makes belongs to %d, want %d", i, got, want.id)
		}
		if b := read(t, "/proc/"+strconv.Itoa(info.InitPID)+"/uid_map"); !strings.HasPrefix(strings.Join(strings.Fields(b), " "), "0 "+strconv.Itoa(int(want.id))+" ") {
			t.Errorf("container %d: map of users %q", i, b)
		}
		if _, err := m.Stop(t.Context(), want.spec.Name, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Create(t.Context(), m.specs()); err != nil { // the third range
		t.Fatal(err)
	}
	fourth := m.specs()
	if err := m.Create(t.Context(), fourth); err == nil || !strings.Contains(err.Error(), "each range of ids") {
		t.Errorf("a fourth container of three ranges: %v", err)
	}
	// A name takes its range along, and a destroyed container gives it back.
	if err := m.Rename(t.Context(), second.Name, m.prefix+"-renamed", second.CTID); err != nil {
		t.Fatal(err)
	}
	if info, err := m.Inspect(t.Context(), m.prefix+"-renamed"); err != nil || info.Privileged {
		t.Errorf("renamed: %+v, %v", info, err)
	}
	if err := m.Destroy(t.Context(), first.Name); err != nil {
		t.Fatal(err)
	}
	if err := m.Create(t.Context(), fourth); err != nil {
		t.Fatal(err)
	}
	if got := owner(t, filepath.Join(m.cfg.LXCPath, fourth.Name, "rootfs")); got != 1_300_000_000 {
		t.Errorf("what was given back is %d now", got)
	}
	// A container of the time before has no range, and stays as it is.
	record := filepath.Join(m.cfg.LXCPath, root.Name, "hostler.json")
	if b := read(t, record); strings.Contains(b, "IDs") {
		t.Errorf("the record of a privileged container is not that of before: %s", b)
	}
}

// TestUnreachable: a place that the users of a container cannot reach is refused before
// anything is made there.
func TestUnreachable(t *testing.T) {
	m := newMachine(t, func(c *lxc.Config) { c.LXCPath = filepath.Join(filepath.Dir(c.LXCPath), "closed", "lxc") })
	closed := filepath.Dir(m.cfg.LXCPath)
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	spec := m.specs()
	if err := m.Create(t.Context(), spec); !errors.Is(err, container.ErrUnsupported) || !strings.Contains(err.Error(), "cannot pass through "+closed+":") {
		t.Errorf("it was made, or refused by %v", err)
	}
	if all, err := os.ReadDir(m.cfg.LXCPath); err != nil || len(all) != 0 {
		t.Errorf("there are %v, %v", all, err)
	}
	spec.Privileged = true
	if err := m.Create(t.Context(), spec); err != nil {
		t.Error(err)
	}
}
