package image_test

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
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image"
	"github.com/hostler-io/hostler/image/rootfs"
)

// sealed stands for a key: its signature is a digest that begins with its name.
func sealed(key string) image.Seal {
	return func(m []byte) ([]byte, error) { return fmt.Appendf(nil, "%s %x", key, sha256.Sum256(m)), nil }
}

// trusting takes what one key has sealed.
func trusting(key string) image.Trust {
	return func(m, sig []byte) (string, error) {
		if want, _ := sealed(key)(m); !bytes.Equal(sig, want) {
			return "", errors.New("another has signed it")
		}
		return key, nil
	}
}

func openStore(t testing.TB) (*image.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := image.Open(image.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

// made is a store with an image whose layer has these entries.
func made(t testing.TB, entries ...tar.Header) *image.Store {
	t.Helper()
	s, _ := openStore(t)
	p := container.Promotion{Reference: "localhost/web:1", Key: "1", Kept: []byte(`{"labels":["a=b"]}`)}
	err := s.Make(t.Context(), p, container.Image{Cmd: []string{"/bin/true"}}, "registry.example/base:1", func(_ context.Context, w io.Writer) (string, error) {
		sum := sha256.New()
		z, err := rootfs.Compress(w)
		if err != nil {
			return "", err
		}
		out := tar.NewWriter(io.MultiWriter(z, sum))
		for _, h := range entries {
			err = errors.Join(err, out.WriteHeader(&h))
			_, bad := io.CopyN(out, neverEnding{}, h.Size)
			err = errors.Join(err, bad)
		}
		err = errors.Join(err, out.Close(), z.Close())
		return "sha256:" + hex.EncodeToString(sum.Sum(nil)), err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return len(p), nil }

func exported(t testing.TB, s *image.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := s.Export(t.Context(), &b, "localhost/web:1", "edge-01", sealed("edge-01")); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func kept(t testing.TB, b []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "archive")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

var plainFile = tar.Header{Typeflag: tar.TypeReg, Name: "etc/motto", Size: 1000, Mode: 0o644}

// TestExport: what one host exports, another one imports, with all that is known of it;
// importing it again is nothing, and the archive is an OCI layout for others.
func TestExport(t *testing.T) {
	from := made(t, plainFile)
	b := exported(t, from)
	to, _ := openStore(t)
	for range 2 {
		r, signer, err := to.Import(t.Context(), kept(t, b), "", trusting("edge-01"))
		if err != nil || signer != "edge-01" || r.Reference != "localhost/web:1" {
			t.Fatalf("%+v, %q, %v", r, signer, err)
		}
	}
	was, _ := from.List()
	is, err := to.List()
	if err != nil || len(is) != 1 || is[0].Digest != was[0].Digest || is[0].Bytes != was[0].Bytes {
		t.Errorf("it has %+v, want %+v", is, was)
	}
	if k, err := to.Kept("localhost/web:1"); err != nil || string(k) != `{"labels":["a=b"]}` {
		t.Errorf("it was kept as %s, %v", k, err)
	}
	names := make(map[string]bool)
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		names[h.Name] = true
	}
	if !names["oci-layout"] || !names["index.json"] {
		t.Errorf("it has the files %v", names)
	}
	other := made(t, tar.Header{Typeflag: tar.TypeDir, Name: "other/", Mode: 0o755})
	if _, _, err := to.Import(t.Context(), kept(t, exported(t, other)), "", trusting("edge-01")); !errors.Is(err, container.ErrExists) {
		t.Errorf("another one of that name: %v", err)
	}
}

// TestImportAgain: an image that a host has stays as the host knows it, and of another one by
// the same name no layer is written.
func TestImportAgain(t *testing.T) {
	s := made(t, plainFile)
	b := exported(t, s)
	for _, as := range []string{"", "localhost/web:1"} {
		if _, _, err := s.Import(t.Context(), kept(t, b), as, trusting("edge-01")); err != nil {
			t.Fatalf("as %q: %v", as, err)
		}
		if k, err := s.Kept("localhost/web:1"); err != nil || string(k) != `{"labels":["a=b"]}` {
			t.Errorf("as %q: it was kept as %s, %v", as, k, err)
		}
		if all, err := s.List(); err != nil || len(all) != 1 || all[0].Key != "1" {
			t.Errorf("as %q: the host has %+v, %v", as, all, err)
		}
	}
	to, dir := openStore(t)
	if _, _, err := to.Import(t.Context(), kept(t, b), "", trusting("edge-01")); err != nil {
		t.Fatal(err)
	}
	had, err := os.ReadDir(filepath.Join(dir, "parts"))
	if err != nil {
		t.Fatal(err)
	}
	// What is missing of it comes back.
	gone := filepath.Join(dir, "parts", had[0].Name())
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	if _, _, err := to.Import(t.Context(), kept(t, b), "", trusting("edge-01")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gone); err != nil {
		t.Errorf("a part that was missing: %v", err)
	}
	other := exported(t, made(t, tar.Header{Typeflag: tar.TypeDir, Name: "other/", Mode: 0o755}))
	if _, _, err := to.Import(t.Context(), kept(t, other), "", trusting("edge-01")); !errors.Is(err, container.ErrExists) {
		t.Errorf("another one of that name: %v", err)
	}
	if has, err := os.ReadDir(filepath.Join(dir, "parts")); err != nil || len(has) != len(had) {
		t.Errorf("%d parts are there, and %d were: %v", len(has), len(had), err)
	}
}

// TestImportRefuses: what is cut short, changed, foreign, or could not be unpacked safely
// is refused, and nothing is written; what nobody has signed is taken by a name of its own
// alone.
func TestImportRefuses(t *testing.T) {
	good := exported(t, made(t, plainFile))
	changed := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 1
		return b
	}
	layer := func(h tar.Header) []byte { return exported(t, made(t, h)) }
	for why, b := range map[string][]byte{
		"empty":                 nil,
		"cut short":             good[:len(good)-1],
		"without its manifest":  good[:len(good)/2],
		"changed at its end":    changed(len(good) - 30),
		"changed manifest":      changed(len(good) - 400),
		"changed part":          changed(3000),
		"changed header":        changed(10),
		"with more before":      append([]byte("x"), good...),
		"name leads upwards":    layer(tar.Header{Typeflag: tar.TypeReg, Name: "../evil", Mode: 0o644}),
		"link leads upwards":    layer(tar.Header{Typeflag: tar.TypeLink, Name: "evil", Linkname: "../../etc/shadow"}),
		"device":                layer(tar.Header{Typeflag: tar.TypeBlock, Name: "dev/sda", Mode: 0o666, Devmajor: 8}),
		"device with its name":  layer(tar.Header{Typeflag: tar.TypeChar, Name: "dev/mem", Mode: 0o666, Devmajor: 1, Devminor: 1}),
		"whiteout of all above": layer(tar.Header{Typeflag: tar.TypeReg, Name: "etc/.wh...", Mode: 0o644}),
	} {
		to, dir := openStore(t)
		r, _, err := to.Import(t.Context(), kept(t, b), "", trusting("edge-01"))
		if err == nil || !errors.Is(err, image.ErrArchive) && !errors.Is(err, rootfs.ErrLayer) {
			t.Errorf("%s: %+v, %v", why, r, err)
		}
		if parts, _ := os.ReadDir(filepath.Join(dir, "parts")); len(parts) > 0 {
			t.Errorf("%s: it has left %v", why, parts)
		}
	}
	for why, as := range map[string]string{"a foreign signature": "", "none at all": ""} {
		b := good
		if why == "none at all" {
			b = good[:bytes.Index(good, []byte(`{"hostler":"image/1"`))-8]
		}
		to, _ := openStore(t)
		if _, _, err := to.Import(t.Context(), kept(t, b), as, trusting("edge-02")); err == nil || !strings.Contains(err.Error(), "--allow-unsigned") {
			t.Errorf("%s: %v", why, err)
		}
		r, signer, err := to.Import(t.Context(), kept(t, b), "localhost/mine:1", trusting("edge-02"))
		if err != nil || signer != "" || r.Reference != "localhost/mine:1" || r.Kept != nil {
			t.Errorf("%s, by a name: %+v, %q, %v", why, r, signer, err)
		}
	}
	// Without a signature the parts are held against their names all the same.
	at := bytes.Index(good, []byte("blobs/sha256/"))
	forged := bytes.Clone(good)
	forged[at+1024] ^= 1
	to, _ := openStore(t)
	if _, _, err := to.Import(t.Context(), kept(t, forged), "localhost/mine:1", trusting("edge-02")); err == nil {
		t.Error("a part with another digest is taken")
	}
}

// TestImportBounds: an archive may not unpack to more than an image may have.
func TestImportBounds(t *testing.T) {
	var many bytes.Buffer
	out := tar.NewWriter(&many)
	for n := range 100 {
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprint(n), Size: 10}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(out, neverEnding{}, 10); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	for want, l := range map[string]rootfs.Limits{"": {Entries: 100, Bytes: 1000}, "files": {Entries: 99, Bytes: 1000}, "larger": {Entries: 100, Bytes: 999}} {
		err := (&rootfs.Checker{Limits: l}).Check(bytes.NewReader(many.Bytes()), "")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("with %+v: %v", l, err)
		}
	}
}

// FuzzImport: no archive does more than to be refused, or taken with parts that bear their
// digests.
func FuzzImport(f *testing.F) {
	good := exported(f, made(f, plainFile))
	f.Add(good)
	f.Add(good[:len(good)-100])
	f.Add([]byte(`{"hostler":"image/1"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, as := range []string{"", "localhost/x:1"} {
			v, err := image.Verify(t.Context(), kept(t, b), as, 1<<20, func([]byte, []byte) (string, error) { return "anybody", nil })
			if err != nil {
				continue
			}
			if _, err := json.Marshal(v.Manifest); err != nil {
				t.Error(err)
			}
			if err := v.Repack(io.Discard); err != nil {
				t.Error(err)
			}
		}
	})
}
