package layers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
)

// Directories of a container, in its own.
const (
	Upper  = "upper"  // what it has changed
	work   = "work"   // the kernel's own
	Merged = "rootfs" // where the two are seen as one; empty on the disk
)

// Tree is the root directory of a container that shares the files of an image.
type Tree struct {
	// Lower is the directory with the files of the image, which nothing changes. They belong
	// to the users as the container sees them.
	Lower string
	// Dir is the directory of the container.
	Dir string
	// First is the user of the host that is the container's root, the first of Count.
	First, Count uint32
}

// Of is the root directory of a container.
func Of(s *container.SharedFiles) Tree {
	return Tree{Lower: s.Lower, Dir: s.Dir, First: s.IDs.First, Count: s.IDs.Count}
}

// Path is a path to an open directory in this process, which every system call takes for a
// directory.
func Path(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d/.", f.Fd()) }

// Make makes the directories of a container that has changed nothing.
func (t Tree) Make() error {
	upper := filepath.Join(t.Dir, Upper)
	if err := os.Mkdir(upper, 0o755); err != nil {
		return err
	}
	// What is above the image is the root directory itself.
	st, err := os.Stat(t.Lower)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chown(upper, int(t.First), int(t.First)), os.Chmod(upper, st.Mode())); err != nil {
		return err
	}
	return t.MakePlaces()
}

// MakePlaces makes the directories of a container whose changes are there.
func (t Tree) MakePlaces() error {
	return errors.Join(os.Mkdir(filepath.Join(t.Dir, work), 0o700), os.Mkdir(filepath.Join(t.Dir, Merged), 0o755))
}

// Open returns the root directory of a stopped container. It is mounted nowhere, and is
// there for as long as the file is open.
func (t Tree) Open() (*os.File, error) {
	return apart(filepath.Join(t.Dir, Merged), t.open)
}

// apart returns the directory that open opens in a table of mounts that nothing else has. It is
// called that name.
func apart(name string, open func() (fd int, err error)) (*os.File, error) {
	type result struct {
		fd  int
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its table of mounts
		if err := Part(); err != nil {
			done <- result{-1, err}
			return
		}
		fd, err := open()
		done <- result{fd, err}
	}()
	r := <-done
	if r.err != nil {
		return nil, r.err
	}
	return os.NewFile(uintptr(r.fd), name), nil
}

// Part gives the thread a table of mounts of its own, in which those of the host appear
// and go, and none of its own leaves it. The caller has locked the thread and never gives
// it back.
func Part() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("keeping mounts from the host: %w", err)
	}
	return nil
}

// Mount mounts the root directory at its place, in the table of mounts of the thread, see
// [Part]. A process that the thread forks meanwhile has it as well.
func (t Tree) Mount() (end func() error, err error) {
	fd, err := t.open()
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	at := filepath.Join(t.Dir, Merged)
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return nil, fmt.Errorf("mounting %s: %w", at, err)
	}
	return func() error { return unmount(at) }, nil
}

func unmount(at string) error {
	if err := unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("umount %s: %w", at, err)
	}
	return nil
}

// open makes the mount. The thread has a table of mounts of its own.
func (t Tree) open() (fd int, err error) {
	at := filepath.Join(t.Dir, Merged)
	lower, err := mapped(t.Lower, at, t.First, t.Count)
	if err != nil {
		return -1, err
	}
	defer unix.Close(lower)
	defer func() { err = errors.Join(err, unmount(at)) }()
	upper, err := directory(filepath.Join(t.Dir, Upper))
	if err != nil {
		return -1, err
	}
	defer unix.Close(upper)
	own, err := directory(filepath.Join(t.Dir, work))
	if err != nil {
		return -1, err
	}
	defer unix.Close(own)
	return overlay(lower, upper, own)
}

func directory(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// mapped mounts a directory at a place, read-only. Through the mount the files belong to count
// users of the host, from first on. With a count of 0 they belong to their owners.
func mapped(dir, at string, first, count uint32) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, &os.PathError{Op: "open_tree", Path: dir, Err: err}
	}
	if err := show(fd, dir, at, first, count); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// show does so with a mount that is at no place yet.
func show(mount int, dir, at string, first, count uint32) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if count > 0 {
		ns, err := namespace(first, count)
		if err != nil {
			return err
		}
		defer ns.Close()
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(ns.Fd())
	}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("mapping the owners of %s: %w", dir, err)
	}
	// Kernels before 6.15 take no layer that is mounted nowhere.
	if err := unix.MoveMount(mount, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", dir, at, err)
	}
	return nil
}

// namespace returns a user namespace with that map. The process for which the kernel makes it
// never runs: it stops before its first instruction, and is killed.
func namespace(first, count uint32) (*os.File, error) {
	runtime.LockOSThread() // the thread traces the process
	defer runtime.UnlockOSThread()
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: int(first), Size: int(count)}}
	p, err := os.StartProcess("/proc/self/exe", []string{"namespace"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, Ptrace: true, Pdeathsig: syscall.SIGKILL,
	}})
	if err != nil {
		return nil, fmt.Errorf("making a user namespace: %w", err)
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", p.Pid))
	_ = p.Kill() // it is there until it was waited for
	_, waited := p.Wait()
	if err = errors.Join(err, waited); err != nil {
		return nil, errors.Join(err, ns.Close())
	}
	return ns, nil
}

// overlay makes a file system of the layers, and returns its mount.
func overlay(lower, upper, work int) (int, error) {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fs)
	for _, o := range []struct{ key, value string }{
		{"source", "hostler"}, {"lowerdir", proc(lower)}, {"upperdir", proc(upper)}, {"workdir", proc(work)},
		// Whatever the kernel's defaults are: changes can be copied to another place.
		{"index", "off"}, {"metacopy", "off"}, {"redirect_dir", "on"},
	} {
		if err := unix.FsconfigSetString(fs, o.key, o.value); err != nil {
			return -1, fmt.Errorf("overlay, %s: %w%s", o.key, err, reason(fs))
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("overlay: %w%s", err, reason(fs))
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("overlay: %w%s", err, reason(fs))
	}
	return fd, nil
}

func proc(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// reason is what the kernel says about a file system that it does not make.
func reason(fs int) string {
	b := make([]byte, 1<<10)
	n, err := unix.Read(fs, b)
	if err != nil || n <= 2 {
		return ""
	}
	return " (" + strings.TrimSpace(string(b[2:n])) + ")"
}

// Magic is the kind of file system that a shared root directory is.
const Magic = unix.OVERLAYFS_SUPER_MAGIC

// OfRunning returns the root directory of a container that runs, by the process that has started
// it and waits for its end: it has it mounted at its place, without what the container
// mounts.
func (t Tree) OfRunning(monitor int) (*os.File, error) {
	path := fmt.Sprintf("/proc/%d/root%s", monitor, filepath.Join(t.Dir, Merged))
	fd, err := directory(path)
	if err != nil {
		return nil, err
	}
	var st unix.Statfs_t
	if err = unix.Fstatfs(fd, &st); err == nil && st.Type != Magic {
		err = errors.New("nothing is mounted there")
	}
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "open", Path: path, Err: err}, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Probe returns why containers cannot share files where the directory at lies; nil if they can.
// It makes that directory and removes it, with what another one has left there.
func Probe(at string) (err error) {
	if err := os.RemoveAll(at); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(at)) }()
	t := Tree{Lower: filepath.Join(at, "lower"), Dir: at, First: 1 << 30, Count: 1 << 16}
	if err := os.MkdirAll(t.Lower, 0o755); err != nil {
		return err
	}
	if err := t.Make(); err != nil {
		return err
	}
	f, err := t.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	// The kernel mounts one that it cannot write to, too.
	fd, err := unix.Openat(int(f.Fd()), "written", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("writing to an overlay: %w", err)
	}
	_, err = unix.Write(fd, []byte("x"))
	return errors.Join(err, unix.Close(fd))
}
