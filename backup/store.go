package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner/rundir"
)

// Store is a directory with backups. Its files appear under their names when all of them
// is on disk.
type Store struct {
	Dir    string
	Signer Signer
	Key    Verifier
	// Vouched signs what other hosts are to believe: backups of unique containers. Nil:
	// Signer does.
	Vouched Signer

	target, own string // of the store of a target: its name, and the host's own directory
}

const (
	suffix     = ".hostler-backup"
	unfinished = ".new-"
)

// Backup is a file of a store.
type Backup struct {
	Name string
	Size int64
	Manifest
	// Verified is when all of it was read the last time, and found good; zero if it never
	// was, or was changed since.
	Verified time.Time
	// Problem is why it cannot be used; empty if nothing is known against it.
	Problem string
}

func (s Store) file(name string) (string, error) {
	if err := container.CheckSnapshot(name); err != nil {
		return "", fmt.Errorf("the name of the backup: %w", err)
	}
	return filepath.Join(s.Dir, name+suffix), nil
}

// open opens a backup, and nothing that is no regular file.
func (s Store) open(name string) (*os.File, error) {
	path, err := s.file(name)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: this host has no backup %s; see which there are: hostler backup ls", container.ErrNotFound, name)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	if i, err := f.Stat(); err != nil || !i.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%w: %s is no regular file", ErrArchive, path), err, f.Close())
	}
	return f, nil
}

// A backup leaves so many bytes of the disk free, for the agent and the host. It looks
// again each time it has written so many, and has the kernel write them to the disk: the sync
// at the end finds little that is left.
const (
	reserve   = 256 << 20
	lookEvery = 16 << 20
)

// sparing writes to a file as long as the disk has room for others.
type sparing struct {
	to   *os.File
	left int // until the next look
}

func (s *sparing) Write(b []byte) (int, error) {
	if s.left -= len(b); s.left <= 0 {
		s.left = lookEvery
		var disk unix.Statfs_t
		if err := unix.Fstatfs(int(s.to.Fd()), &disk); err != nil {
			return 0, &os.PathError{Op: "statfs", Path: s.to.Name(), Err: err}
		}
		if int64(disk.Bavail)*disk.Bsize < reserve+lookEvery {
			return 0, fmt.Errorf("%w: a backup leaves %d MiB of the disk free", unix.ENOSPC, reserve>>20)
		}
		_ = unix.SyncFileRange(int(s.to.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE) // the sync at the end is what counts
	}
	return s.to.Write(b)
}

// Create makes a backup of a root directory, and of volumes. One of that name is
// container.ErrExists.
func (s Store) Create(ctx context.Context, name, root string, ids container.IDRange, m Manifest, volumes ...Tree) (Backup, error) {
	return s.put(ctx, name, m, func(to io.Writer, m Manifest) (Manifest, error) {
		return Write(ctx, to, root, ids, m, s.signer(m), volumes...)
	})
}

// signer is what signs a backup: of a unique container other hosts have to know the host.
func (s Store) signer(m Manifest) Signer {
	if m.Epoch != (protocol.Epoch{}) && s.Vouched != nil {
		return s.Vouched
	}
	return s.Signer
}

// put makes the file of a backup, which write writes under the next number.
func (s Store) put(ctx context.Context, name string, m Manifest, write func(io.Writer, Manifest) (Manifest, error)) (Backup, error) {
	path, err := s.file(name)
	if err != nil {
		return Backup{}, err
	}
	if _, err := os.Lstat(path); err == nil {
		return Backup{}, fmt.Errorf("%w: a backup %s is there already; choose another name", container.ErrExists, name)
	}
	if s.target == "" {
		if err := os.MkdirAll(s.Dir, 0o700); err != nil {
			return Backup{}, err
		}
	}
	if _, err := s.Debris(ctx, true); err != nil {
		return Backup{}, err
	}
	staging := filepath.Join(s.Dir, unfinished+name)
	f, err := os.OpenFile(staging, os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return Backup{}, fmt.Errorf("%w: a backup of that name is being made", container.ErrBusy)
	}
	if err != nil {
		return Backup{}, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil { // it says that it is being made
		return Backup{}, errors.Join(&os.PathError{Op: "flock", Path: staging, Err: err}, f.Close())
	}
	if m.Number, err = s.next(m.CTID); err != nil {
		return Backup{}, errors.Join(err, f.Close(), os.Remove(staging))
	}
	m, err = write(&sparing{to: f}, m)
	if err := errors.Join(err, f.Sync()); err != nil {
		return Backup{}, errors.Join(fmt.Errorf("backup %s: %w", name, err), f.Close(), os.Remove(staging))
	}
	failpoint.Before(failpoint.BackupKept)
	if err := place(staging, path, renameNew); err != nil {
		return Backup{}, errors.Join(err, f.Close(), os.Remove(staging))
	}
	if err := f.Close(); err != nil { // until here its lock keeps it from being taken for debris
		return Backup{}, err
	}
	i, err := os.Stat(path)
	if err != nil {
		return Backup{}, err
	}
	if err := rundir.SyncDir(s.Dir); err != nil {
		return Backup{}, err
	}
	failpoint.After(failpoint.BackupKept)
	return Backup{Name: name, Size: i.Size(), Manifest: m}, nil
}

// place gives a file another name, and replaces none that bears it. NFS knows no
// rename that replaces nothing, and calls it EINVAL: there the file has both names for a
// moment. Of one that a crash leaves with both, the first is debris.
func place(from, to string, rename func(from, to string) error) error {
	err := rename(from, to)
	if errors.Is(err, unix.EINVAL) {
		if err = os.Link(from, to); err == nil {
			err = os.Remove(from)
		}
	}
	return err
}

// renameNew renames a file, and replaces none.
func renameNew(from, to string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// openDebris opens an unfinished backup for writing: NFS gives an exclusive lock on no other
// file.
func openDebris(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
}

// Debris implements [container.Tidier]: what was begun by a process that is gone.
func (s Store) Debris(_ context.Context, repair bool) (all []container.Debris, err error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		path := filepath.Join(s.Dir, e.Name())
		if !strings.HasPrefix(e.Name(), unfinished) || !e.Type().IsRegular() {
			continue
		}
		f, bad := openDebris(path)
		if errors.Is(bad, fs.ErrNotExist) {
			continue
		}
		if bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		bad = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if bad == nil {
			d := container.Debris{Kind: "half backup", Object: path, Cause: "the backup was cut short, and no process writes it", Repair: "remove it"}
			if repair {
				d.Mend(func() error { return os.Remove(path) })
			}
			all = append(all, d)
		} else if !errors.Is(bad, unix.EWOULDBLOCK) { // that it is being written
			err = errors.Join(err, &os.PathError{Op: "flock", Path: path, Err: bad})
		}
		err = errors.Join(err, f.Close())
	}
	return all, err
}

// List returns the backups by their names. It reads their manifests, and not the archives.
func (s Store) List() (all []Backup, err error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || container.CheckSnapshot(name) != nil {
			continue
		}
		b := Backup{Name: name}
		f, err := s.open(name)
		if err == nil {
			var i fs.FileInfo
			if i, err = f.Stat(); err == nil {
				b.Size = i.Size()
				b.Manifest, err = Read(f, b.Size, s.Key)
				b.Verified = s.verified(name, i)
			}
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			b.Problem = err.Error()
		}
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b Backup) int { return cmp.Or(cmp.Compare(a.Made, b.Made), strings.Compare(a.Name, b.Name)) })
	return all, err
}

// Verify reads all of a backup, and reports what is wrong with it. What came of it is
// noted beside the file, and of one at a target also on the host itself.
func (s Store) Verify(ctx context.Context, name string) (Backup, error) {
	f, err := s.open(name)
	if errors.Is(err, container.ErrNotFound) {
		err = errors.Join(err, s.forgetElsewhere(name))
	}
	if err != nil {
		return Backup{}, err
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil {
		return Backup{}, err
	}
	m, err := Verify(ctx, f, s.Key)
	if errors.Is(err, ErrArchive) {
		if gone := os.Remove(s.note(name)); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
		err = errors.Join(err, s.forgetElsewhere(name))
	}
	if err != nil {
		return Backup{}, err
	}
	b := Backup{Name: name, Size: i.Size(), Manifest: m, Verified: clock.Now().UTC()}
	raw, err := json.Marshal(note{AtMS: b.Verified.UnixMilli(), Bytes: i.Size(), Changed: i.ModTime().UnixNano()})
	if err != nil {
		return b, err
	}
	return b, errors.Join(durable.WriteFile(s.note(name), raw, 0o600, maxNote), s.noteElsewhere(b))
}

// note is what is known of a file since it was read as a whole: of that size, and last
// changed then.
type note struct {
	AtMS    int64 `json:"at_ms"`
	Bytes   int64 `json:"bytes"`
	Changed int64 `json:"changed_ns"`
}

const maxNote = 1 << 10

func (s Store) note(name string) string { return filepath.Join(s.Dir, ".verified-"+name) }

// verified is when a file that is as it is now was read as a whole.
func (s Store) verified(name string, i fs.FileInfo) time.Time {
	var n note
	raw, err := rundir.ReadCapped(s.note(name), maxNote)
	if err != nil || json.Unmarshal(raw, &n) != nil || n.Bytes != i.Size() || n.Changed != i.ModTime().UnixNano() {
		return time.Time{}
	}
	return time.UnixMilli(n.AtMS).UTC()
}

// Image verifies all of a backup, and returns what a container is made from then. What
// is unpacked is held against the manifest once more.
func (s Store) Image(ctx context.Context, name string) (Manifest, container.Image, error) {
	b, err := s.Verify(ctx, name)
	if err != nil {
		return Manifest{}, container.Image{}, err
	}
	path, err := s.file(name)
	if err != nil {
		return Manifest{}, container.Image{}, err
	}
	i := b.Image
	i.Reference, i.Copy = "backup "+name, true
	own := container.Layer{Path: path, DiffID: b.DiffID, Plain: true}
	if len(b.Volumes) > 0 {
		own.Bytes = b.Volumes[0].Offset
	}
	i.Layers = []container.Layer{own}
	return b.Manifest, i, nil
}

// VolumesIn are the files of the volumes in a backup, whose image [Store.Image] returned, by
// the names of the volumes.
func (m Manifest) VolumesIn(i container.Image) map[string]container.Layer {
	all := make(map[string]container.Layer, len(m.Volumes))
	for _, p := range m.Volumes {
		all[p.Name] = container.Layer{Path: i.Layers[0].Path, Offset: p.Offset, Bytes: p.Bytes, DiffID: p.DiffID, Plain: true}
	}
	return all
}

// Retain removes the backups of a container that a schedule has made, but for the newest
// of each of the last days and weeks that have one; see [container.Surplus]. It reads the
// newest one first, unless that is the one that was just verified and has not changed since,
// and removes nothing unless it is whole.
func (s Store) Retain(ctx context.Context, verified Backup, days, weeks int, now time.Time) error {
	all, err := s.List()
	if err != nil {
		return err
	}
	var made []container.Snapshot
	read := ""
	for _, b := range all {
		if b.Name == verified.Name && !b.Verified.IsZero() && b.Verified.UnixMilli() == verified.Verified.UnixMilli() {
			read = b.Name
		}
		if b.CTID == verified.CTID && b.Scheduled && b.Problem == "" {
			made = append(made, container.Snapshot{Name: b.Name, Order: b.Number, MadeMS: b.Made})
		}
	}
	if len(made) == 0 {
		return nil
	}
	if newest := slices.MaxFunc(made, container.Snapshot.Compare); len(made) > 1 && newest.Name != read {
		if _, err := s.Verify(ctx, newest.Name); err != nil {
			return fmt.Errorf("older backups stay, for the newest, %s, is not whole: %w", newest.Name, err)
		}
	}
	for _, gone := range container.Surplus(made, days, weeks, now) {
		if err := s.Remove(gone.Name); err != nil && !errors.Is(err, container.ErrNotFound) {
			return err
		}
	}
	return nil
}

// next is the number of the next backup of a container.
func (s Store) next(id container.CTID) (uint64, error) {
	all, err := s.List()
	var last uint64
	for _, b := range all {
		if b.CTID == id {
			last = max(last, b.Number)
		}
	}
	return last + 1, err
}

// Remove removes a backup, whatever it holds.
func (s Store) Remove(name string) error {
	path, err := s.file(name)
	if err != nil {
		return err
	}
	if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: this host has no backup %s; see which there are: hostler backup ls", container.ErrNotFound, name)
	} else if err != nil {
		return err
	}
	if err := os.Remove(s.note(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.forgetElsewhere(name); err != nil {
		return err
	}
	return rundir.SyncDir(s.Dir)
}
