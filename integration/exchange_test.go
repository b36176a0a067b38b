//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/podmantest"
)

// TestContainerUpgrade gives containers of LXC and podman other images, from the coordinator
// and on the host alone: what is kept of them stays, what is in volumes too, and an image
// with which a container is not healthy is taken back.
func TestContainerUpgrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, _ := w.addPodmanHost(t, "edge-01")
	for runtime, image := range map[string]string{"lxc": "busybox", "podman": podmantest.Image} {
		t.Run(runtime, func(t *testing.T) {
			where := "edge-01/" + runtime
			version := func(tag string) string { return "localhost/my-" + runtime + ":" + tag }
			w.must(t, "ct", "create", where+"-source", image, "--start")
			for _, v := range []struct{ tag, script string }{{"2", "echo new > /root/new"}, {"3", "touch /sick"}, {"4", "rm /sick; echo newer > /root/new"}} {
				w.must(t, "exec", where+"-source", "--", "sh", "-c", v.script)
				w.must(t, "image", "promote", where+"-source", strings.TrimPrefix(version(v.tag), "localhost/"))
			}
			w.must(t, "ct", "create", where, image, "--start", "--label", "app=web", "--limit", "pids=300", "--env", "COLOUR=blue", "--volume", runtime+":/srv/data")
			w.must(t, "ct", "set", where, "--health-interval", "1s", "--health-retries", "2", "--health-cmd", "--", "test", "!", "-e", "/sick")
			w.must(t, "exec", where, "--", "sh", "-c", "echo kept > /srv/data/state; echo old > /root/old")
			before := w.container(t, where, "runs", func(c ct) bool { return c.State == "running" && c.Address != "" })
			is := func(want string) {
				t.Helper()
				if out := w.must(t, "exec", where, "--", "sh", "-c", "cat /srv/data/state /root/new /root/old 2>/dev/null; stat -c %u:%g /srv/data/state"); out != "kept\n"+want+"0:0\n" {
					t.Errorf("it has %q, want %q", out, want)
				}
				now := w.container(t, where, "runs", func(c ct) bool { return c.State == "running" })
				if now.CTID != before.CTID || now.Address != before.Address || len(now.Volumes) != 1 || now.Privileged != before.Privileged {
					t.Errorf("it is %+v, and was %+v", now, before)
				}
				if out := w.must(t, "ct", "config", "ls", where, "-o", "csv"); !strings.Contains(out, "label.app,web") || !strings.Contains(out, "limit.pids,300") {
					t.Errorf("it is kept as %s", out)
				}
			}
			w.cli(t, "ct", "upgrade", where, "localhost/nosuch:1").exits(t, 1, "nosuch")
			is("old\n")
			if r := w.cli(t, "ct", "upgrade", where, version("2")); !strings.Contains(r.stderr, where+" is upgraded") {
				t.Fatalf("%s%s", r.stdout, r.stderr)
			}
			is("new\n")
			if r := w.cli(t, "ct", "upgrade", where); !strings.Contains(r.stderr, "nothing has changed") {
				t.Errorf("the same image: %s%s", r.stdout, r.stderr)
			}
			w.cli(t, "ct", "upgrade", where, version("3")).exits(t, 1, "the old image is back", "unhealthy")
			is("new\n")
			w.must(t, "snapshot", "create", where, "s1")
			w.cli(t, "ct", "upgrade", where, version("4")).exits(t, 1, "--drop-snapshots")
			h.local(t, "ct", "upgrade", runtime, version("3"), "--drop-snapshots", "--yes").exits(t, 1, "the old image is back")
			if out := w.must(t, "snapshot", "ls", where, "-o", "name"); out != "s1\n" {
				t.Errorf("after an upgrade that was taken back there are %q", out)
			}
			h.local(t, "ct", "upgrade", runtime, version("4"), "--drop-snapshots", "--yes").exits(t, 0)
			is("newer\n")
			if out := w.must(t, "snapshot", "ls", where, "-o", "name"); out != "" {
				t.Errorf("there are snapshots of the old image: %q", out)
			}
			w.must(t, "ct", "restart", where, "--grace", "1s")
			is("newer\n")
			for _, name := range []string{where, where + "-source"} {
				w.must(t, "ct", "rm", name, "--yes")
			}
			w.must(t, "volume", "rm", "edge-01", runtime, "--yes")
			for _, tag := range []string{"2", "3", "4"} {
				h.local(t, "image", "rm", version(tag), "--yes").exits(t, 0)
			}
		})
	}
	if r := w.start(t, "hostler-agent", "--config", h.config(), "fsck").finish(t); strings.Contains(r.stdout, "half") {
		t.Errorf("fsck says %s%s", r.stdout, r.stderr)
	}
}
