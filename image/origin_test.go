package image_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image"
	"github.com/hostler-io/hostler/image/imagetest"
)

// root is an archive of a root directory.
func root(t *testing.T, motto string) []byte {
	t.Helper()
	return imagetest.Layer(t, imagetest.Entry{Header: tar.Header{Name: "etc/motto", Mode: 0o644}, Content: motto})
}

// xz compresses by the tool that image servers use.
func xz(t *testing.T, raw []byte) []byte {
	t.Helper()
	cmd := exec.Command("xz", "-c")
	cmd.Stdin = bytes.NewReader(raw)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// server is an image server, or any one that has files.
type server struct {
	*httptest.Server
	files map[string][]byte
}

func newServer(t *testing.T) *server {
	s := &server{files: make(map[string][]byte)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, ok := s.files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, path.Base(r.URL.Path), time.Time{}, bytes.NewReader(b))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) host() string { return strings.TrimPrefix(s.URL, "http://") }

// serves has the server tell of one file as version v of debian/12.
func (s *server) serves(t *testing.T, versions map[string]map[string]any) {
	t.Helper()
	put := func(path string, v any) {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		s.files[path] = b
	}
	put("/streams/v1/index.json", map[string]any{"format": "index:1.0", "index": map[string]any{
		"images": map[string]any{"datatype": "image-downloads", "path": "streams/v1/images.json", "format": "products:1.0", "products": []string{"debian"}},
	}})
	all := make(map[string]any)
	for v, item := range versions {
		all[v] = map[string]any{"items": map[string]any{"lxd.tar.xz": map[string]any{"ftype": "lxd.tar.xz", "path": "x", "sha256": "y", "size": 1}, "root": item}}
	}
	put("/streams/v1/images.json", map[string]any{"format": "products:1.0", "products": map[string]any{
		"debian:bookworm:here":  map[string]any{"aliases": "debian/bookworm/default,debian/12", "arch": runtime.GOARCH, "versions": all},
		"debian:bookworm:other": map[string]any{"aliases": "debian/12,debian/11", "arch": "pdp11", "versions": all},
	}})
}

func (s *server) item(name string, content []byte) map[string]any {
	s.files["/"+name] = content
	return map[string]any{"ftype": "root.tar.xz", "path": name, "sha256": fmt.Sprintf("%x", sha256.Sum256(content)), "size": len(content)}
}

// content fetches an image and returns the bytes of its only layer.
func content(t *testing.T, s *image.Store, ref, pull string) ([]byte, container.Image) {
	t.Helper()
	got, release, err := s.Fetch(t.Context(), ref, pull, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if len(got.Layers) != 1 {
		t.Fatalf("it is %+v", got)
	}
	b, err := os.ReadFile(got.Layers[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	return b, got
}

// TestServer fetches the newest version of an image, or the one that is named; what is
// there stays until it is asked for again.
func TestServer(t *testing.T) {
	w := newServer(t)
	old, now := xz(t, root(t, "old")), xz(t, root(t, "new"))
	versions := map[string]map[string]any{"20240101_05:24": w.item("a/old.tar.xz", old)}
	w.serves(t, versions)
	s := open(t, t.TempDir(), image.Config{Registries: image.Registries{Insecure: []string{w.host()}, Servers: []string{"site=" + w.URL}}})
	if _, _, err := s.Fetch(t.Context(), "site:debian/12", container.PullNever, nil); !errors.Is(err, image.ErrNotFound) {
		t.Errorf("never: %v", err)
	}
	if b, got := content(t, s, "site:debian/12", ""); !bytes.Equal(b, old) || got.Digest != fmt.Sprintf("sha256:%x", sha256.Sum256(old)) || got.Layers[0].DiffID != "" {
		t.Errorf("%+v", got)
	}
	versions["20240202_05:24"] = w.item("a/new.tar.xz", now)
	w.serves(t, versions)
	for _, step := range []struct {
		ref, pull string
		want      []byte
	}{
		{"site:debian/12", container.PullMissing, old}, {"site:debian/12", container.PullNever, old}, {"site:debian/12", container.PullAlways, now},
		{"site:debian/12", "", now}, {"site:debian/12@20240101_05:24", "", old}, {"site:debian/bookworm/default", "", now},
	} {
		if b, _ := content(t, s, step.ref, step.pull); !bytes.Equal(b, step.want) {
			t.Errorf("%s %s is another one", step.ref, step.pull)
		}
	}
	all, err := s.List()
	if err != nil || len(all) != 3 || all[0].Version != "20240202_05:24" {
		t.Errorf("%+v %v", all, err)
	}
	if _, err := s.Remove(t.Context(), "site:debian/12"); err != nil {
		t.Error(err)
	}
	if _, err := s.Pull(t.Context(), "site:debian/12", nil); err != nil {
		t.Error(err)
	}
}

// TestServerRefuses what an image server should not tell.
func TestServerRefuses(t *testing.T) {
	good := xz(t, root(t, "good"))
	for name, tc := range map[string]struct {
		ref    string
		change func(*server, map[string]any)
		says   string
	}{
		"other bytes":    {"site:debian/12", func(w *server, _ map[string]any) { w.files["/root"] = bytes.Repeat([]byte("x"), len(good)) }, "do not have the digest"},
		"more bytes":     {"site:debian/12", func(_ *server, i map[string]any) { i["size"] = len(good) - 1 }, "too many bytes"},
		"too large":      {"site:debian/12", func(_ *server, i map[string]any) { i["size"] = 1 << 40 }, "larger than"},
		"no digest":      {"site:debian/12", func(_ *server, i map[string]any) { i["sha256"] = "" }, "without a digest"},
		"out of place":   {"site:debian/12", func(_ *server, i map[string]any) { i["path"] = "../secret" }, "out of its place"},
		"another server": {"site:debian/12", func(_ *server, i map[string]any) { i["path"] = "https://elsewhere.example/x" }, "out of its place"},
		"other form":     {"site:debian/12", func(_ *server, i map[string]any) { i["ftype"] = "squashfs" }, "has no archive"},
		"other machine":  {"site:debian/11", func(*server, map[string]any) {}, "for other machines"},
		"no such alias":  {"site:debian/1", func(*server, map[string]any) {}, "has no debian/1"},
		"no version":     {"site:debian/12@1", func(*server, map[string]any) {}, "no version 1"},
		"no index":       {"site:debian/12", func(w *server, _ map[string]any) { delete(w.files, "/streams/v1/index.json") }, "check the name"},
		"no list":        {"site:debian/12", func(w *server, _ map[string]any) { w.files["/streams/v1/images.json"] = []byte("{") }, "reading the list"},
		"unknown server": {"other:debian/12", func(*server, map[string]any) {}, "images.servers"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newServer(t)
			item := w.item("root", good)
			tc.change(w, item)
			broken := w.files["/streams/v1/images.json"]
			w.serves(t, map[string]map[string]any{"1.0": item})
			if broken != nil {
				w.files["/streams/v1/images.json"] = broken
			}
			if name == "no index" {
				delete(w.files, "/streams/v1/index.json")
			}
			s := open(t, t.TempDir(), image.Config{Registries: image.Registries{Insecure: []string{w.host()}, Servers: []string{"site=" + w.URL}}, MaxBytes: 1 << 20})
			if _, _, err := s.Fetch(t.Context(), tc.ref, "", nil); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("the error is %v, want one that says %q", err, tc.says)
			}
			if all, err := s.List(); err != nil || len(all) != 0 {
				t.Errorf("the host has %v, %v", all, err)
			}
		})
	}
	s := open(t, t.TempDir(), image.Config{Registries: image.Registries{Servers: []string{"site=http://127.0.0.1:1"}}})
	if _, _, err := s.Fetch(t.Context(), "site:debian/12", "", nil); err == nil || !strings.Contains(err.Error(), "images.insecure") {
		t.Errorf("without TLS: %v", err)
	}
}

// layoutOf are the files of an OCI layout with an image.
func layoutOf(t *testing.T, i imagetest.Image) map[string][]byte {
	t.Helper()
	files := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}
	blob := func(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []any{map[string]any{
		"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": i.Digest, "size": len(i.Manifest),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	files["index.json"], files[blob(i.Digest)] = index, i.Manifest
	for _, p := range i.Parts {
		files[blob(p.Digest)] = p.Bytes()
	}
	return files
}

// TestFiles makes images of an archive of a root directory and of OCI layouts, from a
// file, a directory and a URL.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	oci := imagetest.Make(t, imagetest.Config{Cmd: []string{"/x"}}, root(t, "oci"))
	files := layoutOf(t, oci)
	var entries []imagetest.Entry
	for name, b := range files {
		entries = append(entries, imagetest.Entry{Header: tar.Header{Name: name, Mode: 0o644}, Content: string(b)})
		at := filepath.Join(dir, "layout", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, b, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	w := newServer(t)
	plain := root(t, "plain")
	for name, b := range map[string][]byte{"oci.tar": imagetest.Layer(t, entries...), "root.tar": plain, "root.tar.xz": xz(t, plain)} {
		w.files["/"+name] = b
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sum := fmt.Sprintf("@sha256:%x", sha256.Sum256(plain))
	s := open(t, t.TempDir(), image.Config{Registries: image.Registries{Insecure: []string{w.host()}}})
	for ref, want := range map[string][]byte{
		"file:" + dir + "/layout": oci.Parts[1].Bytes(), "file:" + dir + "/oci.tar": oci.Parts[1].Bytes(), "file:" + dir + "/root.tar": plain, "file:" + dir + "/root.tar" + sum: plain,
		w.URL + "/oci.tar": oci.Parts[1].Bytes(), w.URL + "/root.tar": plain, w.URL + "/root.tar.xz": w.files["/root.tar.xz"], w.URL + "/root.tar" + sum: plain,
	} {
		b, got := content(t, s, ref, "")
		if !bytes.Equal(b, want) {
			t.Errorf("%s is something else", ref)
		}
		if isOCI := bytes.Equal(want, oci.Parts[1].Bytes()); isOCI != (got.Digest == oci.Digest) || isOCI != (len(got.Cmd) == 1) || isOCI == (got.Layers[0].DiffID == "") {
			t.Errorf("%s is %+v", ref, got)
		}
	}
	other := "@sha256:" + strings.Repeat("ab", 32)
	pipe := filepath.Join(dir, "pipe")
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Fatal(string(out), err)
	}
	files["index.json"] = bytes.Replace(files["index.json"], []byte(oci.Digest), []byte("sha256:"+strings.Repeat("00", 32)), 1)
	if err := os.WriteFile(filepath.Join(dir, "layout/index.json"), files["index.json"], 0o644); err != nil {
		t.Fatal(err)
	}
	for ref, says := range map[string]string{
		"file:" + dir + "/root.tar" + other: "was asked for", w.URL + "/root.tar" + other: "was asked for", w.URL + "/nothing.tar": "check the name",
		"file:" + pipe: "not a regular file", "file:" + dir: "without a file oci-layout", "file:" + dir + "/nothing": "no such file", "file:relative/x": "no absolute path",
		"file:" + dir + "/root.tar@sha256:12": "64 hexadecimal", "http://127.0.0.1:1/x.tar": "images.insecure",
	} {
		if _, _, err := s.Fetch(t.Context(), ref, container.PullAlways, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: the error is %v, want one that says %q", ref, err, says)
		}
	}
	if _, _, err := s.Fetch(t.Context(), "file:"+dir+"/layout", container.PullAlways, nil); err == nil {
		t.Error("a layout without its manifest was taken")
	}
	if _, err := s.Pull(t.Context(), "file:"+dir+"/root.tar", nil); !errors.Is(err, image.ErrReference) {
		t.Errorf("pulled by who may not read files: %v", err)
	}
}

// FuzzProducts reads lists of image servers: what it takes of them can be asked for.
func FuzzProducts(f *testing.F) {
	f.Add([]byte(`{"products":{"a":{"aliases":"debian/12","arch":"`+runtime.GOARCH+`","versions":{"1":{"items":{"r":{"ftype":"root.tar.xz","path":"a","sha256":"b","size":1}}}}}}}`), "debian/12", "")
	f.Add([]byte(`{"products":null}`), "", "1")
	f.Add([]byte(`{"products":{"a":{"versions":{"":{"items":{"":{}}}}}}}`), "", "")
	f.Fuzz(func(t *testing.T, raw []byte, alias, version string) {
		if kind, of, err := image.ParseProducts(raw, alias, version); err == nil && (!strings.HasPrefix(kind, "root.tar") || version != "" && of != version) {
			t.Errorf("%q of %q", kind, of)
		}
	})
}
