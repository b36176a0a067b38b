package certs_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
)

// gpg is a key ring of stock gpg of its own. Nothing of the user's is touched.
type gpg struct {
	t    *testing.T
	home string
}

func newGPG(t *testing.T) *gpg {
	t.Helper()
	// The path of a socket is short; that of a test's folder may not be.
	home, err := os.MkdirTemp("/tmp", "g")
	if err != nil {
		t.Fatal(err)
	}
	g := &gpg{t, home}
	t.Cleanup(func() {
		// gpg leaves its agent running.
		if out, err := g.command("gpgconf", "--kill", "all").CombinedOutput(); err != nil {
			t.Errorf("ending gpg's agent: %v: %s", err, out)
		}
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	return g
}

func (g *gpg) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), "GNUPGHOME="+g.home, "LC_ALL=C")
	return c
}

// try runs gpg and returns what it wrote to its two outputs.
func (g *gpg) try(stdin []byte, args ...string) (stdout []byte, stderr string, err error) {
	g.t.Helper()
	c := g.command("gpg", append([]string{"--batch", "--no-tty", "--quiet", "--pinentry-mode=loopback", "--passphrase="}, args...)...)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(stdin), &out, &errs
	err = c.Run()
	return out.Bytes(), errs.String(), err
}

func (g *gpg) run(stdin []byte, args ...string) []byte {
	g.t.Helper()
	out, errs, err := g.try(stdin, args...)
	if err != nil {
		g.t.Fatalf("gpg %q: %v\n%s", args, err, errs)
	}
	return out
}

// verify asks gpg whether sig fits body.
func (g *gpg) verify(sig, body []byte) (string, error) {
	g.t.Helper()
	dir := g.t.TempDir()
	s, b := filepath.Join(dir, "sig"), filepath.Join(dir, "body")
	for name, data := range map[string][]byte{s: sig, b: body} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			g.t.Fatal(err)
		}
	}
	_, errs, err := g.try(nil, "--ignore-time-conflict", "--verify", s, b)
	return errs, err
}

// fingerprint returns that of the primary key of the one secret key.
func (g *gpg) fingerprint() string {
	g.t.Helper()
	for line := range strings.Lines(string(g.run(nil, "--with-colons", "--list-secret-keys"))) {
		if f := strings.Split(line, ":"); f[0] == "fpr" {
			return f[9]
		}
	}
	g.t.Fatal("gpg has no secret key")
	return ""
}

func TestGPGVerifiesOurs(t *testing.T) {
	for name, at := range map[string]time.Time{
		"today": time.Now(),
		"1970":  time.Unix(0, 0),
		"2100":  time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		t.Run(name, func(t *testing.T) {
			g := newGPG(t)
			id, err := certs.Generate("hostler host web1", at)
			if err != nil {
				t.Fatal(err)
			}
			g.run(id.Public(), "--ignore-time-conflict", "--import")
			body := []byte(`{"hostler":"report/1","text":"a && b"}`)
			// The clock stands before the key's creation, at it, and after it.
			for _, now := range []time.Time{time.Unix(-5, 0), at, at.Add(365 * 24 * time.Hour)} {
				sig, err := id.WithClock(func() time.Time { return now }).Sign(body)
				if err != nil {
					t.Fatal(err)
				}
				if len(sig) > 119 {
					t.Errorf("the signature takes %d bytes", len(sig))
				}
				if out, err := g.verify(sig, body); err != nil || !strings.Contains(out, "Good signature") {
					t.Errorf("clock %v: %v\n%s", now, err, out)
				}
				if out, err := g.verify(sig, append(body, ' ')); err == nil || !strings.Contains(out, "BAD signature") {
					t.Errorf("gpg took another body: %v\n%s", err, out)
				}
			}
		})
	}
}

// TestGPGVerifiesAnEnvelope takes an envelope apart with the commands of doc/protocol.md, as
// they stand there, and has gpg verify what comes out; of a message that was changed, it does not.
func TestGPGVerifiesAnEnvelope(t *testing.T) {
	page, err := os.ReadFile("../doc/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\nCheck a captured line with stock tools.")
	_, rest, _ = strings.Cut(rest, "```sh\n")
	script, _, ok := strings.Cut(rest, "```")
	if !ok || !strings.Contains(script, "gpg --verify") {
		t.Fatalf("the page has no commands: %q", script)
	}
	g := newGPG(t)
	id := newIdentity(t, "hostler host web1")
	g.run(id.Public(), "--import")
	body := []byte(`{"hostler":"out/1","text":"} & \u0026 \"sig\":\"x\",\"body\":{}"}`)
	sealed, err := protocol.Seal(id, body, []byte("attached\n{}\n"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for message, good := range map[string]bool{string(sealed): true, strings.Replace(string(sealed), "out/1", "out/2", 1): false} {
		if err := os.WriteFile(filepath.Join(dir, "message"), []byte(message), 0o600); err != nil {
			t.Fatal(err)
		}
		c := g.command("bash", "-e", "-o", "pipefail", "-c", script)
		c.Dir = dir
		if out, err := c.CombinedOutput(); (err == nil) != good || !strings.Contains(string(out), map[bool]string{true: "Good signature from \"hostler host web1\"", false: "BAD signature"}[good]) {
			t.Errorf("good %t: %v: %s", good, err, out)
		}
		if cut, err := os.ReadFile(filepath.Join(dir, "body")); err != nil || bytes.Equal(cut, body) != good {
			t.Errorf("good %t: sed cuts %q, %v", good, cut, err)
		}
	}
}

func TestGPGDecryptsOurs(t *testing.T) {
	g := newGPG(t)
	g.run(nil, "--quick-generate-key", "alice", "default", "default", "never")
	k, err := certs.ParsePublicKey(g.run(nil, "--export"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := k.Encrypt([]byte("hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	if got := g.run(m, "--decrypt"); string(got) != "hunter2" {
		t.Errorf("gpg reads %q", got)
	}
}

func TestWeVerifyGPG(t *testing.T) {
	for name, make := range map[string]func(g *gpg) (signer string){
		"EdDSA": func(g *gpg) string {
			g.run(nil, "--quick-generate-key", "alice", "ed25519", "sign,cert", "never")
			return g.fingerprint()
		},
		"RSA": func(g *gpg) string {
			g.run(nil, "--quick-generate-key", "alice", "rsa2048", "sign,cert", "never")
			return g.fingerprint()
		},
		"ECDSA": func(g *gpg) string {
			g.run(nil, "--quick-generate-key", "alice", "nistp256", "sign,cert", "never")
			return g.fingerprint()
		},
		"signing subkey": func(g *gpg) string {
			g.run(nil, "--quick-generate-key", "alice", "ed25519", "cert", "never")
			g.run(nil, "--quick-add-key", g.fingerprint(), "ed25519", "sign", "never")
			return g.fingerprint()
		},
		"expired": func(g *gpg) string {
			g.run(nil, "--faked-system-time=20200101T000000", "--quick-generate-key", "alice", "ed25519", "sign,cert", "1d")
			return g.fingerprint()
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGPG(t)
			fingerprint := make(g)
			k, err := certs.ParsePublicKey(g.run(nil, "--export"))
			if err != nil {
				t.Fatal(err)
			}
			if k.Key().String() != fingerprint {
				t.Errorf("key is %s, gpg says %s", k.Key(), fingerprint)
			}
			body := []byte("approved\r\n")
			sign := []string{"--detach-sign"}
			if name == "expired" {
				sign = []string{"--faked-system-time=20200101T010000", "--detach-sign"}
			}
			sig := g.run(body, sign...)
			if err := k.CheckForm(sig); err != nil {
				t.Error(err)
			}
			if err := k.Verify(sig, body); err != nil {
				t.Error(err)
			}
			if err := k.Verify(sig, []byte("approved\n")); err == nil {
				t.Error("another body is taken")
			}
			if text := g.run(body, append([]string{"--textmode"}, sign...)...); k.CheckForm(text) == nil {
				t.Error("a text signature is taken, which fits bodies with other line ends too")
			}
			if name == "RSA" { // the others refuse so short a hash themselves
				if weak := g.run(body, append([]string{"--digest-algo=SHA1"}, sign...)...); k.CheckForm(weak) == nil {
					t.Error("SHA-1 is taken")
				}
			}
		})
	}
}

func TestGPGCertificatesRefused(t *testing.T) {
	g := newGPG(t)
	g.run(nil, "--quick-generate-key", "alice", "ed25519", "sign,cert", "never")
	alice := g.run(nil, "--export")
	secret := g.run(nil, "--export-secret-keys")
	armored := g.run(nil, "--armor", "--export")
	g.run(nil, "--quick-generate-key", "bob", "ed25519", "cert", "never")
	both := g.run(nil, "--export")
	bob := g.run(nil, "--export", "bob")
	revocation, err := os.ReadFile(filepath.Join(g.home, "openpgp-revocs.d", g.fingerprint()+".rev"))
	if err != nil {
		t.Fatal(err)
	}
	g.run(bytes.ReplaceAll(revocation, []byte(":-----"), []byte("-----")), "--import")
	for name, b := range map[string][]byte{
		"two":            both,
		"secret":         secret,
		"armored":        armored,
		"cannot sign":    bob,
		"revoked":        g.run(nil, "--export", "alice"),
		"bytes after":    append(bytes.Clone(alice), 0),
		"cut":            alice[:len(alice)-1],
		"empty":          nil,
		"key alone":      alice[:53],
		"larger than ok": bytes.Repeat(alice, 1+certs.MaxCertificate/len(alice)),
	} {
		if k, err := certs.ParsePublicKey(b); err == nil {
			t.Errorf("%s: taken as key %s", name, k.Key())
		}
	}
	if _, err := certs.ParsePublicKey(alice); err != nil {
		t.Errorf("the genuine one: %v", err)
	}
}
