package data

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Sealed is a secret value: an OpenPGP message that only the host of the action
// can read. All others, the coordinator included, see that there is one, and which
// variables it sets: LD_PRELOAD makes another command of the one that is approved.
type Sealed struct {
	Sealed []byte `json:"sealed" example:"\"wV4DAAAAAAAAAAASAQdA\"" doc:"The OpenPGP message."`
	// Names are those of the variables, sorted. None is what was sealed before names
	// were told: that cannot be approved.
	Names []string `json:"names,omitempty" example:"[\"DB_PASSWORD\"]" doc:"The names of the variables, sorted."`
}

// Named reports whether it says what it sets.
func (s *Sealed) Named() bool { return len(s.Names) > 0 }

// maxSecretName is the longest name of a sealed variable, in bytes.
const maxSecretName = 255

// Check reports what is wrong with it.
func (s *Sealed) Check() error {
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
		if err := CheckText(n); err != nil {
			return fmt.Errorf("secret_env: %w", err)
		}
	}
	return nil
}

// CheckText accepts what may become an argument of a process.
func CheckText(s string) error {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%.60q is not UTF-8 without NUL", s)
	}
	return nil
}
