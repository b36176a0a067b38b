package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/blob"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
)

var _ container.ImageMaker = (*Store)(nil)

// baseNote is the annotation by which the Open Container Initiative names what an image
// was made from.
const baseNote = "org.opencontainers.image.base.name"

// Make implements [container.ImageMaker]. What is written stays a part that no image has
// until the record of the image is there.
func (s *Store) Make(ctx context.Context, p container.Promotion, img container.Image, base string, write func(context.Context, io.Writer) (string, error)) error {
	from, err := s.cfg.Registries.where(p.Reference)
	if err != nil {
		return err
	}
	if !container.IsLocalImage(from.key) {
		return fmt.Errorf("%w: %s: an image that is made on a host begins with %s", ErrReference, p.Reference, container.LocalImage)
	}
	return s.change(ctx, func(parts *blob.Store) error {
		switch there, err := load(s.file(from.key)); {
		case err == nil && p.Key != "" && there.Key == p.Key:
			return nil
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: this host has an image %s already; choose another version, or remove it: hostler image rm", container.ErrExists, p.Reference)
		}
		layer, diffID, err := s.writeLayer(ctx, parts, write)
		if err != nil {
			return err
		}
		config, err := configOf(img, diffID, s.cfg.Now())
		if err != nil {
			return err
		}
		r, err := s.takeLayer(parts, config, layer, map[string]string{baseNote: base})
		if err != nil {
			return err
		}
		r.Reference, r.Key, r.Kept = from.key, p.Key, p.Kept
		failpoint.Before(failpoint.ImageMade)
		err = s.save(from.key, r)
		failpoint.After(failpoint.ImageMade)
		return err
	})
}

// writeLayer keeps what write writes as a part.
func (s *Store) writeLayer(ctx context.Context, parts *blob.Store, write func(context.Context, io.Writer) (string, error)) (layer v1.Descriptor, diffID v1.Hash, err error) {
	f, err := parts.FillNew(s.cfg.MaxBytes)
	if err != nil {
		return layer, diffID, err
	}
	defer f.Close()
	said, err := write(ctx, f)
	if err == nil {
		diffID, err = v1.NewHash(said)
	}
	if err != nil {
		return layer, diffID, err
	}
	size := f.Offset()
	d, err := f.Finish()
	return v1.Descriptor{MediaType: types.OCILayerZStd, Size: size, Digest: hashOf(d)}, diffID, err
}

// configOf is the configuration of an image of one layer.
func configOf(img container.Image, diffID v1.Hash, now time.Time) ([]byte, error) {
	c := v1.ConfigFile{
		Architecture: runtime.GOARCH, OS: "linux", Created: v1.Time{Time: now.UTC()},
		RootFS:  v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{diffID}},
		History: []v1.History{{Created: v1.Time{Time: now.UTC()}, CreatedBy: "hostler image promote"}},
		Config:  v1.Config{Entrypoint: img.Entrypoint, Cmd: img.Cmd, Env: img.Env, User: img.User, WorkingDir: img.WorkingDir, StopSignal: img.StopSignal},
	}
	return json.Marshal(c)
}

// Kept implements [container.ImageMaker].
func (s *Store) Kept(reference string) ([]byte, error) {
	key, err := s.known(reference)
	if err != nil {
		return nil, err
	}
	r, err := load(s.file(key))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %w: %s", container.ErrNotFound, ErrNotFound, reference)
	case err != nil:
		return nil, err
	case r.Kept == nil:
		return nil, fmt.Errorf("%w: the image %s was not made of a container, so nothing says how one of it is kept; create one: hostler ct create", container.ErrUnsupported, reference)
	}
	return r.Kept, nil
}

// Forget implements [container.ImageMaker].
func (s *Store) Forget(ctx context.Context, reference string) error {
	key, err := s.known(reference)
	if err != nil {
		return err
	}
	return s.change(ctx, func(parts *blob.Store) error {
		r, err := load(s.file(key))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %w: %s", container.ErrNotFound, ErrNotFound, reference)
		}
		failpoint.Before(failpoint.ImageForgotten)
		err = durable.Remove(s.file(key))
		failpoint.After(failpoint.ImageForgotten)
		if err == nil {
			_, err = s.sweep(parts, leftTime, r)
		}
		return err
	})
}
