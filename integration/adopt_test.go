//go:build integration

package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/podmantest"
)

// strangerOf makes a container with LXC's own program, on no network.
func (w *world) strangerOf(t testing.TB, h *host, name string) (config string) {
	t.Helper()
	if err := os.MkdirAll(h.path("lxc"), 0o711); err != nil {
		t.Fatal(err)
	}
	w.tool(t, "lxc-create", "-P", h.path("lxc"), "-n", name, "-t", "busybox")
	config = filepath.Join(h.path("lxc"), name, "config")
	var kept []byte
	for line := range bytes.Lines([]byte(read(t, config))) {
		if !bytes.HasPrefix(line, []byte("lxc.net.")) {
			kept = append(kept, line...)
		}
	}
	write(t, config, string(kept)+"lxc.net.0.type = empty\nlxc.start.auto = 1\n")
	return config
}

// sees waits until the coordinator has heard of a foreign container.
func (w *world) sees(t testing.TB, host, name, state string) {
	t.Helper()
	p := w.start(t, "hostler", "ct", "ls", host, "--watch", "-o", "csv", "--no-headers")
	defer p.end(t, kill)
	until(t, &p.out.change, name+" is foreign and "+state, func() bool {
		return slices.ContainsFunc(p.out.lines(), func(line string) bool { return strings.Contains(line, ","+name+","+state+",,") })
	})
}

// TestAdoptContainers: containers that LXC's and podman's own programs have made are kept
// from then on as they were, and nothing but the agent starts them.
func TestAdoptContainers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, s := w.addPodmanHost(t, "edge-01")
	config := w.strangerOf(t, h, "old")
	w.tool(t, "lxc-start", "-P", h.path("lxc"), "-n", "old")
	s.Podman(t, "run", "--detach", "--name", "db", "--network", "none", "--interactive", podmantest.Image)
	s.Podman(t, "exec", "db", "sh", "-c", "echo theirs > /root/state")
	s.Podman(t, "create", "--name", "again", "--restart", "always", "--network", "none", podmantest.Image)
	w.sees(t, "edge-01", "old", "running")
	w.sees(t, "edge-01", "db", "running")
	w.sees(t, "edge-01", "again", "stopped")

	w.cli(t, "ct", "stop", "edge-01/lxc:old").exits(t, 4, "ct adopt")
	w.cli(t, "ct", "adopt", "edge-01/old").exits(t, 1, "--privileged")
	w.cli(t, "ct", "adopt", "edge-01/nobody").exits(t, 1, "no foreign container")
	w.cli(t, "ct", "adopt", "edge-01/podman:again", "--privileged").exits(t, 1, "--restart always")
	w.container(t, "edge-01/podman:again", "is foreign", func(c ct) bool { return c.Intended == "" })
	w.must(t, "ct", "adopt", "edge-01/old", "--privileged")
	h.local(t, "ct", "--local", "adopt", "podman:db", "--privileged").exits(t, 0)
	w.cli(t, "ct", "adopt", "edge-01/old", "--privileged").exits(t, 1, "already")
	for _, name := range []string{"old", "db"} {
		w.container(t, "edge-01/"+name, "is ours", func(c ct) bool { return c.State == "running" && c.Intended == "running" && c.Privileged })
	}
	if raw := read(t, config); !strings.Contains(raw, "lxc.start.auto = 0") || strings.Contains(raw, "lxc.start.auto = 1") {
		t.Errorf("LXC starts it by itself: %s", raw)
	}
	if out := w.must(t, "exec", "edge-01/db", "--", "cat", "/root/state"); out != "theirs\n" {
		t.Errorf("its file is %q", out)
	}
	if out := w.must(t, "exec", "edge-01/old", "--", "hostname"); out != "old\n" {
		t.Errorf("it is called %q", out)
	}
	h.restart(t, kill)
	for _, name := range []string{"old", "db"} {
		w.must(t, "ct", "stop", "edge-01/"+name, "--grace", "1s")
		w.must(t, "ct", "clone", "edge-01/"+name, name+"-2", "--start")
		w.must(t, "ct", "rename", "edge-01/"+name, name+"-3")
		w.must(t, "ct", "start", "edge-01/"+name+"-3")
	}
	if out := w.must(t, "exec", "edge-01/db-2", "--", "cat", "/root/state"); out != "theirs\n" {
		t.Errorf("the file of its clone is %q", out)
	}
	for _, name := range []string{"old-2", "old-3", "db-2", "db-3"} {
		w.must(t, "ct", "rm", "edge-01/"+name, "--yes")
	}
	if left := s.Podman(t, "ps", "--all", "--format", "{{.Names}}"); strings.Contains(left, "db") {
		t.Errorf("podman has %q", left)
	}
}
