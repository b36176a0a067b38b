//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// result is what a command line has come to.
type result struct {
	line           string
	code           int
	stdout, stderr string
}

// start starts one of the programs.
func (w *world) start(t testing.TB, program string, args ...string) *process {
	t.Helper()
	env := w.env()
	if program == "hostler-coordinator" {
		env = w.env(w.served...)
	}
	return w.spawn(t, program, env, append([]string{filepath.Join(w.bin, program)}, args...)...)
}

// finish waits for the end of a program.
func (p *process) finish(t testing.TB) result {
	t.Helper()
	code := p.code(t)
	return result{line: strings.Join(p.cmd.Args, " "), code: code, stdout: p.out.String(), stderr: p.talk.String()}
}

// cli runs hostler with an operator's configuration.
func (w *world) cli(t testing.TB, args ...string) result {
	t.Helper()
	return w.start(t, "hostler", args...).finish(t)
}

// exits checks the exit code, and that the program said what is to be said.
func (r result) exits(t testing.TB, code int, says ...string) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("%s\nexit code %d, want %d; it said:\n%.2000s%.2000s", r.line, r.code, code, r.stderr, r.stdout)
	}
	for _, text := range says {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("%s\nsaid nothing of %q:\n%.2000s", r.line, text, r.stderr)
		}
	}
	return r
}

// must runs hostler, which has to succeed, and returns what it printed.
func (w *world) must(t testing.TB, args ...string) string {
	t.Helper()
	return w.cli(t, args...).exits(t, 0).stdout
}

// mustRun runs any of the programs, which has to succeed.
func (w *world) mustRun(t testing.TB, program string, args ...string) string {
	t.Helper()
	return w.start(t, program, args...).finish(t).exits(t, 0).stdout
}

// submit asks for a command on a host and leaves with the id of its action.
func (w *world) submit(t testing.TB, where string, argv ...string) string {
	t.Helper()
	verb := "run"
	if strings.Contains(where, "/") {
		verb = "exec"
	}
	return strings.TrimSpace(w.must(t, append([]string{verb, where, "--no-wait", "--"}, argv...)...))
}

// show reads something as JSON.
func show[T any](t testing.TB, w *world, args ...string) T {
	t.Helper()
	var v T
	out := w.must(t, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("hostler %s: %v:\n%s", strings.Join(args, " "), err, out)
	}
	return v
}

func (w *world) action(t testing.TB, id string) api.Action {
	t.Helper()
	return show[api.Action](t, w, "action", "show", id)
}

// done checks that an action has ended well.
func (w *world) done(t testing.TB, id string) {
	t.Helper()
	if got := w.ended(t, id)[id]; got != "DONE ok" {
		t.Errorf("action %s is %s, want DONE ok; %s", id, got, w.action(t, id).Detail)
	}
}

// ct is a container as the CLI shows it.
type ct struct {
	api.Container
	Address string `json:"address"`
}

// container waits until the coordinator has heard that a container is as ok
// wants it. It may not know the container yet.
func (w *world) container(t testing.TB, name, what string, ok func(ct) bool) ct {
	t.Helper()
	for end := time.Now().Add(patience); ; elapse(t, 100*time.Millisecond) {
		p := w.start(t, "hostler", "ct", "show", name, "--watch", "-o", "json")
		found, seen := p.shows(t, name+" "+what, ok)
		if seen {
			p.end(t, kill)
			return found
		}
		if r := p.finish(t); r.code != 3 || time.Now().After(end) {
			t.Fatalf("hostler ct show %s: %s", name, p.talk)
		}
	}
}

// shows waits until a program that watches a container prints it as ok wants it. It is
// false if the program ended and printed nothing.
func (p *process) shows(t testing.TB, what string, ok func(ct) bool) (found ct, seen bool) {
	t.Helper()
	until(t, &p.out.change, what, func() bool {
		lines := p.out.lines()
		if len(lines) == 0 {
			return p.ended()
		}
		found, seen = ct{}, true
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &found); err != nil {
			t.Fatalf("%v: %s", err, lines[len(lines)-1])
		}
		return ok(found)
	})
	return found, seen
}

// metric sums the samples of a metric whose labels match.
func metric(t testing.TB, exposition, name, labels string) float64 {
	t.Helper()
	re := regexp.MustCompile(`(?m)^` + name + `(\{[^}]*\})? (\S+)$`)
	sum, found := 0.0, false
	for _, m := range re.FindAllStringSubmatch(exposition, -1) {
		if strings.Contains(m[1], labels) {
			var v float64
			if _, err := fmt.Sscan(m[2], &v); err != nil {
				t.Fatal(err)
			}
			sum, found = sum+v, true
		}
	}
	if !found {
		t.Fatalf("there is no metric %s{%s} in\n%.3000s", name, labels, exposition)
	}
	return sum
}
