package backup

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/runner/rundir"
)

// MaxChain is how many backups a chain has at most: a full one and its increments.
const MaxChain = 32

// Parent is the backup that an increment was compared with. The increment holds what has
// changed since, and can be restored only over it.
type Parent struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"` // of its manifest, so that no other backup takes its place
	Depth  int    `json:"depth"`  // how many backups lie below the increment
}

// check reports what is wrong with it.
func (p *Parent) check() error {
	sum, err := hex.DecodeString(p.SHA256)
	if checkName(p.Name) != nil || err != nil || len(sum) != 32 || p.Depth < 1 || p.Depth >= MaxChain {
		return fmt.Errorf("%w: it is an increment of no backup that can be", ErrArchive)
	}
	return nil
}

// depth is how many backups lie below it: none below a full one.
func (m *Manifest) depth() int {
	if m.Parent == nil {
		return 0
	}
	return m.Parent.Depth
}

// on reports whether an increment lies on a backup.
func (b *Backup) on(p *Backup) error {
	if p.sum != b.Parent.SHA256 || p.CTID != b.CTID || p.Runtime != b.Runtime || p.depth()+1 != b.depth() || len(p.Volumes)+len(p.Snapshots) > 0 {
		return fmt.Errorf("%w: it is an increment of another backup %s than the one that is there", ErrArchive, p.Name)
	}
	return nil
}

// stack takes a backup as one that lies on another: what is known of both is known of it.
func (b *Backup) stack(p *Backup) {
	b.Chain, b.ChainBytes = p.Chain+1, p.ChainBytes+b.Size
	if p.Verified.IsZero() || p.Verified.Before(b.Verified) {
		b.Verified = p.Verified
	}
}

// chained tells of increments among all backups of a store what follows from those below them.
func chained(all []Backup) {
	byName := make(map[string]*Backup, len(all))
	var order []*Backup
	for i := range all {
		b := &all[i]
		b.Chain, b.ChainBytes = 1, b.Size
		byName[b.Name] = b
		if b.Problem == "" && b.Parent != nil {
			order = append(order, b)
		}
	}
	slices.SortFunc(order, func(a, b *Backup) int { return cmp.Compare(a.depth(), b.depth()) })
	for _, b := range order {
		p := byName[b.Parent.Name]
		var err error
		switch {
		case p == nil:
			err = fmt.Errorf("%w: it is an increment of backup %s, which is not there", ErrArchive, b.Parent.Name)
		case p.Problem != "":
			err = fmt.Errorf("it is an increment of backup %s: %s", p.Name, p.Problem)
		default:
			err = b.on(p)
		}
		if err != nil {
			b.Problem = err.Error()
			continue
		}
		b.stack(p)
	}
}

// link is a backup of a chain, with what get has opened of it.
type link[T any] struct {
	Backup
	of T
}

// chainOf gets a backup, and all that it lies on. The full one is the first. Each holds the
// digest of the manifest of the one below it, so the chain has no part that its maker did not
// mean. With an error there are those that were got before.
func chainOf[T any](name string, get func(name string) (Backup, T, error)) ([]link[T], error) {
	b, of, err := get(name)
	if err != nil {
		return nil, err
	}
	all := []link[T]{{b, of}}
	for all[0].Parent != nil {
		child := &all[0].Backup
		b, of, err := get(child.Parent.Name)
		if errors.Is(err, container.ErrNotFound) {
			err = fmt.Errorf("%w: the backup is not there", ErrArchive)
		}
		if err == nil {
			all = slices.Insert(all, 0, link[T]{b, of})
			child = &all[1].Backup
			err = child.on(&b)
		}
		if err != nil {
			return all, fmt.Errorf("backup %s is an increment of backup %s: %w", name, child.Parent.Name, err)
		}
	}
	all[0].Chain, all[0].ChainBytes = 1, all[0].Size
	for i := range all[1:] {
		all[i+1].stack(&all[i].Backup)
	}
	return all, nil
}

// parts verifies a backup, and all that it lies on. get verifies one of them, and returns the
// path of a file that begins with its archive.
func (s Store) parts(ctx context.Context, name string, get func(name string) (Backup, string, error)) ([]link[string], error) {
	all, err := chainOf(name, get)
	if err != nil && len(all) > 0 { // of the first one get has noted it
		err = s.found(ctx, name, err)
	}
	if err != nil {
		return nil, err
	}
	return all, s.noteElsewhere(all[len(all)-1].Backup)
}

// manifest reads that of a backup.
func (s Store) manifest(ctx context.Context, name string) (Manifest, error) {
	f, err := s.open(ctx, name)
	if err != nil {
		return Manifest{}, err
	}
	m, err := Read(f, f.stat().size, s.Key)
	return m, errors.Join(err, f.Close())
}

// restsOn reports whether a backup is an increment of another one, or of an increment of it.
func (s Store) restsOn(ctx context.Context, name, on string) bool {
	for range MaxChain {
		m, err := s.manifest(ctx, name)
		if err != nil || m.Parent == nil {
			return false
		}
		if name = m.Parent.Name; name == on {
			return true
		}
	}
	return false
}

// basis is what an increment is made over.
type basis struct {
	indexHead
	Backup
	was  map[string]footprint
	lock io.Closer // of the index; as long as it is held, the parent is not removed
}

func (b *basis) release() error {
	if b == nil || b.lock == nil {
		return nil
	}
	return b.lock.Close()
}

// basis finds the backup that the next one of a container is to be an increment of. why is the
// reason if there is none.
func (s Store) basis(ctx context.Context, m Manifest, ids container.IDRange, most int) (found *basis, why string, err error) {
	if most < 2 {
		return nil, "", nil
	}
	f, err := s.openIndex(m.CTID, unix.LOCK_SH)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "this host has no list of the files of an earlier backup of the container at this target", nil
	}
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if found == nil {
			err = errors.Join(err, f.Close())
		}
	}()
	raw, err := io.ReadAll(io.LimitReader(f, maxIndex+1))
	if err != nil {
		return nil, "", err
	}
	b := &basis{lock: f}
	if b.indexHead, b.was, err = decodeIndex(raw); err != nil {
		return nil, err.Error(), nil
	}
	all, err := s.List(ctx)
	if err != nil {
		return nil, "", err
	}
	i := slices.IndexFunc(all, func(o Backup) bool { return o.Name == b.indexHead.Backup })
	if i >= 0 {
		b.Backup = all[i]
	}
	name := b.indexHead.Backup
	switch {
	case i < 0:
		why = "the backup before it, " + name + ", is not there any more"
	case b.Problem != "":
		why = "the backup before it, " + name + ", cannot be used: " + b.Problem
	case b.sum != b.indexHead.SHA256 || b.CTID != m.CTID || b.depth() != b.indexHead.Depth:
		why = "the backup before it, " + name + ", is another one now"
	case b.Verified.IsZero():
		why = "not all of the chain of backup " + name + " was verified since it was last changed"
	case b.depth()+1 >= min(most, MaxChain):
		why = fmt.Sprintf("the chain of backup %s has %d backups, which are as many as it may have", name, b.depth()+1)
	case b.IDs != ids || b.Runtime != m.Runtime:
		why = "the users of the container have other ids now"
	case !slices.Equal(b.to(), fingerprints(s.By)):
		why = "backup " + name + " is encrypted to other keys"
	default:
		return b, "", nil
	}
	return nil, why, nil
}

// to are the keys to which a backup is encrypted, sorted.
func (m *Manifest) to() []string {
	if m.Encrypted == nil {
		return nil
	}
	return slices.Sorted(slices.Values(m.Encrypted.To))
}

func fingerprints(by Encrypter) []string {
	if by == nil {
		return nil
	}
	return slices.Sorted(slices.Values(by.Fingerprints()))
}

// CreateNext makes a backup of a container's own files and verifies it. Where most is more
// than one, it is an increment of the one before it, unless a chain would have more than so
// many backups, or the chain is not known to be whole; why tells the reason then.
func (s Store) CreateNext(ctx context.Context, name, root string, ids container.IDRange, m Manifest, most int) (b Backup, why string, err error) {
	base, why, err := s.basis(ctx, m, ids, most)
	if err != nil {
		return b, why, err
	}
	defer func() { err = errors.Join(err, base.release()) }()
	now := clock.Now()
	var was map[string]footprint
	if base != nil {
		was = base.was
	}
	c, err := newChange(root, now, cmp.Or(s.still, still), was)
	if err != nil {
		return b, why, err
	}
	var below indexHead
	if base != nil {
		entries, size, err := c.scan(ctx, root)
		if err != nil {
			return b, why, err
		}
		below = base.indexHead
		if most := rootfs.DefaultLimits; below.Entries+entries > most.Entries || below.Bytes+size > most.Bytes {
			why = "the chain would be larger than what can be restored"
			below, c.was, c.gone = indexHead{}, nil, nil
		} else {
			m.Parent = &Parent{Name: base.Name, SHA256: base.sum, Depth: base.depth() + 1}
		}
	}
	var all written
	_, err = s.put(ctx, name, m, func(to io.Writer, m Manifest) (Manifest, error) {
		m, err := writeTree(ctx, io.MultiWriter(to, &all), Tree{Root: root, IDs: ids, change: c, below: below}, m, s.signer(m), s.By)
		if err == nil && m.Parent != nil {
			err = s.stillThere(ctx, m.Parent)
		}
		return m, err
	})
	if err != nil {
		return b, why, err
	}
	if b, err = s.fetch(ctx, name, all.check(ctx)); err != nil { // what is on the disk is what was written
		return b, why, err
	}
	b.Chain, b.ChainBytes = 1, b.Size
	if m.Parent != nil {
		b.stack(&base.Backup)
	}
	if err := s.noteElsewhere(b); err != nil {
		return b, why, err
	}
	h := indexHead{Backup: name, SHA256: b.sum, Depth: b.depth(), IDs: ids, Entries: below.Entries + b.Entries, Bytes: below.Bytes + c.bytes}
	return b, why, s.keepIndex(b, h, c.paths)
}

// stillThere reports whether the parent of an increment is there as it was.
func (s Store) stillThere(ctx context.Context, p *Parent) error {
	m, err := s.manifest(ctx, p.Name)
	if err == nil && m.sum != p.SHA256 {
		err = fmt.Errorf("%w: it was changed", ErrArchive)
	}
	if err != nil {
		return fmt.Errorf("the backup that it would be an increment of, %s, went meanwhile; make it again: %w", p.Name, err)
	}
	return nil
}

// keepIndex writes the index of a backup that is there and was verified. Without one, as after a
// crash, the next increment is made over the backup of the index before.
func (s Store) keepIndex(b Backup, h indexHead, paths []byte) error {
	if container.CheckSnapshot(string(b.CTID)) != nil {
		return nil
	}
	raw, err := encodeIndex(h, paths)
	if err != nil || raw == nil {
		return err
	}
	if s.target != "" {
		if err := os.MkdirAll(s.own, 0o700); err != nil {
			return err
		}
	}
	failpoint.Before(failpoint.BackupIndexed)
	if err := durable.WriteFile(s.index(b.CTID), raw, 0o600, maxIndex); err != nil {
		return fmt.Errorf("backup %s is whole, but the list of its files was not kept: %w", b.Name, err)
	}
	failpoint.After(failpoint.BackupIndexed)
	return nil
}

// unneeded locks the chain of a backup of a container against increments, and fails if there
// is one of this backup.
func (s Store) unneeded(ctx context.Context, b Backup) (release func() error, err error) {
	release = func() error { return nil }
	f, err := s.openIndex(b.CTID, unix.LOCK_EX)
	switch {
	case err == nil:
		release = func() error { return errors.Join(s.removeIndex(b), f.Close()) }
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	all, err := s.List(ctx)
	if needed := dependents(all, b); err == nil && len(needed) > 0 {
		err = fmt.Errorf("%w: backup %s is needed to restore %s, which holds only what has changed since; remove that first", container.ErrBusy, b.Name, strings.Join(needed, ", "))
	}
	if err != nil && f != nil {
		err = errors.Join(err, f.Close())
	}
	return release, err
}

// free are those of the backups that a schedule does not keep, on which none lies that stays:
// each behind its increments, so that a removal that is cut short leaves whole chains.
func free(all []Backup, surplus []container.Snapshot) (names []string) {
	going := make(map[string]bool, len(surplus))
	for _, s := range surplus {
		going[s.Name] = true
	}
	order := slices.SortedFunc(slices.Values(all), func(a, b Backup) int { return cmp.Compare(b.depth(), a.depth()) })
	for _, b := range order {
		stays := func(name string) bool { return !going[name] }
		if going[b.Name] = going[b.Name] && !slices.ContainsFunc(dependents(all, b), stays); going[b.Name] {
			names = append(names, b.Name)
		}
	}
	return names
}

// dependents are the backups whose restore needs a backup.
func dependents(all []Backup, of Backup) (names []string) {
	for _, b := range all {
		if b.Parent != nil && b.Parent.Name == of.Name && b.Parent.SHA256 == of.sum {
			names = append(names, b.Name)
		}
	}
	return names
}

// removeIndex removes the index of a backup that is removed.
func (s Store) removeIndex(b Backup) error {
	raw, err := rundir.ReadCapped(s.index(b.CTID), maxIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if h, _, err := decodeIndex(raw); err == nil && h.Backup != b.Name {
		return nil
	}
	return os.Remove(s.index(b.CTID))
}
