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
	"io"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
	"github.com/hostler-io/hostler/internal/blob"
	"github.com/hostler-io/hostler/internal/frame"
	"github.com/hostler-io/hostler/protocol"
)

// Trust returns the host whose key has signed a manifest. It fails if this host does not know
// the key, or the signature is not one of these bytes.
type Trust func(manifest, signature []byte) (signer string, err error)

// Import takes an image from an archive that [Store.Export] wrote. All of it is verified
// before anything is written: the signature, the digest of each part, and that each layer
// could be unpacked. An archive whose signer is not known, or that has no signature, is
// taken by a name of its own alone, which as gives it; else as is empty. The same image of
// the same name is nil, and stays as this host has noted it; another one is
// [container.ErrExists].
func (s *Store) Import(ctx context.Context, f *os.File, as string, trust Trust) (r Record, signer string, err error) {
	v, err := Verify(ctx, f, as, s.cfg.MaxBytes, trust)
	if err != nil {
		return r, "", err
	}
	from, err := s.cfg.Registries.where(v.Reference)
	if err != nil {
		return r, "", err
	}
	err = s.change(ctx, func(parts *blob.Store) error {
		there, err := load(s.file(from.key))
		had := err == nil
		switch {
		case had && there.Digest != v.digest:
			return fmt.Errorf("%w: this host has another image %s; remove it first: hostler image rm", container.ErrExists, v.Reference)
		case !had && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if r, err = s.takeLayout(parts, v.files); err != nil {
			return err
		}
		if had {
			r = there
			return nil
		}
		r.Reference, r.Digest, r.Root, r.Kept = v.Reference, v.digest, v.Root, v.Kept
		return s.save(from.key, r)
	})
	return r, v.Signer, err
}

// Verified is an archive of which all has been verified.
type Verified struct {
	Manifest
	// Signer is the host that has signed it; empty if nothing shows that.
	Signer string
	digest string // that the store notes
	files  *archive
}

// Verify verifies an archive, as [Store.Import] does, whose image may have so many bytes.
func Verify(ctx context.Context, f *os.File, as string, most int64, trust Trust) (v Verified, err error) {
	i, err := f.Stat()
	if err != nil {
		return v, err
	}
	if !i.Mode().IsRegular() {
		return v, fmt.Errorf("%w: it is no regular file", ErrArchive)
	}
	if v.Manifest, v.Signer, err = readEnd(f, i.Size(), as != "", trust); err != nil {
		return v, err
	}
	if as != "" {
		v.Reference, v.Kept = as, nil
	}
	if v.files, err = scan(ctx, f, &v.Manifest); err != nil {
		return v, err
	}
	v.digest, err = checkLayers(v.files, v.Root, most)
	return v, err
}

// Repack writes the archive as an OCI layout in which the image has the name that it is
// taken by, and no other. What else the archive holds stays behind: podman would take a
// manifest.json for the form of another tool, with names and layers of its own.
func (v Verified) Repack(to io.Writer) error {
	raw, err := manifestOf(v.files)
	if err != nil {
		return err
	}
	index, err := indexOf(raw, v.Reference)
	if err != nil {
		return err
	}
	p := newPacking(to)
	if err := p.put(layoutIndex, bytes.NewReader(index), int64(len(index))); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(v.files.files)) {
		if name != layoutMark && !strings.HasPrefix(name, partDir) {
			continue
		}
		f, err := v.files.open(name)
		if err == nil {
			err = p.put(name, f, v.files.files[name][1])
		}
		if err != nil {
			return err
		}
	}
	return p.tar.Close()
}

// readEnd reads the manifest behind an archive. Without a manifest, or without a signature of
// a known key, nothing of it is believed, and anyhow tells that the archive may be taken.
func readEnd(f io.ReaderAt, size int64, anyhow bool, trust Trust) (m Manifest, signer string, err error) {
	raw, sig, bytesBefore, err := frame.Read(f, size, mark)
	if errors.Is(err, frame.ErrFrame) && anyhow {
		return Manifest{Bytes: size}, "", nil
	}
	if err != nil {
		return m, "", fmt.Errorf("%w: %w; an archive without a signature is taken with --allow-unsigned and a name", ErrArchive, err)
	}
	signer, err = trust(raw, sig)
	switch {
	case err != nil && anyhow:
		return Manifest{Bytes: bytesBefore}, "", nil
	case err != nil:
		return m, "", fmt.Errorf("%w: %w; if you trust it for another reason, give --allow-unsigned and a name", ErrArchive, err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil || m.Form != form {
		return Manifest{}, "", fmt.Errorf("%w: its manifest is in no form that this version knows", ErrArchive)
	}
	switch {
	case m.Bytes != bytesBefore:
		return Manifest{}, "", fmt.Errorf("%w: it has %d bytes, and its manifest tells of %d", ErrArchive, bytesBefore, m.Bytes)
	case m.Architecture != runtime.GOARCH:
		return Manifest{}, "", fmt.Errorf("%w: %w: it is for %.20s, and this host is %s", container.ErrUnsupported, ErrArchive, m.Architecture, runtime.GOARCH)
	case m.Reference == "" || len(m.Parts) == 0:
		return Manifest{}, "", fmt.Errorf("%w: its manifest names no image", ErrArchive)
	}
	return m, signer, nil
}

// scan reads all of an archive, and holds it against its manifest, if it has one. The names
// of parts are their digests, which are counted.
func scan(ctx context.Context, f *os.File, m *Manifest) (*archive, error) {
	section := io.NewSectionReader(f, 0, m.Bytes)
	whole := sha256.New()
	a := &archive{f, make(map[string][2]int64)}
	for r, n := tar.NewReader(section), 0; ; n++ {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil || n >= maxEntries {
			return nil, fmt.Errorf("%w: it is no tar archive of at most %d files: %v", ErrArchive, maxEntries, err)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		name := strings.TrimPrefix(strings.TrimSuffix(h.Name, "/"), "./")
		switch _, twice := a.files[name]; {
		case h.Typeflag == tar.TypeDir && clean(name):
			continue
		case h.Typeflag != tar.TypeReg || !clean(name) || twice:
			return nil, fmt.Errorf("%w: it has a file %.200q, which no image has", ErrArchive, h.Name)
		case sparse(h):
			return nil, fmt.Errorf("%w: its file %.200q is written with holes; write it without --sparse", ErrArchive, name)
		}
		at, err := section.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, r); err != nil {
			return nil, fmt.Errorf("%w: %.200q: %w", ErrArchive, name, err)
		}
		digest := hex.EncodeToString(sum.Sum(nil))
		if part, ok := strings.CutPrefix(name, partDir); ok && part != digest {
			return nil, fmt.Errorf("%w: its part %.64s has the digest %s", ErrArchive, part, digest)
		}
		if m.Form != "" && (len(a.files) >= len(m.Parts) || m.Parts[len(a.files)] != Content{name, h.Size, digest}) {
			return nil, fmt.Errorf("%w: its part %.200q is not the one that its manifest tells of", ErrArchive, name)
		}
		a.files[name] = [2]int64{at, h.Size}
	}
	if _, ok := a.files[layoutMark]; !ok || m.Form != "" && len(a.files) != len(m.Parts) {
		return nil, fmt.Errorf("%w: parts of it are missing", ErrArchive)
	}
	if m.Form == "" {
		return a, nil
	}
	if _, err := io.Copy(whole, io.NewSectionReader(f, 0, m.Bytes)); err != nil {
		return nil, err
	}
	if got := hex.EncodeToString(whole.Sum(nil)); got != m.SHA256 {
		return nil, fmt.Errorf("%w: it has the digest %s, and its manifest says %s", ErrArchive, got, m.SHA256)
	}
	return a, nil
}

// checkLayers looks whether an archive has all parts of its image, each as long as the
// manifest says, and whether its layers could be unpacked. It returns the digest that people
// can compare: of the manifest, or of a root directory's only layer.
func checkLayers(l *archive, root bool, most int64) (digest string, err error) {
	raw, err := manifestOf(l)
	if err != nil {
		return "", err
	}
	parts, err := parseManifest(raw, most)
	if err != nil {
		return "", err
	}
	if err := l.has(parts); err != nil {
		return "", err
	}
	config, err := small(l, blobPath(parts[0].Digest), maxConfig)
	if err != nil {
		return "", err
	}
	of, err := parseConfig(config)
	if err != nil {
		return "", err
	}
	if !root && len(of.RootFS.DiffIDs) != len(parts)-1 {
		return "", fmt.Errorf("%w: its configuration tells of %d layers, its manifest of %d", ErrImage, len(of.RootFS.DiffIDs), len(parts)-1)
	}
	c := rootfs.Checker{Limits: rootfs.DefaultLimits}
	for n, p := range parts[1:] {
		diffID := ""
		if !root {
			diffID = of.RootFS.DiffIDs[n].String()
		}
		if err := checkLayer(&c, l, p, diffID); err != nil {
			return "", fmt.Errorf("layer %d of %d: %w", n+1, len(parts)-1, err)
		}
	}
	if root {
		return parts[len(parts)-1].Digest.String(), nil
	}
	return "sha256:" + protocol.Sum(raw).String(), nil
}

// has tells whether parts are there, as long as they should be.
func (a *archive) has(parts []v1.Descriptor) error {
	for _, p := range parts {
		at, ok := a.files[blobPath(p.Digest)]
		switch {
		case !ok:
			return fmt.Errorf("%w: its part %s is missing", ErrArchive, p.Digest)
		case at[1] != p.Size:
			return fmt.Errorf("%w: its part %s has %d bytes, and its manifest says %d", ErrArchive, p.Digest, at[1], p.Size)
		}
	}
	return nil
}

func checkLayer(c *rootfs.Checker, l *archive, p v1.Descriptor, diffID string) error {
	f, err := l.open(blobPath(p.Digest))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrArchive, err)
	}
	defer f.Close()
	return c.Check(f, diffID)
}
