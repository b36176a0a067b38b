//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestApply: a manifest is made true once, on both runtimes, and then changes nothing. What
// must be made anew is told before anything is done.
func TestApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, s := w.addPodmanHost(t, "edge-01")
	s.Image(t, "localhost/talker:1", `CMD ["/bin/sh","-c","sleep 1000000"]`, "STOPSIGNAL SIGKILL")
	path := filepath.Join(t.TempDir(), "web.yaml")
	write := func(old ...string) {
		t.Helper()
		text := `version: 1
profiles:
  small: {limits: {memory: 128MiB, pids: 100}}
containers:
  - {host: edge-01, name: pod, image: localhost/talker:1, profiles: [small], labels: {app: web}, env: {PORT: 8080}, start: true}
  - {host: edge-01, name: lxc, image: busybox, profiles: [small], hostname: shaped}
`
		if err := os.WriteFile(path, []byte(strings.NewReplacer(old...).Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plan := func(code int, want string) {
		t.Helper()
		if out := w.cli(t, "ct", "apply", "-f", path, "--dry-run", "-o", "csv", "--no-headers").exits(t, code).stdout; out != want {
			t.Errorf("the plan is\n%s\nwant\n%s", out, want)
		}
	}
	write()
	plan(10, "edge-01,pod,create,\nedge-01,lxc,create,\n")
	w.cli(t, "ct", "apply", "-f", path).exits(t, 4, "--yes")
	w.must(t, "ct", "apply", "-f", path, "--yes")
	w.container(t, "edge-01/pod", "runs", func(c ct) bool { return c.State == "running" && c.Intended == "running" })
	plan(0, "edge-01,pod,unchanged,\nedge-01,lxc,unchanged,\n")
	w.must(t, "ct", "apply", "-f", path, "--yes")
	// On the host itself it is the same, but for containers of other hosts.
	here := func(flags ...string) result {
		return h.local(t, append([]string{"--local", "ct", "apply", "-f", path}, flags...)...)
	}
	here("--dry-run").exits(t, 0)
	write("128MiB", "64MiB")
	here("--dry-run").exits(t, 10)
	here("--yes").exits(t, 0)
	plan(0, "edge-01,pod,unchanged,\nedge-01,lxc,unchanged,\n")
	write("host: edge-01, name: pod", "host: edge-02, name: pod")
	here("--yes").exits(t, 2, "its own containers alone")
	write("app: web", "tier: front", "memory: 128MiB, ", "", "hostname: shaped", "start: true")
	plan(10, "edge-01,pod,change,\"label.app, label.tier=front, limit.memory\"\nedge-01,lxc,change,\"limit.memory, start\"\n")
	w.must(t, "ct", "apply", "-f", path, "--yes")
	plan(0, "edge-01,pod,unchanged,\nedge-01,lxc,unchanged,\n")
	w.container(t, "edge-01/lxc", "runs", func(c ct) bool { return c.State == "running" })
	write("PORT: 8080", "PORT: 9090", "pids: 100", "pids: 200")
	w.cli(t, "ct", "apply", "-f", path, "--yes").exits(t, 1, "fixed settings differ of edge-01/pod", "nothing was changed")
	write("talker:1", "other:1")
	w.cli(t, "ct", "apply", "-f", path, "--yes").exits(t, 1, "hostler ct upgrade edge-01/pod localhost/other:1 ")
	if out := w.must(t, "ct", "config", "get", "edge-01/lxc", "limit.pids"); out != "100\n" {
		t.Errorf("a manifest that was refused has set pids to %q", out)
	}
	for _, name := range []string{"pod", "lxc"} {
		w.must(t, "ct", "rm", "edge-01/"+name, "--yes")
	}
}
