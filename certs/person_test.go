package certs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
)

func TestPersonKey(t *testing.T) {
	for name, passphrase := range map[string]string{"open": "", "locked": "correct horse"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keys", "alice.key")
			public, err := certs.CreatePersonKey(path, "hostler person alice", []byte(passphrase))
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			if _, err := certs.CreatePersonKey(path, "hostler person bob", nil); !errors.Is(err, fs.ErrExist) {
				t.Errorf("over the key that is there: %v", err)
			}
			k, err := certs.OpenPersonKey(path)
			if err != nil {
				t.Fatal(err)
			}
			if k.PublicKey().Key() != public.Key() || !bytes.Equal(k.PublicKey().Bytes(), public.Bytes()) || k.Locked() != (passphrase != "") {
				t.Errorf("read as %s, locked is %v", k.PublicKey().Key(), k.Locked())
			}
			_, err = certs.LoadIdentity(path)
			if (err != nil) != k.Locked() {
				t.Errorf("as the key of a process: %v", err)
			}
			if _, err := k.Unlock([]byte("wrong")); errors.Is(err, certs.ErrPassphrase) != k.Locked() {
				t.Errorf("a wrong passphrase: %v", err)
			}
			i, err := k.Unlock([]byte(passphrase))
			if err != nil {
				t.Fatal(err)
			}
			sig, err := i.Sign([]byte("body"))
			if err != nil {
				t.Fatal(err)
			}
			if err := public.Verify(sig, []byte("body")); err != nil {
				t.Error(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			// Whoever takes gpg instead has the same key.
			g := newGPG(t)
			g.run(b, "--passphrase="+passphrase, "--import")
			sig = g.run([]byte("body"), "--passphrase="+passphrase, "--detach-sign")
			if err := public.Verify(sig, []byte("body")); err != nil {
				t.Errorf("signed by gpg with our key: %v", err)
			}
		})
	}
}

func TestReadCertificate(t *testing.T) {
	id := newIdentity(t, "alice")
	text, err := id.PublicKey().Armor()
	if err != nil {
		t.Fatal(err)
	}
	g := newGPG(t)
	g.run([]byte(text), "--import")
	for name, b := range map[string][]byte{
		"binary": id.Public(), "our text": []byte(text), "within a letter": []byte("Dear owner,\n\n" + text + "\nYours, Alice\n"),
		"gpg's text": g.run(nil, "--armor", "--export"), "with line ends of elsewhere": []byte(strings.ReplaceAll(text, "\n", "\r\n")),
	} {
		if k, err := certs.ReadCertificate(b); err != nil || k.Key() != id.Key() {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{
		"nothing": nil, "cut": []byte(text[:len(text)/2]), "changed": []byte(strings.Replace(text, "\n\n", "\n\nAAAA", 1)),
		"a message": []byte(strings.ReplaceAll(text, "PUBLIC KEY BLOCK", "MESSAGE")), "too much": bytes.Repeat([]byte("x"), 2*certs.MaxCertificate+1),
	} {
		if _, err := certs.ReadCertificate(b); !errors.Is(err, certs.ErrCertificate) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzReadCertificate(f *testing.F) {
	id, err := certs.Generate("alice", time.Unix(1700000000, 0))
	if err != nil {
		f.Fatal(err)
	}
	text, err := id.PublicKey().Armor()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(id.Public())
	f.Add([]byte(text))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := certs.ReadCertificate(b)
		if err != nil {
			return
		}
		text, err := k.Armor()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := certs.ReadCertificate([]byte(text)); err != nil || again.Key() != k.Key() || !bytes.Equal(again.Bytes(), k.Bytes()) {
			t.Errorf("written as text it is another: %v", err)
		}
	})
}

func TestApproversComeAndGo(t *testing.T) {
	f := newFleet(t, 1, 1)
	r := f.chain.Next()
	one, two := newIdentity(t, "one").PublicKey(), newIdentity(t, "two").PublicKey()
	for _, k := range []*certs.PublicKey{one, two, one} { // one again, in the same form
		if err := r.AddPersonKey("alice", k); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.People) != 1 || len(r.People[0].Keys) != 2 {
		t.Fatalf("people: %d with %d keys", len(r.People), len(r.People[0].Keys))
	}
	if err := r.AddPersonKey("bob", two); err == nil {
		t.Error("a key of two persons")
	}
	if err := r.RemovePerson("carol"); !errors.Is(err, certs.ErrRing) {
		t.Errorf("nobody: %v", err)
	}
	if err := r.RemovePerson("alice", one.Key(), one.Key()); !errors.Is(err, certs.ErrRing) || len(r.People[0].Keys) != 2 {
		t.Errorf("a key twice: %v", err)
	}
	if err := r.RemovePerson("alice", two.Key()); err != nil || len(r.People[0].Keys) != 1 {
		t.Errorf("one of two keys: %v", err)
	}
	if err := r.RemovePerson("alice", one.Key()); err != nil || len(r.People) != 0 {
		t.Errorf("the last key: %v", err)
	}
	if err := r.AddPersonKey("alice", one); err != nil {
		t.Fatal(err)
	}
	if err := r.RemovePerson("alice"); err != nil || len(r.People) != 0 {
		t.Errorf("the person: %v", err)
	}
}
