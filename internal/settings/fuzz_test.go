package settings

import (
	"path/filepath"
	"reflect"
	"testing"
)

// FuzzLoad reads bytes as a configuration file and as a variable: whatever they
// say, every setting that is said to come from somewhere can be shown.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{"name = \"a\"\n[http]\nport = 1\n", "name = 1", "nam = 'x'", "[http]\naddresses = ['a', 1]", "[[http]]", "= ", "\x00", "name = \"\"\"", "http.port = 99999999999999999999"} {
		f.Add([]byte(seed), "3")
	}
	f.Fuzz(func(t *testing.T, raw []byte, value string) {
		path := filepath.Join(t.TempDir(), "a.toml")
		write(t, path, string(raw))
		var c config
		o, err := Load(Source{Path: path, Environ: []string{"HOSTLER_HTTP_PORT=" + value}}, &c)
		if err != nil {
			return
		}
		known := make(map[string]bool)
		for _, s := range settingsOf("", reflect.ValueOf(&c).Elem()) {
			known[s.name] = true
			_ = s.get()
		}
		for name := range o {
			if !known[name] {
				t.Errorf("%q of %q is no setting", name, raw)
			}
		}
	})
}
