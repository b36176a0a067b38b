//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/s3test"
)

// TestBackupsToBucket keeps backups of real containers in a bucket of a real store: a host takes
// its containers from there, tells what is wrong with a store, and goes on without it.
func TestBackupsToBucket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := s3test.Start(t)
	h := w.newHost(t, "edge-01", false)
	key := h.path("offsite.key")
	write(t, key, read(t, store.Credentials))
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, h.config(), read(t, h.config())+fmt.Sprintf("[backups]\ntargets = [\"offsite=%s\"]\ns3_credentials = [\"offsite=%s\"]\n", store.URL("edge-01"), key))
	p, words := h.join(t, w.invite(t))
	w.must(t, "host", "approve", h.name, "--words", words)
	p.finish(t).exits(t, 0)
	h.start(t)
	far := []string{"--target", "offsite"}
	run := func(args ...string) string { t.Helper(); return w.must(t, append(args, far...)...) }
	refused := func(says string, args ...string) {
		t.Helper()
		w.cli(t, append(args, far...)...).exits(t, 1, says)
	}

	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	w.must(t, "exec", "edge-01/web", "--", "sh", "-c", "echo one > /root/state; head -c 20000000 /dev/urandom > /root/large")
	run("backup", "create", "edge-01/web", "b1")
	object := filepath.Join(store.Dir, "edge-01", "b1.hostler-backup")
	if i, err := os.Stat(object); err != nil || i.Size() < 20_000_000 {
		t.Errorf("in the bucket there is %v, %v", i, err)
	}
	refused("another name", "backup", "create", "edge-01/web", "b1")
	run("backup", "verify", "edge-01", "b1")
	w.container(t, "edge-01/web", "has a good backup", func(c ct) bool { return c.Backup == "offsite:b1" && c.BackupAt != nil })
	if all := show[[]api.Backup](t, w, "backup", "ls", "edge-01"); len(all) != 1 || all[0].Target != "offsite" || all[0].Container != "web" || all[0].Verified == nil || all[0].Problem != "" {
		t.Errorf("there are %+v", all)
	}
	w.must(t, "ct", "rm", "edge-01/web", "--yes")
	run("backup", "restore", "edge-01/web-2", "--from", "b1", "--start")
	if out := w.must(t, "exec", "edge-01/web-2", "--", "sh", "-c", "cat /root/state; wc -c < /root/large"); out != "one\n20000000\n" {
		t.Errorf("it is %q", out)
	}
	entries, err := os.ReadDir(h.path("backups"))
	if err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return !strings.HasPrefix(e.Name(), ".verified-") && !strings.HasPrefix(e.Name(), ".elsewhere-") && !strings.HasPrefix(e.Name(), ".index-")
	}) {
		t.Errorf("on the host there are %v, %v", entries, err)
	}

	t.Run("by a schedule", func(t *testing.T) {
		from := len(w.events.since(0))
		run("backup", "schedule", "edge-01/web-2", "--every", "6h", "--keep-daily", "2")
		w.event(t, from, "the backup that was due", func(e api.Event) bool {
			return e.Type == "action.state" && e.Data["kind"] == "container.backup" && e.Data["state"] == "DONE"
		})
		w.must(t, "backup", "schedule", "edge-01/web-2", "--off")
		if all := show[[]api.Backup](t, w, "backup", "ls", "edge-01"); !slices.ContainsFunc(all, func(b api.Backup) bool { return b.Scheduled && b.Target == "offsite" && b.Verified != nil }) {
			t.Errorf("there are %+v", all)
		}
	})
	t.Run("damaged", func(t *testing.T) {
		raw := []byte(read(t, object))
		raw[len(raw)/2] ^= 1
		if err := os.WriteFile(object, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		refused("cannot be used", "backup", "verify", "edge-01", "b1")
		refused("cannot be used", "backup", "restore", "edge-01/bad", "--from", "b1")
		run("backup", "rm", "edge-01", "b1", "--yes")
		refused("no backup b1", "backup", "verify", "edge-01", "b1")
	})
	t.Run("a wrong key and no store", func(t *testing.T) {
		away := func(says string) {
			t.Helper()
			refused(says, "backup", "create", "edge-01/web-2", "b2")
			if all := show[[]api.Backup](t, w, "backup", "ls", "edge-01"); !slices.ContainsFunc(all, func(b api.Backup) bool { return b.Target == "offsite" && strings.Contains(b.Problem, says) }) {
				t.Errorf("there are %+v", all)
			}
		}
		write(t, key, s3test.Key+":wrong\n")
		away("s3_credentials")
		write(t, key, read(t, store.Credentials))
		store.Down()
		away("is it on")
		w.must(t, "backup", "create", "edge-01/web-2", "own") // the host itself has room
		store.Up(t)
		run("backup", "create", "edge-01/web-2", "b2")
	})
	w.must(t, "ct", "rm", "edge-01/web-2", "--yes")
}
