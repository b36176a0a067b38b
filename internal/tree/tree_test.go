package tree_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/internal/tree"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// describe tells all of a tree, one line for each entry.
func describe(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	links := make(map[uint64]string)
	must(t, tree.Walk(t.Context(), root, func(e *tree.Entry) error {
		fmt.Fprintf(&b, "%s %o %d:%d %d %d", e.Path, e.Stat.Mode, e.Stat.Uid, e.Stat.Gid, e.Stat.Rdev, e.Stat.Mtim.Nano())
		if e.IsRegular() {
			f, err := e.Open()
			must(t, err)
			raw, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
			must(t, err, f.Close())
			fmt.Fprintf(&b, " %d %.20q", len(raw), raw)
			if first, ok := links[e.Stat.Ino]; ok {
				fmt.Fprintf(&b, " is %s", first)
			} else if e.Stat.Nlink > 1 {
				links[e.Stat.Ino] = e.Path
			}
		}
		if to, err := e.Readlink(); err == nil {
			fmt.Fprintf(&b, " -> %s", to)
		}
		all, err := e.Attributes()
		must(t, err)
		var names []string
		for name, value := range all {
			names = append(names, fmt.Sprintf(" %s=%x", name, value))
		}
		slices.Sort(names)
		b.WriteString(strings.Join(names, "") + "\n")
		return nil
	}))
	return b.String()
}

// TestCopy: a copy has all that its original has, and no more room where that has holes.
func TestCopy(t *testing.T) {
	from := filepath.Join(t.TempDir(), "from")
	at := func(name string) string { return filepath.Join(from, name) }
	must(t, os.MkdirAll(at("a/deep/er"), 0o755), os.WriteFile(at("a/file"), []byte("hello"), 0o600), os.Chown(at("a/file"), 100_007, 100_008), os.Chmod(at("a/file"), 0o4755|os.ModeSetuid),
		os.Symlink("/etc/passwd", at("out")), os.Symlink("a", at("in")), os.Link(at("a/file"), at("a/deep/same")), os.WriteFile(at("empty"), nil, 0),
		unix.Mkfifo(at("pipe"), 0o622), unix.Mknod(at("device"), unix.S_IFCHR|0o600, int(unix.Mkdev(0, 0))), unix.Mknod(at("socket"), unix.S_IFSOCK|0o600, 0),
		unix.Setxattr(at("a/file"), "user.x", []byte("y"), 0), unix.Setxattr(at("a"), "trusted.overlay.opaque", []byte("y"), 0),
		os.Chmod(at("a/deep"), 0o1777|os.ModeSticky))
	sparse, err := os.Create(at("sparse"))
	must(t, err)
	_, err = sparse.WriteAt([]byte("end"), 64<<20)
	must(t, err, sparse.Truncate(128<<20), sparse.Close())
	past := []unix.Timespec{{Sec: 1, Nsec: 2}, {Sec: 3, Nsec: 4}}
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, at("a/deep"), past, 0), unix.UtimesNanoAt(unix.AT_FDCWD, at("out"), past, unix.AT_SYMLINK_NOFOLLOW))

	to := filepath.Join(filepath.Dir(from), "to")
	made, err := tree.Copy(t.Context(), from, to, 0, tree.Shift{})
	must(t, err)
	if got, want := describe(t, to), describe(t, from); got != want {
		t.Errorf("the copy is\n%s\nand the original\n%s", got, want)
	}
	if made.Entries != 12 || made.Bytes < 128<<20 {
		t.Errorf("it came to %+v", made)
	}
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(to, "sparse"), &st))
	if st.Blocks*512 > 1<<20 {
		t.Errorf("a file of 3 bytes and holes takes %d", st.Blocks*512)
	}
}

// TestCopyCrowd: in a directory of many entries, which several workers copy, each name of a
// file leads to the one copy of it.
func TestCopyCrowd(t *testing.T) {
	from := filepath.Join(t.TempDir(), "from")
	for d := range 3 {
		dir := filepath.Join(from, fmt.Sprint(d))
		must(t, os.MkdirAll(dir, 0o755))
		for i := range 200 {
			at := filepath.Join(dir, fmt.Sprint(i))
			switch {
			case i%4 == 1:
				must(t, os.Symlink(fmt.Sprint(i), at), os.Lchown(at, 100_000+i, 100_000))
			case i%4 == 2:
				must(t, os.Link(filepath.Join(from, "0", fmt.Sprint(i/8*8)), at))
			case i%40 == 3:
				must(t, os.Mkdir(at, 0o700), os.WriteFile(filepath.Join(at, "x"), nil, 0o600))
			default:
				must(t, os.WriteFile(at, []byte(at), 0o640))
			}
		}
	}
	must(t, unix.Setxattr(filepath.Join(from, "1", "0"), "user.long", make([]byte, 1000), 0))
	to := filepath.Join(t.TempDir(), "to")
	made, err := tree.Copy(t.Context(), from, to, 0, tree.Shift{})
	must(t, err)
	if got, want := describe(t, to), describe(t, from); got != want {
		t.Errorf("the copy is\n%s\nand the original\n%s", got, want)
	}
	if has, err := tree.Tally(t.Context(), from); err != nil || made.Entries != has.Entries || made.Bytes != has.Bytes {
		t.Errorf("it came to %+v, want %+v, %v", made, has, err)
	}
}

// TestCopyEnds: a copy ends with its context, and before the file system is full.
func TestCopyEnds(t *testing.T) {
	from := t.TempDir()
	for i := range 100 {
		must(t, os.WriteFile(filepath.Join(from, fmt.Sprint(i)), []byte("x"), 0o600))
	}
	ended, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if _, err := tree.Copy(ended, from, filepath.Join(t.TempDir(), "to"), 0, tree.Shift{}); !errors.Is(err, why) {
		t.Errorf("it ended with %v", err)
	}
	if made, err := tree.Copy(t.Context(), from, filepath.Join(t.TempDir(), "to"), 1<<62, tree.Shift{}); !errors.Is(err, unix.ENOSPC) && !made.Shared {
		t.Errorf("it ended with %v", err)
	}
}

// TestChangingTree: what is replaced by a link while the walk is under way leads nowhere.
func TestChangingTree(t *testing.T) {
	top := t.TempDir()
	from := filepath.Join(top, "from")
	must(t, os.MkdirAll(filepath.Join(from, "d"), 0o755), os.WriteFile(filepath.Join(from, "d", "x"), nil, 0o600), os.WriteFile(filepath.Join(from, "f"), []byte("mine"), 0o600),
		os.Mkdir(filepath.Join(top, "secret"), 0o700), os.WriteFile(filepath.Join(top, "secret", "key"), []byte("key"), 0o600))
	var seen []string
	must(t, tree.Walk(t.Context(), from, func(e *tree.Entry) error {
		seen = append(seen, e.Path)
		switch e.Path {
		case "d":
			must(t, os.RemoveAll(filepath.Join(from, "d")), os.Symlink("../secret", filepath.Join(from, "d")))
		case "f":
			must(t, os.Remove(filepath.Join(from, "f")), os.Symlink("../secret/key", filepath.Join(from, "f")))
			if _, err := e.Open(); !errors.Is(err, unix.ENOENT) {
				t.Errorf("opening what is a link now: %v", err)
			}
		}
		return nil
	}))
	if want := []string{".", "d", "f"}; !slices.Equal(seen, want) {
		t.Errorf("it saw %q, want %q", seen, want)
	}
}

// TestOpenOpensNoDevice: what a container puts in the place of a file between the look at
// it and its opening is never opened: to open a device may restart the host.
func TestOpenOpensNoDevice(t *testing.T) {
	for name, swap := range map[string]func(path string) error{
		"pipe":   func(path string) error { return unix.Mkfifo(path, 0o600) },
		"device": func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) },
	} {
		t.Run(name, func(t *testing.T) {
			from, away := t.TempDir(), filepath.Join(t.TempDir(), "swapped")
			must(t, os.WriteFile(filepath.Join(from, "f"), []byte("mine"), 0o600), swap(away))
			opened, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
			must(t, err)
			defer unix.Close(opened)
			_, err = unix.InotifyAddWatch(opened, away, unix.IN_OPEN)
			must(t, err)
			must(t, tree.Walk(t.Context(), from, func(e *tree.Entry) error {
				if e.Path != "f" {
					return nil
				}
				must(t, os.Rename(away, filepath.Join(from, "f")))
				if _, err := e.Open(); !errors.Is(err, unix.ENOENT) {
					t.Errorf("opening what is a %s now: %v", name, err)
				}
				return nil
			}))
			if n, err := unix.Read(opened, make([]byte, 4096)); err != unix.EAGAIN {
				t.Errorf("the %s was opened: %d bytes of events, %v", name, n, err)
			}
		})
	}
}

// TestMounts are not entered.
func TestMounts(t *testing.T) {
	from := t.TempDir()
	at := filepath.Join(from, "m")
	must(t, os.Mkdir(at, 0o755), unix.Mount("tmpfs", at, "tmpfs", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(at, 0)) })
	must(t, os.WriteFile(filepath.Join(at, "theirs"), nil, 0o600))
	must(t, tree.Walk(t.Context(), from, func(e *tree.Entry) error {
		if e.Path == "m/theirs" {
			t.Error("it saw what is mounted")
		}
		return nil
	}))
}
