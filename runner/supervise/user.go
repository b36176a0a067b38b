package supervise

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
)

// maxUserFile bounds /etc/passwd and /etc/group, in bytes.
const maxUserFile = 4 << 20

// User is whom a command runs as.
type User struct {
	UID, GID uint32
	Groups   []uint32 // supplementary
	Name     string   // "" for an id without an entry
	Home     string   // "/" for an id without an entry
	Shell    string   // "" for an id without an entry, or one that is not absolute
}

// LookupUser finds the user that a spec names, in the files etc/passwd and
// etc/group below root: "/" for the host, the container's root directory
// (/proc/<init>/root) for a container, whose links cannot lead out of it. Only
// the files are asked; users of directory services are given by uid:gid.
//
//   - "" is the user of this process. For a container ask for "0:0" instead.
//   - "name" must have an entry.
//   - "uid" must have an entry, for there is no other way to know its group.
//   - "uid:gid" needs no entry and has no supplementary groups.
//
// A user who cannot be found is a Refusal with rundir.ReasonUnknownUser: nobody
// ever runs as root because of a typing error.
func LookupUser(root, user string) (*User, error) {
	if user == "" {
		u := &User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Home: "/"}
		if entry, err := lookup(root, strconv.Itoa(os.Geteuid())); err == nil {
			u.Name, u.Home, u.Shell = entry.Name, entry.Home, entry.Shell
		}
		return u, nil
	}
	u, err := lookup(root, user)
	if err != nil {
		return nil, Refuse(rundir.ReasonUnknownUser, wrap("looking up user "+strconv.Quote(user), err))
	}
	return u, nil
}

func lookup(root, user string) (*User, error) {
	passwd, err := readInRoot(root, "etc/passwd")
	if err != nil {
		return nil, err
	}
	uid, gid, pair := strings.Cut(user, ":")
	id, idErr := parseID(uid)
	u := findUser(passwd, func(name string, entry uint32) bool {
		if idErr == nil {
			return entry == id
		}
		return name == user
	})
	if pair {
		g, err := parseID(gid)
		if err = errors.Join(idErr, err); err != nil {
			return nil, err
		}
		if u == nil {
			u = &User{Home: "/"}
		}
		u.UID, u.GID = id, g
		return u, nil
	}
	if u == nil {
		return nil, errors.New("no entry in etc/passwd")
	}
	group, err := readInRoot(root, "etc/group")
	if err != nil {
		return nil, err
	}
	u.Groups = findGroups(group, u.Name, u.GID)
	return u, nil
}

// parseID takes what is written with digits alone. The largest value means
// "no change" to the kernel, which would be our own user.
func parseID(s string) (uint32, error) {
	id, err := strconv.ParseUint(s, 10, 32)
	if err == nil && (id == 1<<32-1 || s[0] == '+') {
		err = errors.New("id out of range")
	}
	return uint32(id), err
}

func findUser(passwd []byte, match func(name string, id uint32) bool) *User {
	for line := range bytes.Lines(passwd) {
		// name:password:uid:gid:comment:home:shell
		f := strings.Split(strings.TrimSuffix(string(line), "\n"), ":")
		if len(f) != 7 || f[0] == "" {
			continue
		}
		uid, uidErr := parseID(f[2])
		gid, gidErr := parseID(f[3])
		if uidErr != nil || gidErr != nil || !match(f[0], uid) {
			continue
		}
		home := f[5]
		if !strings.HasPrefix(home, "/") {
			home = "/"
		}
		shell := f[6]
		if !strings.HasPrefix(shell, "/") {
			shell = ""
		}
		return &User{UID: uid, GID: gid, Name: f[0], Home: home, Shell: shell}
	}
	return nil
}

// findGroups returns the supplementary groups of a user, at most as many as the
// kernel takes.
func findGroups(group []byte, name string, primary uint32) []uint32 {
	const maxGroups = 1 << 16
	groups := []uint32{primary}
	for line := range bytes.Lines(group) {
		// name:password:gid:member,member
		f := strings.Split(strings.TrimSuffix(string(line), "\n"), ":")
		if len(f) != 4 || !slices.Contains(strings.Split(f[3], ","), name) {
			continue
		}
		gid, err := parseID(f[2])
		if err == nil && len(groups) < maxGroups && !slices.Contains(groups, gid) {
			groups = append(groups, gid)
		}
	}
	return groups
}

// readInRoot reads a file below root, whose owner may be hostile: nothing but a
// regular file of a bounded size is opened and read. One that is missing is empty: a
// container may be a program and nothing else.
func readInRoot(root, name string) ([]byte, error) {
	f, err := rundir.OpenRegular(root, name, unix.O_RDONLY)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxUserFile+1))
	if err == nil && len(b) > maxUserFile {
		err = &os.PathError{Op: "read", Path: f.Name(), Err: rundir.ErrTooLarge}
	}
	return b, err
}

// DefaultShell is the login shell of a user that has none.
const DefaultShell = "/bin/sh"

// Login fills in what a login shell's spec leaves open: the user's shell, and the
// user's home directory if there is one. root is as for LookupUser.
func Login(spec *rundir.Spec, root string, u *User) {
	if !spec.Login {
		return
	}
	spec.Argv = []string{cmp.Or(u.Shell, DefaultShell), "-l"}
	if spec.Dir == "" && isDirectory(root, u.Home) {
		spec.Dir = u.Home
	}
}

// isDirectory reports whether name is a directory below root, whose links stay
// inside.
func isDirectory(root, name string) bool {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(dir, name, &how)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// Environ returns the environment of a command: the minimal one of its user
// (PATH, HOME, USER and LOGNAME if it has a name, and SHELL of a login shell), then
// the spec's, which wins. Nothing of the supervisor's own goes in.
func Environ(spec *rundir.Spec, u *User) []string {
	env := []string{"PATH=" + DefaultPath, "HOME=" + u.Home}
	if u.Name != "" {
		env = append(env, "USER="+u.Name, "LOGNAME="+u.Name)
	}
	if spec.Login {
		env = append(env, "SHELL="+spec.Argv[0])
	}
	for _, v := range spec.Env {
		name, _, _ := strings.Cut(v, "=")
		env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		env = append(env, v)
	}
	return env
}

// DefaultPath is the PATH of a command whose spec gives none.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
