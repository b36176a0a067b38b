//go:build integration

package integration

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/podmantest"
)

// TestContainerNames: containers of a network find each other by name, of LXC and of podman
// alike, while they run and by the name that they have. Those of other networks neither find
// them nor may ask. What asks by DHCP is told its address. Servers that are killed are back, and with the agent they are gone.
func TestContainerNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, _ := w.addPodmanHost(t, "edge-01")
	for _, args := range [][]string{{"web", "busybox"}, {"pod", podmantest.Image}} {
		w.must(t, "ct", "create", "edge-01/"+args[0], args[1], "--start")
	}
	alone := fmt.Sprintf("a%d", os.Getpid()) // this host is no machine of its own
	w.must(t, "net", "create", "edge-01", alone, "--isolated")
	t.Cleanup(func() {
		w.cli(t, "ct", "rm", "edge-01/spy", "--yes") // of a test that has failed
		w.must(t, "net", "rm", "edge-01", alone)
	})
	w.must(t, "ct", "create", "edge-01/spy", "busybox", "--network", alone, "--start")
	asks := func(name string, argv ...string) string {
		t.Helper()
		r := w.cli(t, append([]string{"exec", "edge-01/" + name, "--", "timeout", "5"}, argv...)...)
		return r.stdout + r.stderr
	}
	says := func(from, want string, argv ...string) {
		t.Helper()
		got := ""
		for end := time.Now().Add(patience); time.Now().Before(end); elapse(t, 100*time.Millisecond) {
			if got = asks(from, argv...); strings.Contains(got, want) {
				return
			}
		}
		t.Errorf("in %s, %q says %q, want %s", from, argv, got, want)
	}
	leads := func(from, name, want string) {
		t.Helper()
		says(from, want, "nslookup", name)
	}
	address := make(map[string]string)
	for _, name := range []string{"web", "pod", "spy"} {
		address[name] = w.container(t, "edge-01/"+name, "has an address", func(c ct) bool { return c.Address != "" }).Address
	}
	gateway := netip.MustParsePrefix(address["web"] + "/24").Masked().Addr().Next().String()
	leads("web", "pod.hostler", address["pod"])
	leads("pod", "web.hostler", address["web"])
	leads("web", "web.hostler", address["web"])
	for from, to := range map[string]string{"web": "pod", "pod": "web"} {
		says(from, "PING "+to+" ("+address[to]+")", "ping", "-c", "1", to)
		says(from, " 0% packet loss", "ping", "-c", "1", to)
	}
	leads("spy", "spy.hostler", address["spy"])
	for _, argv := range [][]string{{"nslookup", "web.hostler"}, {"nslookup", "web.hostler", gateway}, {"ping", "-c", "1", "web"}} {
		if got := asks("spy", argv...); strings.Contains(got, address["web"]) {
			t.Errorf("from another network, %q is told %s", argv, got)
		}
	}
	// What asks by DHCP, as the programs of most images do, is told what it has.
	for _, name := range []string{"web", "spy"} {
		says(name, "lease of "+address[name]+" obtained", "udhcpc", "-i", "eth0", "-n", "-q", "-s", "/bin/true")
	}
	served := func(kind, network string) (all []string) {
		t.Helper()
		for _, p := range show[[]api.NetworkPart](t, w, "net", "show", "edge-01", network) {
			if p.Kind == kind {
				all = append(all, p.Name+" "+p.Detail)
			}
		}
		return all
	}
	if got := served("dhcp", h.bridge); len(got) != 1 || !strings.HasPrefix(got[0], h.bridge+" served by dnsmasq, process ") {
		t.Errorf("net show names these servers of DHCP: %q", got)
	}
	if got := served("names", h.bridge); len(got) != 1 || !strings.HasPrefix(got[0], gateway+" served by dnsmasq, process ") {
		t.Errorf("net show names these servers: %q", got)
	}

	w.must(t, "ct", "stop", "edge-01/pod", "--grace", "1s")
	leads("web", "pod.hostler", "NXDOMAIN")
	w.must(t, "ct", "rename", "edge-01/pod", "db")
	w.must(t, "ct", "start", "edge-01/db")
	leads("web", "db.hostler", address["pod"])
	leads("web", "pod.hostler", "NXDOMAIN")
	leads("db", "web.hostler", address["web"])

	t.Run("a link that is planted", func(t *testing.T) {
		w.must(t, "ct", "stop", "edge-01/web", "--grace", "1s")
		target, resolver := h.path("target"), filepath.Join(h.path("lxc"), "web", "rootfs", "etc", "resolv.conf")
		if err := os.Remove(resolver); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, resolver); err != nil {
			t.Fatal(err)
		}
		w.must(t, "ct", "start", "edge-01/web")
		if _, err := os.Lstat(target); !os.IsNotExist(err) {
			t.Errorf("outside of the container is made %s: %v", target, err)
		}
		if got := asks("web", "cat", "/proc/self/mounts"); strings.Contains(got, "resolv.conf") {
			t.Errorf("a container with a link of its own has the mounts %s", got)
		}
		w.must(t, "ct", "stop", "edge-01/web", "--grace", "1s")
		if err := os.Remove(resolver); err != nil {
			t.Fatal(err)
		}
		w.must(t, "ct", "start", "edge-01/web")
		leads("web", "db.hostler", address["pod"])
	})

	servers := func() []int { return h.children(t, h.agent.cmd.Process.Pid, "dnsmasq") }
	first := servers()
	if len(first) != 4 {
		t.Fatalf("two networks have the servers of names and of DHCP %v", first)
	}
	for _, pid := range first {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	leads("db", "web.hostler", address["web"])
	leads("spy", "spy.hostler", address["spy"])
	says("spy", "lease of "+address["spy"]+" obtained", "udhcpc", "-i", "eth0", "-n", "-q", "-s", "/bin/true")
	last := servers()
	if slices.ContainsFunc(last, func(pid int) bool { return slices.Contains(first, pid) }) {
		t.Errorf("the servers %v were killed, and are %v", first, last)
	}
	h.agent.end(t, syscall.SIGKILL)
	for _, pid := range last {
		for end := time.Now().Add(patience); ; elapse(t, 10*time.Millisecond) {
			stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			if err != nil || strings.Contains(string(stat), ") Z ") {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("server %d goes on after the agent was killed", pid)
			}
		}
	}
	if r := w.start(t, "hostler-agent", "--config", h.config(), "fsck").finish(t); strings.Contains(r.stdout, "dnsmasq") || strings.Contains(r.stdout, "names") {
		t.Errorf("fsck says %s%s", r.stdout, r.stderr)
	}
	h.start(t)
	leads("db", "web.hostler", address["web"])
	for _, name := range []string{"web", "db", "spy"} {
		w.must(t, "ct", "rm", "edge-01/"+name, "--yes")
	}
}
