package runnertest

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
)

func daemonCases() []Case {
	return []Case{
		{"daemon outlives its main process", testDaemon},
		{"daemon ends with the last of it", testDaemonEnds},
		{"time limit of a daemon", testDaemonLimit},
		{"daemon is adopted", testDaemonAdopted},
		{"start is seen", testStarted},
		{"secrets are in no file", testSecrets},
		{"secrets that are gone", testSecretsGone},
	}
}

// daemon is one that leaves its main process, its session and its process group.
func (e *env) daemon(line string, args ...string) runner.Spec {
	spec := e.spec(line, args...)
	spec.Daemon = true
	return spec
}

func testDaemon(t *testing.T, e *env) {
	run := e.start(t, e.daemon(`setsid sh -c 'while kill -0 "$1" 2>/dev/null; do sleep 0.02; done; sleep "$0" & echo orphaned; exec sleep "$0"' "$1" $$ & exit 0`, e.mark()))
	<-run.Started()
	follow(t, run, "orphaned\n")
	select {
	case <-run.Done():
		t.Fatal("it is over")
	default:
	}
	if err := run.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, run); !exit.Cancelled || !exit.Emptied || exit.Code != 0 {
		t.Errorf("%+v", exit)
	}
	e.wantNothingLeft(t)
}

func testDaemonEnds(t *testing.T, e *env) {
	run := e.start(t, e.daemon(`(sleep 0.3; echo late) & echo main; exit 7`))
	exit := wait(t, run)
	if exit.Code != 7 || !exit.Emptied || exit.Cancelled || exit.TimedOut {
		t.Errorf("%+v", exit)
	}
	if got := e.output(t, rundir.Stdout); !bytes.Contains(got, []byte("late\n")) || !bytes.Contains(got, []byte("main\n")) {
		t.Errorf("output %q", got)
	}
	e.wantNothingLeft(t)
}

func testDaemonLimit(t *testing.T, e *env) {
	spec := e.daemon(`sleep "$1" & exit 0`, e.mark())
	spec.TimeoutMS = sometime
	if exit := e.do(t, spec); !exit.TimedOut || !exit.Emptied || exit.Code != 0 {
		t.Errorf("%+v", exit)
	}
	e.wantNothingLeft(t)
}

func testDaemonAdopted(t *testing.T, e *env) {
	run := e.start(t, e.daemon(`sleep "$1" & echo main; exit 0`, e.mark()))
	follow(t, run, "main\n")
	if err := e.runner.Close(); err != nil {
		t.Fatal(err)
	}
	e.runner = e.open(t)
	found, err := e.runner.Recover(t.Context(), e.action, 1, e.boot)
	if err != nil || found.Verdict != runner.Adopted {
		t.Fatalf("%+v, %v", found, err)
	}
	<-found.Run.Started()
	if err := found.Run.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, found.Run); !exit.Cancelled || !exit.Emptied {
		t.Errorf("%+v", exit)
	}
	e.wantNothingLeft(t)
}

// testStarted: the start is seen before the end, and by whoever comes later.
func testStarted(t *testing.T, e *env) {
	run := e.start(t, e.spec(`sleep "$1"`, e.mark()))
	<-run.Started()
	if !e.dir().Has(rundir.StartFile) || e.dir().Has(rundir.ExitFile) {
		t.Error("it has not begun, or has ended")
	}
	if err := run.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
}

const secret = "correct horse battery staple"

func testSecrets(t *testing.T, e *env) {
	spec := e.spec(`test "$TOKEN" = "$1 $2 $3 $4" && test "$PLAIN" = yes`, "correct", "horse", "battery", "staple")
	spec.Env, spec.SecretEnv = []string{"PLAIN=yes"}, []string{"TOKEN=" + secret}
	if exit := e.do(t, spec); exit.Code != 0 {
		t.Errorf("%+v", exit)
	}
	err := filepath.WalkDir(e.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("%s holds it", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// testSecretsGone: nothing begins without them, and another attempt can.
func testSecretsGone(t *testing.T, e *env) {
	spec := e.spec("echo ran")
	spec.Secrets = "/proc/self/fd/4711"
	run := e.start(t, spec)
	if _, err := run.Wait(context.Background()); !errors.Is(err, runner.ErrDied) {
		t.Errorf("it ended: %v", err)
	}
	found, err := e.runner.Recover(t.Context(), e.action, 1, e.boot)
	if err != nil || found.Verdict != runner.NeverBegan {
		t.Errorf("%+v, %v", found, err)
	}
}
