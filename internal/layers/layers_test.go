package layers_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/internal/layers"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// place is a directory in which containers can share files.
func place(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := layers.Probe(filepath.Join(dir, "probe")); err != nil {
		t.Fatal("this test needs root, a kernel of 5.19 or later and a file system with mapped ids, and no overlay below: ", err)
	}
	left, err := os.ReadDir(dir)
	if must(t, err); len(left) > 0 {
		t.Errorf("the probe has left %v", left)
	}
	return dir
}

func container(t *testing.T, dir, name, lower string, first uint32) layers.Tree {
	t.Helper()
	tree := layers.Tree{Lower: lower, Dir: filepath.Join(dir, name), First: first, Count: 1 << 16}
	must(t, os.Mkdir(tree.Dir, 0o755), tree.Make())
	return tree
}

func open(t *testing.T, tree layers.Tree) *os.Root {
	t.Helper()
	f, err := tree.Open()
	must(t, err)
	defer f.Close()
	r, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// TestShare: two containers see the files of one image as those of their own users, and
// what either changes or removes is its own; the image stays as it is.
func TestShare(t *testing.T) {
	dir := place(t)
	lower := filepath.Join(dir, "lower")
	program := filepath.Join(lower, "bin/program")
	must(t, os.MkdirAll(filepath.Join(lower, "bin"), 0o755), os.WriteFile(program, []byte("image"), 0o755), os.Chown(program, 0, 7), unix.Chmod(program, 0o4755),
		os.WriteFile(filepath.Join(lower, "gone"), nil, 0o644), os.WriteFile(filepath.Join(lower, "able"), nil, 0o755))
	capability := make([]byte, 20)
	binary.LittleEndian.PutUint32(capability, 0x02000001)
	capability[5] = 4
	must(t, unix.Lsetxattr(filepath.Join(lower, "able"), "security.capability", capability, 0))

	a, b := container(t, dir, "a", lower, 1_000_000), container(t, dir, "b", lower, 2_000_000)
	inA := open(t, a)
	for tree, first := range map[*os.Root]uint32{inA: 1_000_000, open(t, b): 2_000_000} {
		var st unix.Stat_t
		f, err := tree.Open("bin/program")
		must(t, err, unix.Fstat(int(f.Fd()), &st), f.Close())
		if st.Uid != first || st.Gid != first+7 || st.Mode&0o7777 != 0o4755 {
			t.Errorf("it is of %d:%d with mode %o, want the users from %d on, and set-user-id", st.Uid, st.Gid, st.Mode&0o7777, first)
		}
		able, err := tree.Open("able")
		must(t, err)
		for _, when := range []string{"in the image", "changed"} {
			has := make([]byte, 64)
			n, err := unix.Fgetxattr(int(able.Fd()), "security.capability", has)
			if err != nil || n != 24 || binary.LittleEndian.Uint32(has[20:]) != first {
				t.Errorf("%s its capability is %x, %v, want that of user %d", when, has[:max(n, 0)], err, first)
			}
			must(t, able.Close(), tree.Chtimes("able", time.Unix(1, 0), time.Unix(1, 0)))
			able, err = tree.Open("able")
			must(t, err)
		}
		must(t, able.Close())
	}
	must(t, inA.WriteFile("bin/program", []byte("changed"), 0o755), inA.Remove("gone"), inA.Rename("bin", "sbin"))

	again := open(t, a)
	got, err := again.ReadFile("sbin/program")
	if _, gone := again.Stat("gone"); err != nil || string(got) != "changed" || !errors.Is(gone, os.ErrNotExist) {
		t.Errorf("later it has %q, %v, and what was removed: %v", got, err, gone)
	}
	for name, root := range map[string]*os.Root{"the other one": open(t, b), "the image": openDir(t, lower)} {
		got, err := root.ReadFile("bin/program")
		if _, there := root.Stat("gone"); err != nil || there != nil || string(got) != "image" {
			t.Errorf("%s has %q, %v, %v", name, got, err, there)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if must(t, err); strings.Contains(string(mounts), dir) {
		t.Errorf("the host sees what is mounted:\n%s", mounts)
	}
}

func openDir(t *testing.T, dir string) *os.Root {
	t.Helper()
	r, err := os.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// TestPast: what a container had is shown from a copy of what it had changed then, with the
// owners that its files had. Nothing can be written there, and the container goes on.
func TestPast(t *testing.T) {
	dir := place(t)
	lower := filepath.Join(dir, "lower")
	must(t, os.MkdirAll(filepath.Join(lower, "bin"), 0o755), os.WriteFile(filepath.Join(lower, "bin/program"), []byte("image"), 0o755),
		os.WriteFile(filepath.Join(lower, "gone"), nil, 0o644))
	below := filepath.Join(dir, "below") // a layer of an image below another one
	must(t, os.MkdirAll(below, 0o755), os.WriteFile(filepath.Join(below, "lowest"), nil, 0o644), os.WriteFile(filepath.Join(below, "gone"), nil, 0o644))
	a := container(t, dir, "a", lower, 1_000_000)
	in := open(t, a)
	must(t, in.WriteFile("mine", []byte("then"), 0o600), in.Chown("mine", 1_000_007, 1_000_007), in.Remove("gone"), in.Rename("bin", "sbin"), in.Chmod("sbin/program", 0o700))
	copied := filepath.Join(dir, "snapshots", "first", "tree")
	must(t, os.MkdirAll(filepath.Dir(copied), 0o700))
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", filepath.Join(a.Dir, layers.Upper), copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must(t, in.WriteFile("mine", []byte("later"), 0o600), in.Remove("sbin/program"))

	f, err := layers.Past{Changes: copied, Lower: []string{lower, below}, First: a.First, Count: a.Count}.Open()
	must(t, err)
	defer f.Close()
	var seen []string
	must(t, filepath.WalkDir(layers.Path(f), func(path string, e os.DirEntry, err error) error {
		var st unix.Stat_t
		err = errors.Join(err, unix.Lstat(path, &st))
		rel, _ := filepath.Rel(layers.Path(f), path)
		seen = append(seen, fmt.Sprintf("%s %d %o", rel, st.Uid, st.Mode&0o777))
		return err
	}))
	const want = ". 1000000 755, lowest 1000000 644, mine 1000007 600, sbin 1000000 755, sbin/program 1000000 700"
	if got := strings.Join(seen, ", "); got != want {
		t.Errorf("it was %s, want %s", got, want)
	}
	content, err := os.ReadFile(layers.Path(f) + "/mine")
	program, err2 := os.ReadFile(layers.Path(f) + "/sbin/program")
	if must(t, err, err2); string(content) != "then" || string(program) != "image" {
		t.Errorf("it had %q and %q", content, program)
	}
	if err := os.WriteFile(layers.Path(f)+"/new", nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("writing to it: %v", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if must(t, err); strings.Contains(string(mounts), dir) {
		t.Errorf("the host sees what is mounted:\n%s", mounts)
	}
	if _, err := (layers.Past{Changes: copied + "-none", Lower: []string{lower}}).Open(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of none: %v", err)
	}
}

// TestStopped: what is put into a stopped container goes to its changes, with the owners that
// its users have, and the files of the image stay as they are. The host sees no mount.
func TestStopped(t *testing.T) {
	dir := place(t)
	lower, below := filepath.Join(dir, "lower"), filepath.Join(dir, "below")
	must(t, os.MkdirAll(filepath.Join(lower, "etc"), 0o755), os.Mkdir(below, 0o755), os.WriteFile(filepath.Join(lower, "etc/conf"), []byte("image"), 0o644),
		os.WriteFile(filepath.Join(below, "lowest"), nil, 0o644))
	s := layers.Stopped{Past: layers.Past{Changes: filepath.Join(dir, "one/diff"), Lower: []string{lower, below}, First: 1_000_000, Count: 1 << 16}, Work: filepath.Join(dir, "one/work")}
	must(t, os.MkdirAll(s.Changes, 0o755), os.Mkdir(s.Work, 0o700))
	for _, content := range []string{"first", "second"} {
		f, err := s.Open()
		must(t, err)
		root, err := os.OpenRoot(layers.Path(f))
		must(t, err, root.WriteFile("etc/.new", []byte(content), 0o600), root.Chown("etc/.new", 1_000_007, 1_000_008), root.Rename("etc/.new", "etc/conf"))
		has, err := root.ReadFile("etc/conf")
		_, lowest := root.Stat("lowest")
		if must(t, err, lowest, root.Close(), f.Close()); string(has) != content {
			t.Errorf("it has %q, want %q", has, content)
		}
	}
	for name, want := range map[string]string{"one/diff/etc/conf": "second", "lower/etc/conf": "image"} {
		if has, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(has) != want {
			t.Errorf("%s is %q, %v; want %q", name, has, err, want)
		}
	}
	var st unix.Stat_t
	if must(t, unix.Stat(filepath.Join(s.Changes, "etc"), &st)); st.Uid != 1_000_000 {
		t.Errorf("the directory of the image is of %d in the changes, want the container's root", st.Uid)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if must(t, err); strings.Contains(string(mounts), dir) {
		t.Errorf("the host sees what is mounted:\n%s", mounts)
	}
	s.Work += "-none"
	if _, err := s.Open(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without its directory: %v", err)
	}
}
