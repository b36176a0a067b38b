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
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/backup/bucket"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner/rundir"
)

// Store is a directory with backups, or a bucket. Its files appear under their names when all
// of them is there for good.
type Store struct {
	Dir    string
	Signer Signer
	Key    Verifier
	// Vouched signs what other hosts are to believe: backups of unique containers. Nil:
	// Signer does.
	Vouched Signer
	// By encrypts new backups; nil: they are not encrypted. Secret decrypts those that a
	// container is made from; nil: nothing can be made from those that are encrypted.
	By     Encrypter
	Secret Decrypter

	still time.Duration // how long a file is to have been unchanged; zero: as long as still says

	target, own string         // of the store of a target: its name, and the host's own directory
	bucket      *bucket.Bucket // of a target that is one; nil: it is a directory
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
	// Chain is how many backups a restore of it reads, itself among them, and ChainBytes how
	// long they are.
	Chain      int
	ChainBytes int64
	// Problem is why it cannot be used; empty if nothing is known against it.
	Problem string
}

// files are where the backups of the store lie.
func (s Store) files() files {
	if s.bucket != nil {
		return objects{s.target, s.bucket, directory{s.own, true}}
	}
	return directory{s.Dir, s.target == ""}
}

// open opens a backup.
func (s Store) open(ctx context.Context, name string) (file, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return s.files().open(ctx, name)
}

func checkName(name string) error {
	if err := container.CheckSnapshot(name); err != nil {
		return fmt.Errorf("the name of the backup: %w", err)
	}
	return nil
}

// Create makes a backup of a root directory, and of volumes and snapshots, as [Write] takes them.
// One of that name is container.ErrExists.
func (s Store) Create(ctx context.Context, name, root string, ids container.IDRange, m Manifest, more ...Tree) (Backup, error) {
	return s.put(ctx, name, m, func(to io.Writer, m Manifest) (Manifest, error) {
		return Write(ctx, to, root, ids, m, s.signer(m), s.By, more...)
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
	if err := checkName(name); err != nil {
		return Backup{}, err
	}
	size, err := s.files().put(ctx, name, func(to io.Writer) (err error) {
		if m.Number, err = s.next(ctx, m.CTID); err != nil {
			return err
		}
		if m, err = write(to, m); err != nil {
			return fmt.Errorf("backup %s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return Backup{}, err
	}
	return Backup{Name: name, Size: size, Manifest: m}, nil
}

// Debris implements [container.Tidier]: what was begun by a process that is gone.
func (s Store) Debris(ctx context.Context, repair bool) ([]container.Debris, error) {
	return s.files().debris(ctx, repair, time.Time{})
}

// TargetTidier finds at a target of a host what a backup that was cut short has left there.
type TargetTidier struct {
	Own     Store // of the host
	Targets Targets
	Name    string
}

// settled is for how long nothing was written to an unfinished backup at a target that is
// debris: other hosts may write there, and not every file system tells of their locks.
const settled = 24 * time.Hour

// Debris implements [container.Tidier].
func (t TargetTidier) Debris(ctx context.Context, repair bool) ([]container.Debris, error) {
	s, err := t.Own.At(t.Targets, t.Name)
	if err != nil {
		return nil, err
	}
	return s.files().debris(ctx, repair, clock.Now().Add(-settled))
}

// List returns the backups by their names. It reads their manifests, and not the archives. A
// store that is away while they are read is an error.
func (s Store) List(ctx context.Context) (all []Backup, err error) {
	files := s.files()
	names, err := files.names(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if container.CheckSnapshot(name) != nil {
			continue
		}
		b := Backup{Name: name}
		f, err := files.open(ctx, name)
		if err == nil {
			b.Size = f.stat().size
			b.Manifest, err = Read(f, b.Size, s.Key)
			b.Verified = verified(files.note(name), f.stat())
			err = errors.Join(err, f.Close())
		}
		if errors.Is(err, container.ErrUnavailable) || ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			b.Problem = err.Error()
		}
		all = append(all, b)
	}
	chained(all)
	slices.SortFunc(all, func(a, b Backup) int { return cmp.Or(cmp.Compare(a.Made, b.Made), strings.Compare(a.Name, b.Name)) })
	return all, nil
}

// Verify reads all of a backup, and of those that it is an increment of, and reports what is wrong with it. What came of it is noted:
// of one in a directory beside the file, and of one at a target also on the host itself.
func (s Store) Verify(ctx context.Context, name string) (Backup, error) {
	all, err := s.parts(ctx, name, func(name string) (Backup, string, error) {
		b, err := s.fetch(ctx, name, whole(ctx))
		return b, "", err
	})
	if len(all) == 0 {
		return Backup{}, err
	}
	return all[len(all)-1].Backup, err
}

// whole is a check that an archive is the one that its manifest tells of.
func whole(ctx context.Context) func(*Manifest, file) error {
	return func(m *Manifest, f file) error { return m.copyTo(ctx, io.Discard, f) }
}

// fetch verifies all of a backup: its manifest, and then by check its archive.
func (s Store) fetch(ctx context.Context, name string, check func(*Manifest, file) error) (Backup, error) {
	f, err := s.open(ctx, name)
	if err != nil {
		return Backup{}, s.found(ctx, name, err)
	}
	defer f.Close()
	i := f.stat()
	m, err := Read(f, i.size, s.Key)
	if err == nil {
		err = check(&m, f)
	}
	if err != nil {
		return Backup{}, s.found(ctx, name, err)
	}
	b := Backup{Name: name, Size: i.size, Manifest: m, Verified: clock.Now().UTC()}
	raw, err := json.Marshal(note{AtMS: b.Verified.UnixMilli(), Bytes: i.size, Changed: i.changed, ETag: i.etag})
	if err == nil && s.bucket != nil {
		err = os.MkdirAll(s.own, 0o700)
	}
	if err != nil {
		return b, err
	}
	return b, durable.WriteFile(s.files().note(name), raw, 0o600, maxNote)
}

// found follows what was found out about a backup that is gone, or cannot be used.
func (s Store) found(ctx context.Context, name string, err error) error {
	bad := errors.Is(err, ErrArchive)
	if bad {
		if gone := os.Remove(s.files().note(name)); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	if bad || errors.Is(err, container.ErrNotFound) {
		err = errors.Join(err, s.forgetElsewhere(ctx, name))
	}
	return err
}

// note is what is known of a file since it was read as a whole: of that size, and last
// changed then.
type note struct {
	AtMS    int64  `json:"at_ms"`
	Bytes   int64  `json:"bytes"`
	Changed int64  `json:"changed_ns"`
	ETag    string `json:"etag,omitzero"`
}

const maxNote = 1 << 10

// verified is when a file that is as it is now was read as a whole.
func verified(path string, i stat) time.Time {
	var n note
	raw, err := rundir.ReadCapped(path, maxNote)
	if err != nil || json.Unmarshal(raw, &n) != nil || n.Bytes != i.size || n.Changed != i.changed || n.ETag != i.etag {
		return time.Time{}
	}
	return time.UnixMilli(n.AtMS).UTC()
}

// Image verifies all of a backup, and of those that it is an increment of, and returns what a container is made from then. What
// is unpacked is held against the manifest once more. What it returns of one that is encrypted,
// or in a bucket, can be read until ctx ends.
func (s Store) Image(ctx context.Context, name string) (Manifest, container.Image, error) {
	parts, err := s.parts(ctx, name, func(name string) (Backup, string, error) { return s.archive(ctx, name) })
	if err != nil {
		return Manifest{}, container.Image{}, err
	}
	m := parts[len(parts)-1].Manifest
	i := m.Image
	i.Reference, i.Copy, i.Layers = "backup "+name, true, nil
	for _, p := range parts {
		own := container.Layer{Path: p.of, DiffID: p.DiffID, Plain: true, Delta: p.Parent != nil}
		switch {
		case len(p.Volumes) > 0:
			own.Bytes = p.Volumes[0].Offset
		case len(p.Snapshots) > 0:
			own.Bytes = p.Snapshots[0].Files.Offset
		}
		i.Layers = append(i.Layers, own)
	}
	i.Snapshots = nil
	for _, e := range m.Snapshots { // no increment has some, so there is one part
		i.Snapshots = append(i.Snapshots, container.ImageSnapshot{Snapshot: e.Snapshot, Files: e.Files.at(i.Layers[0].Path)})
	}
	return m, i, nil
}

// at is the part of an archive, which is the beginning of a file.
func (p Packed) at(path string) container.Layer {
	return container.Layer{Path: path, Offset: p.Offset, Bytes: p.Bytes, DiffID: p.DiffID, Plain: true}
}

// archive verifies a backup, and returns the path of a file that begins with its archive.
func (s Store) archive(ctx context.Context, name string) (b Backup, path string, err error) {
	var out *temporary
	b, err = s.fetch(ctx, name, func(m *Manifest, f file) (err error) {
		if s.bucket == nil || m.Encrypted != nil {
			return m.copyTo(ctx, io.Discard, f)
		}
		if out, err = s.temporary("fetched-"); err != nil {
			return err
		}
		return m.copyTo(ctx, out, f)
	})
	switch {
	case err != nil && out != nil:
		err = errors.Join(err, out.remove())
	case err != nil:
	case b.Encrypted != nil:
		path, err = s.decrypt(ctx, name, b.Manifest)
	case out != nil:
		path = out.until(ctx)
	default:
		path = directory{path: s.Dir}.file(name)
	}
	return b, path, err
}

// VolumesIn are the files of the volumes in a backup, whose image [Store.Image] returned, by
// the names of the volumes.
func (m Manifest) VolumesIn(i container.Image) map[string]container.Layer {
	all := make(map[string]container.Layer, len(m.Volumes))
	for _, p := range m.Volumes {
		all[p.Name] = p.at(i.Layers[0].Path)
	}
	return all
}

// Retain removes the backups of a container that a schedule has made, but for the newest
// of each of the last days and weeks that have one; see [container.Surplus]. It reads the
// newest one first, unless that is the one that was just verified and has not changed since,
// and removes nothing unless it is whole. What one that stays is an increment of stays, too.
func (s Store) Retain(ctx context.Context, verified Backup, days, weeks int, now time.Time) error {
	all, err := s.List(ctx)
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
	for _, name := range free(all, container.Surplus(made, days, weeks, now)) {
		if err := s.Remove(ctx, name); err != nil && !errors.Is(err, container.ErrNotFound) {
			return err
		}
	}
	return nil
}

// next is the number of the next backup of a container.
func (s Store) next(ctx context.Context, id container.CTID) (uint64, error) {
	all, err := s.List(ctx)
	var last uint64
	for _, b := range all {
		if b.CTID == id {
			last = max(last, b.Number)
		}
	}
	return last + 1, err
}

// Remove removes a backup, whatever it holds, unless another one is an increment of it.
func (s Store) Remove(ctx context.Context, name string) (err error) {
	if err := checkName(name); err != nil {
		return err
	}
	m, err := s.manifest(ctx, name)
	if err == nil { // what cannot be read has no increments that could be restored
		var release func() error
		if release, err = s.unneeded(ctx, Backup{Name: name, Manifest: m}); err == nil {
			defer func() { err = errors.Join(err, release()) }()
		}
	}
	if err != nil && !errors.Is(err, ErrArchive) {
		return err
	}
	if err := s.files().remove(ctx, name); err != nil {
		return err
	}
	if err := os.Remove(s.files().note(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.forgetElsewhere(ctx, name)
}
