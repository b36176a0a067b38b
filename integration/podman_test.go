//go:build integration

package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/podmantest"
)

// addPodmanHost lets a host join that has podman beside LXC, and in it a container of
// somebody else.
func (w *world) addPodmanHost(t testing.TB, name string) (*host, *podmantest.Service) {
	t.Helper()
	s := podmantest.Start(t)
	s.Podman(t, "create", "--name", "stranger", "--network", "none", podmantest.Image)
	h := w.newHost(t, name, true)
	write(t, h.config(), read(t, h.config())+"[podman]\nuse = \"on\"\nsocket = \""+s.Socket+"\"\n[backups]\ntargets = [\"nas="+w.path("nas")+"\", \"away="+w.path("away/mount")+"\"]\n")
	p, words := h.join(t, w.invite(t))
	w.must(t, "host", "approve", name, "--words", words)
	p.finish(t).exits(t, 0)
	h.start(t)
	return h, s
}

// TestPodman: every verb that LXC has works on podman, by the coordinator and on the
// host alone, and whatever is killed or away meanwhile, containers and commands go on.
func TestPodman(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, s := w.addPodmanHost(t, "edge-01")
	w.must(t, "ct", "create", "edge-01/web", podmantest.Image, "--label", "app=web")
	w.must(t, "ct", "start", "edge-01/web")
	runs := func(c ct) bool { return c.State == "running" && c.Runtime == "podman" && c.Address != "" }
	web := w.container(t, "edge-01/web", "runs", runs)
	initOf := func() int {
		pid, err := strconv.Atoi(s.Podman(t, "inspect", "--format", "{{.State.Pid}}", "web"))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}

	t.Run("reachable from its host", func(t *testing.T) {
		w.tool(t, "ping", "-c", "1", "-W", "10", web.Address)
	})
	t.Run("commands in it", func(t *testing.T) {
		r := w.cli(t, "exec", "edge-01/web", "--", "sh", "-c", "echo out; echo err >&2; exit 9").exits(t, 9)
		if r.stdout != "out\n" || r.stderr != "err\n" {
			t.Errorf("got %q and %q", r.stdout, r.stderr)
		}
		w.cli(t, "exec", "edge-01/web", "--", "sh", "-c", "kill -KILL $$").exits(t, 137)
		w.cli(t, "exec", "edge-01/web", "--", "no-such-program").exits(t, 127)
		if out := h.local(t, "exec", "--local", "web", "--", "hostname").exits(t, 0).stdout; out != "web\n" {
			t.Errorf("its name is %q", out)
		}
	})
	t.Run("names are unique over both runtimes", func(t *testing.T) {
		w.cli(t, "ct", "create", "edge-01/web", "--template", "busybox").exits(t, 1, "exists")
		w.container(t, "edge-01/podman:stranger", "is seen", func(c ct) bool { return c.State == "stopped" && c.Intended == "" })
		w.cli(t, "ct", "create", "edge-01/stranger", "--template", "busybox").exits(t, 1, "exists")
		w.must(t, "ct", "create", "edge-01/plain", "--template", "busybox")
		if out := w.must(t, "ct", "ls", "edge-01", "-o", "csv", "--no-headers"); strings.Count(out, "podman") < 2 || !strings.Contains(out, "lxc") {
			t.Errorf("ct ls says %s", out)
		}
	})
	t.Run("on the host alone", func(t *testing.T) {
		h.local(t, "ct", "--local", "create", "alone", podmantest.Image, "--start").exits(t, 0)
		h.local(t, "ct", "--local", "stop", "alone").exits(t, 0)
		h.local(t, "ct", "--local", "rename", "alone", "lonely").exits(t, 0)
		h.local(t, "ct", "--local", "restart", "lonely").exits(t, 0)
		if out := h.local(t, "ct", "--local", "show", "lonely", "-o", "json").exits(t, 0).stdout; !strings.Contains(out, `"running"`) {
			t.Errorf("ct show says %s", out)
		}
		h.local(t, "ct", "--local", "rm", "lonely", "--yes").exits(t, 0)
	})
	t.Run("killed behind the agent's back it is started again", func(t *testing.T) {
		started := s.Next(t, "start", "web")
		w.tool(t, "kill", "-KILL", strconv.Itoa(initOf()))
		started()
		w.tool(t, "ping", "-c", "1", "-W", "10", web.Address)
	})
	t.Run("an agent that is killed touches nothing", func(t *testing.T) {
		before := initOf()
		w.must(t, "exec", "edge-01/web", "--", "mkfifo", "/go")
		p := w.start(t, "hostler", "exec", "edge-01/web", "--", "sh", "-c", "echo begun; read word </go; echo $word; exit 6")
		until(t, &p.out.change, "the command has begun", func() bool { return len(p.out.lines()) > 0 })
		h.restart(t, kill)
		// A container has one command at a time, so the word comes from the host.
		write(t, fmt.Sprintf("/proc/%d/root/go", before), "onward\n")
		if r := p.finish(t).exits(t, 6); r.stdout != "begun\nonward\n" {
			t.Errorf("it printed %q", r.stdout)
		}
		if now := initOf(); now != before {
			t.Error("its init is another one")
		}
	})
	t.Run("a service that is away", func(t *testing.T) {
		s.Down(t)
		w.container(t, "edge-01/web", "is unknown", func(c ct) bool { return c.State == "unknown" })
		w.cli(t, "ct", "restart", "edge-01/web").exits(t, 1, "unavailable", "podman.socket")
		w.must(t, "ct", "start", "edge-01/plain")
		s.Up(t)
		w.container(t, "edge-01/web", "runs", runs)
	})
	t.Run("stopped by its user it stays stopped", func(t *testing.T) {
		w.must(t, "ct", "stop", "edge-01/web", "--grace", "1s")
		h.restart(t, kill)
		w.cli(t, "exec", "edge-01/web", "--", "true").exits(t, 125, "web")
		if pid := initOf(); pid != 0 {
			t.Errorf("it runs as %d", pid)
		}
	})
	t.Run("removed, nothing of it is left", func(t *testing.T) {
		w.must(t, "ct", "rm", "edge-01/web", "--yes")
		w.must(t, "ct", "rm", "edge-01/plain", "--yes")
		if left := s.Podman(t, "ps", "--all", "--format", "{{.Names}}"); left != "stranger" {
			t.Errorf("podman has %q", left)
		}
	})
}
