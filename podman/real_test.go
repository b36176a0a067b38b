// The tests of this file use podman itself, see package podmantest.

package podman_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/internal/builttest"
	"github.com/hostler-io/hostler/internal/podmantest"
	"github.com/hostler-io/hostler/network"
	"github.com/hostler-io/hostler/podman"
	"github.com/hostler-io/hostler/runner/runnertest"
)

// machine is podman on this machine with a store of its own.
type machine struct {
	*podman.Runtime
	service *podmantest.Service
	cfg     podman.Config
	specs   func() container.CreateSpec
}

func newMachine(t *testing.T, registries ...string) *machine {
	t.Helper()
	s := podmantest.Start(t, registries...)
	agent := builttest.Program(t, "hostler-agent")
	cfg := podman.Config{Socket: s.Socket, Supervisor: []string{agent, "supervise-podman"}, Permits: filepath.Join(t.TempDir(), "permits"), Permit: []string{agent, "epoch-podman"}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	r, err := podman.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return &machine{Runtime: r, service: s, cfg: cfg, specs: specSource(t)}
}

// specSource returns specifications that nobody else uses, on a bridge that nobody
// else has.
func specSource(t *testing.T) func() container.CreateSpec {
	t.Helper()
	pid := os.Getpid()
	bridge := fmt.Sprintf("hpt%d", pid)
	subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 224 + byte(pid>>8)&15, byte(pid), 0}), 24)
	if err := network.EnsureBridge(network.BridgeConfig{Name: bridge, Address: container.Gateway(subnet)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.RemoveBridge(bridge); err != nil {
			t.Error(err)
		}
	})
	var count atomic.Uint32
	address := container.Gateway(subnet).Addr().As4()
	return func() container.CreateSpec {
		n := count.Add(1)
		id := container.CTID(fmt.Sprintf("00000000-0000-4000-8000-%06x%06x", pid, n))
		a := address
		a[3] += byte(n)
		return container.CreateSpec{
			Name: fmt.Sprintf("hpt-%d-%d", pid, n), CTID: id, Template: podmantest.Image,
			Network: container.Network{
				Bridge: bridge, Address: netip.PrefixFrom(netip.AddrFrom4(a), 24),
				Gateway: container.Gateway(subnet).Addr(), MAC: container.MAC(id),
			},
		}
	}
}

func TestMain(m *testing.M) { os.Exit(runnertest.Main(m, os.Args)) }

// TestConformance: podman keeps what package container promises.
func TestConformance(t *testing.T) {
	m := newMachine(t)
	containertest.Run(t, func(t *testing.T) containertest.Subject {
		return containertest.Subject{Runtime: m, Spec: m.specs, Kill: func(t *testing.T, name string) {
			info, err := m.Inspect(context.WithoutCancel(t.Context()), name)
			if err == nil {
				err = syscall.Kill(info.InitPID, syscall.SIGKILL)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, Print: func(t *testing.T, name, line string) { printTo(t, m, name, "/proc/%d/fd/1", line) },
			ByHand: func(t *testing.T, name string) error { return m.service.Try("start", name) },
			Foreign: func(t *testing.T) string {
				name := fmt.Sprintf("hpt-theirs-%d", os.Getpid())
				m.service.Podman(t, "create", "--name", name, "--network", "none", "--interactive", podmantest.Image)
				return name
			}}
	})
}

// printTo writes a line into a file of a container's first process.
func printTo(t *testing.T, m container.Runtime, name, file, line string) {
	t.Helper()
	info, err := m.Inspect(context.WithoutCancel(t.Context()), name)
	if err == nil {
		err = os.WriteFile(fmt.Sprintf(file, info.InitPID), []byte(line+"\n"), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// running makes a container, starts it and names the supervisor of its commands.
func running(t *testing.T) (*machine, container.Info, container.Supervisor) {
	t.Helper()
	m := newMachine(t)
	spec := m.specs()
	spec.Network = container.Network{}
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	info, err := m.Start(t.Context(), spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	supervisor, err := m.Exec(t.Context(), spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	return m, info, supervisor
}

// TestExecConformance: a command in a container keeps what a command on the host
// promises. Only a reboot cannot be played: another boot is there a PID namespace of
// its own, in which the container's processes are not.
func TestExecConformance(t *testing.T) {
	_, info, supervisor := running(t)
	runnertest.Run(t, runnertest.Harness{
		Supervisor: supervisor.Argv, Target: supervisor.Target, Without: []string{"reboot"},
		Root: fmt.Sprintf("/proc/%d/root", info.InitPID),
	})
}
