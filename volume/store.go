package volume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/tree"
	"github.com/hostler-io/hostler/protocol/mount"
)

// ErrNotFound tells that there is no volume of that name.
var ErrNotFound error = notFound{}

type notFound struct{}

func (notFound) Error() string        { return "there is no such volume" }
func (notFound) Is(target error) bool { return target == container.ErrNotFound }

// Store is the volumes in a directory, which the first of them makes. All methods may be
// called concurrently; who calls them sees to it that no container runs with a volume whose
// files are given to another one, or that is removed.
type Store struct {
	Dir string
	mu  sync.Mutex
	// filling are the directories that volumes are unpacked into just now.
	filling map[string]bool
}

// Volume is what is known of a volume.
type Volume struct {
	Name   string `json:"name"`
	MadeMS int64  `json:"made_ms"` // Unix milliseconds of the host's clock
	// IDs of the host that its files belong to; none are those of the host itself.
	IDs container.IDRange `json:"ids,omitzero"`
	// Next are those that its files are being given to; nil if that is done.
	Next *container.IDRange `json:"next,omitempty"`
	// Filled is the digest of the archive that it was made of, until a container has it.
	Filled string `json:"filled,omitempty"`
}

const (
	recordFile = "volume.json"
	dataDir    = "data"
	maxRecord  = 4 << 10
	newPrefix  = ".new-"
	gonePrefix = ".gone-"
	idsEach    = 1 << 16 // of the host's own ids, and of a container
)

func (s *Store) dir(name string) string { return filepath.Join(s.Dir, name) }

func (s *Store) read(name string) (v Volume, err error) {
	if err := mount.CheckName(name); err != nil {
		return v, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	b, err := durable.ReadFile(filepath.Join(s.dir(name), recordFile), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return v, fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err == nil && v.Name != name {
		err = fmt.Errorf("it is the record of %.80q", v.Name)
	}
	if err != nil {
		return v, fmt.Errorf("volume %s: %w", name, err)
	}
	return v, nil
}

func (s *Store) write(dir string, v Volume) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, recordFile), b, 0o600, maxRecord)
}

// Ensure makes the volume of a name if there is none, and returns the directory that
// containers mount.
func (s *Store) Ensure(name string, nowMS int64) (path string, err error) {
	if err := mount.CheckName(name); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	path = filepath.Join(s.dir(name), dataDir)
	if _, err := s.read(name); !errors.Is(err, ErrNotFound) {
		return path, err
	}
	if err := errors.Join(os.MkdirAll(s.Dir, 0o711), s.sweep()); err != nil {
		return "", err
	}
	staging := s.dir(newPrefix + name)
	if err := errors.Join(os.Mkdir(staging, 0o700), os.Mkdir(filepath.Join(staging, dataDir), 0o755)); err != nil {
		return "", err
	}
	return path, s.place(staging, Volume{Name: name, MadeMS: nowMS})
}

// place gives a volume that is made its name.
func (s *Store) place(staging string, v Volume) error {
	if err := s.write(staging, v); err != nil {
		return err
	}
	name := v.Name
	failpoint.Before(failpoint.VolumeMade)
	if err := unix.Renameat2(unix.AT_FDCWD, staging, unix.AT_FDCWD, s.dir(name), unix.RENAME_NOREPLACE); err != nil {
		return fmt.Errorf("volume %s: %w", name, &os.PathError{Op: "rename", Path: s.dir(name), Err: err})
	}
	if err := durable.Sync(s.Dir); err != nil {
		return err
	}
	failpoint.After(failpoint.VolumeMade)
	return nil
}

// Fill makes a volume with the files of an archive. One that is there is
// [container.ErrExists], unless it was made of the same archive and no container has had it
// since. Other volumes can be used meanwhile.
func (s *Store) Fill(name string, nowMS int64, from container.Layer) error {
	staging := s.dir(newPrefix + name)
	there, err := s.beginFill(name, staging, from.DiffID)
	if err != nil || there {
		return err
	}
	data := filepath.Join(staging, dataDir)
	err = os.Mkdir(data, 0o755)
	if err == nil {
		err = rootfs.Unpack(data, []container.Layer{from}, container.IDRange{})
	}
	if err == nil {
		err = syncFS(staging)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.filling, filepath.Base(staging))
	if err == nil {
		err = s.place(staging, Volume{Name: name, MadeMS: nowMS, Filled: from.DiffID})
	}
	if err != nil {
		return fmt.Errorf("volume %s: %w", name, errors.Join(err, tree.Remove(staging)))
	}
	return nil
}

// beginFill makes the directory that a volume is unpacked into, unless the volume is there.
func (s *Store) beginFill(name, staging, digest string) (there bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.read(name)
	switch {
	case err == nil && v.Filled != "" && v.Filled == digest && v.Next == nil:
		return true, nil
	case err == nil:
		return false, fmt.Errorf("%w: this host has a volume %s, whose files are others; see hostler volume ls, and remove it if nothing needs it: hostler volume rm", container.ErrExists, name)
	case !errors.Is(err, ErrNotFound) || mount.CheckName(name) != nil:
		return false, err
	case s.filling[filepath.Base(staging)]:
		return false, fmt.Errorf("%w: volume %s is being made", container.ErrBusy, name)
	}
	if s.filling == nil {
		s.filling = make(map[string]bool)
	}
	if err := errors.Join(os.MkdirAll(s.Dir, 0o711), s.sweep(), os.Mkdir(staging, 0o700)); err != nil {
		return false, err
	}
	s.filling[filepath.Base(staging)] = true
	return false, nil
}

// Files are the directory with the files of a volume, and the ids of their users.
func (s *Store) Files(name string) (dir string, ids container.IDRange, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.read(name)
	if err == nil && v.Next != nil {
		err = fmt.Errorf("%w: the files of volume %s are being given to a container; start that container first", container.ErrBusy, name)
	}
	return filepath.Join(s.dir(name), dataDir), v.IDs, err
}

// sweep removes what interrupted operations have left.
func (s *Store) sweep() error {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if s.filling[e.Name()] {
			continue
		}
		if strings.HasPrefix(e.Name(), newPrefix) || strings.HasPrefix(e.Name(), gonePrefix) {
			err = errors.Join(err, tree.Remove(s.dir(e.Name())))
		}
	}
	return err
}

// Own gives the files of a volume to the container that has these ids of the host, or none.
// Nothing must run that has it mounted.
func (s *Store) Own(ctx context.Context, name string, ids container.IDRange) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.read(name)
	if err != nil || v.IDs == ids && v.Next == nil && v.Filled == "" {
		return err
	}
	shifts := []tree.Shift{shift(v.IDs, ids)}
	if v.Next != nil {
		shifts = append(shifts, shift(*v.Next, ids))
	}
	v.Next = &ids
	if err := s.write(s.dir(name), v); err != nil {
		return err
	}
	if err := tree.Reown(ctx, filepath.Join(s.dir(name), dataDir), shifts...); err != nil {
		return fmt.Errorf("volume %s: giving its files to the container: %w", name, err)
	}
	mode := fs.FileMode(0o710)
	if ids.Count == 0 {
		mode = 0o700
	}
	if err := errors.Join(os.Chown(s.dir(name), 0, int(ids.First)), os.Chmod(s.dir(name), mode), syncFS(s.dir(name))); err != nil {
		return err
	}
	v.IDs, v.Next, v.Filled = ids, nil, ""
	return s.write(s.dir(name), v)
}

func shift(from, to container.IDRange) tree.Shift {
	return tree.Shift{From: from.First, To: to.First, Count: idsEach}
}

func syncFS(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// List returns all volumes, by name. One whose record cannot be read is among them.
func (s *Store) List() (all []Volume, err error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if mount.CheckName(e.Name()) != nil || !e.IsDir() {
			continue
		}
		v, err := s.read(e.Name())
		if err != nil {
			v = Volume{Name: e.Name()}
		}
		all = append(all, v)
	}
	return all, err
}

// Remove removes a volume with all that is in it. No container must have it.
func (s *Store) Remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := mount.CheckName(name); err != nil {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if err := s.sweep(); err != nil {
		return err
	}
	failpoint.Before(failpoint.VolumeDoomed)
	err := os.Rename(s.dir(name), s.dir(gonePrefix+name))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	if err == nil {
		err = durable.Sync(s.Dir)
	}
	if err != nil {
		return err
	}
	failpoint.After(failpoint.VolumeDoomed)
	return tree.Remove(s.dir(gonePrefix + name))
}
