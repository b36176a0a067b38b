package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
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
	// Dir is the directory of the images, which belongs to one process.
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

// Store is the images of a host. Its methods may be called concurrently.
type Store struct {
	cfg   Config
	blobs *blob.Store

	mu   sync.Mutex
	used map[protocol.Digest]int // parts that somebody is about to read
}

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
	s := &Store{cfg: cfg, used: make(map[protocol.Digest]int)}
	if err := os.MkdirAll(s.records(), 0o700); err != nil {
		return nil, err
	}
	var err error
	s.blobs, err = blob.Open(filepath.Join(cfg.Dir, "parts"), failpoint.InputPlaced, reserve)
	return s, err
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
	Used   time.Time
	// Parts are the manifest, the configuration and the layers, in that order.
	Parts []protocol.Digest
}

// maxRecord bounds the file of a record, in bytes.
const maxRecord = 1 << 20

// file is where the record of a reference is.
func (s *Store) file(ref name.Reference) string {
	sum := sha256.Sum256([]byte(ref.Name()))
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

func (s *Store) save(ref name.Reference, r Record) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return durable.WriteFile(s.file(ref), raw, 0o600, maxRecord)
}

// Fetch implements [container.Images]. An image that is there is not asked for again.
func (s *Store) Fetch(ctx context.Context, reference string, told func(string)) (container.Image, func(), error) {
	ref, err := parse(reference)
	if err != nil {
		return container.Image{}, nil, err
	}
	img, release, err := s.open(ref)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err = s.pull(ctx, ref, reference, told); err == nil {
			img, release, err = s.open(ref)
		}
	}
	img.Reference = reference
	return img, release, err
}

// open returns an image that is there; [fs.ErrNotExist] if a part of it is missing.
func (s *Store) open(ref name.Reference) (img container.Image, release func(), err error) {
	r, err := load(s.file(ref))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: its record cannot be read: %w", fs.ErrNotExist, err) // what is fetched again is whole
	}
	if err != nil {
		return img, nil, err
	}
	release = s.use(r.Parts)
	defer func() {
		if err != nil {
			release()
			release = nil
		}
	}()
	for _, d := range r.Parts {
		if err := s.blobs.Use(d, s.cfg.Now()); err != nil {
			return img, release, err
		}
	}
	raw, err := s.read(r.Parts[1], maxConfig)
	if err != nil {
		return img, release, err
	}
	cfg, err := parseConfig(raw)
	if err != nil {
		return img, release, err
	}
	if len(cfg.RootFS.DiffIDs) != len(r.Parts)-2 {
		return img, release, fmt.Errorf("its configuration tells of %d layers, its manifest of %d", len(cfg.RootFS.DiffIDs), len(r.Parts)-2)
	}
	img = container.Image{
		Digest: r.Digest, Entrypoint: cfg.Config.Entrypoint, Cmd: cfg.Config.Cmd, Env: cfg.Config.Env,
		User: cfg.Config.User, WorkingDir: cfg.Config.WorkingDir, StopSignal: cfg.Config.StopSignal,
	}
	for i, d := range r.Parts[2:] {
		img.Layers = append(img.Layers, container.Layer{Path: s.blobs.Path(d), DiffID: cfg.RootFS.DiffIDs[i].String()})
	}
	r.Used = s.cfg.Now()
	return img, release, s.save(ref, r)
}

// use keeps parts from being removed, until release.
func (s *Store) use(parts []protocol.Digest) (release func()) {
	add := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, d := range parts {
			if s.used[d] += n; s.used[d] == 0 {
				delete(s.used, d)
			}
		}
	}
	add(1)
	return sync.OnceFunc(func() { add(-1) })
}

// read returns a small part.
func (s *Store) read(d protocol.Digest, most int64) ([]byte, error) {
	f, err := s.blobs.Open(d)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("%w: more than %d bytes", ErrImage, most)
	}
	return raw, err
}

// List returns the images of the host by their references.
func (s *Store) List() ([]Record, error) {
	files, err := filepath.Glob(filepath.Join(s.records(), "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Record
	for _, f := range files {
		if r, err := load(f); err == nil { // a damaged one is fetched again
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b Record) int { return strings.Compare(a.Reference, b.Reference) })
	return all, nil
}

// Pull fetches an image although it may be there: its reference may mean another one now.
func (s *Store) Pull(ctx context.Context, reference string, told func(string)) (Record, error) {
	ref, err := parse(reference)
	if err != nil {
		return Record{}, err
	}
	return s.pull(ctx, ref, reference, told)
}

// Remove removes an image, and those of its parts that no other has. Containers that
// were made from it stay.
func (s *Store) Remove(reference string) (freed int64, err error) {
	ref, err := parse(reference)
	if err != nil {
		return 0, err
	}
	switch _, err := os.Stat(s.file(ref)); {
	case errors.Is(err, fs.ErrNotExist):
		return 0, fmt.Errorf("%w: %s", ErrNotFound, reference)
	case err != nil:
		return 0, err
	}
	if err := durable.Remove(s.file(ref)); err != nil {
		return 0, err
	}
	return s.sweep(s.cfg.Now())
}

// sweep removes the parts that no image has and nobody reads, and those that were begun
// and not gone on with since before.
func (s *Store) sweep(before time.Time) (freed int64, err error) {
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
	s.mu.Lock() // nobody begins to read meanwhile
	defer s.mu.Unlock()
	_, err = s.blobs.Sweep(before, func(d protocol.Digest) bool {
		keep := had[d] || s.used[d] > 0
		if size, _, err := s.blobs.Size(d); !keep && err == nil {
			freed += size
		}
		return keep
	})
	return freed, err
}

// digestOf reads a digest of a manifest: the only ones there are, are of SHA-256.
func digestOf(h v1.Hash) (d protocol.Digest, err error) {
	if h.Algorithm != "sha256" {
		return d, fmt.Errorf("%w: a digest by %.20q", ErrImage, h.Algorithm)
	}
	return d, d.UnmarshalText([]byte(h.Hex))
}
