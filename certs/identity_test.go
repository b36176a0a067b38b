package certs_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/durable"
)

func newIdentity(t testing.TB, name string) *certs.Identity {
	t.Helper()
	id, err := certs.Generate(name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestIdentityIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "identity.pgp")
	if _, err := certs.LoadIdentity(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("loading what is not there: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("loading left something behind: %v", err)
	}
	made, err := certs.CreateIdentity(path, "hostler host web1")
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v, want %v", p, info.Mode(), err, want)
		}
	}
	if _, err := certs.CreateIdentity(path, "another"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("making it again: %v, want fs.ErrExist", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("making it again changed the file: %v", err)
	}
	loaded, err := certs.LoadIdentity(path)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Key() != made.Key() || !bytes.Equal(loaded.Public(), made.Public()) {
		t.Error("what was loaded is not what was made")
	}
	body := []byte("x")
	if sig, err := loaded.Sign(body); err != nil || made.PublicKey().Verify(sig, body) != nil {
		t.Errorf("the loaded key signs for another: %v", err)
	}
	if names, err := os.ReadDir(filepath.Dir(path)); err != nil || len(names) != 1 {
		t.Errorf("temporary files are left: %v, %v", names, err)
	}
}

func TestIdentityFileRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "identity.pgp")
	id, err := certs.CreateIdentity(path, "x")
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, b []byte, mode fs.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, b, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	secret, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certs.LoadIdentity(put("open", secret, 0o640)); !errors.Is(err, certs.ErrFileMode) {
		t.Errorf("a file that the group may read: %v", err)
	}
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if _, err := certs.LoadIdentity(path); !errors.Is(err, certs.ErrFileMode) || !errors.Is(err, durable.ErrOpen) {
		t.Errorf("a file that the group may replace: %v", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"empty": nil, "public": id.Public(), "cut": secret[:len(secret)/2], "large": bytes.Repeat([]byte{0}, 65<<10),
	} {
		if _, err := certs.LoadIdentity(put(name, b, 0o600)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want an error that names the file", name, err)
		}
	}
}

func TestGenerateRefusesNames(t *testing.T) {
	for _, name := range []string{"", "a(b)", "a<b>", "a\nb", strings.Repeat("a", 201)} {
		if _, err := certs.Generate(name, time.Now()); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestSecrets(t *testing.T) {
	id, other := newIdentity(t, "a"), newIdentity(t, "b")
	secret := []byte(`{"fleet":"00","host":"web1","value":"hunter2"}`)
	m, err := id.PublicKey().Encrypt(secret)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := id.Decrypt(m); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := other.Decrypt(m); err == nil {
		t.Error("another key reads it")
	}
	for i := range m {
		b := bytes.Clone(m)
		b[i] ^= 0x20
		if got, err := id.Decrypt(b); err == nil && !bytes.Equal(got, secret) {
			t.Errorf("changed at byte %d it reads %q", i, got)
		}
	}
	if _, err := id.PublicKey().Encrypt(make([]byte, certs.MaxSecret+1)); err == nil {
		t.Error("a secret of any size is taken")
	}
}

func TestIdentityIsSafeForConcurrentUse(t *testing.T) {
	id := newIdentity(t, "a")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				sig, err := id.Sign([]byte("x"))
				if err != nil || id.PublicKey().Verify(sig, []byte("x")) != nil {
					t.Errorf("sign and verify: %v", err)
				}
			}
		})
	}
	all.Wait()
}

// TestPublicKeyIsSmall holds what a coordinator keeps for each of its hosts.
func TestPublicKeyIsSmall(t *testing.T) {
	const n, most = 200, 1 << 10
	cert := newIdentity(t, "hostler host web1").Public()
	keys := make([]*certs.PublicKey, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range keys {
		k, err := certs.ParsePublicKey(cert)
		if err != nil {
			t.Fatal(err)
		}
		keys[i] = k
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n
	t.Logf("%d bytes for a key, its certificate takes %d", each, len(cert))
	if each > most {
		t.Errorf("a key takes %d bytes, want at most %d", each, most)
	}
	runtime.KeepAlive(keys)
}

var kilobyte = bytes.Repeat([]byte("x"), 1000)

func BenchmarkSign(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			ed25519.Sign(key, kilobyte)
		}
	})
	b.Run("certs", func(b *testing.B) {
		id := newIdentity(b, "a")
		for b.Loop() {
			if _, err := id.Sign(kilobyte); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		public, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			b.Fatal(err)
		}
		sig := ed25519.Sign(key, kilobyte)
		for b.Loop() {
			if !ed25519.Verify(public, kilobyte, sig) {
				b.Fatal("refused")
			}
		}
	})
	b.Run("certs", func(b *testing.B) {
		id := newIdentity(b, "a")
		sig, err := id.Sign(kilobyte)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if err := id.PublicKey().CheckForm(sig); err != nil {
				b.Fatal(err)
			}
			if err := id.PublicKey().Verify(sig, kilobyte); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkParsePublicKey is what each host costs when a coordinator starts.
func BenchmarkParsePublicKey(b *testing.B) {
	cert := newIdentity(b, "hostler host web1").Public()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := certs.ParsePublicKey(cert); err != nil {
			b.Fatal(err)
		}
	}
}
