package certs_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/certs"
)

// file writes a file that only its owner reads.
func (g *gpg) file(name string, b []byte) string {
	g.t.Helper()
	path := filepath.Join(g.home, name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		g.t.Fatal(err)
	}
	return path
}

// TestRecipients: what is encrypted to keys that gpg has made, gpg decrypts and so does the
// secret key that gpg exports; a message that was changed is found.
func TestRecipients(t *testing.T) {
	g := newGPG(t)
	g.run(nil, "--quick-generate-key", "old <old@example.com>", "rsa3072", "encr,sign", "never")
	g.run(nil, "--quick-generate-key", "new <new@example.com>", "future-default", "default", "never")
	text := bytes.Repeat([]byte("files of a container\n"), 100_000)
	for name, key := range map[string][]byte{"armored": g.run(nil, "--armor", "--export"), "binary": g.run(nil, "--export")} {
		to, err := certs.LoadRecipients(g.file(name, key))
		if err != nil || len(to.Fingerprints()) != 2 || len(to.Fingerprints()[0]) != 40 {
			t.Fatalf("%s: %v, %v", name, to, err)
		}
		var b bytes.Buffer
		w, err := to.Encrypt(&b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got := g.run(b.Bytes(), "--decrypt"); !bytes.Equal(got, text) {
			t.Errorf("%s: gpg decrypts %d other bytes", name, len(got))
		}
		for _, who := range []string{"old", "new"} {
			open, err := certs.LoadOpener(g.file("secret-"+who, g.run(nil, "--export-secret-keys", who)))
			if err != nil {
				t.Fatal(err)
			}
			r, err := open.Decrypt(bytes.NewReader(b.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%s, %s: %d other bytes, %v", name, who, len(got), err)
			}
			bad := bytes.Clone(b.Bytes())
			bad[len(bad)/2] ^= 1
			if r, err = open.Decrypt(bytes.NewReader(bad)); err == nil {
				_, err = io.ReadAll(r)
			}
			if err == nil {
				t.Errorf("%s, %s: a message that was changed is read as whole", name, who)
			}
			if r, err = open.Decrypt(bytes.NewReader(b.Bytes()[:b.Len()-30])); err == nil {
				_, err = io.ReadAll(r)
			}
			if err == nil {
				t.Errorf("%s, %s: a message that was cut short is read as whole", name, who)
			}
		}
	}
}

// TestRecipientsRefused: what cannot be encrypted to, or decrypted with, is refused when it is
// loaded, with the reason.
func TestRecipientsRefused(t *testing.T) {
	g := newGPG(t)
	g.run(nil, "--quick-generate-key", "signs <signs@example.com>", "ed25519", "sign", "never")
	g.run(nil, "--quick-generate-key", "good <good@example.com>", "future-default", "default", "never")
	public := g.file("public", g.run(nil, "--export", "good"))
	for name, c := range map[string]struct{ path, says string }{
		"missing":     {filepath.Join(g.home, "none"), "no such file"},
		"no key":      {g.file("text", []byte("hello")), "as gpg --export writes it"},
		"secret key":  {g.file("secret", g.run(nil, "--export-secret-keys", "good")), "it holds the secret key"},
		"signs alone": {g.file("signs", g.run(nil, "--export", "signs")), "is not made for that"},
		"too large":   {g.file("large", bytes.Repeat([]byte("x"), 10<<20)), "larger than"},
	} {
		if _, err := certs.LoadRecipients(c.path); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
	}
	if _, err := certs.LoadOpener(public); err == nil || !strings.Contains(err.Error(), "is a public key") {
		t.Errorf("a public key: %v", err)
	}
	open := g.file("open", g.run(nil, "--export-secret-keys", "good"))
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := certs.LoadOpener(open); err == nil || !strings.Contains(err.Error(), "its mode is 0644") {
		t.Errorf("a file that others read: %v", err)
	}
	locked := newGPG(t)
	locked.run(nil, "--passphrase=pw", "--quick-generate-key", "locked <l@example.com>", "future-default", "default", "never")
	secret := locked.run(nil, "--passphrase=pw", "--export-secret-keys", "locked")
	if _, err := certs.LoadOpener(locked.file("locked", secret)); err == nil || !strings.Contains(err.Error(), "a passphrase protects") {
		t.Errorf("a key under a passphrase: %v", err)
	}
}
