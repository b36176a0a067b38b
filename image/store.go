package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/blob"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// ErrNotFound says that this host has no such image.
var ErrNotFound = errors.New("no such image on this host")

// Config is what a store is opened with.
type Config struct {
	// Dir is the directory of the images. Several processes may use it.
	Dir string
	// Registries say how registries are reached.
	Registries Registries
	// MaxBytes is how large an image may be in its registry, in bytes; default 64 GiB.
	MaxBytes int64
	// Now tells the time, for who asks when an image was used; default time.Now.
	Now func() time.Time
}

const (
	defaultMax = 64 << 30
	// reserve is how much of the disk no image takes.
	reserve = 256 << 20
)

// Store is the images of a host. Its methods may be called concurrently, by several
// processes: who fetches or removes holds a lock, and who reads has names of his own for
// what he reads.
type Store struct{ cfg Config }

var _ container.Images = (*Store)(nil)

// Open opens the directory, which it makes if it is not there.
func Open(cfg Config) (*Store, error) {
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("images: %q is not an absolute path", cfg.Dir)
	}
	if err := cfg.Registries.Check(); err != nil {
		return nil, err
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = defaultMax
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Store{cfg}
	return s, errors.Join(os.MkdirAll(s.records(), 0o700), os.MkdirAll(s.parts(), 0o700), os.MkdirAll(s.reading(), 0o700))
}

// parts are the files of images, reading the other names of those that are being read.
func (s *Store) parts() string   { return filepath.Join(s.cfg.Dir, "parts") }
func (s *Store) reading() string { return filepath.Join(s.cfg.Dir, "reading") }

func (s *Store) part(d protocol.Digest) string { return filepath.Join(s.parts(), d.String()) }

// lockRetry is how often one who waits for another's pull looks whether it has ended.
const lockRetry = 100 * time.Millisecond

// change calls do with the parts, while no other process changes them.
func (s *Store) change(ctx context.Context, do func(*blob.Store) error) error {
	look := time.NewTicker(lockRetry)
	defer look.Stop()
	for {
		l, err := durable.TryLock(filepath.Join(s.cfg.Dir, "lock"))
		switch {
		case err == nil:
			defer l.Close()
			parts, err := blob.Open(s.parts(), failpoint.InputPlaced, reserve)
			if err != nil {
				return err
			}
			return do(parts)
		case !errors.Is(err, durable.ErrLocked):
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Store) records() string { return filepath.Join(s.cfg.Dir, "images") }

// Record is an image that this host has.
type Record struct {
	Reference string
	// Digest of the manifest, such as sha256:….
	Digest string
	// Bytes of all its parts, as they are stored.
	Bytes  int64
	Pulled time.Time
	// Used is when a container was made from it last, or it was pulled.
	Used time.Time `json:"-"`
	// Root tells that the layer is an archive of a root directory, of which nothing
	// promises more than the digest of the file.
	Root bool `json:",omitempty"`
	// Version is that of an image server.
	Version string `json:",omitempty"`
	// Key is that of the action that made the image of a container, and Kept how that
	// container was kept. Neither is set of others.
	Key  string          `json:",omitempty"`
	Kept json.RawMessage `json:",omitempty"`
	// Parts are the manifest, the configuration and the layers, in that order.
	Parts []protocol.Digest
}

// maxRecord bounds the file of a record, in bytes.
const maxRecord = 1 << 20

// file is where the record of a reference is, by its key.
func (s *Store) file(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(s.records(), hex.EncodeToString(sum[:])+".json")
}

func load(path string) (r Record, err error) {
	raw, err := durable.ReadFile(path, maxRecord)
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err == nil && len(r.Parts) < 2 {
		err = errors.New("it names no parts")
	}
	return r, err
}

func (s *Store) save(key string, r Record) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return durable.WriteFile(s.file(key), raw, 0o600, maxRecord)
}

// Fetch implements [container.Images].
func (s *Store) Fetch(ctx context.Context, reference, pull string, told func(string)) (container.Image, func(), error) {
	from, err := s.cfg.Registries.where(reference)
	if err != nil {
		return container.Image{}, nil, err
	}
	var img container.Image
	release, err := func() {}, fs.ErrNotExist
	local := container.IsLocalImage(reference)
	if pull != container.PullAlways || local {
		img, release, err = s.open(from.key)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && local:
		err = fmt.Errorf("%w: %s is made on a host, by hostler image promote or import, and no registry has it", ErrNotFound, reference)
	case errors.Is(err, fs.ErrNotExist) && pull == container.PullNever:
		err = fmt.Errorf("%w: %s; fetch it with hostler image pull, or let it be fetched with --pull missing", ErrNotFound, reference)
	case errors.Is(err, fs.ErrNotExist):
		if _, err = s.pull(ctx, wish{from, reference, told}); err == nil {
			img, release, err = s.open(from.key)
		}
	}
	img.Reference = reference
	return img, release, err
}

// open returns an image that is there; [fs.ErrNotExist] if a part of it is missing.
func (s *Store) open(key string) (img container.Image, release func(), err error) {
	r, err := load(s.file(key))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: its record cannot be read: %w", fs.ErrNotExist, err) // what is fetched again is whole
	}
	if err != nil {
		return img, nil, err
	}
	dir, err := s.hold(r.Parts)
	if err != nil {
		return img, nil, err
	}
	release = func() { _ = os.RemoveAll(dir) } // or Prune does
	defer func() {
		if err != nil {
			release()
		}
	}()
	raw, err := durable.ReadFile(filepath.Join(dir, r.Parts[1].String()), maxConfig)
	if err != nil {
		return img, nil, err
	}
	cfg, err := parseConfig(raw)
	if err != nil {
		return img, nil, err
	}
	if r.Root {
		cfg.RootFS.DiffIDs = make([]v1.Hash, len(r.Parts)-2)
	}
	if len(cfg.RootFS.DiffIDs) != len(r.Parts)-2 {
		return img, nil, fmt.Errorf("%w: its configuration tells of %d layers, its manifest of %d", ErrImage, len(cfg.RootFS.DiffIDs), len(r.Parts)-2)
	}
	img = container.Image{
		Digest: r.Digest, Entrypoint: cfg.Config.Entrypoint, Cmd: cfg.Config.Cmd, Env: cfg.Config.Env,
		User: cfg.Config.User, WorkingDir: cfg.Config.WorkingDir, StopSignal: cfg.Config.StopSignal,
	}
	for i, d := range r.Parts[2:] {
		l := container.Layer{Path: filepath.Join(dir, d.String())}
		if !r.Root {
			l.DiffID = cfg.RootFS.DiffIDs[i].String()
		}
		img.Layers = append(img.Layers, l)
	}
	now := s.cfg.Now() // when it was used last
	return img, release, os.Chtimes(s.file(key), now, now)
}

// hold gives the parts of an image other names in a directory of their own, under which
// they stay although the image is removed.
func (s *Store) hold(parts []protocol.Digest) (dir string, err error) {
	if dir, err = os.MkdirTemp(s.reading(), ""); err != nil {
		return "", err
	}
	for _, d := range parts {
		if err := os.Link(s.part(d), filepath.Join(dir, d.String())); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
	}
	return dir, nil
}

// List returns the images of the host by their references.
func (s *Store) List() ([]Record, error) {
	files, err := filepath.Glob(filepath.Join(s.records(), "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Record
	for _, f := range files {
		r, err := load(f)
		i, gone := os.Stat(f)
		if err != nil || gone != nil {
			continue // removed just now, or damaged: then it is fetched again
		}
		r.Used = i.ModTime()
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Record) int { return strings.Compare(a.Reference, b.Reference) })
	return all, nil
}

// Pull fetches an image although it may be there: its reference may mean another one now.
func (s *Store) Pull(ctx context.Context, reference string, told func(string)) (Record, error) {
	from, err := s.cfg.Registries.where(reference)
	if err == nil && container.IsLocalImage(reference) {
		err = fmt.Errorf("%w: %s is made on a host, by hostler image promote or import, and no registry has it", ErrReference, reference)
	}
	if err == nil && from.file != "" { // who pulls may not be who may read every file of the host
		err = fmt.Errorf("%w: %s is read when a container is made of it, and not before", ErrReference, reference)
	}
	if err != nil {
		return Record{}, err
	}
	return s.pull(ctx, wish{from, reference, told})
}

// Remove removes an image, and those of its parts that no other has. Containers that
// were made from it stay.
func (s *Store) Remove(ctx context.Context, reference string) (freed int64, err error) {
	from, err := s.known(reference)
	if err != nil {
		return 0, err
	}
	err = s.change(ctx, func(parts *blob.Store) error {
		switch _, err := os.Stat(s.file(from)); {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: %s", ErrNotFound, reference)
		case err != nil:
			return err
		}
		r, _ := load(s.file(from)) // the parts of a damaged one go later
		if err := durable.Remove(s.file(from)); err != nil {
			return err
		}
		freed, err = s.sweep(parts, leftTime, r)
		return err
	})
	return freed, err
}

// known is the key of an image that may be here, though its server is not configured any
// more.
func (s *Store) known(reference string) (string, error) {
	if !container.IsOCI(reference) && !container.IsWord(reference) {
		return reference, nil
	}
	from, err := s.cfg.Registries.where(reference)
	return from.key, err
}

// Limits are how much of the past a host keeps. Zero is no limit.
type Limits struct {
	// Age is how long an image is kept after its last use.
	Age time.Duration
	// Bytes is how large all images together may be; what was used last stays.
	Bytes int64
	// Fresh keeps what was used no longer ago, whatever it takes: a container may be about
	// to be made of it.
	Fresh time.Duration
	// Left keeps what a pull has left that was cut short, since bytes came last: the next
	// pull goes on with it.
	Left time.Duration
}

// Collect prunes at each tick until ctx ends, and tells what came of it.
func (s *Store) Collect(ctx context.Context, l Limits, ticks <-chan time.Time, told func(gone []Record, freed int64, err error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		gone, freed, err := s.Prune(ctx, l)
		if ctx.Err() == nil {
			told(gone, freed, err)
		}
	}
}

// Prune removes the images that exceed limits, and what is left of pulls that were not gone
// on with. It returns what it removed.
func (s *Store) Prune(ctx context.Context, l Limits) (gone []Record, freed int64, err error) {
	err = s.change(ctx, func(parts *blob.Store) error {
		all, err := s.List()
		if err != nil {
			return err
		}
		for _, r := range excess(all, l, s.cfg.Now()) {
			key, err := s.known(r.Reference)
			if err != nil {
				return err
			}
			if err := durable.Remove(s.file(key)); err != nil {
				return err
			}
			gone = append(gone, r)
		}
		freed, err = s.sweep(parts, l.Left, gone...)
		return err
	})
	return gone, freed, err
}

// excess are the images that exceed limits. What was made on a host stays: no server has
// it. So does what a clock that has jumped dates in the future.
func excess(all []Record, l Limits, now time.Time) (gone []Record) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Record) int { return b.Used.Compare(a.Used) })
	var total int64
	for _, r := range all {
		if container.IsLocalImage(r.Reference) {
			continue
		}
		total += r.Bytes
		if l.Fresh > 0 && now.Sub(r.Used) <= l.Fresh {
			continue
		}
		if l.Age > 0 && now.Sub(r.Used) > l.Age || l.Bytes > 0 && total > l.Bytes {
			gone = append(gone, r)
			total -= r.Bytes
		}
	}
	return gone
}

const (
	// readTime is longer than any reading of an image takes.
	readTime = 24 * time.Hour
	// leftTime is how long the removal of an image leaves what pulls of others have left.
	leftTime = 24 * time.Hour
)

// sweep removes the parts that no image has: of those that are gone at once, and of pulls
// that were cut short when nothing came for as long as left says. It also removes what
// readers and makers of root directories have left that were killed.
func (s *Store) sweep(parts *blob.Store, left time.Duration, gone ...Record) (freed int64, err error) {
	all, err := s.List()
	if err != nil {
		return 0, err
	}
	had := make(map[protocol.Digest]bool)
	for _, r := range all {
		for _, d := range r.Parts {
			had[d] = true
		}
	}
	theirs := make(map[protocol.Digest]bool)
	for _, r := range gone {
		for _, d := range r.Parts {
			theirs[d] = true
		}
	}
	sweep := func(before time.Time, keep func(protocol.Digest) bool) {
		_, e := parts.Sweep(before, func(d protocol.Digest) bool {
			if size, used, err := parts.Size(d); !keep(d) && err == nil && used.Before(before) {
				freed += size
			}
			return keep(d)
		})
		err = errors.Join(err, e)
	}
	soon := time.Now().Add(time.Hour) // a clock that was set back dates files ahead
	sweep(soon, func(d protocol.Digest) bool { return had[d] || !theirs[d] })
	if left > 0 {
		soon = time.Now().Add(-left)
	}
	sweep(soon, func(d protocol.Digest) bool { return had[d] })
	readers, e := os.ReadDir(s.reading())
	err = errors.Join(err, e, os.RemoveAll(s.building())) // the lock is held, so none is being made
	for _, r := range readers {
		if i, e := r.Info(); e == nil && time.Since(i.ModTime()) > readTime {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.reading(), r.Name())))
		}
	}
	return freed, err
}

// digestOf reads a digest of a manifest: the only ones there are, are of SHA-256.
func digestOf(h v1.Hash) (d protocol.Digest, err error) {
	if h.Algorithm != "sha256" {
		return d, fmt.Errorf("%w: a digest by %.20q", ErrImage, h.Algorithm)
	}
	return d, d.UnmarshalText([]byte(h.Hex))
}
