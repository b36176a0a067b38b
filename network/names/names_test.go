package names_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/network"
	"github.com/hostler-io/hostler/network/names"
)

// These are the environment variables by which this program is a process that serves names
// until it is killed, for TestKilled.
const (
	ownDir     = "HOSTLER_NAMES_TEST_DIR"
	ownBridge  = "HOSTLER_NAMES_TEST_BRIDGE"
	ownAddress = "HOSTLER_NAMES_TEST_ADDRESS"
)

func TestMain(m *testing.M) {
	dir := os.Getenv(ownDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := names.New(dir, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err == nil {
		at := netip.MustParseAddr(os.Getenv(ownAddress))
		s.Serve([]names.Zone{{Bridge: os.Getenv(ownBridge), Addresses: []netip.Addr{at}, Alone: true, Hosts: []names.Host{web}}})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

var web = names.Host{Name: "web", Addresses: []netip.Addr{netip.MustParseAddr("10.9.9.2"), netip.MustParseAddr("fd09::2")}}

// reachable is a directory that every user of the machine reaches.
func reachable(t *testing.T) string {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "names")
}

func serve(t *testing.T) *names.Servers {
	t.Helper()
	s, err := names.New(reachable(t), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// plugged is a network with a namespace that is plugged into it.
type plugged struct {
	bridge  string
	address netip.Prefix // of the host
	pid     int          // in the namespace
}

func plug(t *testing.T, bridge string, address netip.Prefix) plugged {
	t.Helper()
	if err := network.EnsureBridge(network.BridgeConfig{Name: bridge, Address: address}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.RemoveBridge(bridge); err != nil {
			t.Error(err)
		}
	})
	cmd := exec.Command("sleep", "inf")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // nothing else ends it
		_ = cmd.Wait()
	})
	end := network.End{Address: netip.PrefixFrom(address.Addr().Next(), address.Bits()), Gateway: address.Addr()}
	if err := network.Connect(network.Cable{Name: bridge + "c", Bridge: bridge, Peer: "eth0", PID: cmd.Process.Pid}, end); err != nil {
		t.Fatal(err)
	}
	return plugged{bridge, address, cmd.Process.Pid}
}

// ask asks once for a name, from the namespace.
func (p plugged) ask(name string, at netip.Addr) string {
	out, _ := exec.Command("nsenter", "--net=/proc/"+strconv.Itoa(p.pid)+"/ns/net", "timeout", "3", "busybox", "nslookup", name, at.String()).CombinedOutput() // an answer says why it failed
	return string(out)
}

// patience is how long anything may take on a machine that has much else to do. Nothing is
// as slow unless it is wrong.
const patience = 2 * time.Minute

// soon looks again and again whether something is so.
func soon(is func() bool) bool {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !is(); <-tick.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// leads waits until a name leads to what is wanted.
func (p plugged) leads(t *testing.T, name, want string) {
	t.Helper()
	out := ""
	if !soon(func() bool {
		out = p.ask(name, p.address.Addr())
		return strings.Contains(out, want)
	}) {
		t.Errorf("%s leads to %s, want %s", name, out, want)
	}
}

// children are the processes of the program that a process has started.
func children(parent int) []string {
	out, _ := exec.Command("pgrep", "--parent", strconv.Itoa(parent), names.Program).Output() // it fails if there is none
	return strings.Fields(string(out))
}

func prefix(octet byte) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 200 + octet, byte(os.Getpid()), 1}), 24)
}

// TestServers asks real servers from a network namespace on their bridge. A change of names
// is followed by the same process, also one that takes the last away, and a server that is
// killed is back. It listens at the address of the bridge that it was given, and is not root.
func TestServers(t *testing.T) {
	bridge, address := fmt.Sprintf("hnm%d", os.Getpid()), prefix(1)
	s := serve(t)
	zone := func(hosts ...names.Host) []names.Zone {
		return []names.Zone{{Bridge: bridge, Addresses: []netip.Addr{address.Addr()}, Alone: true, Hosts: hosts}}
	}
	s.Serve(zone(web)) // before there is the bridge
	p := plug(t, bridge, address)
	p.leads(t, "web", "10.9.9.2")
	p.leads(t, "web.hostler", "10.9.9.2")
	p.leads(t, "web.hostler", "fd09::2")
	p.leads(t, "db.hostler", "NXDOMAIN")
	p.leads(t, "example.com", "REFUSED")
	first := children(os.Getpid())
	if len(first) != 1 {
		t.Fatalf("the servers are %q", first)
	}
	status, err := os.ReadFile("/proc/" + first[0] + "/status")
	if err != nil || strings.Contains(string(status), "Uid:\t0") || !strings.Contains(string(status), "CapEff:\t0000000000000400") {
		t.Errorf("the server has more power than to listen at a low port: %s, %v", status, err)
	}
	sockets, err := exec.Command("ss", "-Hlnup", "sport", "= 53").Output()
	for line := range strings.Lines(string(sockets)) {
		if strings.Contains(line, "pid="+first[0]+",") && !strings.Contains(line, address.Addr().String()+":53") {
			t.Errorf("the server listens elsewhere: %s", line)
		}
	}
	if err != nil {
		t.Error(err)
	}
	db := names.Host{Name: "db", Addresses: []netip.Addr{netip.MustParseAddr("10.9.9.3")}}
	s.Serve(zone(web, db))
	p.leads(t, "db", "10.9.9.3")
	if who, err := network.Namer(address.Addr()); err != nil || !strings.Contains(who, names.Program+", process "+first[0]) {
		t.Errorf("names are served by %q, %v", who, err)
	}
	for _, protocol := range []string{"udp", "tcp"} {
		if who, err := network.Listener(protocol, 53, address.Addr()); err != nil || strings.Contains(who, first[0]) {
			t.Errorf("at other addresses, port 53/%s is that of %q, %v", protocol, who, err)
		}
	}
	s.Serve(zone(db))
	p.leads(t, "web", "NXDOMAIN")
	s.Serve(zone())
	p.leads(t, "db", "NXDOMAIN")
	s.Serve(zone(web))
	if got := children(os.Getpid()); !slices.Equal(got, first) {
		t.Errorf("after changes of names, the servers are %q, were %q", got, first)
	}
	pid, err := strconv.Atoi(first[0])
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.leads(t, "web", "10.9.9.2")
	if problems := s.Problems(); len(problems) > 0 {
		t.Errorf("a server that is back is a problem: %v", problems)
	}
	s.Serve(nil)
	if got := children(os.Getpid()); len(got) != 0 {
		t.Errorf("servers are left: %q", got)
	}
}

// TestApart asks the server of one network from another, and for the names there.
func TestApart(t *testing.T) {
	s := serve(t)
	a, b := plug(t, fmt.Sprintf("hna%d", os.Getpid()), prefix(2)), plug(t, fmt.Sprintf("hnb%d", os.Getpid()), prefix(3))
	zone := func(p plugged, h names.Host) names.Zone {
		return names.Zone{Bridge: p.bridge, Addresses: []netip.Addr{p.address.Addr()}, Hosts: []names.Host{h}}
	}
	db := names.Host{Name: "db", Addresses: []netip.Addr{netip.MustParseAddr("10.9.9.3")}}
	s.Serve([]names.Zone{zone(a, web), zone(b, db)})
	a.leads(t, "web", "10.9.9.2")
	b.leads(t, "db", "10.9.9.3")
	rules := network.Rules{Mark: fmt.Sprintf("names%d", os.Getpid())}
	t.Cleanup(func() {
		if err := network.Apply(network.Rules{Mark: rules.Mark}); err != nil {
			t.Error(err)
		}
	})
	for _, p := range []plugged{a, b} {
		rules.Subnets = append(rules.Subnets, network.Subnet{Bridge: p.bridge, Network: p.address.Masked(), Names: []netip.Prefix{p.address}})
	}
	if err := network.Apply(rules); err != nil {
		t.Fatal(err)
	}
	a.leads(t, "web", "10.9.9.2")
	if got := a.ask("db.hostler", b.address.Addr()); strings.Contains(got, "10.9.9.3") || !strings.Contains(got, "timed out") && got != "" {
		t.Errorf("from the network of web, the server of db answers: %s", got)
	}
	a.leads(t, "db.hostler", "NXDOMAIN")
}

// TestReachable: what servers and containers read is readable, whatever the umask, and a
// directory that keeps them from it is told.
func TestReachable(t *testing.T) {
	dir := reachable(t)
	before := syscall.Umask(0o077)
	defer syscall.Umask(before)
	path, err := names.Resolver(dir, "br", "nameserver 192.0.2.1\n")
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]os.FileMode{path: 0o644, filepath.Dir(path): 0o755, dir: 0o755} {
		if i, err := os.Stat(p); err != nil || i.Mode().Perm() != want {
			t.Errorf("%s has the mode %v, %v, want %v", p, i.Mode(), err, want)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := names.Resolver(dir, "br", "nameserver 192.0.2.2\n"); !errors.Is(err, names.ErrUnreachable) || !strings.Contains(err.Error(), "chmod o+x "+dir) {
		t.Errorf("in a directory that only its owner may pass: %v", err)
	}
}

// TestProblem: a server that cannot stay alive is a problem, which says why, until its
// network is not served any more.
func TestProblem(t *testing.T) {
	s := serve(t)
	pid := os.Getpid() // others may run this test at the same time
	at := netip.AddrFrom4([4]byte{127, 98, byte(pid >> 8), byte(pid)})
	holder, err := net.ListenPacket("udp", netip.AddrPortFrom(at, 53).String())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	s.Serve([]names.Zone{{Bridge: "lo", Addresses: []netip.Addr{at}}})
	var all []names.Problem
	soon(func() bool {
		all = s.Problems()
		return len(all) > 0
	})
	if len(all) != 1 || all[0].Bridge != "lo" || !strings.Contains(all[0].Cause, "in use") {
		t.Errorf("the problems are %v", all)
	}
	s.Serve(nil)
	if all := s.Problems(); len(all) > 0 {
		t.Errorf("what is not served is a problem: %v", all)
	}
}

// TestKilled kills a process that serves names: it leaves no server behind, and none of the
// processes that a server has for connections.
func TestKilled(t *testing.T) {
	p := plug(t, fmt.Sprintf("hnk%d", os.Getpid()), prefix(4))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ownDir+"="+reachable(t), ownBridge+"="+p.bridge, ownAddress+"="+p.address.Addr().String())
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the test has done so, unless it failed
		_ = cmd.Wait()
	})
	var left []string
	soon(func() bool {
		left = children(cmd.Process.Pid)
		return len(left) > 0
	})
	if len(left) != 1 {
		t.Fatalf("the servers are %q", left)
	}
	server, err := strconv.Atoi(left[0])
	if err != nil {
		t.Fatal(err)
	}
	p.leads(t, "web", "10.9.9.2")
	c := exec.Command("nsenter", "--net=/proc/"+strconv.Itoa(p.pid)+"/ns/net", "busybox", "nc", p.address.Addr().String(), "53")
	if _, err := c.StdinPipe(); err != nil { // it is open until the end
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()
	})
	soon(func() bool { return len(children(server)) > 0 })
	left = append(left, children(server)...)
	if err := cmd.Process.Kill(); err != nil || len(left) != 2 {
		t.Fatalf("the server and its processes are %q, %v", left, err)
	}
	_ = cmd.Wait() // it was killed
	for _, pid := range left {
		if !soon(func() bool {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			return err != nil || strings.Contains(string(stat), ") Z ") || !strings.Contains(string(stat), "("+names.Program+")")
		}) {
			t.Errorf("process %s serves names after the end of the process that started it", pid)
		}
	}
}
