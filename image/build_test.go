package image_test

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image"
	"github.com/hostler-io/hostler/image/imagetest"
)

// TestPackages: an image of packages is made once, its containers share no identity, and an
// image that could not be made leaves no files.
func TestPackages(t *testing.T) {
	const ref = "debootstrap:bookworm"
	dir := t.TempDir()
	s := open(t, dir, image.Config{Registries: image.Registries{Debootstrap: "http://mirror.example/debian", Proxy: "http://proxy.example:3128"}})
	nothing := func() {
		t.Helper()
		if _, err := os.Lstat(filepath.Join(dir, "building")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("what was made is there: %v", err)
		}
	}
	imagetest.Debootstrap(t, `mkdir -p "$5/etc"; echo "W: no network"; exit 1`)
	if _, _, err := s.Fetch(t.Context(), ref, "", nil); err == nil || !strings.Contains(err.Error(), "pulling "+ref) || !strings.Contains(err.Error(), "W: no network; mend") {
		t.Errorf("the error is %v", err)
	}
	nothing()
	if all, err := s.List(); err != nil || len(all) != 0 {
		t.Errorf("%+v %v", all, err)
	}

	imagetest.Debootstrap(t, `mkdir -p "$5/etc"; echo secret >"$5/etc/machine-id"; echo "of $4 by $http_proxy" >"$5/etc/motto"; chown 7:8 "$5/etc/motto"; echo "I: Retrieving motto"`)
	if err := os.MkdirAll(filepath.Join(dir, "building/root/of-another"), 0o700); err != nil { // that was killed
		t.Fatal(err)
	}
	var told []string
	img, release, err := s.Fetch(t.Context(), ref, "", func(note string) { told = append(told, note) })
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	nothing()
	if want := "making " + ref + ": Retrieving motto, packing " + ref; strings.Join(told, ", ") != want {
		t.Errorf("told %q", told)
	}
	all, err := s.List()
	if err != nil || len(all) != 1 || all[0].Reference != ref || all[0].Digest != img.Digest || !all[0].Root || len(img.Layers) != 1 {
		t.Fatalf("%+v %v of %+v", all, err, img)
	}
	f, err := os.Open(img.Layers[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	got := make(map[string]string)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = string(raw)
		if h.Name == "etc/motto" && (h.Uid != 7 || h.Gid != 8) {
			t.Errorf("it is of %d:%d", h.Uid, h.Gid)
		}
	}
	if id, ok := got["etc/machine-id"]; got["etc/motto"] != "of bookworm by http://proxy.example:3128\n" || !ok || id != "" || len(got["of-another"]) != 0 {
		t.Errorf("it has %q", got)
	}

	imagetest.Debootstrap(t, "exit 1\n")
	if _, release, err := s.Fetch(t.Context(), ref, container.PullMissing, nil); err != nil {
		t.Errorf("it is made again: %v", err)
	} else {
		release()
	}
	if err := os.Mkdir(filepath.Join(dir, "building"), 0o700); err != nil {
		t.Fatal(err)
	}
	if freed, err := s.Remove(t.Context(), ref); err != nil || freed == 0 {
		t.Errorf("%d bytes freed: %v", freed, err)
	}
	nothing()
}

// TestPackagesRefused: people learn what is wrong with the reference, or what the host
// lacks.
func TestPackagesRefused(t *testing.T) {
	mirror := image.Registries{Debootstrap: "http://mirror.example/debian"}
	for _, c := range []struct {
		ref  string
		r    image.Registries
		want error
		says string
	}{
		{"debootstrap:", mirror, image.ErrReference, "no release of Debian"},
		{"debootstrap:../x", mirror, image.ErrReference, "debootstrap:bookworm"},
		{"debootstrap:bookworm@sha256:" + strings.Repeat("ab", 32), mirror, image.ErrReference, "no release of Debian"},
		{"debootstrap:bookworm", image.Registries{}, container.ErrUnsupported, "images.debootstrap"},
		{"debootstrap:bookworm", mirror, container.ErrUnsupported, "install the package debootstrap"},
	} {
		t.Setenv("PATH", t.TempDir())
		s := open(t, t.TempDir(), image.Config{Registries: c.r})
		if _, err := s.Pull(t.Context(), c.ref, nil); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.ref, err, c.says)
		}
	}
	for _, bad := range []string{"deb.debian.org", "ftp://mirror.example/debian", "http:///debian", "http://mirror.example/a b", "http://mirror.example/?x"} {
		if err := (image.Registries{Debootstrap: bad}).Check(); err == nil || !strings.Contains(err.Error(), "images.debootstrap") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if err := (image.Registries{Servers: []string{"debootstrap=https://images.example"}}).Check(); err == nil {
		t.Error("an image server is called debootstrap")
	}
}
