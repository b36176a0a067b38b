package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/frame"
)

// Manifest says what the archive of an image holds.
type Manifest struct {
	Form string `json:"hostler"`
	// Reference that the image is called by, and Digest of its manifest.
	Reference string         `json:"reference"`
	Digest    string         `json:"digest"`
	Runtime   container.Kind `json:"runtime"`
	// Parent is what the image was made from; empty if nobody knows.
	Parent       string `json:"parent,omitempty"`
	Architecture string `json:"architecture"`
	// Host has made the archive, at a time in Unix milliseconds of its clock.
	Host string `json:"host"`
	Made int64  `json:"made_ms"`
	// Root and Kept are those of [Record].
	Root bool            `json:"root,omitempty"`
	Kept json.RawMessage `json:"kept,omitempty"`
	// Bytes and SHA256 are those of the archive before the manifest, Parts its files.
	Bytes  int64     `json:"bytes"`
	SHA256 string    `json:"sha256"`
	Parts  []Content `json:"parts"`
}

// Content is a file of an archive.
type Content struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

const (
	// form is the first member of each manifest, so that what is signed as one means
	// nothing else.
	form = "image/1"
	// mark ends an archive.
	mark = "hostlri1"
)

// ErrArchive says that a file is no archive of an image that can be used.
var ErrArchive = errors.New("the archive of the image cannot be used")

// Seal signs a manifest: what it returns shows that this host has signed it.
type Seal func(manifest []byte) (signature []byte, err error)

// refName is the annotation by which an index names an image.
const refName = "org.opencontainers.image.ref.name"

// Export writes the archive of an image: an OCI layout with all its layers, in a tar
// archive, and the signed manifest behind it. It returns the manifest.
func (s *Store) Export(ctx context.Context, to io.Writer, reference, host string, seal Seal) (Manifest, error) {
	key, err := s.known(reference)
	if err != nil {
		return Manifest{}, err
	}
	r, err := load(s.file(key))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %s", ErrNotFound, reference)
	}
	if err != nil {
		return Manifest{}, err
	}
	dir, err := s.hold(r.Parts)
	if err != nil {
		return Manifest{}, err
	}
	defer os.RemoveAll(dir) // or Prune does
	raw, err := durable.ReadFile(filepath.Join(dir, r.Parts[0].String()), maxManifest)
	if err != nil {
		return Manifest{}, err
	}
	of, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return Manifest{}, fmt.Errorf("%w: reading its manifest: %w", ErrImage, err)
	}
	index, err := indexOf(raw, r.Reference)
	if err != nil {
		return Manifest{}, err
	}
	w := newPacking(to)
	err = errors.Join(
		w.put(layoutMark, bytes.NewReader([]byte(`{"imageLayoutVersion":"1.0.0"}`)), 30),
		w.put(layoutIndex, bytes.NewReader(index), int64(len(index))))
	for _, d := range r.Parts {
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = w.file(blobPath(hashOf(d)), filepath.Join(dir, d.String()))
		}
	}
	if err != nil {
		return Manifest{}, err
	}
	return w.end(Manifest{
		Reference: r.Reference, Digest: r.Digest, Runtime: container.KindLXC, Parent: of.Annotations[baseNote],
		Host: host, Made: s.cfg.Now().UnixMilli(), Root: r.Root, Kept: r.Kept,
	}, seal)
}

// indexOf is the index of a layout with one image.
func indexOf(manifest []byte, reference string) ([]byte, error) {
	of, err := v1.ParseManifest(bytes.NewReader(manifest))
	if err != nil {
		return nil, fmt.Errorf("%w: reading its manifest: %w", ErrImage, err)
	}
	if of.MediaType == "" {
		of.MediaType = types.OCIManifestSchema1
	}
	sum := sha256.Sum256(manifest)
	return json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{{
		MediaType: of.MediaType, Size: int64(len(manifest)), Digest: hashOf(sum), Annotations: map[string]string{refName: reference},
		Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH},
	}}})
}

// Pack writes the archive of an image that another program gives as an OCI layout in a tar
// archive. The manifest says what it is.
func Pack(to io.Writer, from io.Reader, m Manifest, seal Seal) (Manifest, error) {
	p := newPacking(to)
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if err == io.EOF {
			return p.end(m, seal)
		}
		if err != nil {
			return m, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := p.put(path.Clean(h.Name), r, h.Size); err != nil {
			return m, err
		}
	}
}

// packing writes an archive, and notes what it writes.
type packing struct {
	to    io.Writer
	tar   *tar.Writer
	sum   hash.Hash
	bytes int64
	parts []Content
}

func newPacking(to io.Writer) *packing {
	p := &packing{to: to, sum: sha256.New()}
	p.tar = tar.NewWriter(p)
	return p
}

// Write writes bytes of the archive.
func (p *packing) Write(b []byte) (int, error) {
	n, err := p.to.Write(b)
	p.sum.Write(b[:n])
	p.bytes += int64(n)
	return n, err
}

func (p *packing) file(name, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil {
		return err
	}
	return p.put(name, f, i.Size())
}

func (p *packing) put(name string, from io.Reader, size int64) error {
	if err := p.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Clean(name), Size: size, Mode: 0o644}); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(p.tar, sum), from); err != nil {
		return err
	}
	p.parts = append(p.parts, Content{name, size, hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// end writes the end of the archive and its manifest, which it completes.
func (p *packing) end(m Manifest, seal Seal) (Manifest, error) {
	if err := p.tar.Close(); err != nil {
		return m, err
	}
	m.Form, m.Architecture, m.Bytes, m.SHA256, m.Parts = form, runtime.GOARCH, p.bytes, hex.EncodeToString(p.sum.Sum(nil)), p.parts
	body, err := json.Marshal(m)
	if err != nil {
		return m, err
	}
	sig, err := seal(body)
	if err != nil {
		return m, err
	}
	end, err := frame.Append(mark, body, sig)
	if err == nil {
		_, err = p.to.Write(end)
	}
	return m, err
}
