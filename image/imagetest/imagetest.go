// Package imagetest makes images for tests, and puts them into registries.
package imagetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Config is what an image says of itself.
type Config struct {
	Entrypoint, Cmd, Env         []string `json:",omitempty"`
	User, WorkingDir, StopSignal string   `json:",omitempty"`
}

// Entry is one entry of a layer.
type Entry struct {
	tar.Header
	Content string
}

// Layer is a layer of these entries, uncompressed. Owners and modes are as they say.
func Layer(t testing.TB, entries ...Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.Header
		if h.Typeflag == 0 || h.Typeflag == tar.TypeReg {
			h.Size = int64(len(e.Content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.Content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Blob is a part of an image.
type Blob struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	bytes     []byte
}

// Bytes of the part.
func (b Blob) Bytes() []byte { return b.bytes }

// With has other bytes under the same digest and size.
func (b Blob) With(raw []byte) Blob {
	b.bytes = raw
	return b
}

// Of has these bytes, with their digest and size.
func (b Blob) Of(raw []byte) Blob { return blobOf(b.MediaType, raw) }

func blobOf(kind string, b []byte) Blob {
	return Blob{kind, fmt.Sprintf("sha256:%x", sha256.Sum256(b)), int64(len(b)), b}
}

// Image is an image with all its parts.
type Image struct {
	Manifest []byte
	Digest   string // of the manifest
	Parts    []Blob
}

const manifestType = "application/vnd.oci.image.manifest.v1+json"

// Make makes an image for this machine of layers that are not compressed yet.
func Make(t testing.TB, c Config, layers ...[]byte) Image {
	t.Helper()
	var diffs []string
	var parts []Blob
	for _, l := range layers {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		if _, err := w.Write(l); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		diffs = append(diffs, fmt.Sprintf("sha256:%x", sha256.Sum256(l)))
		parts = append(parts, blobOf("application/vnd.oci.image.layer.v1.tar+gzip", z.Bytes()))
	}
	config := marshal(t, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": c,
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
	})
	parts = append([]Blob{blobOf("application/vnd.oci.image.config.v1+json", config)}, parts...)
	return Assemble(t, parts)
}

// Assemble makes an image of its configuration and layers.
func Assemble(t testing.TB, parts []Blob) Image {
	t.Helper()
	m := marshal(t, map[string]any{"schemaVersion": 2, "mediaType": manifestType, "config": parts[0], "layers": parts[1:]})
	return Image{Manifest: m, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(m)), Parts: parts}
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Push puts an image into a registry that is asked without TLS, and returns its
// reference.
func (i Image) Push(t testing.TB, registry, name, tag string) string {
	t.Helper()
	base := "http://" + registry + "/v2/" + name
	for _, p := range i.Parts {
		resp := do(t, http.MethodPost, base+"/blobs/uploads/", "", nil, http.StatusAccepted)
		at := resp.Header.Get("Location") + "&digest=" + p.Digest
		do(t, http.MethodPut, at, "application/octet-stream", p.bytes, http.StatusCreated)
	}
	do(t, http.MethodPut, base+"/manifests/"+tag, manifestType, i.Manifest, http.StatusCreated)
	return registry + "/" + name + ":" + tag
}

func do(t testing.TB, method, url, kind string, body []byte, want int) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was read
	if err != nil || resp.StatusCode != want {
		t.Fatalf("%s %s: %s: %s: %v", method, url, resp.Status, said, err)
	}
	return resp
}

// Debootstrap puts a shell script in the place of the program debootstrap, and of gpgv one
// that does nothing, until the test ends. The program runs in namespaces of its own, so
// the test needs root.
func Debootstrap(t testing.TB, script string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root, for namespaces of its own")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"debootstrap": script, "gpgv": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}
