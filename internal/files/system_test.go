package files_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler-io/hostler/internal/builttest"
	"github.com/hostler-io/hostler/internal/files"
	"github.com/hostler-io/hostler/runner/rundir"
)

// place is a container's system of files whose links all want out.
func place(t *testing.T) (*files.System, string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "rootfs")
	err := errors.Join(os.MkdirAll(filepath.Join(root, "etc"), 0o755), os.MkdirAll(filepath.Join(root, "srv"), 0o755),
		os.Symlink("/srv", filepath.Join(root, "abs")), os.Symlink("../../../../../../etc", filepath.Join(root, "up")),
		os.Symlink("/proc/self/root", filepath.Join(root, "magic")), os.Symlink("/proc/self/cwd", filepath.Join(root, "cwd")))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "etc/passwd"), "root:x:0:0::/:/bin/sh\napp:x:1000:1001::/:/bin/sh\n")
	return &files.System{Root: root}, root
}

func (p push) into(t *testing.T, pl *files.System) error {
	t.Helper()
	dir, base, err := pl.Target(p.at, p.name)
	if err != nil {
		return err
	}
	tr := files.NewTree(dir, ".temp")
	return errors.Join(tr.Put(t.Context(), base, 0o644, files.Owner{}, -1, strings.NewReader("pushed")), tr.Close())
}

type push struct{ at, name string }

// TestSystemStaysInside resolves a container's links inside of it.
func TestSystemStaysInside(t *testing.T) {
	for _, test := range []struct {
		push push
		want string // where it is then, below the root; empty is nowhere
	}{
		{push{"/etc/motd", "x"}, "etc/motd"},
		{push{"/srv", "x"}, "srv/x"},
		{push{"/abs", "x"}, "srv/x"},
		{push{"/abs/y", ""}, "srv/y"},
		{push{"/up/hostler-escape", ""}, "etc/hostler-escape"},
		{push{"/../../../tmp", "hostler-escape"}, "tmp"},
		{push{"/magic/tmp/hostler-escape", ""}, ""},
		{push{"/cwd/hostler-escape", ""}, ""},
		{push{"/nosuch/a", "x"}, ""},
		{push{"/", ""}, ""},
	} {
		p, root := place(t)
		err := test.push.into(t, p)
		if test.want == "" {
			if err == nil {
				t.Errorf("%v was taken", test.push)
			}
			continue
		}
		if err != nil || read(t, filepath.Join(root, test.want)) != "pushed" {
			t.Errorf("%v: %v", test.push, err)
		}
	}
	if _, err := os.Stat("/tmp/hostler-escape"); err == nil {
		t.Error("it has escaped")
	}
}

// TestAllowed judges where a path leads, not how it is written.
func TestAllowed(t *testing.T) {
	p, root := place(t)
	p.Allowed = []string{"/srv"}
	for at, want := range map[string]bool{"/srv/a": true, "/abs/b": true, "/etc/motd": false, "/srv/../etc/motd": false, "/up/c": false} {
		if err := (push{at, ""}).into(t, p); (err == nil) != want || err != nil && !errors.Is(err, files.ErrPolicy) {
			t.Errorf("%s: %v", at, err)
		}
	}
	if err := os.Symlink("/etc", filepath.Join(root, "srv/link")); err != nil {
		t.Fatal(err)
	}
	if err := (push{"/srv/link/d", ""}).into(t, p); !errors.Is(err, files.ErrPolicy) {
		t.Errorf("through a link: %v", err)
	}
	if _, _, err := p.Source("/etc/passwd"); !errors.Is(err, files.ErrPolicy) {
		t.Errorf("reading: %v", err)
	}
}

// TestAllowedBehindALink: the root of a place may be reached through links.
func TestAllowedBehindALink(t *testing.T) {
	p, root := place(t)
	p.Root = filepath.Join(t.TempDir(), "rootfs")
	if err := os.Symlink(root, p.Root); err != nil {
		t.Fatal(err)
	}
	p.Allowed = []string{"/srv"}
	if err := (push{"/srv/a", ""}).into(t, p); err != nil {
		t.Error(err)
	}
	if err := (push{"/etc/motd", ""}).into(t, p); !errors.Is(err, files.ErrPolicy) {
		t.Error(err)
	}
}

// TestAllowedInAContainer: one that runs has its own mounts, and the kernel tells of
// what is open there by the names of there.
func TestAllowedInAContainer(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("this test needs root, for mounts of its own")
	}
	for name, script := range map[string]string{
		"its own mounts":    `cd "$1"; mkdir old; /bin/mount --bind . .; cd "$1"; pivot_root . old; exec /bin/busybox chroot . /bin/busybox sh -c '/bin/busybox umount -l /old; echo inside; read end'`,
		"another directory": `exec chroot "$1" /bin/busybox sh -c 'echo inside; read end'`,
	} {
		t.Run(name, func(t *testing.T) {
			p, root := place(t)
			program, err := os.ReadFile("/bin/busybox")
			if err != nil {
				t.Fatalf("this test needs the package busybox-static: %v", err)
			}
			if err := errors.Join(os.MkdirAll(filepath.Join(root, "bin"), 0o755), builttest.Write(filepath.Join(root, "bin/busybox"), string(program))); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh", root)
			cmd.Stderr = t.Output()
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = in.Close() // which ends it
				_ = cmd.Wait()
			})
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "inside\n" {
				t.Fatalf("%q, %v", line, err)
			}
			p.Init = cmd.Process.Pid
			p.Root = fmt.Sprintf("/proc/%d/root", p.Init)
			if p.Ticks, err = rundir.StartTicks(p.Init); err != nil {
				t.Fatal(err)
			}
			p.Allowed = []string{"/srv"}
			if err := (push{"/srv/a", ""}).into(t, p); err != nil {
				t.Errorf("what is allowed: %v", err)
			}
			for _, at := range []string{"/etc/motd", "/srv/../etc/motd", "/srvx"} {
				if err := (push{at, ""}).into(t, p); !errors.Is(err, files.ErrPolicy) {
					t.Errorf("%s: %v", at, err)
				}
			}
		})
	}
}

func TestSource(t *testing.T) {
	p, root := place(t)
	if err := errors.Join(syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600), os.Symlink("/etc/passwd", filepath.Join(root, "link"))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Source("/pipe"); !errors.Is(err, files.ErrSpecial) {
		t.Errorf("a pipe: %v", err)
	}
	f, _, err := p.Source("/link")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil || i.Size() != int64(len(read(t, filepath.Join(root, "etc/passwd")))) {
		t.Errorf("through the link: %v, %v", i, err)
	}
	if _, _, err := p.Source("/nosuch"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestOwners(t *testing.T) {
	p, root := place(t)
	m, err := files.ParseIDMap("0 100000 65536\n")
	if err != nil {
		t.Fatal(err)
	}
	p.UIDs, p.GIDs = m, m
	o, err := p.FindOwner("app")
	if err != nil || o != (files.Owner{UID: 1000, GID: 1001}) {
		t.Fatal(o, err)
	}
	if _, err := p.FindOwner("nobody-of-the-host"); err == nil {
		t.Error("an unknown name is somebody")
	}
	f, err := os.Create(filepath.Join(root, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := p.Chown(f, files.Owner{UID: 70000}); !errors.Is(err, files.ErrNoID) {
		t.Errorf("a user beyond the map: %v", err)
	}
	if os.Geteuid() == 0 {
		if err := p.Chown(f, o); err != nil {
			t.Fatal(err)
		}
		i, err := f.Stat()
		if err != nil || i.Sys().(*syscall.Stat_t).Uid != 101000 || p.OwnerOf(i) != o {
			t.Errorf("%+v is %v inside, %v", i.Sys(), p.OwnerOf(i), err)
		}
	}
}
