//go:build linux && cgo

package lxc_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/runner/rundir"
)

// TestDebris plants what killed operations and people leave of LXC, among containers
// that are whole and containers of somebody else: all of it is found, what is ours is
// removed, and the others are as they were.
func TestDebris(t *testing.T) {
	m := newMachine(t, nil)
	whole, half, doomed, held := m.create(t), m.create(t), m.create(t), m.create(t)
	marked := func(name, state string) {
		t.Helper()
		path := filepath.Join(m.cfg.LXCPath, name, "hostler.json")
		raw, err := os.ReadFile(path)
		if err == nil {
			raw, err = rundir.CheckSum(raw)
		}
		if err == nil {
			err = os.WriteFile(path, rundir.AppendSum(bytes.Replace(raw, []byte("ready"), []byte(state), 1)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	marked(half.Name, "creating")
	marked(doomed.Name, "destroying")
	marked(held.Name, "destroying")
	// The operation of one of them goes on.
	lock, err := os.OpenFile(filepath.Join(m.cfg.LockDir, string(held.CTID)+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	must(err)
	defer lock.Close()
	must(unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	// Somebody has mounted a directory of his own in a half container, and in a whole one.
	treasure := t.TempDir()
	must(os.WriteFile(filepath.Join(treasure, "kept"), []byte("dear"), 0o600))
	at := filepath.Join(m.cfg.LXCPath, half.Name, "rootfs", "mnt")
	inWhole := filepath.Join(m.cfg.LXCPath, whole.Name, "rootfs", "mnt")
	for _, dir := range []string{at, inWhole} {
		must(os.MkdirAll(dir, 0o755))
		must(unix.Mount(treasure, dir, "", unix.MS_BIND, ""))
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // it may be gone
	}
	const staged, forgotten = "00000000-0000-4000-8000-0000000f5c01", "00000000-0000-4000-8000-0000000f5c02"
	staging := filepath.Join(m.cfg.LXCPath, ".hostler-"+staged)
	must(os.MkdirAll(filepath.Join(staging, "rootfs", "etc"), 0o700))
	stale := filepath.Join(m.cfg.LockDir, forgotten+".lock")
	must(os.WriteFile(stale, nil, 0o600))
	foreign := []string{filepath.Join(m.cfg.LXCPath, "foreign"), filepath.Join(m.cfg.LXCPath, ".hostler-notes"), filepath.Join(m.cfg.LXCPath, ".backup")}
	for _, dir := range foreign {
		must(os.Mkdir(dir, 0o700))
	}
	parent := "/sys/fs/cgroup/unified"
	if _, err := os.Stat(parent); err != nil { // cgroup2 alone
		parent = "/sys/fs/cgroup"
	}
	group := filepath.Join(parent, "lxc.monitor."+whole.Name+"-7") // of a start that was killed
	must(os.Mkdir(group, 0o755))
	t.Cleanup(func() { _ = os.Remove(group) }) // it may be gone
	old := time.Now().Add(-time.Minute)
	must(os.Chtimes(group, old, old))

	want := []string{
		"half container " + filepath.Join(m.cfg.LXCPath, half.Name), "half container " + filepath.Join(m.cfg.LXCPath, doomed.Name), "half container " + staging,
		"mount " + at, "mount " + inWhole, "lock " + stale, "cgroup " + group,
	}
	look := func(repair bool) (left []string) {
		t.Helper()
		found, err := m.Debris(t.Context(), repair)
		must(err)
		var all []string
		for _, d := range found {
			all = append(all, d.Kind+" "+d.Object)
			if d.Cause == "" || (d.Repair == "") == (d.Advice == "") || d.Repaired && d.Repair == "" {
				t.Errorf("%+v", d)
			}
			if repair && !d.Repaired {
				left = append(left, d.Object+d.Failure)
			}
		}
		slices.Sort(all)
		slices.Sort(want)
		if !slices.Equal(all, want) {
			t.Errorf("found\n%s\nwant\n%s", strings.Join(all, "\n"), strings.Join(want, "\n"))
		}
		return left
	}
	look(false)
	look(false) // looking changes nothing
	if left := look(true); !slices.Equal(left, []string{inWhole}) {
		t.Errorf("left are %q", left)
	}
	want = []string{"mount " + inWhole}
	look(true)
	for _, dir := range append(foreign, filepath.Join(treasure, "kept"), filepath.Join(m.cfg.LXCPath, held.Name, "rootfs")) {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("of somebody else: %v", err)
		}
	}
	// A container is not removed together with what somebody has mounted in it.
	if err := m.Destroy(t.Context(), whole.Name); err == nil || !strings.Contains(err.Error(), "umount "+inWhole) {
		t.Errorf("Destroy of a container with a mount: %v", err)
	}
	must(unix.Unmount(inWhole, 0))
	m.start(t, whole.Name)
	must(lock.Close())
	if info, err := m.Inspect(t.Context(), whole.Name); err != nil || info.State != container.StateRunning {
		t.Errorf("the whole one: %+v, %v", info, err)
	}
}
