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

func (s *Secrets) fields() fields {
	return fields{{"action", &s.Action}, {"attempt", &s.Attempt}, {"env", &s.Env}}
}

// AppendSecrets appends the encoded s to b.
func AppendSecrets(b []byte, s *Secrets) []byte { return seal(b, s.fields()) }

// ParseSecrets decodes what AppendSecrets has written. Its errors tell nothing of
// the contents.
func ParseSecrets(b []byte) (*Secrets, error) {
	var s Secrets
	switch _, err := unseal(b, MaxSpec, s.fields()); {
	case err == ErrTooLarge:
		return nil, err
	case err != nil:
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
