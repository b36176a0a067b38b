//go:build linux && cgo

package helper

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
)

// TestFreeIDs: no range is given twice, whatever became of the record of the container
// that has it, and none is lost.
func TestFreeIDs(t *testing.T) {
	h := &host{path: t.TempDir(), ids: container.IDRange{First: 1 << 20, Count: 6 << 16}}
	has := func(dir string, n int) {
		t.Helper()
		err := os.Mkdir(filepath.Join(h.path, dir), 0o700)
		if err == nil && n >= 0 {
			err = writeRecord(filepath.Join(h.path, dir), record{CTID: "00000000-0000-4000-8000-000000000001", State: recordReady, IDs: container.IDRange{First: 1<<20 + uint32(n)<<16, Count: 1 << 16}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	has("web", 0)
	has(".hostler-00000000-0000-4000-8000-000000000002", 1) // its creation was cut short
	has("damaged", 2)
	has("foreign", -1)
	err := errors.Join(
		os.WriteFile(filepath.Join(h.path, "damaged", recordFile), []byte("{}"), 0o600),
		os.WriteFile(filepath.Join(h.path, "damaged", "config"), []byte("lxc.idmap = u 0 1179648 65536\nlxc.idmap = g 0 1179648 65536\n"), 0o600),
		os.WriteFile(filepath.Join(h.path, "foreign", "config"), []byte("lxc.idmap=u 0 1300000 1000\n"), 0o600)) // in the fourth
	if err != nil {
		t.Fatal(err)
	}
	for n := 4; n < 6; n++ {
		ids, err := h.freeIDs()
		if want := (container.IDRange{First: 1<<20 + uint32(n)<<16, Count: 1 << 16}); err != nil || ids != want {
			t.Fatalf("%+v, %v; want %+v", ids, err, want)
		}
		has("more-"+string(rune('0'+n)), n)
	}
	if ids, err := h.freeIDs(); err == nil {
		t.Errorf("%+v was given twice", ids)
	}
	if err := os.RemoveAll(filepath.Join(h.path, "web")); err != nil {
		t.Fatal(err)
	}
	if ids, err := h.freeIDs(); err != nil || ids.First != 1<<20 {
		t.Errorf("%+v, %v; want what was given back", ids, err)
	}
}

// TestShift: files keep what they may do when they change their owner, files with two
// names are shifted once, and one of nobody in the container is an error.
func TestShift(t *testing.T) {
	dir := t.TempDir()
	ids := container.IDRange{First: 1 << 20, Count: 1 << 16}
	at := func(name string) string { return filepath.Join(dir, "rootfs", name) }
	ping := []byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // cap_net_raw=ep
	err := errors.Join(os.Mkdir(at(""), 0o755), os.WriteFile(at("su"), nil, 0o755), os.Chmod(at("su"), 0o755|os.ModeSetuid), os.Link(at("su"), at("sudo")),
		os.WriteFile(at("ping"), nil, 0o755), unix.Setxattr(at("ping"), capability, ping, 0), os.WriteFile(at("mail"), nil, 0o644), os.Lchown(at("mail"), 8, 12),
		os.Symlink("/etc/shadow", at("link")))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // again is nothing
		if err := shift(dir, ids); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string][2]uint32{"": {0, 0}, "su": {0, 0}, "sudo": {0, 0}, "mail": {8, 12}, "link": {0, 0}} {
			var st unix.Stat_t
			if err := unix.Lstat(at(name), &st); err != nil || st.Uid != ids.First+want[0] || st.Gid != ids.First+want[1] {
				t.Errorf("%q belongs to %d:%d, %v", name, st.Uid, st.Gid, err)
			}
		}
	}
	if i, err := os.Stat(at("su")); err != nil || i.Mode() != 0o755|os.ModeSetuid {
		t.Errorf("su is %v, %v", i.Mode(), err)
	}
	got := make([]byte, 64)
	n, err := unix.Getxattr(at("ping"), capability, got)
	if want := append(append([]byte{1, 0, 0, 3}, ping[4:]...), 0, 0, 0x10, 0); err != nil || !bytes.Equal(got[:n], want) {
		t.Errorf("ping may %x, %v; want %x", got[:n], err, want)
	}
	if err := errors.Join(os.WriteFile(at("far"), nil, 0o644), os.Lchown(at("far"), 1<<17, 0)); err != nil {
		t.Fatal(err)
	}
	if err := shift(dir, ids); err == nil || !strings.Contains(err.Error(), "far belongs to 131072") {
		t.Errorf("a file of nobody in the container: %v", err)
	}
}
