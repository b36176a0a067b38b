//go:build integration

package integration

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// TestContainers lives with LXC containers as a user does.
func TestContainers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", true)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--label", "app=web")
	w.must(t, "ct", "start", "edge-01/web")
	web := w.container(t, "edge-01/web", "has an address", func(c ct) bool { return c.State == "running" && c.Address != "" })

	t.Run("reachable from its host", func(t *testing.T) {
		w.tool(t, "ping", "-c", "1", "-W", "5", web.Address)
		if addrs := w.tool(t, "ip", "-4", "-brief", "address", "show", h.bridge); !strings.Contains(addrs, "/24") {
			t.Errorf("the bridge has %s", addrs)
		}
	})

	t.Run("commands in it", func(t *testing.T) {
		r := w.cli(t, "exec", "edge-01/web", "--", "sh", "-c", "echo out; echo err >&2; exit 9").exits(t, 9)
		if r.stdout != "out\n" || r.stderr != "err\n" {
			t.Errorf("got %q and %q", r.stdout, r.stderr)
		}
		w.cli(t, "exec", "edge-01/web", "--", "sh", "-c", "kill -KILL $$").exits(t, 137)
		w.cli(t, "exec", "edge-01/web", "--", "no-such-program").exits(t, 127, "could not begin")
		if out := w.must(t, "exec", "edge-01/web", "--", "hostname"); out != "web\n" {
			t.Errorf("its name is %q", out)
		}
		if out := w.must(t, "exec", "edge-01/web", "--", "printf", `%s\n`, `two  words; $(reboot)`); out != "two  words; $(reboot)\n" {
			t.Errorf("its argument arrived as %q", out)
		}
	})

	t.Run("when what was started in advance has died", func(t *testing.T) {
		w.must(t, "exec", "edge-01/web", "--", "true")
		spare := h.children(t, h.agent.pid(), "supervise\x00-")
		for _, pid := range spare {
			for _, stem := range h.children(t, pid, "supervise") {
				w.tool(t, "kill", "-KILL", strconv.Itoa(stem))
			}
		}
		if len(spare) == 0 {
			t.Error("nothing was started in advance")
		}
		w.must(t, "exec", "edge-01/web", "--", "true")
	})

	t.Run("renamed there and back it is as before", func(t *testing.T) {
		w.must(t, "ct", "create", "edge-01/plain", "--template", "busybox")
		config := func() int { return strings.Count(read(t, filepath.Join(h.path("lxc"), "plain", "config")), "\n") }
		w.must(t, "ct", "rename", "edge-01/plain", "other")
		w.must(t, "ct", "rename", "edge-01/other", "plain")
		before := config()
		w.must(t, "ct", "rename", "edge-01/plain", "other")
		w.must(t, "ct", "rename", "edge-01/other", "plain")
		if now := config(); now != before {
			t.Errorf("its configuration had %d lines and has %d", before, now)
		}
		w.must(t, "ct", "rm", "edge-01/plain", "--yes")
	})

	t.Run("killed behind the agent's back it is started again", func(t *testing.T) {
		h.countBoots(t, "web")
		before := h.initPID(t, "web")
		w.tool(t, "kill", "-KILL", strconv.Itoa(before))
		h.boots(t, "web", 1)
		c := w.container(t, "edge-01/web", "runs again", func(c ct) bool { return c.State == "running" && c.Address != "" })
		if now := h.initPID(t, "web"); now == before {
			t.Error("its init is the old one")
		}
		if c.Address != web.Address {
			t.Errorf("its address was %s and is %s", web.Address, c.Address)
		}
		w.tool(t, "ping", "-c", "1", "-W", "5", web.Address)
	})

	t.Run("an agent that restarts touches it not", func(t *testing.T) {
		before := h.initPID(t, "web")
		h.restart(t, term)
		h.restart(t, kill)
		w.must(t, "exec", "edge-01/web", "--", "true")
		if now := h.initPID(t, "web"); now != before {
			t.Error("its init is another one")
		}
	})

	t.Run("stopped by its user it stays stopped", func(t *testing.T) {
		w.must(t, "ct", "stop", "edge-01/web")
		h.restart(t, kill)
		w.must(t, "run", "edge-01", "--", "true")
		if s := w.tool(t, "lxc-info", "-P", h.path("lxc"), "-n", "web", "-sH"); strings.TrimSpace(s) != "STOPPED" {
			t.Errorf("it is %s", s)
		}
		w.cli(t, "exec", "edge-01/web", "--", "true").exits(t, 125, "web")
		w.must(t, "ct", "start", "edge-01/web")
		if c := w.container(t, "edge-01/web", "runs", func(c ct) bool { return c.State == "running" && c.Address != "" }); c.Address != web.Address {
			t.Errorf("its address was %s and is %s", web.Address, c.Address)
		}
	})

	t.Run("what cannot be made is said", func(t *testing.T) {
		w.cli(t, "ct", "create", "edge-01/web", "--template", "busybox").exits(t, 1, "web")
		w.cli(t, "ct", "create", "edge-01/db", "--template", "no-such-template").exits(t, 1, "no-such-template")
		w.cli(t, "ct", "create", "edge-01/../x", "--template", "busybox").exits(t, 2)
		w.cli(t, "ct", "start", "edge-01/nothing").exits(t, 3, "nothing")
		w.cli(t, "ct", "rm", "edge-01/web").exits(t, 4, "--yes")
		gone(t, h.path("lxc/db"))
	})

	t.Run("ten at a time", func(t *testing.T) { tenContainers(t, h) })

	t.Run("destroyed, nothing of it is left", func(t *testing.T) {
		// A name of its own: others may be about to take the control groups of one
		// that is called web.
		name := filepath.Base(w.dir)
		w.must(t, "ct", "create", "edge-01/"+name, "--template", "busybox", "--start")
		groups := controlGroups(t, h.initPID(t, name))
		w.must(t, "ct", "rm", "edge-01/"+name, "--yes")
		w.must(t, "ct", "rm", "edge-01/web", "--yes")
		w.cli(t, "ct", "show", "edge-01/web").exits(t, 3)
		left, err := os.ReadDir(h.path("lxc"))
		if err != nil || len(left) > 0 {
			t.Errorf("in the directory of containers: %v, %v", left, err)
		}
		ports, err := os.ReadDir(filepath.Join("/sys/class/net", h.bridge, "brif"))
		if err != nil || len(ports) > 0 {
			t.Errorf("on the bridge: %v, %v", ports, err)
		}
		for pid, line := range w.relatives() {
			if strings.Contains(line, "lxc monitor") {
				w.awaitRelative(pid, line)
			}
		}
		w.quiet(t)
		for _, dir := range groups {
			gone(t, dir)
		}
	})
}

// controlGroups are those that were made for the container of a process, in
// every hierarchy.
func controlGroups(t testing.TB, pid int) []string {
	t.Helper()
	var dirs []string
	for line := range strings.Lines(read(t, fmt.Sprintf("/proc/%d/cgroup", pid))) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		at := strings.Index(parts[2], "lxc.payload.")
		if at < 0 {
			continue
		}
		name, _, _ := strings.Cut(parts[2][at:], "/")
		mount := strings.TrimPrefix(parts[1], "name=")
		if mount == "" {
			mount = "unified"
		}
		for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/" + mount} {
			for _, of := range []string{name, strings.Replace(name, "payload", "monitor", 1)} {
				dir := filepath.Join(root, parts[2][:at], of)
				if _, err := os.Stat(dir); err == nil {
					dirs = append(dirs, dir)
				}
			}
		}
	}
	if len(dirs) == 0 {
		t.Fatalf("process %d is in no control group of a container", pid)
	}
	return dirs
}

// tenContainers makes, starts and destroys ten containers at once.
func tenContainers(t *testing.T, h *host) {
	t.Helper()
	name := func(i int) string { return fmt.Sprintf("edge-01/many-%d", i) }
	all := func(argv func(i int) []string) {
		t.Helper()
		var started [10]*process
		for i := range started {
			started[i] = h.w.start(t, "hostler", argv(i)...)
		}
		for _, p := range started {
			p.finish(t).exits(t, 0)
		}
	}
	all(func(i int) []string { return []string{"ct", "create", name(i), "--template", "busybox", "--start"} })
	all(func(i int) []string { return []string{"exec", name(i), "--", "true"} })
	seen := map[string]bool{}
	for i := range 10 {
		c := h.w.container(t, name(i), "runs", func(c ct) bool { return c.State == "running" && c.Address != "" })
		if net.ParseIP(c.Address) == nil || seen[c.Address] {
			t.Errorf("%s has the address %q", name(i), c.Address)
		}
		seen[c.Address] = true
	}
	all(func(i int) []string { return []string{"ct", "rm", name(i), "--yes"} })
}

// countBoots lets a container write a line whenever it boots.
func (h *host) countBoots(t testing.TB, name string) {
	t.Helper()
	h.w.must(t, "exec", "edge-01/"+name, "--", "sh", "-c", `printf 'echo boot >>/boots\n' >>/etc/init.d/rcS`)
}

// boots waits until a container has booted so many times since countBoots.
func (h *host) boots(t testing.TB, name string, n int) {
	t.Helper()
	fileUntil(t, h.path("lxc/"+name+"/rootfs/boots"), fmt.Sprintf("%s boots %d times", name, n), func(s string) bool { return strings.Count(s, "boot\n") >= n })
}

// initPID is the first process of a container as the host sees it.
func (h *host) initPID(t testing.TB, name string) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(h.w.tool(t, "lxc-info", "-P", h.path("lxc"), "-n", name, "-pH")))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// TestWithoutLXC is a host that has no hostler-lxc.
func TestWithoutLXC(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.newHost(t, "edge-01", false)
	write(t, h.config(), strings.Replace(read(t, h.config()), "[lxc]\n", "[lxc]\nhelper = \"/no/such/hostler-lxc\"\n", 1))
	p, words := h.join(t, w.invite(t))
	w.must(t, "host", "approve", "edge-01", "--words", words)
	p.finish(t).exits(t, 0)
	h.start(t)
	w.must(t, "run", "edge-01", "--", "true")
	shown := show[api.Host](t, w, "host", "show", "edge-01")
	if !slices.ContainsFunc(shown.Unsupported, func(s string) bool { return strings.HasPrefix(s, "lxc:") }) {
		t.Errorf("the host says that it lacks %q, wanted lxc", shown.Unsupported)
	}
	w.cli(t, "ct", "create", "edge-01/web", "--template", "busybox").exits(t, 1, "unsupported")
	w.cli(t, "run", "edge-01", "--", "sh", "-c", "exit 5").exits(t, 5)
}
