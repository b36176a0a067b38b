package rundir

import (
	"errors"
	"io"
	"os"
	"strings"
)

// Secrets are variables that must not be in any file. They travel from who starts
// a supervisor to the supervisor through memory, and say whose they are: the path
// of a process may have come to name another one.
type Secrets struct {
	Action  string
	Attempt int
	Env     []string // NAME=value
}

// AppendSecrets appends the encoded s to b.
func AppendSecrets(b []byte, s *Secrets) []byte {
	e := newEncoder(b)
	e.str("action", s.Action)
	e.int("attempt", int64(s.Attempt))
	e.strs("env", s.Env)
	return e.seal(len(b))
}

// ParseSecrets decodes what AppendSecrets has written. Its errors tell nothing of
// the contents.
func ParseSecrets(b []byte) (*Secrets, error) {
	if len(b) > MaxSpec {
		return nil, ErrTooLarge
	}
	var s Secrets
	err := parseSealed(b, fields{"action": strField(&s.Action), "attempt": intField(&s.Attempt), "env": strsField(&s.Env)})
	if err != nil {
		return nil, errors.New("the secrets cannot be read")
	}
	for _, v := range s.Env {
		if strings.IndexByte(v, '=') < 1 || strings.IndexByte(v, 0) >= 0 {
			return nil, errors.New("the secrets hold an entry that is no variable")
		}
	}
	return &s, nil
}

// ReadSecrets reads the secrets of a spec, none if it has none.
func ReadSecrets(s *Spec) ([]string, error) {
	if s.Secrets == "" {
		return nil, nil
	}
	f, err := os.Open(s.Secrets)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxSpec+1))
	if err != nil {
		return nil, err
	}
	secrets, err := ParseSecrets(b)
	if err != nil {
		return nil, err
	}
	if secrets.Action != s.Action || secrets.Attempt != s.Attempt {
		return nil, errors.New("the secrets are another run's")
	}
	return secrets.Env, nil
}
