package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
)

// personKey is a key that this machine can sign approvals with: a secret key in
// a file of its own, or the certificate of one that gpg keeps.
type personKey struct {
	name   string
	path   string
	public *certs.PublicKey
	secret *certs.PersonKey // nil if gpg has it
}

// How a key of this machine is kept.
const (
	keptOpen   = "file"       // in a file
	keptLocked = "passphrase" // in a file, under a passphrase
	keptByGPG  = "gpg"
)

func (k personKey) kept() string {
	switch {
	case k.secret == nil:
		return keptByGPG
	case k.secret.Locked():
		return keptLocked
	}
	return keptOpen
}

// Extensions of the two forms.
const (
	secretKey = ".key"
	publicKey = ".asc"
)

// keyWord is what a key may be called: what a person may.
func keyWord(s string) error {
	letter := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
	ok := len(s) >= 1 && len(s) <= 64 && letter(s[0]) && letter(s[len(s)-1]) && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789._@+-") == ""
	if !ok {
		return usage("", "%.80q is no name for a key: want 1 to 64 of a-z, 0-9 and inner . _ @ + -", s)
	}
	return nil
}

// keyPath is where a key of that name is, in one of its forms.
func (a *app) keyPath(name, form string) (string, error) {
	if err := keyWord(name); err != nil {
		return "", err
	}
	home, err := a.home()
	return filepath.Join(home, "keys", name+form), err
}

// loadKey returns the key of a name; [fs.ErrNotExist] if there is none.
func (a *app) loadKey(name string) (personKey, error) {
	path, err := a.keyPath(name, secretKey)
	if err != nil {
		return personKey{}, err
	}
	secret, err := certs.OpenPersonKey(path)
	if err == nil {
		return personKey{name, path, secret.PublicKey(), secret}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return personKey{}, err
	}
	if path, err = a.keyPath(name, publicKey); err != nil {
		return personKey{}, err
	}
	public, err := readCertificate(path)
	return personKey{name, path, public, nil}, err
}

func readCertificate(path string) (*certs.PublicKey, error) {
	b, err := readSmall(path)
	if err != nil {
		return nil, err
	}
	k, err := certs.ReadCertificate(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// keys returns all keys of this machine, by name.
func (a *app) keys() ([]personKey, error) {
	home, err := a.home()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(home, "keys"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, cannot("look for keys", err)
	}
	var all []personKey
	for _, e := range entries {
		name, isSecret := strings.CutSuffix(e.Name(), secretKey)
		if !isSecret {
			var isPublic bool
			if name, isPublic = strings.CutSuffix(e.Name(), publicKey); !isPublic {
				continue
			}
		}
		if keyWord(name) != nil || slices.ContainsFunc(all, func(k personKey) bool { return k.name == name }) {
			continue
		}
		k, err := a.loadKey(name)
		if err != nil {
			return nil, cannot("read key "+name, err)
		}
		all = append(all, k)
	}
	return all, nil
}

// findKey returns the key that is meant: one of this machine by its name, else
// the one in a file.
func (a *app) findKey(nameOrFile string) (personKey, error) {
	if keyWord(nameOrFile) == nil {
		k, err := a.loadKey(nameOrFile)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return k, err
		}
	}
	secret, err := certs.OpenPersonKey(nameOrFile)
	if err == nil {
		return personKey{nameOrFile, nameOrFile, secret.PublicKey(), secret}, nil
	}
	if errors.Is(err, certs.ErrFileMode) { // anybody may read a certificate, and nobody a secret key
		if public, e := readCertificate(nameOrFile); e == nil {
			return personKey{nameOrFile, nameOrFile, public, nil}, nil
		}
		return personKey{}, err
	}
	public, e := readCertificate(nameOrFile)
	if errors.Is(e, fs.ErrNotExist) {
		return personKey{}, &failure{
			code: exitNotFound, what: fmt.Sprintf("there is no key %q", nameOrFile), why: "neither a key of this machine nor a file is called so",
			next: "hostler key ls",
		}
	}
	return personKey{nameOrFile, nameOrFile, public, nil}, e
}

// signer returns what signs with a key, after asking for the passphrase if there
// is one. gpg asks by itself.
func (a *app) signer(k personKey) (protocol.Signer, error) {
	if k.secret == nil {
		return &gpgSigner{app: a, user: k.public.Key().String(), public: k.public}, nil
	}
	if !k.secret.Locked() {
		return k.secret.Unlock(nil)
	}
	for try := 1; ; try++ {
		passphrase, err := a.askSecret(fmt.Sprintf("Passphrase of key %s: ", k.name))
		if err != nil {
			return nil, err
		}
		i, err := k.secret.Unlock(passphrase)
		if err == nil {
			return i, nil
		}
		if !errors.Is(err, certs.ErrPassphrase) || try == passphraseTries || a.env(passphraseFile) != "" {
			return nil, err
		}
		a.say("That is not the passphrase.")
	}
}

// passphraseTries is how often a wrong passphrase may be typed.
const passphraseTries = 3

// passphraseFile is the variable that names a file with the passphrase, for
// whoever has no terminal.
const passphraseFile = "HOSTLER_PASSPHRASE_FILE"

// askSecret reads a line that is not shown, or the file with it.
func (a *app) askSecret(question string) ([]byte, error) {
	if path := a.env(passphraseFile); path != "" {
		b, err := readSmall(path)
		if err != nil {
			return nil, cannot("read the passphrase", err)
		}
		return []byte(strings.TrimRight(string(b), "\r\n")), nil
	}
	if !a.inTTY || !a.errTTY {
		return nil, &failure{
			code: exitRefused, what: "nobody was asked for the passphrase", why: "this is no terminal",
			next: "the same with " + passphraseFile + "=FILE",
		}
	}
	fmt.Fprint(a.err, question)
	b, err := a.secret(a.done)
	fmt.Fprintln(a.err)
	if errors.Is(err, errInterrupted) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("read the passphrase: %w", err)
	}
	return b, nil
}
