package manifest_test

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/manifest"
)

// none has no profiles.
func none(name string) ([]byte, error) { return nil, errors.New("there is no profile " + name) }

const web = `version: 1
profiles:
  small: {limits: {memory: 64MiB, pids: 50}, labels: {size: small}}
containers:
  - host: edge-01
    name: web
    profiles: [small, lab]
    image: registry.example/web:1
    runtime: podman
    labels: {app: web}
    limits: {memory: 256MiB}
    env: {PORT: 8080, DEBUG: true}
    command: [/bin/web, --all]
    hostname: www
    start: true
    ports: [8080:80]
    health: {http: ":80/ready", interval: 10s, retries: 3}
    offline: keep
    privileged: false
    volumes: ["data:/srv/data"]
    files:
      - {path: /etc/web.conf, content: "port = 80", mode: 0640, owner: "7:8"}
      - {path: /srv/data.txt, source: data.txt}
  - {host: edge-02, name: db, image: busybox}
`

func TestParse(t *testing.T) {
	all, err := manifest.Parse([]byte(web), func(name string) ([]byte, error) {
		return []byte("labels: {site: " + name + "}\nstart: false\n"), nil
	})
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	c := all[0].Create()
	for what, got := range map[string][2][]string{
		"labels":  {c.Labels, {"app=web", "site=lab", "size=small"}},
		"limits":  {c.Limits, {"memory=256MiB", "pids=50"}},
		"env":     {c.Env, {"DEBUG=true", "PORT=8080"}},
		"ports":   {c.Expose, {"8080:80"}},
		"command": {c.Command, {"/bin/web", "--all"}},
		"others":  {{c.Template, c.Runtime, string(c.Hostname), c.Offline, all[0].Where()}, {"registry.example/web:1", "podman", "www", "keep", "edge-01/web"}},
	} {
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("%s: %q, want %q", what, got[0], got[1])
		}
	}
	if h := c.Health; h == nil || h.HTTP != ":80/ready" || h.IntervalMS != 10_000 || h.Retries != 3 || all[1].Create().Health != nil {
		t.Errorf("the check is %+v", h)
	}
	if f := all[0].Files; len(f) != 2 || *f[0].Content != "port = 80" || f[0].Source != nil || *f[1].Source != "data.txt" || f[1].Content != nil || all[1].Files != nil {
		t.Errorf("its files are %+v", f)
	}
	if mode, uid, gid, err := all[0].Files[0].Unix(); err != nil || mode != 0o640 || uid != 7 || gid != 8 {
		t.Errorf("a file has mode %o and is of %d:%d, %v", mode, uid, gid, err)
	}
	if mode, uid, gid, err := all[0].Files[1].Unix(); err != nil || mode != 0o644 || uid != 0 || gid != 0 {
		t.Errorf("a file that says nothing of it has mode %o and is of %d:%d, %v", mode, uid, gid, err)
	}
	if !c.Start || c.Privileged || all[1].Start != nil || all[1].Labels != nil {
		t.Errorf("%+v and %+v", c, all[1])
	}
}

// internals are words of Go and of its YAML library.
var internals = regexp.MustCompile(`unmarshal|type manifest\.|!!|struct|node content|token|mapping|sequence|<nil>`)

// TestWrongTypes: each member with each wrong sort of value is told in plain words.
func TestWrongTypes(t *testing.T) {
	for _, member := range strings.Fields("host name profiles image runtime class offline hostname labels limits env command files start privileged exppose") {
		for _, value := range []string{"", "~", "text", "7", "1.5", "true", "2026-01-01", "[a]", "[[a]]", "[{a: b}]", "{a: b}", "{a: [b]}", "{a: {b: c}}", "{[a]: b}", "{~: b}", "!!int a", "&a b", "*a", "[", "{", "'", `"\q"`, "@", "%", "a: b: c", "\t- x"} {
			text := "version: 1\ncontainers:\n  - " + member + ": " + value + "\n    more: 1\n"
			_, err := manifest.Parse([]byte(text), none)
			if err == nil || internals.MatchString(err.Error()) || !strings.Contains(err.Error(), "line ") && value != "*a" {
				t.Errorf("%q is refused with %v", text, err)
			}
		}
	}
}

func TestInvalid(t *testing.T) {
	one := "version: 1\ncontainers:\n  - {host: edge-01, name: web, image: busybox"
	for text, want := range map[string]string{
		"":                                              "empty",
		"[":                                             "line",
		"version: 2\ncontainers: []":                    "want version: 1",
		"version: 1":                                    "containers is missing",
		one + "}\n---\n{}":                              "more than one document",
		one + ", size: 3}":                              `line 3: unknown member "size"; known are host, name`,
		one + ", imagge: x}":                            `unknown member "imagge", did you mean "image"?`,
		one + ", name: db}":                             `line 3: "name" is listed twice`,
		one + ", labels: &a {x: y}}":                    "anchors",
		one + ", labels: !!map {x: y}}":                 "tags",
		one + ", hostname: }":                           "hostname has no value: want a text",
		one + ", hostname: Web}":                        "hostname",
		one + ", start: maybe}":                         "line 3: start: want true or false",
		one + ", command: ls}":                          "line 3: command: want a list",
		one + ", env: [A=1]}":                           "line 3: env: want an object",
		one + ", env: {A: [1]}}":                        "line 3: A: want a text",
		one + ", image: {a: b}}":                        "twice",
		"version: one":                                  "line 1: version: want a whole number",
		"version: 1\ncontainers: {}":                    "line 2: containers: want a list of objects",
		"version: 1\ncontainers: [web]":                 "line 2: an entry of containers: want an object",
		"hello":                                         "line 1: the file: want an object",
		"version: 1\n\tcontainers: []":                  "line 2: a tab stands",
		"version: 1\na: b: c":                           "line 2: a \":\" stands where no member can begin",
		one + "}\n  - {host: [":                         "a value is missing",
		one + ", labels: {1: [], 2: ~}":                 "an object lacks",
		one + ", profiles: [big]}":                      "there is no profile big",
		strings.Replace(one, "web", "../x", 1) + "}":    "name",
		strings.Replace(one, "edge-01", "a/b", 1) + "}": "host",
		strings.Replace(one, ", image: busybox", "", 1) + "}":   "image is missing",
		one + "}\n  - {host: edge-01, name: web, image: other}": "twice",
		strings.Repeat(" ", manifest.MaxBytes+1):                "at most",
	} {
		_, err := manifest.Parse([]byte(text), none)
		if !errors.Is(err, manifest.ErrInvalid) || !strings.Contains(err.Error(), want) || internals.MatchString(err.Error()) {
			t.Errorf("%.120q: %v, want an error with %q", text, err, want)
		}
	}
}

// TestInvalidFiles: a file that no container can have is told before anything is done.
func TestInvalidFiles(t *testing.T) {
	one := "version: 1\ncontainers:\n  - {host: edge-01, name: web, image: busybox, volumes: ['data:/srv'], files: "
	file := func(path, more string) string { return one + "[{path: " + path + ", " + more + "}]}" }
	for text, want := range map[string]string{
		one + "{path: /a}}":                                               "files: want a list of objects",
		one + "[{path: /a, text: x}]}":                                    `unknown member "text"; known are path, content`,
		one + "[{content: x}]}":                                           "path is missing",
		file("etc/a", "content: x"):                                       "no absolute path",
		file("/etc/../a", "content: x"):                                   "no absolute path",
		file("/etc/", "content: x"):                                       "no absolute path",
		file("/", "content: x"):                                           "no absolute path",
		file("/"+strings.Repeat("a", 5000), "content: x"):                 "no absolute path",
		file(`"/a\0b"`, "content: x"):                                     "NUL",
		file("/proc/sys/a", "content: x"):                                 "the kernel and the runtime fill",
		file("/dev/null", "content: x"):                                   "the kernel and the runtime fill",
		file("/etc/hosts", "content: x"):                                  "the runtime makes /etc/hosts itself",
		file("/srv/a", "content: x"):                                      `volume or mount at "/srv"`,
		file("/etc/a", "mode: 0600"):                                      "want one of content and source",
		file("/etc/a", "content: x, source: y"):                           "want one of content and source",
		file("/etc/a", `source: ""`):                                      "no path of a file",
		file("/etc/a", "content: x, mode: rw"):                            "three or four octal digits",
		file("/etc/a", "content: x, mode: 0689"):                          "three or four octal digits",
		file("/etc/a", "content: x, mode: 0o644"):                         "three or four octal digits",
		file("/etc/a", "content: x, mode: -44"):                           "three or four octal digits",
		file("/etc/a", "content: x, owner: root"):                         "UID:GID",
		file("/etc/a", "content: x, owner: '1'"):                          "UID:GID",
		file("/etc/a", "content: x, owner: '1:4294967295'"):               "UID:GID",
		file("/etc/a", "content: x, owner: '-1:0'"):                       "UID:GID",
		one + "[" + strings.Repeat("{path: /a, content: x}, ", 65) + "]}": "at most 64",
		one + "[{path: /a, content: x}, {path: /a, content: y}]}":         "stands there twice",
		one + "[{path: /a/b, content: x}, {path: /a, content: y}]}":       "would be a directory",
	} {
		if _, err := manifest.Parse([]byte(text), none); !errors.Is(err, manifest.ErrInvalid) || !strings.Contains(err.Error(), want) || internals.MatchString(err.Error()) {
			t.Errorf("%.160q: %v, want an error with %q", text, err, want)
		}
	}
}

// FuzzParse: what is taken says of each container where it is and what it is made of.
func FuzzParse(f *testing.F) {
	f.Add([]byte(web))
	f.Add([]byte("version: 1\ncontainers: [{host: a, name: b, image: c, <<: {name: d}}]"))
	f.Add([]byte("version: 1\ncontainers: [{host: a, name: b, image: c, env: {A: 0x10, B: .inf, C: 2026-01-01}}]"))
	f.Add([]byte("version: 1\ncontainers: [{host: a, name: b, image: c, files: [{path: /a, content: x, mode: 4755}, {path: /b, source: y, owner: '1:2'}]}]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := manifest.Parse(b, none)
		if err != nil && !errors.Is(err, manifest.ErrInvalid) {
			t.Error(err)
		}
		for _, c := range all {
			if c.Host == "" || c.Name == "" || c.Create().Template == "" {
				t.Errorf("%q makes %+v", b, c)
			}
			for _, file := range c.Files {
				if mode, _, _, err := file.Unix(); err != nil || mode > 0o7777 || !strings.HasPrefix(file.Path, "/") || (file.Content == nil) == (file.Source == nil) {
					t.Errorf("%q makes the file %+v, %v", b, file, err)
				}
			}
		}
	})
}

// TestExample: the manifest of the page about containers can be read.
func TestExample(t *testing.T) {
	page, err := os.ReadFile("../../doc/containers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\nversion: 1\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok {
		t.Fatal("the page has no manifest")
	}
	if _, err := manifest.Parse([]byte("version: 1\n"+text), none); err != nil {
		t.Error(err)
	}
}
