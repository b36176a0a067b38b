package certs_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
)

// TestRelease: a package is believed if a release key of the ring in force has signed
// it, and by nobody else's word.
func TestRelease(t *testing.T) {
	f := newFleet(t, 2, 1)
	key, err := certs.Generate("releases", time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	const file = "!<arch>\npackage"
	signed := func(by *certs.Identity, text string) []byte {
		t.Helper()
		sig, err := by.Sign([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return sig
	}
	refused := func(sig []byte, want string) {
		t.Helper()
		if _, _, err := f.chain.VerifyRelease(sig, strings.NewReader(file)); !errors.Is(err, certs.ErrRelease) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	refused(signed(key, file), "names none")

	next := f.chain.Next()
	if err := next.AddReleaseKey("us", key.PublicKey()); err != nil {
		t.Fatal(err)
	}
	if err := next.AddReleaseKey("us.again", key.PublicKey()); err != nil { // its new form
		t.Fatal(err)
	}
	f.advance(f.sign(next, f.owners[0]))
	if name, id, err := f.chain.VerifyRelease(signed(key, file), strings.NewReader(file)); err != nil || name != "us.again" || id != key.Key() {
		t.Errorf("got %q, %s, %v", name, id, err)
	}
	refused(signed(key, file+" "), "does not fit")
	refused(signed(f.owners[0], file), "another key")
	refused(nil, "another key")
	refused(make([]byte, certs.MaxSignature+1), "at most")
	if _, ok := certs.NewKeys(f.chain).Principal(key.Key()); ok {
		t.Error("a release key may sign messages")
	}
	if f.chain.Revocable(key.Key()) {
		t.Error("a coordinator may revoke a release key")
	}

	next = f.chain.Next()
	if len(next.Releases) != 1 {
		t.Errorf("the next ring has %d release keys", len(next.Releases))
	}
	if err := next.AddReleaseKey("Not a name", f.owners[0].PublicKey()); err == nil {
		t.Error("any name is taken")
	}
	if err := next.RemoveReleaseKey(protocol.KeyID{1}); err == nil {
		t.Error("a key is removed that is not there")
	}
	if err := next.RemoveReleaseKey(key.Key()); err != nil {
		t.Fatal(err)
	}
	f.advance(f.sign(next, f.owners[0]))
	refused(signed(key, file), "names none")
}

// TestReleaseByGPG verifies what stock gpg signs, in both of its forms.
func TestReleaseByGPG(t *testing.T) {
	f, dir := newFleet(t, 1, 1), t.TempDir()
	home := filepath.Join(dir, "gnupg")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	gpg := func(args ...string) []byte {
		t.Helper()
		out, err := exec.Command("gpg", append([]string{"--homedir", home, "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""}, args...)...).Output()
		if err != nil {
			t.Fatalf("gpg %v: %v", args, err)
		}
		return out
	}
	t.Cleanup(func() { _ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() })
	gpg("--quick-generate-key", "releases@example.com", "rsa2048", "sign", "never")
	key, err := certs.ReadCertificate(gpg("--armor", "--export", "releases@example.com"))
	if err != nil {
		t.Fatal(err)
	}
	next := f.chain.Next()
	if err := next.AddReleaseKey("releases", key); err != nil {
		t.Fatal(err)
	}
	f.advance(f.sign(next, f.owners[0]))
	file := filepath.Join(dir, "agent.deb")
	if err := os.WriteFile(file, []byte("!<arch>\npackage"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{{"--detach-sign"}, {"--armor", "--detach-sign"}} {
		sig, err := certs.ReadSignature(gpg(append(more, "--output", "-", file)...))
		if err != nil {
			t.Fatal(err)
		}
		if name, _, err := f.chain.VerifyRelease(sig, strings.NewReader("!<arch>\npackage")); err != nil || name != "releases" {
			t.Errorf("%v: %q, %v", more, name, err)
		}
	}
	if _, err := certs.ReadSignature(gpg("--armor", "--export")); err == nil {
		t.Error("a key is taken for a signature")
	}
}

// FuzzReadSignature: whatever comes, it ends, and is bounded.
func FuzzReadSignature(f *testing.F) {
	f.Add([]byte("-----BEGIN PGP SIGNATURE-----\n\niQ==\n-----END PGP SIGNATURE-----\n"))
	f.Add([]byte{0x88, 0x5e})
	f.Fuzz(func(t *testing.T, b []byte) {
		if sig, err := certs.ReadSignature(b); err == nil && len(sig) > 2*certs.MaxSignature {
			t.Errorf("a signature of %d bytes", len(sig))
		}
	})
}
