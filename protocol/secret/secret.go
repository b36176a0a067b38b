// Package secret has the plaintext of values that are sealed to a host: variables that
// only the host of an action can read. It is pure.
package secret

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hostler-io/hostler/protocol"
)

// Max is the longest plaintext of a sealed value, in bytes: sealed and
// written as base64 it still fits into a spec.
const Max = 6 << 10

// kind separates secrets from everything else that is sealed to a host.
const kind protocol.Type = "secret/1"

// Values are the plaintext of a sealed value. They repeat what they are for, because
// a person who sees the sealed bytes could put them into an action of his own.
type Values struct {
	Type   protocol.Type     `json:"hostler"`
	Fleet  protocol.FleetID  `json:"fleet"`
	Host   protocol.HostID   `json:"host"`
	Action protocol.ActionID `json:"action"`
	Env    []string          `json:"env"` // K=V
}

// Encode returns the plaintext to be sealed to the host's key.
func (s Values) Encode() ([]byte, error) {
	s.Type = kind
	if err := s.check(); err != nil {
		return nil, err
	}
	b, err := json.Marshal(s)
	if err == nil && len(b) > Max {
		err = fmt.Errorf("the secret values have %d bytes, at most %d are allowed", len(b), Max)
	}
	return b, err
}

// Names are those of the variables, sorted, each once.
func (s Values) Names() []string {
	names := make([]string, len(s.Env))
	for i, e := range s.Env {
		names[i], _, _ = strings.Cut(e, "=")
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Open reads the plaintext of a sealed value and holds it against the
// action that it came with, and against the names that stand beside it, if there
// are any. The error never repeats what the plaintext says.
func Open(b []byte, names []string, fleet protocol.FleetID, host protocol.HostID, action protocol.ActionID) (Values, error) {
	var s Values
	switch err := decode(b, &s); {
	case err != nil:
		return Values{}, fmt.Errorf("%w: secret_env: it cannot be read", protocol.ErrSpec)
	case s.Fleet != fleet || s.Host != host || s.Action != action:
		return Values{}, fmt.Errorf("%w: secret_env: it was sealed for another fleet, host or action", protocol.ErrSpec)
	case len(names) > 0 && !slices.Equal(names, s.Names()):
		return Values{}, fmt.Errorf("%w: secret_env: it sets other variables than it says", protocol.ErrSpec)
	}
	return s, nil
}

func decode(b []byte, s *Values) error {
	if len(b) > Max {
		return fmt.Errorf("%d bytes", len(b))
	}
	if err := protocol.DecodeJSON(b, s, false); err != nil {
		return err
	}
	return s.check()
}

func (s *Values) check() error {
	switch {
	case s.Type != kind:
		return fmt.Errorf("not a secret")
	case s.Fleet.IsZero() || s.Host == "" || s.Action.IsZero():
		return fmt.Errorf("it names no purpose")
	case len(s.Env) == 0:
		return fmt.Errorf("it is empty")
	}
	for _, e := range s.Env {
		if strings.IndexByte(e, '=') < 1 || !utf8.ValidString(e) || strings.IndexByte(e, 0) >= 0 {
			return fmt.Errorf("a variable is not of the form NAME=VALUE")
		}
	}
	return nil
}
