package protocol

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Sealed is a secret value: an OpenPGP message that only the host of the action
// can read. Everybody else, coordinator included, sees that there is one, and which
// variables it sets: LD_PRELOAD makes another command of the one that is approved.
type Sealed struct {
	Sealed []byte `json:"sealed" doc:"The OpenPGP message."`
	// Names are those of the variables, sorted. None is what was sealed before names
	// were told: nobody can approve that.
	Names []string `json:"names,omitempty" doc:"The names of the variables, sorted."`
}

// Named reports whether it says what it sets.
func (s *Sealed) Named() bool { return len(s.Names) > 0 }

// maxSecretName is the longest name of a sealed variable, in bytes.
const maxSecretName = 255

func (s *Sealed) check() error {
	if len(s.Sealed) == 0 {
		return fmt.Errorf("secret_env: it is empty")
	}
	for i, n := range s.Names {
		switch {
		case n == "" || len(n) > maxSecretName || strings.Contains(n, "="):
			return fmt.Errorf("secret_env: %.60q is no name of a variable", n)
		case i > 0 && s.Names[i-1] >= n:
			return fmt.Errorf("secret_env: the names are not sorted, each once")
		}
		if err := checkText(n); err != nil {
			return fmt.Errorf("secret_env: %w", err)
		}
	}
	return nil
}

// MaxSecret is the longest plaintext of a sealed value, in bytes: sealed and
// written as base64 it still fits into a spec.
const MaxSecret = 6 << 10

// typeSecret separates secrets from everything else that is sealed to a host.
const typeSecret Type = "secret/1"

// Secret is the plaintext of a sealed value. It repeats what it is for, because
// whoever sees the sealed bytes could put them into an action of his own.
type Secret struct {
	Type   Type     `json:"hostler"`
	Fleet  FleetID  `json:"fleet"`
	Host   HostID   `json:"host"`
	Action ActionID `json:"action"`
	Env    []string `json:"env"` // K=V
}

// Encode returns the plaintext to be sealed to the host's key.
func (s Secret) Encode() ([]byte, error) {
	s.Type = typeSecret
	if err := s.check(); err != nil {
		return nil, err
	}
	b, err := json.Marshal(s)
	if err == nil && len(b) > MaxSecret {
		err = fmt.Errorf("the secret values have %d bytes, at most %d are allowed", len(b), MaxSecret)
	}
	return b, err
}

// Names are those of the variables, sorted, each once.
func (s Secret) Names() []string {
	names := make([]string, len(s.Env))
	for i, e := range s.Env {
		names[i], _, _ = strings.Cut(e, "=")
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// OpenSecret reads the plaintext of a sealed value and holds it against the
// action that it came with, and against the names that stand beside it, if there
// are any. The error never repeats what the plaintext says.
func OpenSecret(b []byte, names []string, fleet FleetID, host HostID, action ActionID) (Secret, error) {
	var s Secret
	switch err := decodeSecret(b, &s); {
	case err != nil:
		return Secret{}, refuse(ErrSpec, "secret_env: it cannot be read")
	case s.Fleet != fleet || s.Host != host || s.Action != action:
		return Secret{}, refuse(ErrSpec, "secret_env: it was sealed for another fleet, host or action")
	case len(names) > 0 && !slices.Equal(names, s.Names()):
		return Secret{}, refuse(ErrSpec, "secret_env: it sets other variables than it says")
	}
	return s, nil
}

func decodeSecret(b []byte, s *Secret) error {
	if len(b) > MaxSecret {
		return fmt.Errorf("%d bytes", len(b))
	}
	if err := DecodeJSON(b, s, false); err != nil {
		return err
	}
	return s.check()
}

func (s *Secret) check() error {
	switch {
	case s.Type != typeSecret:
		return fmt.Errorf("not a secret")
	case s.Fleet.IsZero() || s.Host == "" || s.Action.IsZero():
		return fmt.Errorf("it names no purpose")
	case len(s.Env) == 0:
		return fmt.Errorf("it is empty")
	}
	for _, e := range s.Env {
		if strings.IndexByte(e, '=') < 1 || checkText(e) != nil {
			return fmt.Errorf("a variable is not of the form NAME=VALUE")
		}
	}
	return nil
}

// checkText accepts what may become an argument of a process.
func checkText(s string) error {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%.60q is not UTF-8 without NUL", s)
	}
	return nil
}
