//go:build linux && cgo

// The tests of this file use LXC itself: they need root, liblxc with its
// development files, its busybox template and lxc-monitor.

package lxc_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/image"
	"github.com/hostler-io/hostler/internal/builttest"
	"github.com/hostler-io/hostler/lxc"
	"github.com/hostler-io/hostler/lxc/internal/wire"
	"github.com/hostler-io/hostler/network"
	"github.com/hostler-io/hostler/runner/rundir"
)

// machines counts the machines of this process, and places holds the numbers that
// none of those in use has: sixteen networks of 16 addresses find room in one of 256.
var (
	machines atomic.Uint32
	places   = func() chan byte {
		free := make(chan byte, 16)
		for n := range byte(16) {
			free <- n
		}
		return free
	}()
)

// ownNetwork returns the number of a machine of this process, and the name of a
// bridge and a network that nobody else has until the test ends: not even the same
// tests in another process. It waits while sixteen machines exist.
func ownNetwork(t *testing.T) (n uint32, bridge string, prefix netip.Prefix) {
	t.Helper()
	place, pid := <-places, os.Getpid()
	t.Cleanup(func() { places <- place })
	base := netip.AddrFrom4([4]byte{10, 208 + byte(pid>>8)&15, byte(pid), place << 4})
	return machines.Add(1), fmt.Sprintf("hlt%d-%d", pid, place), netip.PrefixFrom(base, 28)
}

// machine is LXC on this machine with a directory of its own.
type machine struct {
	*lxc.Runtime
	cfg    lxc.Config
	prefix string // of the names of its containers, and of nobody else's
	specs  func() container.CreateSpec
}

func newMachine(t *testing.T, change func(*lxc.Config)) *machine {
	t.Helper()
	helper := builttest.Program(t, "hostler-lxc")
	// Not t.TempDir: its length would not fit into liblxc's socket names.
	dir, err := os.MkdirTemp("", "hlt")
	if err == nil {
		err = os.Chmod(dir, 0o711) // as of /var/lib/lxc: containers' own users pass through it
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg := lxc.Config{Helper: helper, LXCPath: filepath.Join(dir, "lxc"), LockDir: filepath.Join(dir, "ct"), Log: testLog(t)}
	if change != nil {
		change(&cfg)
	}
	r, err := lxc.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{Runtime: r, cfg: cfg, prefix: filepath.Base(dir)}
	m.specs = specSource(t, m.prefix)
	t.Cleanup(func() { m.remove(t, dir) })
	return m
}

// remove takes away everything, whatever state the test left it in.
func (m *machine) remove(t *testing.T, dir string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	infos, err := m.List(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, info := range infos {
		if _, err := m.Stop(ctx, info.Name, 0); err != nil {
			t.Error(err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
	// What liblxc keeps of a directory in /run.
	for _, litter := range []string{filepath.Join("/run/lxc/lock", dir), filepath.Join("/run/lxc", dir)} {
		if err := os.RemoveAll(litter); err != nil {
			t.Error(err)
		}
	}
	if left := cgroups(t, m.prefix); len(left) > 0 {
		t.Errorf("cgroups are left: %q", left)
	}
}

// specSource returns specifications that nobody else uses: the names carry the
// prefix and a number, and the cgroups are named after them.
func specSource(t *testing.T, prefix string) func() container.CreateSpec {
	t.Helper()
	machine, bridge, subnet := ownNetwork(t)
	if err := network.EnsureBridge(network.BridgeConfig{Name: bridge, Address: container.Gateway(subnet)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.RemoveBridge(bridge); err != nil {
			t.Error(err)
		}
	})
	var mu sync.Mutex
	var used []netip.Addr
	return func() container.CreateSpec {
		mu.Lock()
		defer mu.Unlock()
		a, err := container.Allocate(subnet, used)
		if err != nil {
			t.Error(err)
		}
		used = append(used, a)
		id := container.CTID(fmt.Sprintf("00000000-0000-4000-8000-%06x%03x%03x", os.Getpid(), machine, len(used)))
		return container.CreateSpec{
			Name: fmt.Sprintf("%s-%d", prefix, len(used)), CTID: id, Template: "busybox",
			Network: container.Network{
				Bridge: bridge, Address: netip.PrefixFrom(a, subnet.Bits()),
				Gateway: container.Gateway(subnet).Addr(), MAC: container.MAC(id),
			},
		}
	}
}

// cgroups returns the cgroup directories of any family that belong to the
// container of that name, or to all whose names have it as their prefix.
func cgroups(t *testing.T, name string) (found []string) {
	t.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup/lxc.*", "/sys/fs/cgroup/*/lxc.*"} {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range dirs {
			_, of, _ := strings.Cut(strings.TrimPrefix(filepath.Base(d), "lxc."), ".")
			if of == name || strings.HasPrefix(of, name+"-") {
				found = append(found, d)
			}
		}
	}
	return found
}

func (m *machine) create(t *testing.T) container.CreateSpec {
	t.Helper()
	spec := m.specs()
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func (m *machine) start(t *testing.T, name string) container.Info {
	t.Helper()
	if _, err := m.Start(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	info, err := m.Inspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func killInit(t *testing.T, r container.Runtime, name string) {
	t.Helper()
	info, err := r.Inspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(info.InitPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	containertest.Run(t, func(t *testing.T) containertest.Subject {
		images, err := image.Open(image.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		m := newMachine(t, func(c *lxc.Config) { c.Images = images })
		return containertest.Subject{
			Runtime: m.Runtime, Spec: m.specs,
			Kill: func(t *testing.T, name string) { killInit(t, m, name) },
			ByHand: func(t *testing.T, name string) error {
				return exec.CommandContext(context.WithoutCancel(t.Context()), "lxc-start", "-P", m.cfg.LXCPath, "-n", name).Run()
			},
			Print:   func(t *testing.T, name, line string) { printTo(t, m, name, line) },
			Foreign: func(t *testing.T) string { return m.foreign(t) },
		}
	})
}

// printTo prints a line on the console of a container.
func printTo(t *testing.T, m *machine, name, line string) {
	t.Helper()
	info, err := m.Inspect(context.WithoutCancel(t.Context()), name)
	if err == nil {
		err = os.WriteFile(fmt.Sprintf("/proc/%d/root/dev/console", info.InitPID), []byte(line+"\n"), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestProbe(t *testing.T) {
	m := newMachine(t, nil)
	if err := m.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	if v, err := m.Version(t.Context()); err != nil || v == "" {
		t.Errorf("Version = %q, %v", v, err)
	}
}

// TestCallerStaysInItsCgroup: liblxc's start moves its caller, which must not
// be the agent.
func TestCallerStaysInItsCgroup(t *testing.T) {
	m := newMachine(t, nil)
	before, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	spec := m.create(t)
	for range 3 {
		m.start(t, spec.Name)
		after, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			t.Fatal(err)
		}
		if string(before) != string(after) {
			t.Fatalf("start moved us from\n%s to\n%s", before, after)
		}
		if _, err := m.Stop(t.Context(), spec.Name, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoCgroupIsLeft: not one monitor cgroup per start, and none at all at the end.
func TestNoCgroupIsLeft(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.create(t)
	for range 3 {
		m.start(t, spec.Name)
		for _, d := range cgroups(t, spec.Name) {
			if base := filepath.Base(d); base != "lxc.monitor."+spec.Name && base != "lxc.payload."+spec.Name {
				t.Errorf("unexpected cgroup %s", d)
			}
		}
		if _, err := m.Stop(t.Context(), spec.Name, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Destroy(t.Context(), spec.Name); err != nil {
		t.Fatal(err)
	}
	if left := cgroups(t, spec.Name); len(left) > 0 {
		t.Errorf("cgroups are left: %q", left)
	}
}

// TestOldCgroupsAreSwept: whatever operation comes next removes what a killed one
// has left.
func TestOldCgroupsAreSwept(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.create(t)
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"start", func() error { _, err := m.Start(t.Context(), spec.Name); return err }},
		{"stop", func() error { _, err := m.Stop(t.Context(), spec.Name, 0); return err }},
		{"destroy", func() error { return m.Destroy(t.Context(), spec.Name) }},
	} {
		litter := "/sys/fs/cgroup/unified/lxc.monitor." + spec.Name + "-7"
		if _, err := os.Stat("/sys/fs/cgroup/unified"); err != nil { // cgroup2 alone
			litter = "/sys/fs/cgroup/lxc.monitor." + spec.Name + "-7"
		}
		if err := os.Mkdir(litter, 0o755); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Hour)
		if err := errors.Join(os.Chtimes(litter, old, old), step.do()); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(litter); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s left %s (%v)", step.name, litter, err)
		}
	}
}

// TestLockEndsWithTheOperation: the container's monitor, which lives on, must
// not have inherited the lock.
func TestLockEndsWithTheOperation(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.create(t)
	m.start(t, spec.Name)
	path := filepath.Join(m.cfg.LockDir, string(spec.CTID)+".lock")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatalf("the lock of a running container: %v", err)
	}
	// Now we are the operation in progress.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // three quarters of which it waits for the lock
	defer cancel()
	if _, err := m.Stop(ctx, spec.Name, 0); !errors.Is(err, container.ErrBusy) {
		t.Errorf("Stop while another operation runs = %v, want ErrBusy", err)
	}
	if info, err := m.Inspect(t.Context(), spec.Name); err != nil || info.State != container.StateRunning {
		t.Errorf("Inspect, which changes nothing, = %v, %v; want it to run", info, err)
	}
}

func TestNetwork(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.create(t)
	m.start(t, spec.Name)
	// A refused connection is an answer from the container itself.
	address := net.JoinHostPort(spec.Network.Address.Addr().String(), "9")
	conn, err := net.DialTimeout("tcp", address, time.Minute)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting to the container = %v, want it to refuse", err)
	}
}

// TestStopCountsGraceInMilliseconds: busybox' init takes two seconds to shut
// down, which is longer than this grace.
func TestStopCountsGraceInMilliseconds(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.create(t)
	m.start(t, spec.Name)
	const grace = 400 * time.Millisecond
	quickest := time.Hour
	for range 20 {
		begin := time.Now()
		if _, err := m.Stop(t.Context(), spec.Name, grace); err != nil {
			t.Fatal(err)
		}
		took := time.Since(begin)
		if took < grace {
			t.Errorf("Stop with a grace of %v took %v", grace, took)
		}
		if quickest = min(quickest, took); quickest < grace+1200*time.Millisecond {
			return
		}
		m.start(t, spec.Name)
	}
	t.Errorf("Stop with a grace of %v took %v at least", grace, quickest)
}

// freeze freezes a container. liblxc asks the kernel once, which does not freeze who
// is just being forked, and waits for ever: then it is asked again.
func (m *machine) freeze(t *testing.T, name string) {
	t.Helper()
	for range 12 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		out, err := exec.CommandContext(ctx, "lxc-freeze", "-P", m.cfg.LXCPath, "-n", name).CombinedOutput()
		hung := ctx.Err() != nil
		cancel()
		if err == nil {
			return
		}
		if !hung {
			t.Fatalf("%v: %s", err, out)
		}
	}
	t.Fatalf("%s cannot be frozen", name)
}

func TestFrozen(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.create(t)
	m.start(t, spec.Name)
	m.freeze(t, spec.Name)
	if info, err := m.Inspect(t.Context(), spec.Name); err != nil || info.State != container.StateFrozen {
		t.Errorf("Inspect = %+v, %v; want frozen", info, err)
	}
	if _, err := m.Exec(t.Context(), spec.Name); !errors.Is(err, container.ErrNotRunning) {
		t.Errorf("Exec in what is frozen = %v, want ErrNotRunning", err)
	}
	if info := m.start(t, spec.Name); info.State != container.StateRunning {
		t.Errorf("Start left it %v", info.State)
	}
	m.freeze(t, spec.Name)
	begin := time.Now()
	if _, err := m.Stop(t.Context(), spec.Name, time.Minute); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took >= time.Minute {
		t.Errorf("Stop of what is frozen took %v, all of its grace", took)
	}
}

// TestInterruptedCreate: whatever the moment at which a creation is killed, it
// can be made again, and until then the container is not there.
func TestInterruptedCreate(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.specs()
	interrupted := 0
	for delay := 10 * time.Millisecond; delay < 400*time.Millisecond; delay += 45 * time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), delay)
		err := m.Create(ctx, spec)
		cancel()
		if err == nil {
			if err := m.Destroy(t.Context(), spec.Name); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if !errors.Is(err, container.ErrTimeout) {
			t.Fatalf("Create cut after %v = %v, want ErrTimeout", delay, err)
		}
		interrupted++
		if _, err := m.Start(t.Context(), spec.Name); !errors.Is(err, container.ErrNotFound) {
			t.Errorf("Start of what was cut after %v = %v, want ErrNotFound", delay, err)
		}
		if infos, err := m.List(t.Context()); err != nil || len(infos) != 0 {
			t.Errorf("List after a cut at %v = %+v, %v", delay, infos, err)
		}
	}
	if interrupted == 0 {
		t.Error("no creation was interrupted")
	}
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	m.start(t, spec.Name)
	entries, err := os.ReadDir(m.cfg.LXCPath)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v; want one container", entries, err)
	}
}

// TestDebrisIsDestroyed: what an interrupted operation left can be removed
// without making it again.
func TestDebrisIsDestroyed(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.create(t)
	path := filepath.Join(m.cfg.LXCPath, spec.Name, "hostler.json")
	raw, err := os.ReadFile(path)
	if err == nil {
		raw, err = rundir.CheckSum(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	as := func(state string) []byte {
		return rundir.AppendSum(bytes.Replace(raw, []byte("ready"), []byte(state), 1))
	}
	for _, state := range []string{"creating", "destroying"} {
		if err := os.WriteFile(path, as(state), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := m.Create(t.Context(), spec); err != nil {
			t.Errorf("Create over what is %s: %v", state, err)
		}
	}
	if err := os.WriteFile(path, as("creating"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.Destroy(t.Context(), spec.Name); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(m.cfg.LXCPath)
	if err != nil || len(entries) != 0 {
		t.Errorf("the directory holds %v, %v; want nothing", entries, err)
	}
}

// foreign makes a container by LXC's own program, which LXC's service would start.
func (m *machine) foreign(t *testing.T) string {
	t.Helper()
	name := m.prefix + "-theirs"
	if err := os.MkdirAll(m.cfg.LXCPath, 0o711); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("lxc-create", "-P", m.cfg.LXCPath, "-n", name, "-t", "busybox").CombinedOutput(); err != nil {
		t.Fatalf("lxc-create: %v: %s", err, out)
	}
	config := filepath.Join(m.cfg.LXCPath, name, "config")
	raw, err := os.ReadFile(config)
	if err == nil {
		err = os.WriteFile(config, append(withoutNetwork(raw), "lxc.start.auto = 1\n"...), 0o640)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// withoutNetwork is a configuration without the bridge of the installation, which need
// not be there.
func withoutNetwork(config []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(config) {
		if !bytes.HasPrefix(line, []byte("lxc.net.")) {
			kept = append(kept, line...)
		}
	}
	return append(kept, "lxc.net.0.type = empty\n"...)
}

// TestAdoptTakesAutostart: LXC's service no more starts what is adopted, and does again
// what is made foreign; nothing else of the configuration changes. What cannot be kept is
// refused, and nothing of it changes.
func TestAdoptTakesAutostart(t *testing.T) {
	m := newMachine(t, nil)
	name, id := m.foreign(t), m.specs().CTID
	config := filepath.Join(m.cfg.LXCPath, name, "config")
	raw, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	settings := func() (lines []string) {
		b, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
				lines = append(lines, strings.TrimSpace(key)+"="+strings.TrimSpace(value))
			}
		}
		slices.Sort(lines)
		return lines
	}
	before := settings()
	if _, err := m.Adopt(t.Context(), name, id); err != nil {
		t.Fatal(err)
	}
	after := settings()
	if i := slices.Index(after, "lxc.start.auto=0"); i < 0 {
		t.Errorf("LXC starts it by itself: %q", after)
	} else if after[i] = "lxc.start.auto=1"; !slices.Equal(after, before) {
		t.Errorf("its settings are %q, and were %q", after, before)
	}
	if err := m.Disown(t.Context(), name, id); err != nil || !slices.Equal(settings(), before) {
		t.Errorf("foreign again, it has %q, %v", settings(), err)
	}
	for line, want := range map[string]string{
		"lxc.rootfs.path = dir:/srv/elsewhere\n":                       "/srv/elsewhere",
		"lxc.idmap = u 0 900000 65536\n":                               "ids",
		"lxc.idmap = u 0 900000 1000\nlxc.idmap = u 1000 1000 1\n":     "ids",
		"lxc.idmap = u 0 900000 65536\nlxc.idmap = g 0 100000 65536\n": "ids",
	} {
		changed := append(slices.Clone(raw), line...)
		if err := os.WriteFile(config, changed, 0o640); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Adopt(t.Context(), name, id); !errors.Is(err, container.ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("with %q: %v", line, err)
		}
		if now, err := os.ReadFile(config); err != nil || !bytes.Equal(now, changed) {
			t.Errorf("with %q the configuration has changed, %v", line, err)
		}
	}
}

// TestForeign: a container that others made is listed, can be started and
// stopped, and is never destroyed, nor its name taken.
func TestForeign(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.create(t)
	if err := os.Remove(filepath.Join(m.cfg.LXCPath, spec.Name, "hostler.json")); err != nil {
		t.Fatal(err)
	}
	info, err := m.Inspect(t.Context(), spec.Name)
	if err != nil || info.CTID != "" {
		t.Errorf("Inspect = %+v, %v; want no CTID", info, err)
	}
	m.start(t, spec.Name)
	if _, err := m.Stop(t.Context(), spec.Name, 0); err != nil {
		t.Error(err)
	}
	if err := m.Destroy(t.Context(), spec.Name); !errors.Is(err, container.ErrUnsupported) {
		t.Errorf("Destroy = %v, want ErrUnsupported", err)
	}
	if err := m.Create(t.Context(), spec); !errors.Is(err, container.ErrExists) {
		t.Errorf("Create = %v, want ErrExists", err)
	}
}

func TestFailuresSayWhy(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.specs()
	spec.Template = "no-such-template"
	if err := m.Create(t.Context(), spec); !errors.Is(err, container.ErrUnsupported) || !strings.Contains(err.Error(), "lxc-no-such-template is not installed") {
		t.Errorf("Create with a missing template = %v", err)
	}
	spec.Template = "local" // which fails without arguments of its own
	if err := m.Create(t.Context(), spec); err == nil {
		t.Error("Create succeeded although its template failed")
	}
	if entries, err := os.ReadDir(m.cfg.LXCPath); err != nil || len(entries) != 0 {
		t.Errorf("the failed creation left %v, %v", entries, err)
	}
	spec.Template, spec.Network.Bridge = "busybox", "hlt-missing"
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Start(t.Context(), spec.Name); err == nil || !strings.Contains(err.Error(), "hlt-missing") {
		t.Errorf("Start without its bridge = %v, want a word about hlt-missing", err)
	}
	if left := cgroups(t, spec.Name); len(left) > 0 {
		t.Errorf("the failed start left %q", left)
	}
}

// TestWatchSurvivesItsMonitor: when the monitor dies, it is replaced, and the
// watcher is told that it may have missed something.
func TestWatchSurvivesItsMonitor(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.create(t)
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan struct{})
	events := make(chan container.Event, 100)
	returned := make(chan error, 1)
	go func() {
		returned <- m.Watch(ctx, func() { close(ready) }, func(e container.Event) { events <- e })
	}()
	next := func(want container.Event) {
		t.Helper()
		for timeout := time.After(2 * time.Minute); ; {
			select {
			case e := <-events:
				if e == want {
					return
				}
			case err := <-returned:
				t.Fatalf("Watch ended: %v", err)
			case <-timeout:
				t.Fatalf("no event %+v", want)
			}
		}
	}
	select {
	case <-ready:
	case <-time.After(2 * time.Minute):
		t.Fatal("not ready")
	}
	for _, pid := range monitors(t, m.cfg.LXCPath) {
		// Without its daemon, a monitor ends by itself.
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
	next(container.Event{})
	m.start(t, spec.Name)
	next(container.Event{Name: spec.Name, State: container.StateRunning})
	watching := pidfds(t, monitors(t, m.cfg.LXCPath))
	if len(watching) != 2 {
		t.Errorf("%d processes watch, want lxc-monitor and its daemon", len(watching))
	}
	cancel()
	if err := <-returned; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch = %v, want the cause of its context", err)
	}
	if ended(t, watching, len(watching)) < len(watching) {
		t.Errorf("processes %v still watch", monitors(t, m.cfg.LXCPath))
	}
}

// pidfds opens processes, until the end of the test.
func pidfds(t *testing.T, pids []int) (fds []int) {
	t.Helper()
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		fds = append(fds, fd)
	}
	return fds
}

// ended waits until so many of the processes have ended, and returns how many
// have. It waits for less than the half minute after which liblxc's daemon ends
// for want of clients.
func ended(t *testing.T, pidfds []int, want int) (n int) {
	t.Helper()
	deadline := time.Now().Add(25 * time.Second)
	for {
		var running []unix.PollFd
		for _, fd := range pidfds {
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if gone, err := unix.Poll(poll, 0); err != nil || gone == 0 {
				running = append(running, poll[0])
			}
		}
		n = len(pidfds) - len(running)
		left := time.Until(deadline)
		if n >= want || left <= 0 {
			return n
		}
		if _, err := unix.Poll(running, int(left.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
	}
}

// TestMonitorDiesWithTheAgent: an agent that is killed leaves no monitor behind.
func TestMonitorDiesWithTheAgent(t *testing.T) {
	m := newMachine(t, nil)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	agent := exec.Command(self, watcherArg, m.cfg.LXCPath)
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the agent said %q, %v", line, err)
	}
	watched := pidfds(t, monitors(t, m.cfg.LXCPath))
	if len(watched) != 2 {
		t.Errorf("%d processes watch, want lxc-monitor and its daemon", len(watched))
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait() // it was killed
	// The daemon ends by itself half a minute after its last client: hurry it.
	defer exec.Command("lxc-monitor", "-P", m.cfg.LXCPath, "-Q").Run()
	if ended(t, watched, 1) < 1 {
		t.Error("lxc-monitor outlived its agent")
	}
}

// TestHungContainerHidesNobody: a container whose monitor does not answer is
// listed as unknown, after a while, and the others are listed as they are.
func TestHungContainerHidesNobody(t *testing.T) {
	m := newMachine(t, func(c *lxc.Config) { c.Deadlines.Query = 10 * time.Second })
	hung, well := m.create(t), m.create(t)
	m.start(t, hung.Name)
	m.start(t, well.Name)
	info, err := m.Inspect(t.Context(), hung.Name)
	if err != nil {
		t.Fatal(err)
	}
	monitor := parent(t, info.InitPID)
	if err := syscall.Kill(monitor, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Kill(monitor, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	})
	infos, err := m.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]container.State{}
	for _, i := range infos {
		got[i.Name] = i.State
	}
	if got[hung.Name] != container.StateUnknown || got[well.Name] != container.StateRunning {
		t.Errorf("List = %v, want %s unknown and %s running", got, hung.Name, well.Name)
	}
	if infos[0].CTID != hung.CTID {
		t.Errorf("what is unknown lost its identity: %+v", infos[0])
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := m.Stop(ctx, hung.Name, 0); !errors.Is(err, container.ErrTimeout) {
		t.Errorf("Stop of what hangs = %v, want ErrTimeout", err)
	}

	// A helper whose agent is gone is killed by nobody: it does it itself.
	orphan := exec.Command(m.cfg.Helper, wire.OpStart)
	orphan.Stdin = strings.NewReader(fmt.Sprintf(`{"Version":%d,"LXCPath":%q,"LockDir":%q,"Timeout":%d,"Name":%q}`,
		wire.Version, m.cfg.LXCPath, m.cfg.LockDir, 100*time.Millisecond, hung.Name))
	orphan.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := orphan.Run(); orphan.ProcessState == nil || !killed(orphan.ProcessState) {
		t.Errorf("a hung helper without an agent ended with %v, want it to kill itself", err)
	}
}

func killed(s *os.ProcessState) bool {
	status, ok := s.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	var state string
	var ppid int
	if _, err := fmt.Sscan(rest, &state, &ppid); err != nil {
		t.Fatal(err)
	}
	return ppid
}

// monitors finds the living lxc-monitor and lxc-monitord of a directory.
func monitors(t *testing.T, lxcPath string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // it ended just now
		}
		args := strings.Split(string(raw), "\x00")
		if strings.HasPrefix(filepath.Base(args[0]), "lxc-monitor") && slices.Contains(args, lxcPath) {
			var pid int
			if _, err := fmt.Sscanf(file, "/proc/%d/", &pid); err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}
