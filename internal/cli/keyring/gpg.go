package keyring

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// gpgProgram is the user's own gpg, with the user's own keys, cards and agent.
const gpgProgram = "gpg"

// gpgSigner signs with a key that gpg keeps. gpg asks for the passphrase or the
// card through its agent.
type gpgSigner struct {
	app    *Store
	user   string // as gpg names the key
	Public *certs.PublicKey
}

var _ protocol.Signer = (*gpgSigner)(nil)

// NewGPGSigner finds the key of a user of gpg.
func (a *Store) NewGPGSigner(user string) (*gpgSigner, error) {
	public, err := a.gpgExport(user)
	if err != nil {
		return nil, err
	}
	return &gpgSigner{a, public.Key().String(), public}, nil
}

// gpgExport returns the one certificate of a user, without what others have
// added to it.
func (a *Store) gpgExport(user string) (*certs.PublicKey, error) {
	out, err := a.gpg(nil, "--batch", "--no-armor", "--export-options", "export-minimal", "--export", "--", user)
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, &term.Failure{Code: term.ExitNotFound, What: fmt.Sprintf("gpg has no key %q", user), Next: "gpg --list-secret-keys"}
	}
	k, err := certs.ReadCertificate(out)
	if err != nil {
		return nil, &term.Failure{Code: term.ExitFailed, What: fmt.Sprintf("the key %q of gpg cannot be used", user), Why: err.Error(), Next: "gpg --list-secret-keys    # and name one by its fingerprint", Err: err}
	}
	return k, nil
}

// Key implements [protocol.Signer].
func (g *gpgSigner) Key() protocol.KeyID { return g.Public.Key() }

// Sign implements [protocol.Signer]. What gpg gives is held against the
// certificate before it is published: its configuration may say anything.
func (g *gpgSigner) Sign(body []byte) ([]byte, error) {
	sig, err := g.app.gpg(bytes.NewReader(body), "--status-fd", "2",
		"--no-armor", "--no-textmode", "--digest-algo", "SHA256", "--local-user", g.user, "--output", "-", "--detach-sign")
	if err != nil {
		return nil, g.unsigned(err)
	}
	if err := g.Public.CheckForm(sig); err != nil {
		return nil, fmt.Errorf("gpg made a signature in an unknown form: %w", err)
	}
	if err := g.Public.Verify(sig, body); err != nil {
		return nil, fmt.Errorf("gpg made a signature that does not verify: %w", err)
	}
	return sig, nil
}

// gpg runs gpg and returns what it wrote to its standard output.
func (a *Store) gpg(stdin io.Reader, args ...string) ([]byte, error) {
	cmd := exec.Command(gpgProgram, append([]string{"--quiet"}, args...)...)
	cmd.Env = a.Environ()
	if a.InTTY && a.Getenv("GPG_TTY") == "" {
		// Its agent asks on the terminal, which is not gpg's standard input here.
		if tty, err := os.Readlink("/proc/self/fd/0"); err == nil {
			cmd.Env = append(cmd.Env, "GPG_TTY="+tty)
		}
	}
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &said
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, &term.Failure{Code: term.ExitFailed, What: "cannot run gpg", Why: "it is not installed", Next: "apt-get install gnupg, or hostler key generate"}
	}
	if err != nil {
		return nil, newGPGError(said.String(), err)
	}
	return out.Bytes(), nil
}

// gpgError is what gpg says when it fails: its words for people, in their
// language, and the number of its error, where it was asked for and told.
type gpgError struct {
	words string
	code  int
	err   error
}

func (e *gpgError) Error() string { return fmt.Sprintf("%s: %s: %v", gpgProgram, e.words, e.err) }

func (e *gpgError) Unwrap() error { return e.err }

// Numbers of errors of libgpg-error; the upper half of what gpg tells is where it
// comes from.
const (
	gpgBadPassphrase  = 11
	gpgCancelled      = 99
	gpgFullyCancelled = 198
	gpgCodeMask       = 1<<16 - 1
)

// newGPGError takes the lines for programs out of those for people.
func newGPGError(said string, err error) *gpgError {
	e := &gpgError{err: err}
	var words []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		status, ok := strings.CutPrefix(line, "[GNUPG:] ")
		if !ok {
			words = append(words, line)
			continue
		}
		if f := strings.Fields(status); len(f) == 3 && f[0] == "FAILURE" {
			n, _ := strconv.Atoi(f[2]) // what is no number is no error that we know
			e.code = n & gpgCodeMask
		}
	}
	e.words = strings.TrimSpace(strings.Join(words, "\n"))
	return e
}

// unsigned says in people's words why gpg has signed nothing, where they are what
// stopped it.
func (g *gpgSigner) unsigned(err error) error {
	e, ok := errors.AsType[*gpgError](err)
	if !ok {
		return err
	}
	f := &term.Failure{Code: term.ExitFailed, What: "the signature failed", Next: "run the command again", Err: err}
	switch e.code {
	case gpgCancelled, gpgFullyCancelled:
		f.Why = "gpg asked for the passphrase of key " + g.user + ", which was cancelled"
	case gpgBadPassphrase:
		f.Why = "the passphrase that gpg was given is not that of key " + g.user
	default:
		return err
	}
	return f
}
