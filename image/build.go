package image

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/debootstrap"
	"github.com/hostler-io/hostler/image/rootfs"
	"github.com/hostler-io/hostler/internal/blob"
)

// buildRoom is how much of the disk is free before a root directory is made of packages:
// one of Debian takes a quarter of it, and its packages and the archive less than that.
const buildRoom = 1 << 30

// building is where a root directory is made. Who makes one holds the lock.
func (s *Store) building() string { return filepath.Join(s.cfg.Dir, "building") }

// proxyTo is the URL of the proxy by which an address is reached; empty if there is none.
func (r *Registries) proxyTo(address string) (string, error) {
	req, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	u, err := r.transport().Proxy(req)
	if err != nil || u == nil {
		return "", err
	}
	return u.String(), nil
}

// fromPackages makes an image of the packages of a suite: an archive of a root directory,
// without what each container has for itself.
func (s *Store) fromPackages(ctx context.Context, parts *blob.Store, w wish) (r Record, err error) {
	if err := parts.Room(buildRoom); err != nil {
		return r, err
	}
	// What an earlier one has left that was cut short has an end here, too.
	if err := errors.Join(os.RemoveAll(s.building()), os.Mkdir(s.building(), 0o700)); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.building())) }()
	dir := filepath.Join(s.building(), "root")
	proxy, err := s.cfg.Registries.proxyTo(w.from.mirror)
	if err != nil {
		return r, err
	}
	from := debootstrap.Request{Suite: w.from.suite, Mirror: w.from.mirror, Proxy: proxy, Dir: dir}
	err = debootstrap.Make(ctx, from, func(step string) {
		if w.told != nil {
			w.told("making " + w.reference + ": " + step)
		}
	})
	if err != nil {
		return r, err
	}
	if w.told != nil {
		w.told("packing " + w.reference)
	}
	f, err := parts.FillNew(s.cfg.MaxBytes)
	if err != nil {
		return r, err
	}
	defer f.Close()
	z, err := rootfs.Compress(f)
	if err != nil {
		return r, err
	}
	_, err = rootfs.ArchiveAnew(ctx, dir, container.IDRange{}, z)
	if err := errors.Join(err, z.Close()); err != nil {
		return r, err
	}
	size := f.Offset()
	d, err := f.Finish()
	if err != nil {
		return r, err
	}
	return s.takeRoot(parts, d, size)
}
