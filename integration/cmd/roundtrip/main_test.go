package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// serve starts a coordinator that answers every order with the handler, and
// returns the flags that lead to it.
func serve(t *testing.T, handler http.HandlerFunc) []string {
	t.Helper()
	srv := httptest.NewTLSServer(handler)
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	for name, data := range map[string][]byte{"ca.crt": ca, "token": []byte("sesame\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"-url", srv.URL + "/", "-ca", filepath.Join(dir, "ca.crt"), "-token-file", filepath.Join(dir, "token"), "-host", "edge-01"}
}

func TestMeasuresOverOneConnection(t *testing.T) {
	var orders atomic.Int64
	remotes := make(chan string, 8)
	args := serve(t, func(w http.ResponseWriter, r *http.Request) {
		orders.Add(1)
		remotes <- r.RemoteAddr
		var req request
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Errorf("decoding: %v", err)
		}
		if got, want := fmt.Sprint(r.Method, r.URL, r.Header.Get("Authorization"), req.Host, string(req.Spec)),
			`POST/v1/actions?wait=30sBearer sesameedge-01{"kind":"host.run","argv":["/bin/true"]}`; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
		fmt.Fprint(w, `{"id":"a","state":"DONE","more":1}`)
	})
	var out strings.Builder
	if err := run(t.Context(), append(args, "-n", "7"), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^orders: 7\np50: \d+\.\d\d ms\np99: \d+\.\d\d ms\n$`).MatchString(out.String()) {
		t.Errorf("printed %q", out.String())
	}
	if got := orders.Load(); got != 8 {
		t.Errorf("%d orders, want 7 after one to warm up", got)
	}
	first := <-remotes
	for range 7 {
		if next := <-remotes; next != first {
			t.Errorf("a second connection from %s, the first was from %s", next, first)
		}
	}
}

func TestFails(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"the order failed", 200, `{"id":"a","state":"FAILED","reason":"exit"}`, "action a is FAILED exit"},
		{"the order has not ended", 202, `{"id":"a","state":"RUNNING"}`, "action a is RUNNING"},
		{"refused", 403, `{"code":"role"}`, `answered 403 Forbidden: {"code":"role"}`},
		{"no JSON", 200, `<html>`, "decoding the answer"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(tc.status)
				fmt.Fprint(w, tc.body)
			})
			var out strings.Builder
			err := run(t.Context(), args, &out, io.Discard)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if out.Len() > 0 {
				t.Errorf("printed figures: %q", out.String())
			}
		})
	}
}

func TestTrustsTheFleetAlone(t *testing.T) {
	dir := t.TempDir()
	for name, ca := range map[string][]byte{"foreign": foreignCA(t), "empty": {}, "missing": nil} {
		t.Run(name, func(t *testing.T) {
			args := serve(t, func(w http.ResponseWriter, r *http.Request) { t.Error("the token was sent to a stranger") })
			args[3] = filepath.Join(dir, name)
			if ca != nil {
				if err := os.WriteFile(args[3], ca, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
				t.Error("no error")
			}
		})
	}
}

// foreignCA is the certificate of a CA that has signed nothing.
func foreignCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"-n", "0"}, {"-nonsense"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%v: got %v", args, err)
		}
	}
}

func TestPercentile(t *testing.T) {
	times := make([]time.Duration, 100)
	for i := range times {
		times[i] = time.Duration(i + 1)
	}
	for _, tc := range []struct {
		n, p int
		want time.Duration
	}{{100, 50, 50}, {100, 99, 99}, {10, 99, 10}, {1, 50, 1}, {3, 50, 2}} {
		if got := percentile(times[:tc.n], tc.p); got != tc.want {
			t.Errorf("p%d of 1…%d = %d, want %d", tc.p, tc.n, got, tc.want)
		}
	}
}
