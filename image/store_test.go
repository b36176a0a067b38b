package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/image"
	"github.com/hostler-io/hostler/image/imagetest"
	"github.com/hostler-io/hostler/internal/podmantest"
)

// registry is one that tests can tamper with.
type registry struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string]imagetest.Blob // by path
	asked   []string                  // paths and ranges of requests for parts
	// cut ends answers after so many bytes; 0 ends none.
	cut int
	// whole answers requests for a range with all of it.
	whole bool
	// password that Basic needs; empty is none.
	password string
	shown    bool // a password was
}

func newRegistry(t *testing.T) *registry {
	r := &registry{objects: make(map[string]imagetest.Blob)}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *registry) host() string { return strings.TrimPrefix(r.URL, "http://") }

func (r *registry) add(t *testing.T, name string, i imagetest.Image) string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range i.Parts {
		r.objects["/v2/"+name+"/blobs/"+p.Digest] = p
	}
	m := imagetest.Blob{MediaType: "application/vnd.oci.image.manifest.v1+json"}.With(i.Manifest)
	r.objects["/v2/"+name+"/manifests/1"], r.objects["/v2/"+name+"/manifests/"+i.Digest] = m, m
	return r.host() + "/" + name + ":1"
}

func (r *registry) serve(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	o, ok := r.objects[q.URL.Path]
	if strings.Contains(q.URL.Path, "/blobs/") {
		r.asked = append(r.asked, q.URL.Path+" "+q.Header.Get("Range"))
	}
	cut, whole := r.cut, r.whole
	r.mu.Unlock()
	_, password, shown := q.BasicAuth()
	if shown {
		r.mu.Lock()
		r.shown = true
		r.mu.Unlock()
	}
	switch {
	case password != r.password:
		w.Header().Set("Www-Authenticate", "Basic realm=x")
		w.WriteHeader(http.StatusUnauthorized)
		return
	case q.URL.Path == "/v2/":
		return
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", o.MediaType)
	if whole {
		q.Header.Del("Range")
	}
	if cut > 0 && strings.Contains(q.URL.Path, "/blobs/") {
		w = &cutter{w, cut}
	}
	http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(o.Bytes()))
}

// cutter breaks the connection in the middle of an answer.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(b []byte) (int, error) {
	if len(b) >= c.left {
		_, _ = c.ResponseWriter.Write(b[:c.left])
		panic(http.ErrAbortHandler)
	}
	c.left -= len(b)
	return c.ResponseWriter.Write(b)
}

func (r *registry) parts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.asked...)
}

func open(t *testing.T, dir string, c image.Config) *image.Store {
	t.Helper()
	c.Dir = dir
	s, err := image.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func small(t *testing.T, content string) imagetest.Image {
	return imagetest.Make(t, imagetest.Config{Cmd: []string{"/x"}, Env: []string{"A=b"}, StopSignal: "SIGINT"},
		imagetest.Layer(t, imagetest.Entry{Header: tar.Header{Name: "x", Mode: 0o755}, Content: content}),
		imagetest.Layer(t, imagetest.Entry{Header: tar.Header{Name: "y", Mode: 0o755}, Content: "second"}))
}

// noise is content that no compression shortens.
func noise(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		s := sha256.Sum256([]byte(fmt.Sprint(i)))
		b.Write(s[:])
	}
	return b.String()[:n]
}

// TestFetch fetches an image from Debian's registry once; afterwards the registry is not
// needed any more, by this store or a later one.
func TestFetch(t *testing.T) {
	at := podmantest.Registry(t)
	img := small(t, "content")
	ref := img.Push(t, at, "site/app", "1")
	dir := t.TempDir()
	s := open(t, dir, image.Config{Registries: image.Registries{Insecure: []string{at}}})
	var told []string
	got, release, err := s.Fetch(t.Context(), ref, "", func(s string) { told = append(told, s) })
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if got.Reference != ref || got.Digest != img.Digest || len(got.Layers) != 2 || got.Cmd[0] != "/x" || got.Env[0] != "A=b" || got.StopSignal != "SIGINT" {
		t.Errorf("it is %+v", got)
	}
	if len(told) == 0 || !strings.HasPrefix(told[0], "pulling "+ref) {
		t.Errorf("told %q", told)
	}
	for i, l := range got.Layers {
		b, err := os.ReadFile(l.Path)
		if err != nil || !bytes.Equal(b, img.Parts[i+1].Bytes()) {
			t.Errorf("layer %d is not what was pushed: %v", i, err)
		}
	}
	away, cancel := context.WithCancel(t.Context())
	cancel()
	if _, release, err = open(t, dir, image.Config{}).Fetch(away, ref, "", nil); err != nil {
		t.Errorf("without the registry: %v", err)
	} else {
		release()
	}
}

// TestFetchGoesOn: a part that was cut short is gone on with where it ended, also by
// another process, and begun anew where a registry knows no ranges.
func TestFetchGoesOn(t *testing.T) {
	for name, whole := range map[string]bool{"ranges": false, "no ranges": true} {
		t.Run(name, func(t *testing.T) {
			r := newRegistry(t)
			img := small(t, noise(3<<20))
			ref := r.add(t, "app", img)
			r.cut = 1 << 20
			dir := t.TempDir()
			cfg := image.Config{Registries: image.Registries{Insecure: []string{r.host()}}}
			ctx, cancel := context.WithCancel(t.Context())
			_, _, err := open(t, dir, cfg).Fetch(ctx, ref, "", func(s string) {
				if strings.Contains(s, " 1 of ") {
					cancel()
				}
			})
			cancel()
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("it was not ended: %v", err)
			}
			r.mu.Lock()
			r.asked, r.cut, r.whole = nil, 0, whole
			r.mu.Unlock()
			got, release, err := open(t, dir, cfg).Fetch(t.Context(), ref, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			b, err := os.ReadFile(got.Layers[0].Path)
			if err != nil || !bytes.Equal(b, img.Parts[1].Bytes()) {
				t.Errorf("the layer is not what it should be: %v", err)
			}
			if asked := strings.Join(r.parts(), "\n"); !strings.Contains(asked, img.Parts[1].Digest+" bytes=") {
				t.Errorf("it was not gone on with:\n%s", asked)
			}
		})
	}
}

// TestFetchRefuses what is not what it says, or more than may be; nothing of it can be
// used afterwards.
func TestFetchRefuses(t *testing.T) {
	r := newRegistry(t)
	swapped := small(t, "swapped")
	swapped.Parts[1] = swapped.Parts[1].With([]byte("something else of a length that was not promised")[:swapped.Parts[1].Size%40])
	tampered := small(t, "tampered")
	other := bytes.Clone(tampered.Parts[1].Bytes())
	other[len(other)/2] ^= 1
	tampered.Parts[1] = tampered.Parts[1].With(other)
	config := small(t, "config")
	config.Parts[0] = imagetest.Blob{MediaType: config.Parts[0].MediaType}.Of([]byte(`{"architecture":"pdp11","os":"linux","rootfs":{"diff_ids":[]}}`))
	config = imagetest.Assemble(t, config.Parts)
	pinned := r.add(t, "pinned", small(t, "pinned"))
	pinned = strings.TrimSuffix(pinned, ":1") + "@sha256:" + strings.Repeat("ab", 32)
	r.objects["/v2/pinned/manifests/sha256:"+strings.Repeat("ab", 32)] = r.objects["/v2/pinned/manifests/1"]
	for name, tc := range map[string]struct{ ref, says string }{
		"no such image":     {r.host() + "/nobody:1", "check the name and the tag"},
		"swapped":           {r.add(t, "swapped", swapped), "part sha256:"},
		"tampered":          {r.add(t, "tampered", tampered), "do not have the digest"},
		"architecture":      {r.add(t, "pdp", config), "linux/pdp11"},
		"too large":         {r.add(t, "large", small(t, noise(2<<20))), "larger than"},
		"no manifest":       {r.add(t, "none", imagetest.Image{Manifest: []byte("nonsense")}), "reading its manifest"},
		"empty manifest":    {r.add(t, "empty", imagetest.Image{Manifest: []byte("{}")}), "configuration"},
		"other than pinned": {pinned, "sent a manifest of the digest"},
		"short":             {"debian:12", "docker.io/library/debian:12"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, image.Config{Registries: image.Registries{Insecure: []string{r.host()}}, MaxBytes: 1 << 20})
			_, _, err := s.Fetch(t.Context(), tc.ref, "", nil)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("the error is %v, want one that says %q", err, tc.says)
			}
			if all, err := s.List(); err != nil || len(all) != 0 {
				t.Errorf("the host has %v, %v", all, err)
			}
		})
	}
}

// TestPlaces: a mirror is asked before the registry, and the registry where the mirror
// has nothing. Neither is asked without TLS that was not allowed to be.
func TestPlaces(t *testing.T) {
	mirror, origin := newRegistry(t), newRegistry(t)
	ref := origin.add(t, "app", small(t, "x"))
	r := image.Registries{Insecure: []string{mirror.host(), origin.host()}, Mirrors: []string{origin.host() + "=" + mirror.host()}}
	if _, err := open(t, t.TempDir(), image.Config{Registries: r}).Pull(t.Context(), ref, nil); err != nil || len(origin.parts()) == 0 {
		t.Errorf("from the registry: %v, %q", err, origin.parts())
	}
	mirror.add(t, "app", small(t, "x"))
	origin.asked = nil
	if _, err := open(t, t.TempDir(), image.Config{Registries: r}).Pull(t.Context(), ref, nil); err != nil || len(origin.parts()) != 0 {
		t.Errorf("from the mirror: %v, %q", err, origin.parts())
	}
	if _, err := open(t, t.TempDir(), image.Config{}).Pull(t.Context(), ref, nil); err == nil || !strings.Contains(err.Error(), "images.insecure") {
		t.Errorf("without TLS: %v", err)
	}
	for _, bad := range []image.Registries{{Mirrors: []string{"x"}}, {Mirrors: []string{"=y"}}, {Proxy: "::"}, {Insecure: []string{""}}, {Logins: []string{"x=relative"}}} {
		if _, err := image.Open(image.Config{Dir: t.TempDir(), Registries: bad}); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// TestRemove removes an image with its parts, but for those that another has or somebody
// is about to read.
func TestRemove(t *testing.T) {
	r := newRegistry(t)
	dir := t.TempDir()
	now := time.Now().Add(time.Hour)
	s := open(t, dir, image.Config{Registries: image.Registries{Insecure: []string{r.host()}}, Now: func() time.Time { now = now.Add(time.Second); return now }})
	one, two := r.add(t, "one", small(t, "one")), r.add(t, "two", small(t, "two")) // of which one layer is the same
	if _, err := s.Pull(t.Context(), one, nil); err != nil {
		t.Fatal(err)
	}
	got, release, err := s.Fetch(t.Context(), two, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Remove(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	for _, l := range got.Layers {
		if _, err := os.Stat(l.Path); err != nil {
			t.Errorf("it went under who reads it: %v", err)
		}
	}
	release()
	half := filepath.Join(dir, "parts", strings.Repeat("ab", 32)+".part")
	if err := os.WriteFile(half, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if freed, err := s.Remove(t.Context(), one); err != nil || freed == 0 {
		t.Errorf("freed %d, %v", freed, err)
	}
	if err := os.Remove(half); err != nil {
		t.Errorf("half of another image went: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "parts", "*")); err != nil || len(left) != 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	if _, err := s.Remove(t.Context(), one); !errors.Is(err, image.ErrNotFound) {
		t.Errorf("again: %v, want ErrNotFound", err)
	}
}

// FuzzManifest has a registry say whatever comes, as a manifest and as a configuration:
// there is an image, or an error, and no more.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"config":{"digest":"sha256:00","size":1},"layers":[]}`), []byte(`{}`))
	f.Add([]byte(`{"manifests":[{"platform":{"os":"linux","architecture":"amd64"}}]}`), []byte(`{"rootfs":{"diff_ids":["sha256:1"]}}`))
	f.Fuzz(func(t *testing.T, manifest, config []byte) {
		if parts, err := image.ParseManifest(manifest, 1<<20); err == nil {
			total := int64(0)
			for _, p := range parts {
				total += p.Size
			}
			if len(parts) == 0 || total > 1<<20 {
				t.Errorf("%d parts of %d bytes", len(parts), total)
			}
		}
		if c, err := image.ParseConfig(config); err == nil && c == nil {
			t.Error("no configuration, and no error")
		}
		if d, err := image.Choose(manifest); err == nil && d.Platform == nil {
			t.Error("an image of no platform was chosen")
		}
		if _, err := image.Parse(string(config)); err == nil && !strings.Contains(string(config), "/") {
			t.Errorf("%q is a reference", config)
		}
	})
}

var _ io.Writer = (*cutter)(nil)

// TestPrune removes what was used longest ago, by age and by space, and what is left of
// pulls that were cut short.
func TestPrune(t *testing.T) {
	r := newRegistry(t)
	dir := t.TempDir()
	now := time.Now()
	s := open(t, dir, image.Config{Registries: image.Registries{Insecure: []string{r.host()}}, Now: func() time.Time { return now }})
	var refs []string
	for i := range 3 {
		refs = append(refs, r.add(t, fmt.Sprint("app", i), small(t, noise(64<<10*(i+1)))))
		_, release, err := s.Fetch(t.Context(), refs[i], "", nil)
		if err != nil {
			t.Fatal(err)
		}
		release()
		now = now.Add(time.Hour)
	}
	left := filepath.Join(dir, "parts", strings.Repeat("ab", 32)+".part")
	if err := os.WriteFile(left, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := s.List()
	if err != nil || len(all) != 3 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, tc := range []struct {
		limits image.Limits
		gone   []string
	}{
		{image.Limits{}, nil},
		{image.Limits{Age: time.Minute, Bytes: 1, Fresh: 4 * time.Hour}, nil}, // a container may be about to be made
		{image.Limits{Age: 2*time.Hour + time.Minute}, refs[:1]},
		{image.Limits{Age: time.Hour * 24, Bytes: all[2].Bytes}, refs[1:2]},
		{image.Limits{Bytes: 1}, refs[2:]},
	} {
		gone, freed, err := s.Prune(t.Context(), tc.limits)
		var names []string
		for _, g := range gone {
			names = append(names, g.Reference)
		}
		if err != nil || strings.Join(names, " ") != strings.Join(tc.gone, " ") || len(gone) > 0 && freed == 0 {
			t.Errorf("%+v: removed %q with %d bytes, %v; want %q", tc.limits, names, freed, err, tc.gone)
		}
	}
	if rest, err := filepath.Glob(filepath.Join(dir, "parts", "*")); err != nil || len(rest) != 0 {
		t.Errorf("left: %q, %v", rest, err)
	}
}

// TestPruneLeft keeps for a while what pulls have left that were cut short: the next one goes
// on with it.
func TestPruneLeft(t *testing.T) {
	s, dir := openStore(t)
	written := map[string]time.Duration{
		strings.Repeat("ab", 32) + ".part": 23 * time.Hour, strings.Repeat("cd", 32): 23 * time.Hour,
		strings.Repeat("01", 32) + ".part": 25 * time.Hour, strings.Repeat("23", 32): 25 * time.Hour,
	}
	now := time.Now()
	for name, ago := range written {
		path := filepath.Join(dir, "parts", name)
		if err := errors.Join(os.WriteFile(path, []byte("x"), 0o600), os.Chtimes(path, now, now.Add(-ago))); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		left  time.Duration
		freed int64
		stays int
	}{{24 * time.Hour, 1, 2}, {0, 1, 0}} {
		_, freed, err := s.Prune(t.Context(), image.Limits{Left: tc.left})
		if err != nil || freed != tc.freed {
			t.Errorf("%v: freed %d, want %d; %v", tc.left, freed, tc.freed, err)
		}
		rest, err := os.ReadDir(filepath.Join(dir, "parts"))
		if err != nil || len(rest) != tc.stays {
			t.Errorf("%v: %v stay, want %d; %v", tc.left, rest, tc.stays, err)
		}
		for _, r := range rest {
			if written[r.Name()] > tc.left {
				t.Errorf("%v: %s stays", tc.left, r.Name())
			}
		}
	}
}

// TestLogin: a registry that asks who somebody is, is told so, and a mirror of it is not.
func TestLogin(t *testing.T) {
	r, mirror := newRegistry(t), newRegistry(t)
	r.password = "secret"
	ref := r.add(t, "app", small(t, "x"))
	cfg := image.Config{Registries: image.Registries{Insecure: []string{r.host(), mirror.host()}, Mirrors: []string{r.host() + "=" + mirror.host()}}}
	file := filepath.Join(t.TempDir(), "login")
	for _, tc := range []struct{ login, says string }{{"", "images.logins"}, {"user:wrong", "images.logins"}, {"nonsense", "USER:PASSWORD"}, {"user:secret\n", ""}} {
		if tc.login != "" {
			cfg.Registries.Logins = []string{r.host() + "=" + file}
		}
		if err := os.WriteFile(file, []byte(tc.login), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := open(t, t.TempDir(), cfg).Pull(t.Context(), ref, nil)
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "wrong")) {
			t.Errorf("with the login %q: %v", tc.login, err)
		}
	}
	mirror.mu.Lock()
	defer mirror.mu.Unlock()
	if mirror.shown {
		t.Error("the mirror was shown the password")
	}
}
