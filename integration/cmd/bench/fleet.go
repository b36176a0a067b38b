package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	fleetName = "bench"
	hostName  = "edge-01"
	container = "web"

	// patience is how long each step of bringing up and taking down may take.
	patience = 30 * time.Second
	// glance is how often it is looked whether a step is done.
	glance = 20 * time.Millisecond
)

// fleet is a coordinator and one host, with everything that belongs to them.
type fleet struct {
	bin, dir   string
	http, mqtt string // addresses
	bridge     string
	token      string // of an admin
	code       string // of the fleet
	daemons    []*exec.Cmd
	podman     bool // the host has podman, too
	// What is added to the files of the coordinator, and of each host.
	coordinatorToo, hostToo string
	unique                  bool // each host that is made known holds unique work

	coordinator, agent int // process ids
}

// newFleet prepares the directory of a fleet; close removes it.
func newFleet(bin string) (*fleet, error) {
	for _, p := range []string{"hostler", "hostler-agent", "hostler-coordinator", "hostler-run", "hostler-lxc"} {
		if _, err := os.Stat(filepath.Join(bin, p)); err != nil {
			return nil, fmt.Errorf("looking for the built programs: %w", err)
		}
	}
	// A short path: it becomes a part of those of unix sockets.
	dir, err := os.MkdirTemp("/tmp", "hb-")
	if err == nil {
		err = os.Chmod(dir, 0o711) // containers' own users pass through it
	}
	if err != nil {
		return nil, err
	}
	return &fleet{bin: bin, dir: dir, bridge: "hb" + strconv.Itoa(os.Getpid()%1e9)}, nil
}

func (f *fleet) path(name string) string { return filepath.Join(f.dir, name) }
func (f *fleet) secondBridge() string    { return f.bridge + "b" }
func (f *fleet) url() string             { return "https://" + f.http }
func (f *fleet) ca() string              { return f.path("coordinator/ca.crt") }

// command is one of the programs, with nothing of the user's own environment.
func (f *fleet) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(f.bin, program), args...)
	cmd.Dir = f.dir
	cmd.Env = []string{
		"PATH=" + f.bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + f.dir, "XDG_CONFIG_HOME=" + f.path("operator"), "LC_ALL=C",
	}
	// A Ctrl-C at the terminal is for this program, which then ends the others.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 2 * time.Second // whoever inherits an output does not hold up the end
	return cmd
}

// must runs a program, which has to succeed, and returns what it printed.
func (f *fleet) must(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out, talk bytes.Buffer
	cmd := f.command(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %q: %w: %s", program, args, err, bytes.TrimSpace(talk.Bytes()))
	}
	return out.String(), nil
}

// spawn starts a program that goes on until close; its outputs go to NAME.log.
func (f *fleet) spawn(name, program string, args ...string) (*exec.Cmd, error) {
	cmd := f.command(context.Background(), program, args...)
	return cmd, f.run(name, cmd)
}

// run is spawn for a command that is made already.
func (f *fleet) run(name string, cmd *exec.Cmd) error {
	log, err := os.OpenFile(f.path(name+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the program has its own descriptor
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	f.daemons = append(f.daemons, cmd)
	return nil
}

// start brings the fleet up, with the commands that a user types.
func (f *fleet) start(ctx context.Context) error {
	if err := f.configure(); err != nil {
		return err
	}
	if err := f.initCoordinator(ctx); err != nil {
		return err
	}
	if err := f.startCoordinator(ctx); err != nil {
		return err
	}
	if _, err := f.must(ctx, "hostler", "login", f.url(), "--token", f.token, "--ca", f.ca()); err != nil {
		return err
	}
	agent, err := f.addHost(ctx, hostName, f.bridge)
	if err == nil {
		f.agent = agent.Process.Pid
	}
	return err
}

func (f *fleet) configure() (err error) {
	if f.http, err = freeAddress(); err != nil {
		return err
	}
	if f.mqtt, err = freeAddress(); err != nil {
		return err
	}
	for _, d := range []string{"operator", "coordinator"} {
		if err := os.Mkdir(f.path(d), 0o711); err != nil {
			return err
		}
	}
	co := fmt.Sprintf("state_dir = %q\n[http]\nlisten = %q\n[mqtt]\nlisten = %q\n", f.path("coordinator"), f.http, f.mqtt)
	return os.WriteFile(f.path("coordinator.toml"), []byte(co+f.coordinatorToo), 0o600)
}

// configureHost writes the file of a host, whose network is a bridge of its own.
func (f *fleet) configureHost(name, bridge string) error {
	subnet, err := freeSubnet()
	if err != nil {
		return err
	}
	dir := f.path(name)
	if err := os.Mkdir(dir, 0o711); err != nil {
		return err
	}
	agent := fmt.Sprintf("host = %q\nstate_dir = %q\nsocket = %q\n[lxc]\npath = %q\n[network]\nbridge = %q\nsubnet = %q\n",
		name, dir, dir+"/agent.sock", dir+"/lxc", bridge, subnet)
	if f.podman {
		agent += fmt.Sprintf("[podman]\nuse = \"on\"\nsocket = %q\n", f.podmanSocket())
	}
	return os.WriteFile(f.hostConfig(name), []byte(agent+f.hostToo), 0o600)
}

func (f *fleet) hostConfig(name string) string { return f.path(name + ".toml") }

// initCoordinator makes the fleet and a coordinator that is part of it.
func (f *fleet) initCoordinator(ctx context.Context) error {
	config := []string{"--config", f.path("coordinator.toml")}
	made, err := f.must(ctx, "hostler", "fleet", "init", fleetName)
	if err != nil {
		return err
	}
	f.code, _ = field(made, "code")
	made, err = f.must(ctx, "hostler-coordinator", append(config, "init", "--fleet", f.code)...)
	if err != nil {
		return err
	}
	f.token, _ = field(made, "token")
	request, _ := field(made, "request")
	if _, err := f.must(ctx, "hostler", "fleet", "ring", "add-coordinator", request, "--out", f.path("ring-2")); err != nil {
		return err
	}
	_, err = f.must(ctx, "hostler-coordinator", append(config, "init", "--ring", f.path("ring-2"))...)
	return err
}

func (f *fleet) startCoordinator(ctx context.Context) error {
	cmd, err := f.spawn("coordinator", "hostler-coordinator", "--config", f.path("coordinator.toml"), "run")
	if err != nil {
		return err
	}
	f.coordinator = cmd.Process.Pid
	return until(ctx, "the coordinator answers", func() bool {
		p, err := newProbe(f.url(), f.ca(), f.token)
		if err != nil {
			return false
		}
		_, err = p.call(ctx, "GET", "/readyz", nil)
		p.client.CloseIdleConnections()
		return err == nil
	})
}

// addHost makes a host, lets it in and runs its agent.
func (f *fleet) addHost(ctx context.Context, name, bridge string) (agent *exec.Cmd, err error) {
	if err := f.configureHost(name, bridge); err != nil {
		return nil, err
	}
	line, err := f.must(ctx, "hostler", "host", "invite")
	if err != nil {
		return nil, err
	}
	invitation := strings.Fields(line)
	if len(invitation) == 0 {
		return nil, errors.New("host invite printed nothing")
	}
	join, err := f.spawn("join-"+name, "hostler-agent", "--config", f.hostConfig(name), "join", invitation[len(invitation)-1])
	if err != nil {
		return nil, err
	}
	if err := f.approve(ctx, name); err != nil {
		return nil, err
	}
	if err := join.Wait(); err != nil {
		return nil, fmt.Errorf("joining: %w", err)
	}
	if agent, err = f.spawnAgent(name); err != nil {
		return nil, err
	}
	return agent, f.online(ctx, name)
}

// spawnAgent starts the agent of a host that has joined.
func (f *fleet) spawnAgent(name string) (*exec.Cmd, error) {
	return f.spawn("agent-"+name, "hostler-agent", "--config", f.hostConfig(name), "run")
}

func (f *fleet) online(ctx context.Context, name string) error {
	return until(ctx, name+" is online", func() bool {
		var h struct{ Connectivity string }
		out, err := f.must(ctx, "hostler", "host", "show", name, "-o", "json")
		return err == nil && json.Unmarshal([]byte(out), &h) == nil && h.Connectivity == "online"
	})
}

// runAgent starts the agent of the first host again.
func (f *fleet) runAgent() error {
	cmd, err := f.spawnAgent(hostName)
	if err != nil {
		return err
	}
	f.agent = cmd.Process.Pid
	return nil
}

// endAgent kills the agent, as a power failure does.
func (f *fleet) endAgent() error {
	for _, d := range f.daemons {
		if d.Process.Pid == f.agent {
			_ = d.Process.Kill() // it may have ended
			_ = d.Wait()         // killed
			return nil
		}
	}
	return errors.New("the fleet has no agent")
}

// approve waits for the words on the host's screen and lets it in.
func (f *fleet) approve(ctx context.Context, host string) error {
	var words string
	if err := until(ctx, "the host shows its words", func() bool {
		b, _ := os.ReadFile(f.path("join-" + host + ".log")) // it may not be there yet
		var whole bool
		words, whole = field(string(b), "words")
		return whole
	}); err != nil {
		return err
	}
	var refusal error
	if err := until(ctx, "the host is approved", func() bool {
		_, refusal = f.must(ctx, "hostler", "host", "approve", host, "--words", words)
		return refusal == nil
	}); err != nil {
		return errors.Join(err, refusal)
	}
	return nil
}

// agentMetrics asks the agent through its socket.
func (f *fleet) agentMetrics(ctx context.Context) ([]byte, error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", f.path(hostName+"/agent.sock"))
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the agent answers %s", resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, 1<<20))
}

// field is the value of a whole line "name: value".
func field(text, name string) (string, bool) {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v), strings.HasSuffix(line, "\n")
		}
	}
	return "", false
}

// until returns when ok is true.
func until(ctx context.Context, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !ok() {
		if err := pause(ctx, glance); err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// freeAddress is an address on loopback that nobody uses, outside of the range
// that the kernel gives to connections.
func freeAddress() (string, error) {
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(20000+rand.IntN(10000)))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", errors.New("found no free port")
}

// freeSubnet is a /24 that no interface of this machine knows.
func freeSubnet() (netip.Prefix, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Prefix{}, err
	}
	for {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(64 + rand.IntN(128)), byte(rand.IntN(256)), 0}), 24)
		if !slices.ContainsFunc(addrs, func(a net.Addr) bool {
			q, err := netip.ParsePrefix(a.String())
			return err == nil && q.Overlaps(p)
		}) {
			return p, nil
		}
	}
}

// tellLogs shows the end of what the daemons said.
func (f *fleet) tellLogs(w io.Writer) {
	logs, _ := filepath.Glob(f.path("*.log"))
	for _, name := range logs {
		if b, err := os.ReadFile(name); err == nil && len(b) > 0 {
			fmt.Fprintf(w, "--- the end of %s\n%s", filepath.Base(name), b[max(0, len(b)-2000):])
		}
	}
}

// close takes everything down. It asks nobody's help, as the run may have
// failed anywhere, and goes on over its own failures.
func (f *fleet) close(ctx context.Context) error {
	for _, d := range slices.Backward(f.daemons) {
		if d.ProcessState == nil {
			_ = d.Process.Kill()
			_ = d.Wait()
		}
	}
	containers, _ := filepath.Glob(f.path("*/lxc/*"))
	for _, c := range containers {
		_ = exec.CommandContext(ctx, "lxc-stop", "-P", filepath.Dir(c), "-n", filepath.Base(c), "-k").Run() // it may not run
	}
	f.killLeaves()
	var err error
	if f.podman {
		err = f.closePodman(ctx)
	}
	err = errors.Join(err, until(ctx, "all processes of the fleet are gone", func() bool {
		left := f.relatives()
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
		}
		return len(left) == 0
	}))
	for _, bridge := range []string{f.bridge, f.secondBridge()} {
		if _, missing := net.InterfaceByName(bridge); missing == nil {
			err = errors.Join(err, exec.CommandContext(ctx, "ip", "link", "delete", bridge).Run())
		}
	}
	return errors.Join(err, os.RemoveAll(f.dir))
}

// killLeaves ends the commands that are under way, by their control groups.
func (f *fleet) killLeaves() {
	_ = filepath.WalkDir(f.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "start.json" {
			return nil
		}
		var start struct{ Leaf string }
		if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, &start) == nil && start.Leaf != "" {
			_ = os.WriteFile(filepath.Join(start.Leaf, "cgroup.kill"), []byte("1"), 0) // it may be gone
		}
		return nil
	})
}

// relatives are the processes of this machine that have the directory of the
// fleet in their command lines.
func (f *fleet) relatives() []int {
	var found []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		b, err := os.ReadFile(d + "/cmdline")
		if err != nil || !bytes.Contains(b, []byte(f.dir)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil && pid != os.Getpid() {
			found = append(found, pid)
		}
	}
	return found
}
