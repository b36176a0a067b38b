package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/hostler-io/hostler/internal/blob"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/protocol"
)

// layout is an image in files as the Open Container Initiative lays them out: a
// directory, or an archive of it.
type layout interface {
	// open opens a file by its path in the layout. It fails with [fs.ErrNotExist].
	open(path string) (io.ReadCloser, error)
}

const (
	layoutMark  = "oci-layout"
	layoutIndex = "index.json"
	partDir     = "blobs/sha256/"
)

// directory is a layout that lies in a directory. Nothing leads out of it.
type directory struct{ *os.Root }

func (d directory) open(path string) (io.ReadCloser, error) {
	return openRegular(d.Root.OpenFile, path)
}

// openRegular opens a file that is nothing else: no pipe may make a reader wait.
func openRegular(open func(string, int, fs.FileMode) (*os.File, error), path string) (*os.File, error) {
	f, err := open(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	i, err := f.Stat()
	if err == nil && !i.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file", ErrImage, path)
	}
	if err != nil {
		_ = f.Close() // it was only looked at
		return nil, err
	}
	return f, nil
}

// archive is a layout in an archive, by where its files begin.
type archive struct {
	file  *os.File
	files map[string][2]int64 // offset and size
}

// maxEntries bounds how many entries of an archive are looked at. An image has some
// dozens, and a root directory may have a million, of which the first ones tell.
const maxEntries = 4096

// newArchive reads the names in an archive that is not compressed. It returns nil if it
// is no layout.
func newArchive(f *os.File) *archive {
	a := &archive{f, make(map[string][2]int64)}
	for r, n := tar.NewReader(f), 0; n < maxEntries; n++ {
		h, err := r.Next()
		if err != nil {
			break
		}
		if at, err := f.Seek(0, io.SeekCurrent); err == nil && h.Typeflag == tar.TypeReg && !sparse(h) {
			a.files[path.Clean(h.Name)] = [2]int64{at, h.Size}
		}
	}
	if _, ok := a.files[layoutMark]; !ok {
		return nil
	}
	return a
}

// sparse reports whether an entry is written with holes. Its size is then not that of the
// bytes in the archive, and what is hashed is not what lies at its place.
func sparse(h *tar.Header) bool {
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return true
		}
	}
	return false
}

func (a *archive) open(path string) (io.ReadCloser, error) {
	at, ok := a.files[path]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return io.NopCloser(io.NewSectionReader(a.file, at[0], at[1])), nil
}

// small reads a small file of a layout.
func small(l layout, path string, most int64) ([]byte, error) {
	f, err := l.open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrImage, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%w: its %s has more than %d bytes", ErrImage, path, most)
	}
	return b, err
}

func blobPath(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

// manifestOf returns the manifest of the image of a layout that is for this host.
func manifestOf(l layout) ([]byte, error) {
	raw, err := small(l, layoutIndex, maxManifest)
	if err != nil {
		return nil, err
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil || len(index.Manifests) == 0 {
		return nil, fmt.Errorf("%w: its index names no image: %v", ErrImage, err)
	}
	one := index.Manifests[0]
	if len(index.Manifests) > 1 {
		if one, err = choose(raw); err != nil {
			return nil, err
		}
	}
	for range 2 { // an index in the index is one for several machines
		if _, err := digestOf(one.Digest); err != nil {
			return nil, err
		}
		if raw, err = small(l, blobPath(one.Digest), maxManifest); err != nil {
			return nil, err
		}
		if got := protocol.Sum(raw).String(); got != one.Digest.Hex {
			return nil, fmt.Errorf("%w: its manifest has the digest %s, and its index names %s", ErrImage, got, one.Digest.Hex)
		}
		if !types.MediaType(one.MediaType).IsIndex() {
			break
		}
		if one, err = choose(raw); err != nil {
			return nil, err
		}
	}
	return raw, nil
}

// takeLayout takes the image of a layout that is for this host. Each part is held
// against its digest.
func (s *Store) takeLayout(store *blob.Store, l layout) (Record, error) {
	raw, err := manifestOf(l)
	if err != nil {
		return Record{}, err
	}
	return s.takeManifest(store, raw, func(p v1.Descriptor, d protocol.Digest) error {
		if _, _, err := store.Size(d); err == nil {
			return nil
		}
		from, err := l.open(blobPath(p.Digest))
		if err != nil {
			return fmt.Errorf("%w: %w", ErrImage, err)
		}
		defer from.Close()
		f, err := store.Fill(d, p.Size)
		if err != nil {
			return err
		}
		defer f.Close()
		err = f.Restart()
		if err == nil {
			_, err = io.Copy(f, from)
		}
		if err != nil {
			return err
		}
		_, err = f.Finish()
		return err
	})
}

// takeManifest notes an image, whose parts take brings.
func (s *Store) takeManifest(store *blob.Store, raw []byte, take func(v1.Descriptor, protocol.Digest) error) (Record, error) {
	parts, err := parseManifest(raw, s.cfg.MaxBytes)
	if err != nil {
		return Record{}, err
	}
	manifest := protocol.Sum(raw)
	r := Record{Digest: "sha256:" + manifest.String(), Pulled: s.cfg.Now(), Parts: []protocol.Digest{manifest}}
	if err := put(store, manifest, raw); err != nil {
		return Record{}, err
	}
	for _, p := range parts {
		d, err := digestOf(p.Digest)
		if err != nil {
			return Record{}, err
		}
		if err := take(p, d); err != nil {
			return Record{}, fmt.Errorf("part %s: %w", p.Digest, err)
		}
		r.Parts = append(r.Parts, d)
		r.Bytes += p.Size
	}
	config, err := durable.ReadFile(s.part(r.Parts[1]), maxConfig)
	if err != nil {
		return Record{}, err
	}
	_, err = parseConfig(config)
	return r, err
}

// takeRoot makes an image of an archive of a root directory that the store has: one
// layer, and nothing that says what runs.
func (s *Store) takeRoot(store *blob.Store, root protocol.Digest, size int64) (Record, error) {
	config, err := json.Marshal(map[string]any{"architecture": runtime.GOARCH, "os": "linux", "config": struct{}{}, "rootfs": map[string]any{"type": "layers"}})
	if err != nil {
		return Record{}, err
	}
	r, err := s.takeLayer(store, config, v1.Descriptor{MediaType: types.OCIUncompressedLayer, Size: size, Digest: hashOf(root)}, nil)
	r.Digest, r.Root = "sha256:"+root.String(), true // what people can compare
	return r, err
}

func hashOf(d protocol.Digest) v1.Hash { return v1.Hash{Algorithm: "sha256", Hex: d.String()} }

// takeLayer makes an image of a configuration and one layer that the store has.
func (s *Store) takeLayer(store *blob.Store, config []byte, layer v1.Descriptor, notes map[string]string) (Record, error) {
	sum := protocol.Sum(config)
	if err := put(store, sum, config); err != nil {
		return Record{}, err
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: types.OCIConfigJSON, Size: int64(len(config)), Digest: hashOf(sum)},
		Layers: []v1.Descriptor{layer}, Annotations: notes,
	})
	if err != nil {
		return Record{}, err
	}
	return s.takeManifest(store, manifest, func(v1.Descriptor, protocol.Digest) error { return nil })
}

// takeFile makes an image of a file in the store: an archive of a layout, or of a root
// directory.
func (s *Store) takeFile(store *blob.Store, d protocol.Digest) (Record, error) {
	f, err := store.Open(d)
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	if a := newArchive(f); a != nil {
		r, err := s.takeLayout(store, a)
		return r, errors.Join(err, store.Remove(d)) // its parts are in the store now
	}
	i, err := f.Stat()
	if err != nil {
		return Record{}, err
	}
	return s.takeRoot(store, d, i.Size())
}

// fromFile takes an image from a file or directory of this host.
func (s *Store) fromFile(ctx context.Context, store *blob.Store, w wish) (Record, error) {
	if i, err := os.Stat(w.from.file); err == nil && i.IsDir() {
		if w.from.sum != nil {
			return Record{}, fmt.Errorf("%w: a directory has no digest", ErrReference)
		}
		root, err := os.OpenRoot(w.from.file)
		if err != nil {
			return Record{}, err
		}
		defer root.Close()
		if _, err := root.Stat(layoutMark); err != nil {
			return Record{}, fmt.Errorf("%w: %s is a directory without a file %s: give an OCI layout, or an archive", ErrImage, w.from.file, layoutMark)
		}
		return s.takeLayout(store, directory{root})
	}
	f, err := openRegular(os.OpenFile, w.from.file)
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	return s.takeStream(ctx, store, w, f, func() {})
}

// takeStream keeps what comes, whose size is unknown, and makes an image of it.
func (s *Store) takeStream(ctx context.Context, store *blob.Store, w wish, from io.Reader, alive func()) (Record, error) {
	f, err := store.FillNew(s.cfg.MaxBytes)
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	came := int64(0)
	if err := copyTo(ctx, f, from, func(n int64) {
		if w.told != nil && (came+n)>>20 != came>>20 {
			w.told(fmt.Sprintf("pulling %s, %d MiB", w.reference, (came+n)>>20))
		}
		came += n
	}, func() {
		alive()
	}); err != nil {
		return Record{}, err
	}
	d, err := f.Finish()
	if err != nil {
		return Record{}, err
	}
	if w.from.sum != nil && d != *w.from.sum {
		return Record{}, errors.Join(fmt.Errorf("%w: it has the digest %s, and %s was asked for", ErrImage, d, w.from.sum), store.Remove(d))
	}
	return s.takeFile(store, d)
}

// fromURL takes an image from a file that some server has.
func (s *Store) fromURL(ctx context.Context, store *blob.Store, w wish) (Record, error) {
	c := s.cfg.Registries.client()
	defer c.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := get(ctx, c, w.from.url.String(), nil, http.StatusOK)
	if err != nil {
		return Record{}, err
	}
	defer resp.Body.Close()
	stalled := afterStall(cancel)
	defer stalled.Stop()
	return s.takeStream(ctx, store, w, resp.Body, func() { stalled.Reset(stallTime) })
}

// client asks servers that are no registries.
func (r *Registries) client() *http.Client {
	t := r.transport()
	return &http.Client{Transport: closing{guard{t, r.Insecure}, t}}
}

// get asks for a file of a server.
func get(ctx context.Context, c *http.Client, address string, header http.Header, codes ...int) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if err := transport.CheckError(resp, codes...); err != nil {
		_ = resp.Body.Close() // the error is what counts
		return nil, err
	}
	return resp, nil
}

// clean reports whether a path stays below the directory that it is added to.
func clean(p string) bool {
	return p != "" && filepath.IsLocal(p) && path.Clean(p) == p && !strings.ContainsAny(p, "?#\\%") && !strings.Contains(p, "://")
}
