package lxc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
)

var _ container.Promoter = (*Runtime)(nil)

// maker is what makes the images of this host.
func (r *Runtime) maker() (container.ImageMaker, error) {
	if m, ok := r.cfg.Images.(container.ImageMaker); ok {
		return m, nil
	}
	return nil, fmt.Errorf("%w: this host keeps no images for LXC", container.ErrUnsupported)
}

// Promote implements container.Promoter.
func (r *Runtime) Promote(ctx context.Context, name string, p container.Promotion) error {
	m, err := r.maker()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.Deadlines.Create, container.ErrTimeout)
	defer cancel()
	img, err := r.Describe(ctx, name)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.cfg.LXCPath, name)
	rec, err := readRecord(dir)
	if err != nil {
		return fmt.Errorf("lxc promote %q: its record: %w", name, err)
	}
	base := strings.TrimSuffix(rec.Template+"@"+rec.Digest, "@")
	err = m.Make(ctx, p, img, base, func(ctx context.Context, w io.Writer) (string, error) {
		plain := sha256.New()
		z, err := rootfs.Compress(w)
		if err != nil {
			return "", err
		}
		err = r.WithTree(ctx, name, func(root string) error {
			_, err := rootfs.ArchiveAnew(ctx, root, rec.IDs, io.MultiWriter(z, plain))
			return err
		})
		return "sha256:" + hex.EncodeToString(plain.Sum(nil)), errors.Join(err, z.Close())
	})
	if err != nil {
		return fmt.Errorf("lxc promote %q: %w", name, err)
	}
	return nil
}

// Kept implements container.Promoter.
func (r *Runtime) Kept(_ context.Context, reference string) ([]byte, error) {
	m, err := r.maker()
	if err != nil {
		return nil, err
	}
	return m.Kept(reference)
}

// Forget implements container.Promoter.
func (r *Runtime) Forget(ctx context.Context, reference string) error {
	m, err := r.maker()
	if err != nil {
		return err
	}
	return m.Forget(ctx, reference)
}
