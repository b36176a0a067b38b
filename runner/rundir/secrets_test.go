package rundir

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestReadSecrets: what is not this run's is not taken.
func TestReadSecrets(t *testing.T) {
	good := AppendSecrets(nil, &Secrets{Action: "a1", Attempt: 2, Env: []string{"A=b c", "B="}})
	path := filepath.Join(t.TempDir(), "secrets")
	read := func(b []byte, action string, attempt int) ([]string, error) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadSecrets(&Spec{Action: action, Attempt: attempt, Secrets: path})
	}
	if env, err := read(good, "a1", 2); err != nil || !slices.Equal(env, []string{"A=b c", "B="}) {
		t.Errorf("%q, %v", env, err)
	}
	for name, test := range map[string]struct {
		b       []byte
		action  string
		attempt int
	}{
		"another action":  {good, "a2", 2},
		"another attempt": {good, "a1", 1},
		"damaged":         {bytes.Replace(good, []byte("b c"), []byte("b d"), 1), "a1", 2},
		"cut":             {good[:len(good)-3], "a1", 2},
		"no variable":     {AppendSecrets(nil, &Secrets{Action: "a1", Attempt: 2, Env: []string{"=b"}}), "a1", 2},
		"too long":        {make([]byte, MaxSpec+1), "a1", 2},
	} {
		if env, err := read(test.b, test.action, test.attempt); err == nil {
			t.Errorf("%s: %q", name, env)
		}
	}
	if env, err := ReadSecrets(&Spec{}); env != nil || err != nil {
		t.Errorf("without: %q, %v", env, err)
	}
}
