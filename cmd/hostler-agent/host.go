package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/buildinfo"
	"github.com/hostler-io/hostler/internal/space"
	"github.com/hostler-io/hostler/network"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
	"github.com/hostler-io/hostler/protocol/limit"
	"github.com/hostler-io/hostler/runner/supervise"
)

// machine tells about this host. What does not change is read once, the table
// of interfaces at most every few seconds; the rest costs some microseconds.
type machine struct {
	stateDir    string
	fixed       protocol.HostInfo
	unsupported []string

	mu         sync.Mutex
	interfaces []protocol.Interface
	read       time.Time
}

// interfacesEvery is how long the table of interfaces is believed, if the kernel does not
// tell of a change before.
const interfacesEvery = 5 * time.Second

// relinked has the table of interfaces read anew.
func (m *machine) relinked() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read = time.Time{}
}

// watch tells of changes of links and addresses as the kernel does, until ctx ends. Where
// it cannot, the look every 30 s finds them.
func (m *machine) watch(ctx context.Context, changed func(context.Context) error, log *slog.Logger) error {
	err := network.Watch(ctx, func() {
		m.relinked()
		_ = changed(ctx) // an agent that ends tells nothing more
	})
	if err != nil && ctx.Err() == nil {
		log.Warn("changes of the network are found by looking alone", "error", err)
	}
	return nil
}

func newMachine(stateDir string, unsupported []string) *machine {
	m := &machine{stateDir: stateDir, unsupported: unsupported, fixed: protocol.HostInfo{
		Arch: runtime.GOARCH, InstanceType: instanceType(), Version: buildinfo.Version,
		Kernel: firstField(text("/proc/sys/kernel/osrelease")), CPUs: runtime.NumCPU(),
	}}
	m.fixed.MemoryBytes = meminfo("MemTotal:")
	return m
}

// info is what a heartbeat tells.
func (m *machine) info() protocol.HostInfo {
	i := m.fixed
	i.Hostname, _ = os.Hostname()
	i.MemoryFree = meminfo("MemAvailable:")
	i.DiskBytes, i.DiskFree = disk(m.stateDir)
	if load, err := strconv.ParseFloat(firstField(text("/proc/loadavg")), 64); err == nil {
		i.Load1000 = int64(load * 1000)
	}
	i.Interfaces, i.Unsupported = m.links(), m.unsupported
	return i
}

// links returns the interfaces. While they cannot be read it tells the last
// that were.
func (m *machine) links() []protocol.Interface {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.interfaces != nil && time.Since(m.read) < interfacesEvery {
		return m.interfaces
	}
	all, err := network.Interfaces()
	if err != nil {
		return m.interfaces
	}
	out := make([]protocol.Interface, 0, len(all))
	for _, i := range all {
		out = append(out, protocol.Interface{Name: i.Name, MAC: i.MAC, Up: i.Up, Addresses: prefixes(i.Addresses)})
	}
	m.interfaces, m.read = out, time.Now()
	return out
}

func prefixes(all []netip.Prefix) []string {
	var out []string
	for _, p := range all {
		out = append(out, p.String())
	}
	return out
}

// describe is what a host tells about itself before it is a member.
func (m *machine) describe(ctx context.Context, boot string, runtimes []container.Runtime) enrol.Offer {
	i := m.info()
	o := enrol.Offer{
		Hostname: i.Hostname, Architecture: i.Arch, Version: i.Version, Boot: boot,
		Capacity: enrol.Capacity{CPUs: i.CPUs, Memory: i.MemoryBytes, Disk: i.DiskBytes},
	}
	for _, l := range i.Interfaces[:min(len(i.Interfaces), enrol.MaxInterfaces)] {
		o.Interfaces = append(o.Interfaces, enrol.Interface{Name: l.Name, MAC: l.MAC, Addresses: l.Addresses})
	}
	for _, r := range runtimes {
		all, err := r.List(ctx)
		if err != nil {
			continue // a host whose containers do not answer may join, too
		}
		o.Total += len(all)
		for _, c := range all[:min(len(all), enrol.MaxContainers-len(o.Containers))] {
			o.Containers = append(o.Containers, enrol.Container{Name: c.Name, Runtime: string(r.Kind()), Running: c.State == container.StateRunning})
		}
	}
	return o
}

// instanceType tells a machine from a container, as systemd and LXC mark them.
func instanceType() string {
	if text("/run/systemd/container") != "" {
		return "guest"
	}
	for _, kv := range strings.Split(text("/proc/1/environ"), "\x00") {
		if strings.HasPrefix(kv, "container=") {
			return "guest"
		}
	}
	return "host"
}

// features are words for what this host can do.
func features(runtimes []container.Runtime, limits []limit.Resource) []string {
	var words []string
	for _, r := range runtimes {
		words = append(words, string(r.Kind()))
		for _, can := range container.Abilities(r) {
			words = append(words, string(r.Kind())+"."+can)
		}
	}
	for _, r := range limits {
		words = append(words, "limit."+string(r))
	}
	for line := range strings.Lines(text("/proc/mounts")) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			words = append(words, "cgroup2")
			break
		}
	}
	slices.Sort(words)
	return words
}

// containment tells why commands cannot be held each in a cgroup of its own, below that
// of the agent; nil if they can.
func containment() error {
	dir, err := supervise.FindCgroup2(os.Getpid())
	if err != nil {
		return err
	}
	return contained(dir)
}

func contained(dir string) error {
	if dir == "" {
		return errors.New("no cgroup2 tree is mounted that shows this process")
	}
	leaf := filepath.Join(dir, "hostler.probe."+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(leaf, 0o755); err != nil {
		return err
	}
	_, err := os.Stat(filepath.Join(leaf, "cgroup.kill"))
	if err != nil {
		err = fmt.Errorf("this kernel cannot end a cgroup as a whole (needs Linux 5.14): %w", err)
	}
	return errors.Join(err, os.Remove(leaf))
}

// meminfo returns a line of /proc/meminfo in bytes, 0 if there is none.
func meminfo(name string) int64 {
	for line := range strings.Lines(text("/proc/meminfo")) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0
			}
			return n << 10
		}
	}
	return 0
}

// disk returns size and free space of a file system in bytes, 0 if it does not tell.
func disk(path string) (size, free int64) {
	s, err := space.Of(path)
	if err != nil {
		return 0, 0
	}
	return s.Total, s.Free
}

// text reads a small file of the kernel; one that cannot be read is empty.
func text(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

func firstField(s string) string {
	f, _, _ := strings.Cut(strings.TrimSpace(s), " ")
	return f
}
