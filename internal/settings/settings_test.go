package settings

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// config has a setting of every kind.
type config struct {
	Name string `toml:"name" does:"The name." takes:"reload" default:"the host name"`
	HTTP struct {
		Port      int      `toml:"port" does:"The port." takes:"restart"`
		Open      bool     `toml:"open" does:"Whether it is open." takes:"restart"`
		Addresses []string `toml:"addresses" does:"Where it is found." takes:"restart"`
		Size      uint32   `toml:"size" does:"How large a page may be, and what else has to be said about that, which is more than fits on a line." unit:"KiB" takes:"reload"`
	} `toml:"http"`
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestLayers has one setting for each layer that sets it last, and one that
// none of them sets.
func TestLayers(t *testing.T) {
	dir := t.TempDir()
	file, first, second := filepath.Join(dir, "a.toml"), filepath.Join(dir, "a.d", "10.toml"), filepath.Join(dir, "a.d", "20.toml")
	write(t, file, "name = \"file\"\n[http]\nport = 1\naddresses = [\"x\"]\n")
	write(t, second, "[http]\nport = 3\n")
	write(t, first, "[http]\nport = 2\naddresses = [\"y\", \"z\"]\n")
	write(t, filepath.Join(dir, "a.d", "30.toml.old"), "this is not read")
	environ := []string{"HOSTLER_NAME=early", "NAME=no", "HOSTLER_NAMES=no", "HOSTLER_NAME=late=st"}
	for _, from := range []Source{{Path: file, Default: "/none", Environ: environ}, {Default: file, Environ: environ}} {
		c := config{Name: "default"}
		o, err := Load(from, &c)
		if err != nil {
			t.Fatal(err)
		}
		want := config{Name: "late=st"}
		want.HTTP.Port, want.HTTP.Addresses = 3, []string{"y", "z"}
		if diff := cmp.Diff(want, c); diff != "" {
			t.Errorf("%+v:\n%s", from, diff)
		}
		if diff := cmp.Diff(Origin{"name": "$HOSTLER_NAME", "http.port": second, "http.addresses": first}, o); diff != "" {
			t.Errorf("%+v:\n%s", from, diff)
		}
		var out strings.Builder
		if err := Show(&out, &c, o); err != nil {
			t.Fatal(err)
		}
		lines := "name = late=st   # $HOSTLER_NAME\nhttp.port = 3   # " + second + "\nhttp.open = false   # default\nhttp.addresses = y,z   # " + first + "\nhttp.size = 0   # default\n"
		if diff := cmp.Diff(lines, out.String()); diff != "" {
			t.Errorf("shown with origin:\n%s", diff)
		}
	}
}

func TestEnvironment(t *testing.T) {
	var c config
	if _, err := Load(Source{Default: filepath.Join(t.TempDir(), "none.toml"), Environ: []string{
		"HOSTLER_NAME=", "HOSTLER_HTTP_PORT=-1", "HOSTLER_HTTP_OPEN=true", "HOSTLER_HTTP_ADDRESSES=a:1,b:2", "HOSTLER_HTTP_SIZE=4294967295",
	}}, &c); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Show(&out, &c, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("name = \nhttp.port = -1\nhttp.open = true\nhttp.addresses = a:1,b:2\nhttp.size = 4294967295\n", out.String()); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"HOSTLER_HTTP_PORT=many", "HOSTLER_HTTP_OPEN=perhaps", "HOSTLER_HTTP_SIZE=4294967296", "HOSTLER_HTTP_SIZE=-1"} {
		name, _, _ := strings.Cut(bad, "=")
		if _, err := Load(Source{Default: "/none", Environ: []string{bad}}, &c); err == nil || !strings.Contains(err.Error(), "$"+name) {
			t.Errorf("%s gives %v", bad, err)
		}
	}
}

func TestMisspelt(t *testing.T) {
	var c config
	want := []string{"the variable HOSTLER_HTP_PORT is no setting; perhaps HOSTLER_HTTP_PORT is meant"}
	got := Misspelt([]string{"HOSTLER_HTP_PORT=1", "HOSTLER_HTTP_OPEN=true", "HOSTLER_TOKEN=x", "HOSTLER=", "HTP_PORT=1"}, &c)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMissing(t *testing.T) {
	var c config
	none := filepath.Join(t.TempDir(), "none.toml")
	if _, err := Load(Source{Path: none}, &c); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that was named and is missing gives %v", err)
	}
	if o, err := Load(Source{Default: none}, &c); err != nil || len(o) != 0 {
		t.Errorf("a default that is missing gives %v, %v", o, err)
	}
}

// TestWrong: whoever reads the error must find the place in the file.
func TestWrong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.toml")
	for name, c := range map[string]struct {
		text string
		say  []string
	}{
		"unknown setting": {"colour = \"x\"\n", []string{"colour", "known are: name, http.port, http.open, http.addresses, http.size"}},
		"misspelt":        {"nmae = \"x\"\n", []string{"line 1: unknown setting: nmae; perhaps name is meant"}},
		"in a section":    {"[http]\nadresses = []\n", []string{"line 2: unknown setting: http.adresses; perhaps http.addresses is meant"}},
		"all at once": {"name = 7\nnmae = 'x'\n[http]\nport = 'x'\nopne = true\ncolour = 1\n", []string{
			"line 1: name: want a text", "line 2: unknown setting: nmae; perhaps name", "line 4: http.port: want a whole number",
			"line 5: unknown setting: http.opne; perhaps http.open is meant", "line 6: unknown setting: http.colour\nknown are: http.port",
		}},
		"unknown section": {"[htpt]\nport = 1\n", []string{"unknown setting: htpt; perhaps http is meant"}},
		"wrong type":      {"name = 7\n", []string{"name: want a text (\"…\"), not a whole number"}},
		"no flag":         {"[http]\nopen = 'yes'\n", []string{"line 2: http.open: want true or false, not a text"}},
		"no number":       {"[http]\nport = 1.5\n", []string{"line 2: http.port: want a whole number, not a float"}},
		"no list":         {"[http]\naddresses = 'x'\n", []string{"line 2: http.addresses: want a list of texts ([\"…\", \"…\"]), not a text"}},
		"no table":        {"http = true\n", []string{"line 1: http: want a table ([NAME] above its settings), not a boolean"}},
		"tables":          {"[[http]]\nport = 1\n", []string{"line 1: http: want a table ([NAME] above its settings), not a list of tables"}},
		"no TOML":         {"name\n", []string{"expected"}},
		"too large":       {strings.Repeat("\n", maxFile) + "name = \"x\"", []string{"too large"}},
	} {
		write(t, path, c.text)
		var got config
		_, err := Load(Source{Path: path}, &got)
		if err == nil {
			t.Errorf("%s is taken", name)
			continue
		}
		for _, say := range append(c.say, path) {
			if !strings.Contains(err.Error(), say) {
				t.Errorf("%s: it says %q, want something about %q", name, err, say)
			}
		}
	}
}

// TestStrict reads what is written like a configuration: each name has one
// spelling there as well, in tables and in lists of them.
func TestStrict(t *testing.T) {
	type rule struct {
		Kinds []string `toml:"kinds"`
		Need  int      `toml:"need"`
	}
	type text struct {
		Version int                 `toml:"version"`
		Groups  map[string][]string `toml:"groups"`
		Rules   []rule              `toml:"rule"`
	}
	var got text
	if err := Strict("policy", []byte("version = 1\n[groups]\nOps = ['a']\n[[rule]]\nkinds = ['b']\nneed = 2\n"), &got); err != nil {
		t.Fatal(err)
	}
	if got.Version != 1 || got.Groups["Ops"][0] != "a" || got.Rules[0].Kinds[0] != "b" || got.Rules[0].Need != 2 {
		t.Errorf("%+v", got)
	}
	for _, bad := range []string{"version = ", "other = 1", "Version = 1", "[[rule]]\nother = 1", "[[rule]]\nNEED = 1", "[rule]\nneed = 1", "version = 'a'", "version = 1\nversion = 2"} {
		err := Strict("policy", []byte(bad), new(text))
		if err == nil || !strings.HasPrefix(err.Error(), "policy:") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for bad, want := range map[string]string{
		"rule = 1":                "policy: line 1: rule: want a list of tables ([[NAME]] above each one's settings), not a whole number",
		"[groups]\nops = 'a'":     `policy: line 2: groups.ops: want a list of texts (["…", "…"]), not a text`,
		"[[rule]]\nneed = [1]":    "policy: line 2: rule.need: want a whole number, not a list",
		"[[rule]]\nkinds = {a=1}": `policy: line 2: rule.kinds: want a list of texts (["…", "…"]), not a table`,
	} {
		if err := Strict("policy", []byte(bad), new(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", bad, err, want)
		}
	}
}

// TestChanged names what differs, by what a change takes.
func TestChanged(t *testing.T) {
	before := config{Name: "a"}
	after := config{Name: "b"}
	after.HTTP.Addresses, after.HTTP.Size = []string{"x"}, 3
	reload, restart := Changed(&before, &after)
	if diff := cmp.Diff([][]string{{"name", "http.size"}, {"http.addresses"}}, [][]string{reload, restart}); diff != "" {
		t.Error(diff)
	}
	if reload, restart := Changed(&after, &after); len(reload)+len(restart) > 0 {
		t.Errorf("%q, %q", reload, restart)
	}
}
