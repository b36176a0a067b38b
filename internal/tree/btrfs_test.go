package tree_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/internal/btrfstest"
	"github.com/hostler-io/hostler/internal/tree"
)

// isSubvolume tells a subvolume by the number of its root.
func isSubvolume(t *testing.T, dir string) bool {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(dir, &st))
	return st.Ino == 256
}

// TestSubvolumes: on btrfs a tree that was made for it is copied by a snapshot, with the
// owners that were asked for, and goes like any directory. A tree that holds other
// subvolumes, which a snapshot leaves out, is copied whole.
func TestSubvolumes(t *testing.T) {
	top := btrfstest.Mount(t)
	if !tree.Subvolumes(top) || !tree.Subvolumes(filepath.Join(top, "made", "later")) || tree.Subvolumes("/proc") || tree.Subvolumes("/proc/missing") {
		t.Error("the file systems that can make subvolumes are others")
	}
	from := filepath.Join(top, "from")
	at := func(name string) string { return filepath.Join(from, name) }
	must(t, tree.Make(from, 0o750))
	if st, err := os.Stat(from); err != nil || st.Mode().Perm() != 0o750 || !isSubvolume(t, from) {
		t.Fatalf("made %v, %v", st, err)
	}
	must(t, os.MkdirAll(at("a/deep"), 0o755), os.WriteFile(at("a/file"), []byte("hello"), 0o600), os.Chown(at("a/file"), 100_007, 100_008), os.Chmod(at("a/file"), 0o755|os.ModeSetuid),
		os.Link(at("a/file"), at("a/deep/same")), os.Symlink("/etc/passwd", at("out")), unix.Setxattr(at("a/file"), "user.x", []byte("y"), 0))

	same := filepath.Join(top, "same")
	made, err := tree.Copy(t.Context(), from, same, 0, tree.Shift{})
	must(t, err)
	if got, want := describe(t, same), describe(t, from); got != want {
		t.Errorf("the copy is\n%s\nand the original\n%s", got, want)
	}
	if want := (tree.Copied{Entries: 5, Bytes: 5, Shared: true}); made != want || !isSubvolume(t, same) {
		t.Errorf("it came to %+v, want %+v, as a subvolume: %v", made, want, isSubvolume(t, same))
	}

	others := filepath.Join(top, "others")
	_, err = tree.Copy(t.Context(), from, others, 0, tree.Shift{From: 100_000, To: 300_000, Count: 1000})
	must(t, err)
	if got := describe(t, others); !strings.Contains(got, "a/file 104755 300007:300008") || !isSubvolume(t, others) {
		t.Errorf("the copy for other ids is\n%s", got)
	}
	if got := describe(t, from); !strings.Contains(got, "a/file 104755 100007:100008") {
		t.Errorf("the original is\n%s", got)
	}

	must(t, tree.Make(at("a/inner"), 0o755), os.WriteFile(at("a/inner/kept"), []byte("kept"), 0o600))
	whole := filepath.Join(top, "whole")
	made, err = tree.Copy(t.Context(), from, whole, 0, tree.Shift{})
	must(t, err)
	if got, want := describe(t, whole), describe(t, from); got != want {
		t.Errorf("the copy of a tree with a subvolume is\n%s\nand the original\n%s", got, want)
	}
	if made.Entries != 7 || made.Bytes != 9 || !made.Shared {
		t.Errorf("it came to %+v", made)
	}

	must(t, unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, others, unix.RENAME_EXCHANGE))
	for _, dir := range []string{from, same, others, whole} {
		must(t, os.RemoveAll(dir))
	}
}

// TestQuota: the files of a subvolume may have as many bytes as was said, and no more; a
// snapshot has no limit of its own, and what is no subvolume cannot be limited.
func TestQuota(t *testing.T) {
	top := btrfstest.Mount(t)
	dir, plain := filepath.Join(top, "tree"), filepath.Join(top, "plain")
	must(t, tree.Make(dir, 0o755), os.Mkdir(plain, 0o755))
	for _, none := range []string{plain, "/proc", filepath.Join(top, "missing"), "/proc/self/root"} {
		if _, _, err := tree.Used(none); !errors.Is(err, tree.ErrNoSubvolume) {
			t.Errorf("of %s: %v", none, err)
		}
		if err := tree.Count(none); !errors.Is(err, tree.ErrNoSubvolume) {
			t.Errorf("counting %s: %v", none, err)
		}
		if err := tree.Limit(none, 1<<20); !errors.Is(err, tree.ErrNoSubvolume) {
			t.Errorf("limiting %s: %v", none, err)
		}
	}
	used := func(dir string, least, most, limit int64) {
		t.Helper()
		if n, l, err := tree.Used(dir); err != nil || n < least || n > most || l != limit {
			t.Errorf("%s has %d of %d bytes, %v; want %d to %d of %d", dir, n, l, err, least, most, limit)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "a"), make([]byte, 4<<20), 0o600))
	used(dir, 0, 0, 0) // nothing counts yet
	must(t, tree.Limit(dir, 0))
	used(dir, 0, 0, 0)
	if err := tree.Limit(dir, 16<<20); !errors.Is(err, unix.ENOTCONN) {
		t.Errorf("a limit without a count: %v", err)
	}
	must(t, tree.Count(dir), tree.Count(dir), tree.Limit(dir, 16<<20))
	used(dir, 4<<20, 5<<20, 16<<20)
	if err := os.WriteFile(filepath.Join(dir, "b"), make([]byte, 32<<20), 0o600); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("writing more than the limit: %v", err)
	}
	must(t, os.Remove(filepath.Join(dir, "b")))
	copied := filepath.Join(top, "copied")
	_, err := tree.Copy(t.Context(), dir, copied, 0, tree.Shift{})
	must(t, err)
	used(copied, 4<<20, 5<<20, 0)
	must(t, tree.Limit(dir, 0))
	used(dir, 4<<20, 5<<20, 0)
	must(t, os.WriteFile(filepath.Join(dir, "b"), make([]byte, 32<<20), 0o600))
}

// TestRemoveReadOnly: the root of a container can make its files, and subvolumes among them,
// read-only. They are removed all the same.
func TestRemoveReadOnly(t *testing.T) {
	top := btrfstest.Mount(t)
	dir := filepath.Join(top, "container")
	root, inner := filepath.Join(dir, "rootfs"), filepath.Join(dir, "rootfs", "a", "inner")
	must(t, os.Mkdir(dir, 0o755), tree.Make(root, 0o755), os.Mkdir(filepath.Join(root, "a"), 0o755), tree.Make(inner, 0o755),
		tree.Make(filepath.Join(inner, "innermost"), 0o755), os.WriteFile(filepath.Join(inner, "innermost", "file"), []byte("x"), 0o600))
	for _, dir := range []string{filepath.Join(inner, "innermost"), inner, root} {
		out, err := exec.CommandContext(t.Context(), "btrfs", "property", "set", dir, "ro", "true").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.RemoveAll(dir); !errors.Is(err, unix.EROFS) {
		t.Fatalf("the test is about something else: %v", err)
	}
	must(t, tree.Remove(dir), tree.Remove(dir))
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the removal: %v", err)
	}
}
