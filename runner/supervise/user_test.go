package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
)

const (
	testPasswd = "root:x:0:0:root:/root:/bin/sh\n" +
		"broken line\n" +
		"web:x:33:33:www:/var/www:/usr/sbin/nologin\n" +
		"odd:x:4294967295:0::/:\n" +
		"last:x:1000:100::relative:/bin/sh"
	testGroup = "root:x:0:\nweb:x:33:\nadm:x:4:web,last\nssl:x:110:x,web\ntoo:x:9999999999:web\n"
)

func testRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"passwd": testPasswd, "group": testGroup} {
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestLookupUser(t *testing.T) {
	root := testRoot(t)
	cases := map[string]*User{
		"root":     {Name: "root", Home: "/root", Shell: "/bin/sh", Groups: []uint32{0}},
		"web":      {UID: 33, GID: 33, Name: "web", Home: "/var/www", Shell: "/usr/sbin/nologin", Groups: []uint32{33, 4, 110}},
		"33":       {UID: 33, GID: 33, Name: "web", Home: "/var/www", Shell: "/usr/sbin/nologin", Groups: []uint32{33, 4, 110}},
		"33:5":     {UID: 33, GID: 5, Name: "web", Home: "/var/www", Shell: "/usr/sbin/nologin"},
		"4711:0":   {UID: 4711, GID: 0, Home: "/"},
		"last":     {UID: 1000, GID: 100, Name: "last", Home: "/", Shell: "/bin/sh", Groups: []uint32{100, 4}},
		"0:0":      {Name: "root", Home: "/root", Shell: "/bin/sh"},
		"nosuch":   nil,
		"4711":     nil,
		"odd":      nil,
		"-1":       nil,
		"+33":      nil,
		"web:33":   nil,
		"33:":      nil,
		":33":      nil,
		"33:web":   nil,
		"33:5:6":   nil,
		" web":     nil,
		"web\n":    nil,
		"x":        nil,
		"0x21:0":   nil,
		"broken l": nil,

		"4294967295:0": nil,
		"0:4294967295": nil,
		"4294967296:0": nil,
	}
	for user, want := range cases {
		got, err := LookupUser(root, user)
		if want == nil {
			refusal, ok := errors.AsType[*Refusal](err)
			if !ok || refusal.Reason != rundir.ReasonUnknownUser {
				t.Errorf("%q: got %+v, %v, want a refusal", user, got, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", user, err)
			continue
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q: %s", user, d)
		}
	}
}

// A container may be a program and nothing else. An id that needs no entry needs
// no file to look for it in.
func TestLookupUserWithoutFiles(t *testing.T) {
	for name, remove := range map[string]string{"no etc": "etc", "no files": "etc/*"} {
		t.Run(name, func(t *testing.T) {
			root := testRoot(t)
			paths, err := filepath.Glob(filepath.Join(root, remove))
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range paths {
				if err := os.RemoveAll(p); err != nil {
					t.Fatal(err)
				}
			}
			if u, err := LookupUser(root, "4711:5"); err != nil || u.UID != 4711 || u.GID != 5 || u.Home != "/" {
				t.Errorf("got %+v, %v", u, err)
			}
			for _, user := range []string{"root", "0", "web"} {
				refusal, ok := errors.AsType[*Refusal](func() error { _, err := LookupUser(root, user); return err }())
				if !ok || refusal.Reason != rundir.ReasonUnknownUser {
					t.Errorf("%q: want a refusal", user)
				}
			}
		})
	}
	root := testRoot(t)
	if err := os.Remove(filepath.Join(root, "etc/group")); err != nil {
		t.Fatal(err)
	}
	if u, err := LookupUser(root, "web"); err != nil || !slices.Equal(u.Groups, []uint32{33}) {
		t.Errorf("without groups: %+v, %v", u, err)
	}
}

// The files of a container belong to its root, who may be hostile.
func TestLookupUserInHostileRoot(t *testing.T) {
	for name, plant := range map[string]func(passwd string) error{
		"link out of the root": func(p string) error { return os.Symlink("../../../../../../etc/passwd", p) },
		"absolute link":        func(p string) error { return os.Symlink("/etc/passwd", p) },
		"FIFO":                 func(p string) error { return syscall.Mkfifo(p, 0o644) },
		"directory":            func(p string) error { return os.Mkdir(p, 0o755) },
		"huge": func(p string) error {
			return os.WriteFile(p, []byte(strings.Repeat("root:x:0:0::/root:/bin/sh\n", maxUserFile/20)), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := testRoot(t)
			passwd := filepath.Join(root, "etc/passwd")
			if err := errors.Join(os.Remove(passwd), plant(passwd)); err != nil {
				t.Fatal(err)
			}
			if u, err := LookupUser(root, "root"); err == nil {
				t.Errorf("got %+v, want an error", u)
			}
		})
	}
}

// TestLookupUserOpensNoDevice: opening a device may have effects, such as a watchdog
// that restarts the host, so what a container has put in the place of its files is
// looked at and not opened.
func TestLookupUserOpensNoDevice(t *testing.T) {
	for name, mode := range map[string]uint32{"device": unix.S_IFCHR | 0o644, "FIFO": unix.S_IFIFO | 0o644} {
		t.Run(name, func(t *testing.T) {
			for _, file := range []string{"passwd", "group"} {
				root := testRoot(t)
				at := filepath.Join(root, "etc", file)
				if err := errors.Join(os.Remove(at), unix.Mknod(at, mode, int(unix.Mkdev(1, 3)))); errors.Is(err, unix.EPERM) {
					return // root alone makes devices; a FIFO shows the same
				} else if err != nil {
					t.Fatal(err)
				}
				opened := watchOpens(t, at)
				if u, err := LookupUser(root, "web"); err == nil {
					t.Errorf("%s: got %+v, want an error", file, u)
				}
				if opened() {
					t.Errorf("%s: the %s was opened", file, name)
				}
			}
		})
	}
}

// watchOpens returns a function that reports whether a file was opened meanwhile.
func watchOpens(t *testing.T, path string) func() bool {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	return func() bool {
		n, err := unix.Read(fd, make([]byte, 4096))
		if err != nil && err != unix.EAGAIN {
			t.Fatal(err)
		}
		return n > 0
	}
}

func TestLookupUserFollowsLinksInside(t *testing.T) {
	root := testRoot(t)
	passwd := filepath.Join(root, "etc/passwd")
	if err := errors.Join(os.Rename(passwd, filepath.Join(root, "users")), os.Symlink("/users", passwd)); err != nil {
		t.Fatal(err)
	}
	if u, err := LookupUser(root, "web"); err != nil || u.UID != 33 {
		t.Errorf("got %+v, %v", u, err)
	}
}

func TestEnviron(t *testing.T) {
	spec := &rundir.Spec{Env: []string{"A=1", "HOME=/x", "A=2", "EMPTY="}}
	got := Environ(spec, &User{Name: "web", Home: "/var/www"})
	want := []string{"PATH=" + DefaultPath, "USER=web", "LOGNAME=web", "HOME=/x", "A=2", "EMPTY="}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLogin(t *testing.T) {
	root := testRoot(t)
	if err := os.Mkdir(filepath.Join(root, "home"), 0o755); err != nil {
		t.Fatal(err)
	}
	// The link leads out of the root, and to a directory there: it is not followed.
	if err := os.Symlink("/tmp", filepath.Join(root, "out")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spec     rundir.Spec
		user     User
		argv0    string
		dir      string
		variable string
	}{
		"its own shell": {rundir.Spec{Login: true}, User{Home: "/home", Shell: "/bin/zsh"}, "/bin/zsh", "/home", "SHELL=/bin/zsh"},
		"no shell":      {rundir.Spec{Login: true}, User{Home: "/absent"}, "/bin/sh", "", "SHELL=/bin/sh"},
		"another place": {rundir.Spec{Login: true, Dir: "/etc"}, User{Home: "/home"}, "/bin/sh", "/etc", "SHELL=/bin/sh"},
		"a way out":     {rundir.Spec{Login: true}, User{Home: "/out"}, "/bin/sh", "", "SHELL=/bin/sh"},
		"no login":      {rundir.Spec{Argv: []string{"ls"}}, User{Home: "/home", Shell: "/bin/zsh"}, "ls", "", ""},
	} {
		Login(&c.spec, root, &c.user)
		shell := ""
		for _, v := range Environ(&c.spec, &c.user) {
			if strings.HasPrefix(v, "SHELL=") {
				shell = v
			}
		}
		if c.spec.Argv[0] != c.argv0 || c.spec.Dir != c.dir || shell != c.variable {
			t.Errorf("%s: %q in %q with %q", name, c.spec.Argv, c.spec.Dir, shell)
		}
	}
}
