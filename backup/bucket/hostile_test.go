package bucket_test

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hostler-io/hostler/backup/bucket"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/s3test"
)

// TestURL: a URL says where a bucket is, and nothing else.
func TestURL(t *testing.T) {
	for text, says := range map[string]string{
		"s3://s3.example:9000/backups/edge-07":              "",
		"s3://s3.eu-central-1.amazonaws.com/backups":        "",
		"s3://s3.example/backups/a/b/?region=r1&style=path": "",
		"s3+http://127.0.0.1:9000/backups":                  "",
		"s3+http://[::1]:9000/backups?style=dns":            "",
		"s3+http://s3.example/backups":                      "not encrypted",
		"https://s3.example/backups":                        "s3://",
		"s3://key:secret@s3.example/backups":                "s3_credentials",
		"s3:///backups":                                     "names no store",
		"s3://s3.example":                                   "names no bucket",
		"s3://s3.example/UP":                                `no bucket can be called "UP"`,
		"s3://s3.example/b":                                 `no bucket can be called "b"`,
		"s3://s3.example/backups/a/../b":                    "prefix",
		"s3://s3.example/backups/a%20b":                     "prefix",
		"s3://s3.example/backups?style=odd":                 "style",
		"s3://s3.example/backups?acl=public":                "no option",
		"s3://s3.example/backups?region=a&region=b":         "one value",
	} {
		err := bucket.Config{URL: text}.Check()
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
		if err != nil && strings.Contains(err.Error(), "secret@") {
			t.Errorf("it tells the secret: %v", err)
		}
	}
}

// at opens a bucket of a server that a test has written.
func at(t *testing.T, h http.HandlerFunc) *bucket.Bucket {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	key := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(key, []byte(s3test.Key+":"+s3test.Secret), 0o600))
	b, err := bucket.Open(bucket.Config{URL: strings.Replace(server.URL, "http:", "s3+http:", 1) + "/" + s3test.Bucket + "/edge-07", Credentials: key, PartBytes: 5 << 20})
	must(t, err)
	return b
}

// TestRubbish: a server that is no store, or one that lies, is unavailable: nothing it says
// makes a backup be there or gone.
func TestRubbish(t *testing.T) {
	xml := func(w http.ResponseWriter, status int, code string) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>a \x1b[31m word</Message></Error>", code)
	}
	for name, h := range map[string]http.HandlerFunc{
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"a page":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html><body>hello</body></html>") },
		"no such part": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no such part", http.StatusRequestedRangeNotSatisfiable)
		},
		"no such page": http.NotFound,
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusMovedPermanently)
		},
		"no such bucket":   func(w http.ResponseWriter, _ *http.Request) { xml(w, 404, "NoSuchBucket") },
		"refused":          func(w http.ResponseWriter, _ *http.Request) { xml(w, 403, "AccessDenied") },
		"another clock":    func(w http.ResponseWriter, _ *http.Request) { xml(w, 403, "RequestTimeTooSkewed") },
		"a list in a list": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("<Contents>", 10_000)) },
		"without an end": func(w http.ResponseWriter, _ *http.Request) {
			for block := bytes.Repeat([]byte("<a>b</a>"), 8<<10); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := at(t, h)
			_, listed := b.Names(t.Context())
			_, opened := b.Open(t.Context(), "x")
			for what, err := range map[string]error{"list": listed, "open": opened} {
				if !errors.Is(err, container.ErrUnavailable) || errors.Is(err, container.ErrNotFound) || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 900 {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

// TestNoMore: of an object no more is read than it had when it was opened, and no other part
// than the one that was asked for.
func TestNoMore(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"another part": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-99/200000")
			w.WriteHeader(206)
			_, _ = w.Write(make([]byte, 100)) // who has asked looks
		},
		"no range": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "pages 1-2")
			w.WriteHeader(206)
		},
		"all of it": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 200_000)) },
	} {
		dated := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Last-Modified", "Sat, 28 Nov 2026 12:00:00 GMT")
			h(w, r)
		}
		if o, err := at(t, dated).Open(t.Context(), "x"); !errors.Is(err, container.ErrUnavailable) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}

func proxy(s *s3test.Server) http.Handler {
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: s.Address})
		r.Out.Host = r.In.Host // it is signed
	}}
}

// TestTLS: a store is believed by the authority of its certificate, and by no other.
func TestTLS(t *testing.T) {
	s := s3test.Start(t)
	server := httptest.NewUnstartedServer(proxy(s))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the client that does not believe it
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	c := bucket.Config{URL: strings.Replace(server.URL, "https:", "s3:", 1) + "/" + s3test.Bucket, Credentials: s.Credentials, PartBytes: 5 << 20}
	b, err := bucket.Open(c)
	must(t, err)
	if _, err := b.Names(t.Context()); !errors.Is(err, container.ErrUnavailable) || !strings.Contains(err.Error(), "s3_ca_file") {
		t.Errorf("without its authority: %v", err)
	}
	c.CAFile = ca
	b, err = bucket.Open(c)
	large := make([]byte, 6<<20)
	must(t, err, b.Put(t.Context(), "small", bytes.NewReader(large), 5, noUpload), b.Put(t.Context(), "large", bytes.NewReader(large), 6<<20, func(string) error { return nil }))
	if all, err := b.Names(t.Context()); err != nil || !slices.Contains(all, "small") || !slices.Contains(all, "large") {
		t.Errorf("there are %q, %v", all, err)
	}
}

// before has a proxy before a store: what it does not handle reaches the store.
func before(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, pass http.Handler) bool) *bucket.Bucket {
	t.Helper()
	pass := proxy(s3test.Start(t))
	return at(t, func(w http.ResponseWriter, r *http.Request) {
		if !handle(w, r, pass) {
			pass.ServeHTTP(w, r)
		}
	})
}

// TestAnswerLost: an object is there though the answer that said so was lost, and is not taken
// for one of somebody else; a store that knows no conditions keeps it all the same.
func TestAnswerLost(t *testing.T) {
	var lost, refused, broken atomic.Int32
	b := before(t, func(w http.ResponseWriter, r *http.Request, pass http.Handler) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "unconditional") && r.Header.Get("If-None-Match") != "":
			refused.Add(1)
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(501)
			fmt.Fprint(w, "<Error><Code>NotImplemented</Code></Error>")
			return true
		case r.Header.Get("If-None-Match") != "" && lost.Add(1) == 1, r.Header.Get("If-Match") != "" && broken.Add(1) == 1:
			whole := httptest.NewRecorder()
			pass.ServeHTTP(whole, r)
			if r.Method == http.MethodGet { // half of what is asked for comes
				maps.Copy(w.Header(), whole.Header())
				w.WriteHeader(whole.Code)
				_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
			}
			panic(http.ErrAbortHandler)
		}
		return false
	})
	large := bytes.Repeat([]byte("0123456789"), 1<<20)
	for _, name := range []string{"lost", "unconditional"} {
		lost.Store(0)
		must(t, b.Put(t.Context(), name, bytes.NewReader(large), int64(len(large)), func(string) error { return nil }))
		if err := b.Put(t.Context(), name, bytes.NewReader(large), 5, noUpload); !errors.Is(err, container.ErrExists) {
			t.Errorf("%s once more: %v", name, err)
		}
	}
	if refused.Load() == 0 {
		t.Error("no condition was refused")
	}
	o, err := b.Open(t.Context(), "lost")
	must(t, err)
	defer o.Close()
	if got, err := io.ReadAll(io.NewSectionReader(o, 0, o.Size)); err != nil || !bytes.Equal(got, large) || broken.Load() < 2 {
		t.Errorf("after the line was lost: %d bytes, %v, asked for %d times", len(got), err, broken.Load())
	}
}

// TestReplaced: an object that is replaced while it is read is not read on.
func TestReplaced(t *testing.T) {
	s := s3test.Start(t)
	b := open(t, s, "edge-07")
	put := func(by string) {
		large := bytes.Repeat([]byte(by), 200_000)
		must(t, b.Put(t.Context(), "x", bytes.NewReader(large), int64(len(large)), noUpload))
	}
	put("a")
	o, err := b.Open(t.Context(), "x")
	must(t, err, b.Remove(t.Context(), "x"))
	defer o.Close()
	put("b")
	if _, err := o.ReadAt(make([]byte, 10), 0); !errors.Is(err, container.ErrUnavailable) || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("it is read on: %v", err)
	}
}
