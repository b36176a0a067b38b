package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecret: a secret is read from a file or from a credential of systemd, and a value
// that names neither says what to do.
func TestSecret(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"smtp": "hunter2\n", "empty": "\n", "large": strings.Repeat("x", maxSecret+1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	within := func(string) string { return dir }
	without := func(string) string { return "" }
	for _, c := range []struct {
		value  string
		getenv func(string) string
		want   string
		says   string
	}{
		{"", without, "", ""},
		{filepath.Join(dir, "smtp"), without, "hunter2", ""},
		{"credential:smtp", within, "hunter2", ""},
		{"credential:smtp", without, "", "LoadCredential=smtp:"},
		{"credential:absent", within, "", "no such file"},
		{"credential:../smtp", within, "", "names no credential"},
		{"credential:", within, "", "names no credential"},
		{"credential:..", within, "", "names no credential"},
		{"credential:empty", within, "", "is empty"},
		{"credential:large", within, "", "too large"},
	} {
		b, err := Secret("notify.mail_password_file", c.value, c.getenv)
		if string(b) != c.want || (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "notify.mail_password_file: ")) {
			t.Errorf("%q: %q, %v; want %q, %q", c.value, b, err, c.want, c.says)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error holds the secret: %v", c.value, err)
		}
	}
}
