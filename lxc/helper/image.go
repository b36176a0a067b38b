//go:build linux && cgo

package helper

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
	"github.com/hostler-io/hostler/internal/tree"
	"github.com/hostler-io/hostler/runner/rundir"
)

// unpack makes the root directory and the configuration of a container from an image,
// and notes in its record what it is and runs.
func (h *host) unpack(spec container.CreateSpec, img *container.Image, rec *record) (err error) {
	dir := filepath.Join(h.dir(spec.Name), "rootfs")
	end := func() error { return nil }
	if rec.Tree == "" {
		err = lay(dir, img.Layers, rec.IDs)
	} else {
		end, err = sharing{h}.stack(h.dir(spec.Name), *rec, img)
	}
	if err != nil {
		return fmt.Errorf("image %s: %w", img.Reference, err)
	}
	defer func() { err = errors.Join(err, end()) }()
	argv, run, err := commandOf(dir, asked(spec, img), spec)
	if err != nil {
		return fmt.Errorf("image %s: %w", img.Reference, err)
	}
	rec.Digest, rec.Argv = img.Digest, argv
	if img.Copy {
		if err := rootfs.Renew(dir); err != nil {
			return fmt.Errorf("image %s: %w", img.Reference, err)
		}
	}
	if err := furnish(dir, spec, rec.IDs); err != nil {
		return err
	}
	if err := (shooting{h}).take(spec.Name, *rec, img); err != nil {
		return fmt.Errorf("image %s: %w", img.Reference, err)
	}
	c, err := h.open(spec.Name)
	if err != nil {
		return err
	}
	defer c.Release()
	if err := configure(c, spec); err != nil {
		return err
	}
	settings := []setting{
		{"lxc.rootfs.path", "dir:" + dir},
		{"lxc.mount.auto", "cgroup:mixed proc:mixed sys:mixed"},
		{"lxc.mount.entry", "shm dev/shm tmpfs nosuid,nodev,create=dir 0 0"},
		{"lxc.mount.entry", "mqueue dev/mqueue mqueue defaults,optional,create=dir 0 0"},
		{"lxc.cap.drop", "mac_admin mac_override sys_time sys_module sys_rawio"},
	}
	if err := apply(c, append(settings, run...)); err != nil {
		return err
	}
	if err := c.SaveConfigFile(c.ConfigFileName()); err != nil {
		return fmt.Errorf("saving the configuration: %w", err)
	}
	if err := h.amend(spec, rec.IDs); err != nil {
		return err
	}
	if rec.IDs.Count == 0 {
		return nil
	}
	return errors.Join(os.Chown(h.dir(spec.Name), 0, int(rec.IDs.First)), os.Chmod(h.dir(spec.Name), 0o710))
}

// lay unpacks the layers.
func lay(dir string, layers []container.Layer, ids container.IDRange) error {
	if err := tree.Make(dir, 0o755); err != nil {
		return err
	}
	return rootfs.Unpack(dir, layers, ids)
}

// asked is an image with the command and the variables that a container of it was asked
// for with.
func asked(spec container.CreateSpec, img *container.Image) *container.Image {
	i := *img
	if len(spec.Command) > 0 {
		i.Cmd = spec.Command
	}
	own := func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.ContainsFunc(spec.Env, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	}
	i.Env = append(slices.DeleteFunc(slices.Clone(img.Env), own), spec.Env...)
	return &i
}

// commandOf says what runs in a container of an image: its command, unless that is a
// bare shell or nothing and the image has an init, which is what systems have. A command
// that was asked for is none of the image. argv is nil for an init.
func commandOf(dir string, img *container.Image, spec container.CreateSpec) (argv []string, run []setting, err error) {
	argv = slices.Concat(img.Entrypoint, img.Cmd)
	if init, ok := initOf(dir); ok && len(spec.Command) == 0 && (len(argv) == 0 || len(argv) == 1 && isShell(argv[0])) {
		run = []setting{{"lxc.init.cmd", "/sbin/init"}, {"lxc.signal.halt", haltOf(init)}}
		return nil, append(run, variables(spec.Env)...), nil
	}
	cwd := cmp.Or(img.WorkingDir, "/")
	switch {
	case len(argv) == 0 || argv[0] == "":
		return nil, nil, fmt.Errorf("%w: it says no command, and has no /sbin/init", container.ErrUnsupported)
	case strings.ContainsRune(strings.Join(argv, ""), 0) || len(strings.Join(argv, "")) > maxArgv:
		return nil, nil, fmt.Errorf("%w: its command has more than %d bytes, or one that is zero", container.ErrUnsupported, maxArgv)
	case !path.IsAbs(cwd) || strings.ContainsAny(cwd, "\n\x00"):
		return nil, nil, fmt.Errorf("%w: its directory %.80q is not absolute", container.ErrUnsupported, cwd)
	}
	run = []setting{{"lxc.init.cwd", cwd}, {"lxc.signal.halt", signalOf(img.StopSignal)}}
	for _, e := range img.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" || strings.ContainsAny(e, "\n\x00") {
			return nil, nil, fmt.Errorf("%w: its variable %.80q cannot be handed to LXC", container.ErrUnsupported, e)
		}
		run = append(run, setting{"lxc.environment", e})
	}
	if img.User != "" {
		uid, gid, err := userOf(dir, img.User)
		if err != nil {
			return nil, nil, err
		}
		run = append(run, setting{"lxc.init.uid", strconv.Itoa(uid)}, setting{"lxc.init.gid", strconv.Itoa(gid)})
	}
	return argv, run, nil
}

// maxArgv bounds the command of an image, in bytes.
const maxArgv = 128 << 10

// isShell reports whether an image runs a shell for want of anything better.
func isShell(command string) bool {
	return slices.Contains([]string{"sh", "bash", "ash", "dash", "zsh"}, path.Base(command))
}

// initOf returns what /sbin/init of a root directory is, as far as its links are plain.
func initOf(dir string) (program string, ok bool) {
	f, err := rundir.OpenRegular(dir, "sbin/init", unix.O_RDONLY)
	if err != nil {
		return "", false
	}
	defer f.Close()
	program, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	return path.Base(program), err == nil
}

// haltOf is the signal that an init obeys.
func haltOf(init string) string {
	switch init {
	case "systemd":
		return "SIGRTMIN+3"
	case "busybox":
		return "SIGUSR1"
	}
	return "SIGPWR"
}

var wellFormedSignal = regexp.MustCompile(`^(SIG)?([A-Z0-9]+)(\+[0-9]{1,2})?$`)

// signalOf is the signal that an image asks to be stopped by, in the word of LXC.
func signalOf(stop string) string {
	m := wellFormedSignal.FindStringSubmatch(stop)
	if m == nil {
		return "SIGTERM"
	}
	if _, err := strconv.Atoi(m[2]); err == nil {
		return m[2]
	}
	return "SIG" + m[2] + m[3]
}

// maxUsers bounds what is read of a container's lists of users, in bytes.
const maxUsers = 1 << 20

// userOf resolves UID, NAME, UID:GID and NAME:GROUP of an image by its own files.
func userOf(dir, user string) (uid, gid int, err error) {
	name, group, named := strings.Cut(user, ":")
	uid, gid, err = lookUp(dir, "etc/passwd", name)
	if err == nil && named {
		gid, _, err = lookUp(dir, "etc/group", group)
	}
	return uid, gid, err
}

// lookUp finds a name or a number in a file of lines NAME:PASSWORD:ID:GROUP:… and
// returns its id and, of a user, that of its group.
func lookUp(dir, file, name string) (id, group int, err error) {
	number, notNumber := strconv.ParseUint(name, 10, 31)
	if f, err := rundir.OpenRegular(dir, file, unix.O_RDONLY); err == nil {
		defer f.Close()
		lines := bufio.NewScanner(io.LimitReader(f, maxUsers))
		for lines.Scan() {
			w := strings.Split(lines.Text(), ":")
			if len(w) < 4 || w[0] != name && w[2] != name {
				continue
			}
			n, e1 := strconv.ParseUint(w[2], 10, 31)
			g, e2 := strconv.ParseUint(w[3], 10, 31)
			if e2 != nil {
				g = 0 // a list of the members of a group
			}
			if e1 == nil {
				return int(n), int(g), nil
			}
		}
	}
	if notNumber != nil {
		return 0, 0, fmt.Errorf("%w: it runs as %.80q, a user that its /%s does not have", container.ErrUnsupported, name, file)
	}
	return int(number), 0, nil
}

// furnish writes what a container needs and an image leaves to the program that runs it: its
// name, and who knows the names of others.
func furnish(dir string, spec container.CreateSpec, ids container.IDRange) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	files := map[string]string{
		"etc/hostname": spec.Called() + "\n",
		"etc/hosts":    "127.0.0.1\tlocalhost\n127.0.1.1\t" + spec.Called() + "\n::1\tlocalhost\n",
	}
	if !spec.Network.IsZero() {
		files["etc/resolv.conf"] = resolvers()
	}
	switch i, err := root.Lstat("etc"); {
	case errors.Is(err, fs.ErrNotExist):
		if err := errors.Join(root.Mkdir("etc", 0o755), root.Lchown("etc", int(ids.First), int(ids.First))); err != nil {
			return err
		}
	case err != nil:
		return err
	case !i.IsDir():
		return nil // none that is known
	}
	for name, text := range files {
		if i, err := root.Lstat(name); err == nil && (!i.Mode().IsRegular() || i.Size() > 0 && name != "etc/hostname") || text == "" {
			continue // it has its own, or what only its init makes a file of
		}
		if err := root.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
		if err := root.Lchown(name, int(ids.First), int(ids.First)); err != nil {
			return err
		}
	}
	return nil
}

// resolvers are the host's own servers of names that a container can reach.
func resolvers() string {
	raw, err := rundir.ReadCapped("/etc/resolv.conf", maxUsers)
	if err != nil {
		return ""
	}
	return container.Nameservers(string(raw))
}
