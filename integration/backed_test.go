//go:build integration

package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/s3test"
)

// TestMadeOfABackup takes the backups from a directory that both hosts have.
func TestMadeOfABackup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := os.Mkdir(w.path("nas"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.madeOfABackup(t, func(*host) string { return fmt.Sprintf("targets = [\"nas=%s\"]\n", w.path("nas")) })
}

// TestMadeOfABackupInABucket takes the backups from a store that both hosts reach.
func TestMadeOfABackupInABucket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := s3test.Start(t)
	w.madeOfABackup(t, func(h *host) string {
		key := h.path("nas.key")
		write(t, key, read(t, store.Credentials))
		if err := os.Chmod(key, 0o600); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("targets = [\"nas=%s\"]\ns3_credentials = [\"nas=%s\"]\n", store.URL(""), key)
	})
}

// madeOfABackup: a unique container whose data are in backups is made of the newest one
// on another host when its own is lost, from a target nas that both hosts have, and what is
// said of it tells how old that was. The old copy is kept, and stays stopped. nas returns
// the settings of the target for a host.
func (w *world) madeOfABackup(t *testing.T, nas func(*host) string) {
	t.Helper()
	write(t, w.path("coordinator.toml"), read(t, w.path("coordinator.toml"))+"[lease]\nmin_self_fence = \"guard\"\nttl_seconds = 15\nkill_seconds = 2\nmargin_seconds = 1\n")
	w.coordinator.end(t, term)
	w.startCoordinator(t)
	a, b := w.newHost(t, "edge-01", false), w.newHost(t, "edge-02", false)
	for _, h := range []*host{a, b} {
		write(t, h.config(), read(t, h.config())+"[unique]\nguard = true\npausable = \"no\"\n[backups]\n"+nas(h))
		p, words := h.join(t, w.invite(t))
		w.must(t, "host", "approve", h.name, "--words", words)
		p.finish(t).exits(t, 0)
		h.start(t)
	}
	w.must(t, "ct", "create", "edge-01/db", "--template", "busybox", "--class", "unique", "--data", "backup", "--start")
	first := w.lease(t)
	w.cli(t, "ct", "move", "edge-01/db", "edge-02", "--yes").exits(t, 1, "since its newest backup would be lost")
	for _, state := range []string{"one", "two"} {
		w.must(t, "exec", "edge-01/db", "--", "sh", "-c", "echo "+state+" > /root/state")
		w.must(t, "backup", "create", "edge-01/db", state, "--target", "nas")
	}
	w.must(t, "exec", "edge-01/db", "--", "sh", "-c", "echo three > /root/state")

	a.agent.end(t, kill)
	w.awaitLease(t, "edge-02 holds it", func(l api.Lease) bool { return l.Host == "edge-02" && l.Phase == "held" })
	w.placed(t, "edge-02", "db")
	if out := w.must(t, "exec", "edge-02/db", "--", "cat", "/root/state"); out != "two\n" {
		t.Errorf("it has the state %q", out)
	}
	second := w.awaitLease(t, "its lease names the backup", func(l api.Lease) bool { return l.Restored != "" })
	if second.Epoch == first.Epoch || !strings.Contains(second.Restored, "backup nas:two of host edge-01, made ") || !strings.HasSuffix(second.Restored, " before") {
		t.Errorf("%+v", second)
	}
	for _, args := range [][]string{{"why", "db"}, {"ct", "show", "edge-02/db"}, {"placement", "show", "db"}} {
		if out := w.must(t, args...); !strings.Contains(out, "backup nas:two of host edge-01, made") {
			t.Errorf("%v: %s", args, out)
		}
	}
	told(t, b.initPID(t, "db"), second.Epoch)

	a.start(t)
	w.container(t, "edge-01/db", "is kept, and stays stopped", func(c ct) bool { return c.State == "stopped" && c.Waits != "" })
	if out := w.must(t, "why", "db"); !strings.Contains(out, "host edge-01 cannot take it: it has a copy with old data") {
		t.Errorf("why db: %s", out)
	}
	w.must(t, "backup", "create", "edge-02/db", "three", "--target", "nas")
	w.must(t, "ct", "stop", "edge-02/db")
	w.must(t, "ct", "rm", "edge-02/db", "--yes")
}
