package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "5m": 5 * time.Minute, "8h": 8 * time.Hour, "7d": 168 * time.Hour, "1h30m": 90 * time.Minute, "500ms": 500 * time.Millisecond} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "5", "d", "-5m", "-1d", "1.5d", "5 m", "5min", "99999999999d", "4000000000d", "7D"} {
		if got, err := parseDuration(text); err == nil || !strings.Contains(err.Error(), "90s, 5m, 8h or 7d") {
			t.Errorf("%q is %v, %v; want an error that shows the forms", text, got, err)
		}
	}
	f := durationFlag{noneOK: true}
	if err := f.Set("none"); err != nil || !f.none {
		t.Errorf("none: %v", err)
	}
	if err := f.Set("5m"); err != nil || f.none || f.d != 5*time.Minute || f.String() != "5m" {
		t.Errorf("5m after none: %v, %+v", err, f)
	}
	for _, text := range []string{"0s", "0d"} {
		if err := new(durationFlag).Set(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestSelector(t *testing.T) {
	var s selector
	if err := s.Set("site=lab,tier!=db"); err != nil || s.String() != "site=lab,tier!=db" {
		t.Fatalf("%v, %s", err, s.String())
	}
	for labels, want := range map[string]bool{"site=lab": true, "site=lab tier=web": true, "site=lab tier=db": false, "tier=web": false, "": false, "site=lab2": false} {
		if got := s.match(strings.Fields(labels)); got != want {
			t.Errorf("labels %q: %v, want %v", labels, got, want)
		}
	}
	for _, text := range []string{"", "site", "=lab", "!=lab", "a=b,,c=d"} {
		if err := new(selector).Set(text); err == nil {
			t.Errorf("%q selects something", text)
		}
	}
}

func TestParseRef(t *testing.T) {
	for text, want := range map[string]ref{
		"edge-01/web":        {host: "edge-01", name: "web"},
		"edge-01/podman:web": {host: "edge-01", runtime: "podman", name: "web"},
	} {
		if got, err := parseRef(text, false); err != nil || got != want || got.String() != text {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	if got, err := parseRef("podman:web", true); err != nil || (got != ref{runtime: "podman", name: "web"}) || got.String() != "podman:web" {
		t.Errorf("on the host: %+v, %v", got, err)
	}
	for _, text := range []string{"", "web", "/web", "edge-01/", "edge-01/docker:web", "edge-01/lxc:", "Edge/web", "../web"} {
		if got, err := parseRef(text, false); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
	for _, text := range []string{"", "edge-01/web", "docker:web"} {
		if got, err := parseRef(text, true); err == nil {
			t.Errorf("%q on the host is %+v", text, got)
		}
	}
}

func TestAgoAndSize(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "now", 500 * time.Millisecond: "now", 5 * time.Second: "5s ago", 119 * time.Second: "119s ago", 5 * time.Minute: "5m ago",
		3 * time.Hour: "3h ago", 49 * time.Hour: "2d ago", -10 * time.Minute: "in 10m",
	} {
		if got := ago(now.Add(-d), now); got != want {
			t.Errorf("%v before: %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0B", 1023: "1023B", 1024: "1.0KiB", 1536: "1.5KiB", 3 << 30: "3.0GiB", 1 << 62: "4096.0PiB"} {
		if got := size(n); got != want {
			t.Errorf("%d bytes: %q, want %q", n, got, want)
		}
	}
}

func TestShellWords(t *testing.T) {
	if got := shellWords([]string{"sh", "-c", "echo 'a b'; $(x)", ""}); got != `sh -c 'echo '\''a b'\''; $(x)' ''` {
		t.Error(got)
	}
}

// TestPrintable proves that a host cannot steer the terminal of an operator.
func TestPrintable(t *testing.T) {
	if got := printable("a\x1b[31m\nb\x9bc\u202ed\té"); got != "a\uFFFD[31m b\uFFFDc\uFFFDd é" {
		t.Errorf("%q", got)
	}
}

func TestLines(t *testing.T) {
	var out bytes.Buffer
	l := &lines{prefix: "h: ", w: &out}
	for _, b := range []byte("one\n\ntwo") {
		if n, err := l.Write([]byte{b}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := out.String(); got != "h: one\nh: \n" {
		t.Errorf("before the end: %q", got)
	}
	l.flush()
	if got := out.String(); got != "h: one\nh: \nh: two\n" {
		t.Errorf("%q", got)
	}
	out.Reset()
	if _, err := l.Write(bytes.Repeat([]byte("x"), 3*maxLine)); err != nil || len(l.held) > maxLine {
		t.Errorf("%d bytes of a line without end are held: %v", len(l.held), err)
	}
}

func TestTableKeepsColumns(t *testing.T) {
	a := &app{env: func(string) string { return "" }, now: time.Now}
	n := noun[string]{name: func(s string) string { return s }, columns: []column[string]{
		{"name", inTable, func(s string) any { return s }}, {"n", inTable, func(s string) any { return len(s) }}, {"wide", inWide, func(string) any { return "w" }},
	}}
	var out bytes.Buffer
	tab := &table[string]{app: a, noun: n, view: &view{format: format{word: "table"}}}
	if err := tab.print(&out, []string{"é", "longer"}); err != nil {
		t.Fatal(err)
	}
	if err := tab.print(&out, []string{"x"}); err != nil {
		t.Fatal(err)
	}
	if want := "NAME     N\né        2\nlonger   6\nx        1\n"; out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	tab = &table[string]{app: a, noun: n, view: &view{format: format{word: "yaml"}}}
	if err := tab.print(&out, []string{"yes", "12", "a: b"}); err != nil || out.String() != "- \"yes\"\n- \"12\"\n- \"a: b\"\n" {
		t.Errorf("yaml: %v\n%s", err, out.String())
	}
}

// TestNamesSteerNoTerminal: names come from elsewhere, too, and stay one to a line.
func TestNamesSteerNoTerminal(t *testing.T) {
	n := noun[string]{name: func(s string) string { return s }}
	var out bytes.Buffer
	tab := &table[string]{app: new(app), noun: n, view: &view{format: format{word: "name"}}}
	if err := tab.print(&out, []string{"web", "a\x1b[2J\nb"}); err != nil || out.String() != "web\na\uFFFD[2J b\n" {
		t.Errorf("%v\n%q", err, out.String())
	}
}

func TestShortDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Second: "1s", 50 * time.Second: "50s", 90 * time.Second: "1m30s", time.Minute: "1m", 90 * time.Minute: "1h30m", 100 * time.Hour: "100h", time.Hour + time.Second: "1h0m1s",
	} {
		if got := shortDuration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
