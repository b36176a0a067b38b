package destination

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/metrics"
	"github.com/hostler-io/hostler/metrics/influx"
)

func TestCheck(t *testing.T) {
	good := Settings{URL: "https://influx.example:8086", API: "v2", Bucket: "hostler", SpoolMiB: 1}
	for name, tc := range map[string]struct {
		change func(*Settings)
		says   string
	}{
		"good":               {func(*Settings) {}, ""},
		"none":               {func(s *Settings) { s.URL, s.Bucket, s.API = "", "", "" }, ""},
		"credential":         {func(s *Settings) { s.SecretFile = "influx" }, ""},
		"no spool":           {func(s *Settings) { s.SpoolMiB = 0 }, "spool_mib = 0"},
		"relative secret":    {func(s *Settings) { s.SecretFile = "etc/token" }, "secret_file"},
		"directory":          {func(s *Settings) { s.SecretFile = ".." }, "secret_file"},
		"secret in clear":    {func(s *Settings) { s.URL, s.SecretFile = "http://influx.example", "influx" }, "metrics.influx.url"},
		"way":                {func(s *Settings) { s.API = "v3" }, "metrics.influx.api"},
		"user and no secret": {func(s *Settings) { s.User = "u" }, "metrics.influx.user"},
	} {
		s := good
		tc.change(&s)
		if err := s.Check(); (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSecret: a secret is one line of a file of root, or of a credential.
func TestSecret(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tc := range map[string]struct{ file, credentials, want, says string }{
		"file":           {put("file", "s3cret\n"), "", "s3cret", ""},
		"credential":     {"file", dir, "s3cret", ""},
		"no credentials": {"file", "", "", "LoadCredential=file:PATH"},
		"empty":          {put("empty", "\n"), "", "", "no secret of one line"},
		"several lines":  {put("lines", "a\nb\n"), "", "", "no secret of one line"},
		"another's":      {func() string { p := put("open", "x"); _ = os.Chmod(p, 0o666); return p }(), "", "", "open"},
		"no such file":   {filepath.Join(dir, "none"), "", "", "none"},
		"much too large": {put("large", strings.Repeat("x", maxSecret+1)), "", "", "large"},
	} {
		got, err := Settings{SecretFile: tc.file}.secret(tc.credentials)
		if got != tc.want || (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

// TestSink: nothing is made without a database; one that is named gets the samples with the
// secret, and with a way of its own no database need be named.
func TestSink(t *testing.T) {
	if sink, err := (Settings{}).Sink(Program{}); sink != nil || err != nil {
		t.Error(sink, err)
	}
	bad := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bad, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{bad, bad + "-none"} {
		if _, err := (Settings{URL: "https://x", API: "v2", Bucket: "b", CAFile: file}).Sink(Program{}); err == nil || !strings.Contains(err.Error(), "ca_file") {
			t.Errorf("%s: %v", file, err)
		}
	}
	if _, err := (Settings{URL: "ftp://x"}).Sink(Program{}); err == nil || !strings.Contains(err.Error(), "metrics.influx.url") {
		t.Error(err)
	}
	got := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
		got <- r.Header.Get("Authorization") + " " + r.URL.Query().Get("bucket")
	}))
	defer server.Close()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Settings{URL: server.URL, API: "v2", Bucket: "b", SecretFile: secret, SpoolMiB: 1}
	run(t, s, Program{Every: time.Millisecond})
	if h := <-got; h != "Token s3cret b" {
		t.Errorf("%q", h)
	}
	written := make(chan string, 1)
	run(t, Settings{SpoolMiB: 1}, Program{Every: time.Millisecond, Tags: map[string]string{"host": "edge-07"}, Write: func(_ context.Context, lines []byte) error {
		written <- string(lines)
		return nil
	}})
	if lines := <-written; !strings.HasPrefix(lines, "hostler_host,host=edge-07 cpu=1 ") {
		t.Errorf("%q", lines)
	}
}

// run runs a sink of the settings until the test ends, and gives it a sample.
func run(t *testing.T, s Settings, p Program) {
	t.Helper()
	p.Dir, p.Log = t.TempDir(), slog.New(slog.DiscardHandler)
	sink, err := s.Sink(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sink.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	of := metrics.Series{Metric: metrics.CPU}
	sink.Offer(metrics.Sample{At: time.Now(), Values: []metrics.Value{{Series: of, Mean: 1}}})
}

func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := influx.Stats{}
		if err := Away(n); err != nil {
			t.Error(err)
		}
		n.Since, n.Cause = time.Now(), errors.New("refused").Error()
		if err := Away(n); err != nil {
			t.Error(err)
		}
		<-time.After(AwayFor)
		if err := Away(n); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Error(err)
		}
	})
}
