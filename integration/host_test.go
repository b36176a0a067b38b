//go:build integration

package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

const (
	kill = syscall.SIGKILL
	term = syscall.SIGTERM
	hup  = syscall.SIGHUP
)

// host is a resource host with its agent.
type host struct {
	w      *world
	name   string
	dir    string // its state
	bin    string // its programs
	bridge string // none: it has no network for containers
	env    []string
	within []string // what its programs are started with; none: they are on the machine's network
	agent  *process
}

// newHost prepares a host that has not joined. With network it makes a bridge
// for its containers when the first one needs it. Without, it shares the bridge of the
// default with other hosts of the tests, so it leaves names to others there.
func (w *world) newHost(t testing.TB, name string, network bool) *host {
	t.Helper()
	h := &host{w: w, name: name, dir: w.path(name), bin: w.bin, env: w.env()}
	if err := os.MkdirAll(h.dir, 0o755); err != nil { // it may be a disk of its own
		t.Fatal(err)
	}
	config := fmt.Sprintf("host = %q\nstate_dir = %q\nsocket = %q\n[lxc]\npath = %q\n", name, h.dir, h.socket(), h.path("lxc"))
	if w.bin == programs(t) { // the previous release knows no such setting
		config += "rootfs = \"auto\"\n"
	}
	if network {
		h.bridge = fmt.Sprintf("hi%d", os.Getpid()%100000) + name[len(name)-1:] + w.dir[len(w.dir)-3:]
		config += fmt.Sprintf("[network]\nbridge = %q\nsubnet = %q\n", h.bridge, freeSubnet(t))
	}
	if !network {
		config += "[network]\nnames = false\n"
	}
	write(t, h.config(), config)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts = append(w.hosts, h)
	return h
}

func (h *host) path(name string) string { return filepath.Join(h.dir, name) }
func (h *host) socket() string          { return h.path("agent.sock") }
func (h *host) config() string          { return h.w.path(h.name + ".toml") }

// spawn runs hostler-agent with the host's configuration.
func (h *host) spawn(t testing.TB, name string, args ...string) *process {
	t.Helper()
	argv := append(slices.Clone(h.within), filepath.Join(h.bin, "hostler-agent"), "--config", h.config())
	return h.w.spawn(t, name, h.env, append(argv, args...)...)
}

// invite makes a join code.
func (w *world) invite(t testing.TB, args ...string) string {
	t.Helper()
	line := strings.Fields(w.must(t, append([]string{"host", "invite"}, args...)...))
	if len(line) != 3 || line[0] != "hostler-agent" || line[1] != "join" {
		t.Fatalf("host invite printed %q", line)
	}
	return line[2]
}

// join asks to be let in and returns when the host waits for approval, with the
// four words on its screen.
func (h *host) join(t testing.TB, code string) (*process, string) {
	t.Helper()
	from := h.w.events.mark()
	p := h.spawn(t, h.name+"-join", "join", code)
	p.says(t, p.out, "words:")
	h.w.event(t, from, h.name+" waits for approval", func(e api.Event) bool { return e.Type == "host.pending" && e.Host == h.name })
	until(t, &p.out.change, "the line with the words ends", func() bool {
		return strings.Contains(strings.Join(p.out.lines(), "\n")+"\n", "words:")
	})
	return p, field(t, p.out.String(), "words")
}

// addHost lets a host in and runs its agent.
func (w *world) addHost(t testing.TB, name string, network bool) *host {
	t.Helper()
	h := w.newHost(t, name, network)
	p, words := h.join(t, w.invite(t))
	w.must(t, "host", "approve", name, "--words", words)
	p.finish(t).exits(t, 0)
	h.start(t)
	return h
}

// start runs the agent and waits until the coordinator has its answer.
func (h *host) start(t testing.TB) {
	t.Helper()
	from := h.w.events.mark()
	h.startAlone(t)
	h.online(t, from)
}

// startAlone runs the agent and waits until it answers on its socket.
func (h *host) startAlone(t testing.TB) {
	t.Helper()
	h.agent = h.spawn(t, h.name, "run")
	h.agent.says(t, h.agent.talk, "serving")
}

// online waits until the host has come online since a position.
func (h *host) online(t testing.TB, from int) {
	t.Helper()
	h.w.event(t, from, h.name+" is online", func(e api.Event) bool { return e.Type == "host.online" && e.Host == h.name })
}

// restart ends the agent by a signal and runs it again.
func (h *host) restart(t testing.TB, sig syscall.Signal) {
	t.Helper()
	h.agent.end(t, sig)
	h.start(t)
}

// local runs hostler on the host itself, without a configuration.
func (h *host) local(t testing.TB, args ...string) result {
	t.Helper()
	env := append(h.w.env(), "XDG_CONFIG_HOME="+h.w.path("nobody"))
	argv := append([]string{filepath.Join(h.w.bin, "hostler"), "--socket", h.socket()}, args...)
	return h.w.spawn(t, "local", env, argv...).finish(t)
}

// get asks the agent on its socket.
func (h *host) get(t testing.TB, path string) string { t.Helper(); return get(t, h.socket(), path) }

// get asks an agent on its socket.
func get(t testing.TB, socket, path string) string {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}, Timeout: patience}
	resp, err := c.Get("http://agent" + path)
	if err != nil {
		t.Fatalf("asking %s: %v", socket, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s of %s: %s, %v: %s", path, socket, resp.Status, err, b)
	}
	return string(b)
}

// takeDown ends what the host has left, with nobody's help.
func (h *host) takeDown() {
	names, _ := os.ReadDir(h.path("lxc"))
	for _, n := range names {
		_ = exec.Command("lxc-stop", "-P", h.path("lxc"), "-n", n.Name(), "-k").Run() // it may not run
	}
	for pid, line := range h.w.relatives() {
		if strings.HasPrefix(line, "[lxc monitor] "+h.path("lxc")+" ") {
			h.w.awaitRelative(pid, line) // it takes its control groups along
		}
	}
	for _, leaf := range h.w.leaves() {
		_ = os.WriteFile(filepath.Join(leaf, "cgroup.kill"), []byte("1"), 0) // it may be gone
	}
}

func (h *host) dropBridge() {
	if h.bridge == "" {
		return
	}
	if _, err := net.InterfaceByName(h.bridge); err != nil {
		return // it was never made
	}
	if b, err := exec.Command("ip", "link", "delete", h.bridge).CombinedOutput(); err != nil {
		h.w.t.Errorf("deleting bridge %s: %v: %s", h.bridge, err, b)
	}
	h.dropRules()
}

// dropRules removes the packet filter's rules of the bridge, which name the addresses that
// a host of a later test may have.
func (h *host) dropRules() {
	table, _ := exec.Command("nft", "-a", "list", "table", "inet", "hostler").Output() // there may be none
	chain := ""
	for line := range strings.Lines(string(table)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "chain "); ok {
			chain = strings.Fields(name)[0]
		}
		if _, handle, ok := strings.Cut(line, "# handle "); ok && strings.Contains(line, " "+h.bridge+" ") {
			if b, err := exec.Command("nft", "delete", "rule", "inet", "hostler", chain, "handle", strings.TrimSpace(handle)).CombinedOutput(); err != nil {
				h.w.t.Errorf("deleting a rule of bridge %s: %v: %s", h.bridge, err, b)
			}
		}
	}
}

// children waits for children of a process whose command line holds a text.
func (h *host) children(t testing.TB, pid int, text string) (found []int) {
	t.Helper()
	for deadline := time.Now().Add(patience); len(found) == 0 && time.Now().Before(deadline); elapse(t, 20*time.Millisecond) {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, list := range lists {
			b, _ := os.ReadFile(list) // the thread may be gone
			for _, child := range strings.Fields(string(b)) {
				line, _ := os.ReadFile("/proc/" + child + "/cmdline")
				if n, err := strconv.Atoi(child); err == nil && strings.Contains(string(line), text) {
					found = append(found, n)
				}
			}
		}
	}
	return found
}
