//go:build integration && hostlertest

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/failpoint"
)

// recoveryPoints kills whoever backs a coordinator up, restores it and recovers
// it, at every file and commit that they make. What was interrupted is done
// again, and in the end each coordinator serves and its host has told what it
// did.
func recoveryPoints(t *testing.T) {
	w := newWorld(t)
	edge := w.addHost(t, "edge-01", false)
	backup := field(t, w.coordinatorCommand(t, "backup", w.dir), "backup")
	since := w.submit(t, "edge-01", "true")
	w.ended(t, since)
	w.coordinator.end(t, term)
	edge.agent.end(t, term)
	w.copyTo(t, edge.dir, w.path("memory"))
	number := 0
	for _, c := range []struct {
		step failpoint.Step
		most int
	}{
		{failpoint.BackupPlaced, 1}, {failpoint.RestoreDeclared, 1}, {failpoint.StateRestored, 1}, {failpoint.StoreRecovered, 1},
		{failpoint.KeyReplaced, 1}, {failpoint.RecoveryEnded, 1}, {failpoint.RingsKept, 3}, {failpoint.FilePlaced, 10}, {failpoint.BatchCommitted, 1},
	} {
		for _, point := range []string{c.step.Before(), c.step.After()} {
			for n, more := 1, true; more && n <= c.most; n++ {
				t.Run(fmt.Sprintf("%s %d", point, n), func(t *testing.T) {
					number++
					if more = w.interrupted(t, edge, fmt.Sprintf("recovery-%d", number), backup, since, point, n); !more && n == 1 {
						t.Errorf("nobody came to %s", point)
					}
				})
			}
		}
	}
}

// interrupted restores and recovers a coordinator, and is killed at the nth hit
// of a point. It reports whether there was such a hit.
func (w *world) interrupted(t *testing.T, edge *host, name, backup, since, point string, n int) bool {
	t.Helper()
	v := newVictim(t, w, name, nil)
	// Each has an owner of its own, who has signed nothing since the backup.
	operator := w.path(name + "-operator")
	w.copyTo(t, w.path("operator"), operator)
	if err := os.RemoveAll(w.path("coordinator")); err != nil {
		t.Fatal(err)
	}
	// A host that had followed another one would not believe this: each is of the
	// same ring.
	w.copyTo(t, w.path("memory"), edge.dir)
	command := func(done string, args ...string) string {
		for {
			argv := append([]string{filepath.Join(w.bin, "hostler-coordinator"), "--config", w.path("coordinator.toml")}, args...)
			p := w.spawn(t, name, w.env(v.environ()), argv...)
			switch code := p.code(t); {
			case code == 0:
				return p.out.String()
			case code == 128+int(kill):
			case done != "" && strings.Contains(p.talk.String(), done):
				return p.out.String() // it was killed when all was done
			default:
				t.Fatalf("%q ends with %d:\n%s%s", args, code, p.out.tail(), p.talk.tail())
			}
		}
	}
	v.arm(t, point, n)
	command("is not empty", "restore", backup)
	request := field(t, command("", "recover"), "request")
	rings := w.path(name + "-rings")
	env := append(w.env(), "XDG_CONFIG_HOME="+operator)
	w.spawn(t, name+"-ring", env, filepath.Join(w.bin, "hostler"), "fleet", "ring", "replace-coordinator", request, "--out", rings).finish(t).exits(t, 0)
	command("nothing speaks against", "recover", "--ring", rings)
	copied := w.path(name + ".backup")
	command("already exists", "backup", copied)
	if left, err := filepath.Glob(w.path(".hostler-backup-*")); err != nil || len(left) > 0 {
		t.Errorf("backups that were interrupted left %v, %v", left, err)
	}
	w.startCoordinator(t)
	edge.startAlone(t)
	w.coordinator.says(t, w.coordinator.talk, `before the recovery" host=edge-01`)
	w.spawn(t, name+"-show", env, filepath.Join(w.bin, "hostler"), "action", "show", since, "-o", "template={{.state}}").finish(t).exits(t, 0)
	if s := show[api.Status](t, w, "status"); s.Recovered == nil || s.Recovered.Answered != 1 {
		t.Errorf("the status says %+v", s.Recovered)
	}
	if got := w.shown(t, since); got != "DONE ok" {
		t.Errorf("what was asked since the backup is %s", got)
	}
	edge.agent.end(t, kill)
	w.coordinator.end(t, kill)
	_, err := os.Lstat(filepath.Join(v.points, point+".hit"))
	return err == nil
}
