//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecretEnv: a sealed variable reaches its command, and is found in nothing that
// either side keeps or logs, in no list of processes and in no error.
func TestSecretEnv(t *testing.T) {
	t.Parallel()
	const value = "correct-horse-battery-staple"
	w := newWorld(t)
	w.addHost(t, "edge-01", false)
	r := w.cli(t, "run", "edge-01", "--secret-env", "TOKEN="+value, "--", "sh", "-c", `test "$TOKEN" = "$1-$2-$3-$4" && echo same`, "sh", "correct", "horse", "battery", "staple")
	if r.exits(t, 0); r.stdout != "same\n" {
		t.Errorf("%q, %q", r.stdout, r.stderr)
	}
	p := w.sit(t, "run", "-t", "edge-01", "--secret-env", "TOKEN="+value, "--", "sh", "-c", `test "$TOKEN" = "$1-$2-$3-$4" && echo same`, "sh", "correct", "horse", "battery", "staple")
	p.sees("same")
	p.exits(0)
	// Out of the environment, it is in no list of processes, and in no word about a failure.
	gate := w.fifo(t, "gate-secret")
	given := func(argv ...string) *process {
		t.Helper()
		return w.spawn(t, "hostler", w.env("TOKEN="+value), append([]string{filepath.Join(w.bin, "hostler"), "run", "edge-01", "--secret-env", "TOKEN", "--"}, argv...)...)
	}
	waits := given("sh", "-c", `echo begun; read x <"$0"; exit 3`, gate)
	until(t, &waits.out.change, "the command with a secret runs", func() bool { return waits.out.String() == "begun\n" || waits.ended() })
	lists, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lists) == 0 {
		t.Fatalf("no process is listed: %v", err)
	}
	for _, list := range lists {
		if b, err := os.ReadFile(list); err == nil && strings.Contains(string(b), value) { // it may have ended
			t.Errorf("%s holds it: %q", list, b)
		}
	}
	release(t, gate)
	waits.finish(t).exits(t, 3)
	given("/no/such/program").finish(t).exits(t, 127, "no/such/program")
	for _, dir := range []string{w.path("."), w.logs} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil // it has just gone
			}
			b, err := os.ReadFile(path)
			if err == nil && strings.Contains(string(b), value) {
				t.Errorf("%s holds it", path)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	w.cli(t, "run", "edge-01", "--secret-env", "NO_SUCH_VARIABLE_HERE", "--", "true").exits(t, 125, "this variable is not set here")
}

// TestDaemon: it outlives its main process and the agent, others begin beside it, and a
// cancel ends all of it.
func TestDaemon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addHost(t, "edge-01", false)
	gate := w.fifo(t, "gate-daemon")
	id := strings.TrimSpace(w.must(t, "run", "edge-01", "--daemon", "--", "sh", "-c", `setsid sh -c 'read x <"$0"; exec sleep 1000' "$0" & exit 0`, gate))
	w.must(t, "run", "edge-01", "--exclusive", "--", "true")
	w.state(t, id, "RUNNING")
	w.must(t, "action", "cancel", id, "--wait")
	if state := w.must(t, "action", "show", id, "-o", "template={{.state}}/{{.exit.code}}"); strings.TrimSpace(state) != "CANCELLED/0" {
		t.Errorf("it is %q", state)
	}
}
