// Package keyring keeps the keys with which people sign, and signs with them: in
// files, under a passphrase, or with gpg. It has the commands of hostler key.
package keyring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// Store is the keys of this user.
type Store struct{ *conn.Env }

// New returns the keys of the user of e.
func New(e *conn.Env) *Store { return &Store{e} }

// PersonKey is a key that this machine can sign approvals with: a secret key in
// a file of its own, or the certificate of one that gpg keeps.
type PersonKey struct {
	Name   string
	path   string
	Public *certs.PublicKey
	secret *certs.PersonKey // nil if gpg has it
}

// How a key of this machine is kept.
const (
	keptOpen   = "file"       // in a file
	keptLocked = "passphrase" // in a file, under a passphrase
	keptByGPG  = "gpg"
)

func (k PersonKey) kept() string {
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
		return term.Usage("", "%.80q is not a valid key name: use 1 to 64 of a-z, 0-9 and inner . _ @ + -", s)
	}
	return nil
}

// keyPath is where a key of that name is, in one of its forms.
func (a *Store) keyPath(name, form string) (string, error) {
	if err := keyWord(name); err != nil {
		return "", err
	}
	home, err := a.Home()
	return filepath.Join(home, "keys", name+form), err
}

// loadKey returns the key of a name; [fs.ErrNotExist] if there is none.
func (a *Store) loadKey(name string) (PersonKey, error) {
	path, err := a.keyPath(name, secretKey)
	if err != nil {
		return PersonKey{}, err
	}
	secret, err := certs.OpenPersonKey(path)
	if err == nil {
		return PersonKey{name, path, secret.PublicKey(), secret}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return PersonKey{}, err
	}
	if path, err = a.keyPath(name, publicKey); err != nil {
		return PersonKey{}, err
	}
	public, err := ReadCertificate(path)
	return PersonKey{name, path, public, nil}, err
}

// ReadCertificate reads the file of a public key.
func ReadCertificate(path string) (*certs.PublicKey, error) {
	b, err := conn.ReadSmall(path)
	if err != nil {
		return nil, err
	}
	k, err := certs.ReadCertificate(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// Keys returns all keys of this machine, by name.
func (a *Store) Keys() ([]PersonKey, error) {
	home, err := a.Home()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(home, "keys"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, term.Cannot("look for keys", err)
	}
	var all []PersonKey
	for _, e := range entries {
		name, isSecret := strings.CutSuffix(e.Name(), secretKey)
		if !isSecret {
			var isPublic bool
			if name, isPublic = strings.CutSuffix(e.Name(), publicKey); !isPublic {
				continue
			}
		}
		if keyWord(name) != nil || slices.ContainsFunc(all, func(k PersonKey) bool { return k.Name == name }) {
			continue
		}
		k, err := a.loadKey(name)
		if err != nil {
			return nil, term.Cannot("read key "+name, err)
		}
		all = append(all, k)
	}
	return all, nil
}

// FindKey returns the key that is meant: one of this machine by its name, else
// the one in a file.
func (a *Store) FindKey(nameOrFile string) (PersonKey, error) {
	if keyWord(nameOrFile) == nil {
		k, err := a.loadKey(nameOrFile)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return k, err
		}
	}
	secret, err := certs.OpenPersonKey(nameOrFile)
	if err == nil {
		return PersonKey{nameOrFile, nameOrFile, secret.PublicKey(), secret}, nil
	}
	if errors.Is(err, certs.ErrFileMode) { // every user may read a certificate, and no other user a secret key
		if public, e := ReadCertificate(nameOrFile); e == nil {
			return PersonKey{nameOrFile, nameOrFile, public, nil}, nil
		}
		return PersonKey{}, err
	}
	public, e := ReadCertificate(nameOrFile)
	if errors.Is(e, fs.ErrNotExist) {
		return PersonKey{}, &term.Failure{
			Code: term.ExitNotFound, What: fmt.Sprintf("there is no key %q", nameOrFile), Why: "no key on this machine and no file has this name",
			Next: "hostler key ls",
		}
	}
	return PersonKey{nameOrFile, nameOrFile, public, nil}, e
}

// Signer returns what signs with a key, after asking for the passphrase if there
// is one. gpg asks by itself.
func (a *Store) Signer(k PersonKey) (protocol.Signer, error) {
	if k.secret == nil {
		return &gpgSigner{app: a, user: k.Public.Key().String(), Public: k.Public}, nil
	}
	if !k.secret.Locked() {
		return k.secret.Unlock(nil)
	}
	for try := 1; ; try++ {
		passphrase, err := a.askSecret(fmt.Sprintf("Passphrase of key %s: ", k.Name))
		if err != nil {
			return nil, err
		}
		i, err := k.secret.Unlock(passphrase)
		if err == nil {
			return i, nil
		}
		if !errors.Is(err, certs.ErrPassphrase) || try == passphraseTries || a.Getenv(passphraseFile) != "" {
			return nil, err
		}
		a.Say("That is not the passphrase.")
	}
}

// passphraseTries is how often a wrong passphrase may be typed.
const passphraseTries = 3

// passphraseFile is the variable that names a file with the passphrase, for
// users without a terminal.
const passphraseFile = "HOSTLER_PASSPHRASE_FILE"

// askSecret reads a line that is not shown, or the file with it.
func (a *Store) askSecret(question string) ([]byte, error) {
	if path := a.Getenv(passphraseFile); path != "" {
		b, err := conn.ReadSmall(path)
		if err != nil {
			return nil, term.Cannot("read the passphrase", err)
		}
		return []byte(strings.TrimRight(string(b), "\r\n")), nil
	}
	if !a.InTTY || !a.ErrTTY {
		return nil, &term.Failure{
			Code: term.ExitRefused, What: "the passphrase is needed", Why: "stdin is not a terminal",
			Next: "set " + passphraseFile + "=FILE",
		}
	}
	text, err := a.AskHidden(question)
	return []byte(text), err
}
