package conn

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/internal/cli/term"
)

// FuzzConfig reads bytes as config.toml: what is taken is written and read as
// the same.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		"current = \"lab\"\n[contexts.lab]\naddress = \"https://a:8443\"\ntoken = \"hst_x\"\nca = '''\nPEM\n'''\n", "[contexts]\nx = 1", "contexts = []", "[contexts.'']\n", "x = 1", "", "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		home := t.TempDir()
		a := &Env{UI: &term.UI{Getenv: func(name string) string {
			if name == "XDG_CONFIG_HOME" {
				return home
			}
			return ""
		}}}
		path := filepath.Join(home, "hostler", "config.toml")
		if err := ReplaceFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := a.LoadConfig()
		if err != nil {
			return
		}
		if err := a.SaveConfig(c); err != nil {
			t.Fatal(err)
		}
		again, err := a.LoadConfig()
		if err != nil {
			written, _ := os.ReadFile(path)
			t.Fatalf("%q is taken, and not as %q: %s", raw, written, err)
		}
		if diff := cmp.Diff(c, again, cmp.AllowUnexported(Target{})); diff != "" {
			t.Errorf("%q:\n%s", raw, diff)
		}
	})
}
