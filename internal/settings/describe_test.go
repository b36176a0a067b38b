package settings

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDescribe(t *testing.T) {
	var c config
	c.HTTP.Addresses = []string{"a", "b"}
	all, err := Describe(&c)
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	if err := Reference(&page, all); err != nil {
		t.Fatal(err)
	}
	const want = `| setting | default | unit | meaning | a change takes |
|---|---|---|---|---|
| ` + "`name`" + ` | the host name |  | The name. | reload |
| ` + "`http.port` | `0`" + ` |  | The port. | restart |
| ` + "`http.open` | `false`" + ` |  | Whether it is open. | restart |
| ` + "`http.addresses` | `[\"a\", \"b\"]`" + ` |  | Where it is found. | restart |
| ` + "`http.size` | `0`" + ` | KiB | How large a page may be, and what else has to be said about that, which is more than fits on a line. | reload |
`
	if diff := cmp.Diff(want, page.String()); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []any{&struct {
		A int `toml:"a" takes:"reload"`
	}{}, &struct {
		A int `toml:"a" does:"It does."`
	}{}} {
		if _, err := Describe(bad); err == nil {
			t.Errorf("%T is described", bad)
		}
	}
}

// TestExample: the file sets nothing as it is, and when each line is taken out of its
// comment, it sets everything to what it was.
func TestExample(t *testing.T) {
	c := config{Name: "me"}
	c.HTTP.Port, c.HTTP.Addresses, c.HTTP.Size = 7, []string{"a", `b"`}, 1<<32-1
	all, err := Describe(&c)
	if err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	if err := Example(&file, "The head.\nAnd more.", all); err != nil {
		t.Fatal(err)
	}
	text := file.String()
	if !strings.HasPrefix(text, "# The head.\n# And more.\n\n# The name. Default: the host name.\n#name = \"\"\n") || !strings.Contains(text, "\n[http]\n\n# The port. A change takes a restart.\n#port = 7\n") {
		t.Errorf("it says\n%s", text)
	}
	for line := range strings.Lines(text) {
		if len(line) > width+1 {
			t.Errorf("too wide: %s", line)
		}
	}
	path := filepath.Join(t.TempDir(), "a.toml")
	load := func(text string) (got config, o Origin) {
		t.Helper()
		write(t, path, text)
		o, err := Load(Source{Path: path}, &got)
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		return got, o
	}
	if _, o := load(text); len(o) != 0 {
		t.Errorf("it sets %v", o)
	}
	set := regexp.MustCompile(`(?m)^#([a-z_]+ = .)`).ReplaceAllString(text, "$1")
	got, o := load(set)
	c.Name = ""
	if diff := cmp.Diff(c, got); diff != "" || len(o) != 5 {
		t.Errorf("%v:\n%s", o, diff)
	}
}
