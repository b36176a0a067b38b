package protocol

import (
	"encoding/json"
	"fmt"
)

// Sealed is a secret value: an OpenPGP message that only the host of the action
// can read. Everybody else, coordinator included, sees that there is one.
type Sealed struct {
	Sealed []byte `json:"sealed"`
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

// OpenSecret reads the plaintext of a sealed value and holds it against the
// action that it came with. The error never repeats what the plaintext says.
func OpenSecret(b []byte, fleet FleetID, host HostID, action ActionID) (Secret, error) {
	var s Secret
	switch err := decodeSecret(b, &s); {
	case err != nil:
		return Secret{}, refuse(ErrSpec, "secret_env: it cannot be read")
	case s.Fleet != fleet || s.Host != host || s.Action != action:
		return Secret{}, refuse(ErrSpec, "secret_env: it was sealed for another fleet, host or action")
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
		return fmt.Errorf("it is no secret")
	case s.Fleet.IsZero() || s.Host == "" || s.Action.IsZero():
		return fmt.Errorf("it does not say what it is for")
	case len(s.Env) == 0:
		return fmt.Errorf("it is empty")
	}
	for _, e := range s.Env {
		if err := checkPair(e); err != nil {
			return fmt.Errorf("a variable is not of the form NAME=VALUE")
		}
	}
	return nil
}
