package podman_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/podman"
)

// TestWithSnapshot: the root directory of a snapshot has all files that the container had then,
// also those of its image, with the owners that the container sees.
func TestWithSnapshot(t *testing.T) {
	for _, privileged := range []bool{false, true} {
		m := newMachine(t)
		spec := m.specs()
		spec.Network, spec.Privileged = container.Network{}, privileged
		must := func(errs ...error) {
			t.Helper()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
		}
		must(m.Create(t.Context(), spec), m.Probe(t.Context()))
		if !m.KeepsHistory() {
			t.Error("the driver of podman's storage is not known as overlay")
		}
		info, err := m.Start(t.Context(), spec.Name)
		must(err)
		inside := fmt.Sprintf("/proc/%d/root/", info.InitPID)
		must(os.WriteFile(inside+"mine", []byte("then"), 0o644), os.Remove(inside+"bin/cp"), m.Snapshot(t.Context(), spec.Name, container.Snapshot{Name: "first"}))
		must(os.WriteFile(inside+"mine", []byte("later"), 0o644))
		must(m.WithSnapshot(t.Context(), spec.Name, "first", func(root string) error {
			var program unix.Stat_t
			mine, err := os.ReadFile(filepath.Join(root, "mine"))
			_, gone := os.Lstat(filepath.Join(root, "bin/cp"))
			err = errors.Join(err, unix.Lstat(filepath.Join(root, "bin/busybox"), &program))
			if string(mine) != "then" || !errors.Is(gone, os.ErrNotExist) || program.Uid != info.IDs.First {
				t.Errorf("privileged %v: it had %q, %v, and a program of user %d, want %d", privileged, mine, gone, program.Uid, info.IDs.First)
			}
			return err
		}))
		if err := m.WithSnapshot(t.Context(), spec.Name, "nosuch", nil); !errors.Is(err, container.ErrNotFound) {
			t.Errorf("of no snapshot: %v", err)
		}
	}
}

// TestHistory: a host lists that snapshots go along only where podman's storage can hold them,
// or podman was not asked yet.
func TestHistory(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	driver := "overlay"
	service := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"version":{"APIVersion":"4.3.1"},"store":{"graphDriverName":%q}}`, driver)
	})}
	go func() { _ = service.Serve(l) }() // ends when it is closed
	t.Cleanup(func() { service.Close() })
	r, err := podman.New(podman.Config{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	lists := func() bool { return slices.Contains(container.Abilities(r), "history") }
	if !lists() {
		t.Error("before podman was asked it is not listed")
	}
	for _, driver = range []string{"vfs", "btrfs", "overlay"} {
		if err := r.Probe(t.Context()); err != nil || lists() != (driver == "overlay") {
			t.Errorf("%s: listed %v, %v", driver, lists(), err)
		}
	}
}

// TestMapped: podman's storage has the kernel map owners, or has a copy of the image with other ones.
func TestMapped(t *testing.T) {
	ids := container.IDRange{First: 300_000, Count: 65_536}
	for owner, want := range map[int]uint32{0: ids.Count, 299_999: ids.Count, 300_000: 0, 365_535: 0, 365_536: ids.Count} {
		dir := t.TempDir()
		if err := os.Chown(dir, owner, owner); err != nil {
			t.Fatal(err)
		}
		if first, count, err := podman.Mapped([]string{dir, "/nosuch"}, ids); err != nil || count != want || (count > 0) != (first == ids.First) {
			t.Errorf("of user %d: %d, %d, %v", owner, first, count, err)
		}
	}
	if _, count, err := podman.Mapped([]string{"/"}, container.IDRange{}); err != nil || count != 0 {
		t.Errorf("of a privileged one: %d, %v", count, err)
	}
	for _, lower := range [][]string{nil, {"/nosuch"}} {
		if _, _, err := podman.Mapped(lower, ids); err == nil {
			t.Errorf("of %q: no error", lower)
		}
	}
}
