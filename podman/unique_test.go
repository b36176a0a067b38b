package podman_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/internal/permit"
	"github.com/hostler-io/hostler/podman"
)

// TestUniquePrepared: a container that podman had prepared when the agent ended is prepared
// anew, under the epoch of the next start, with an interface and without.
func TestUniquePrepared(t *testing.T) {
	m := newMachine(t)
	for _, connected := range []bool{true, false} {
		spec := m.specs()
		spec.Unique = true
		if !connected {
			spec.Network = container.Network{}
		}
		if err := m.Create(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(m.cfg.Permits, string(spec.CTID)+".permit")
		if err := permit.Give(path, "1.2.3", 1<<60); err != nil {
			t.Fatal(err)
		}
		initialize(t, m.cfg.Socket, spec.Name)
		info, err := m.StartOn(t.Context(), spec.Name, container.Terms{Epoch: "1.2.4", UntilMS: 1 << 60})
		if err != nil {
			t.Fatal(err)
		}
		all, err := containertest.Environ(info.InitPID, container.EpochVariable)
		if err != nil || !slices.Contains(all, "HOSTLER_EPOCH=1.2.4") || slices.Contains(all, "HOSTLER_EPOCH=1.2.3") {
			t.Errorf("its first process has %q, %v; want the epoch 1.2.4", all, err)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("the permit is still there: %v", err)
		}
	}
}

// TestMonitorDies: a container whose monitor and first process are dead is stopped, and is
// started again.
func TestMonitorDies(t *testing.T) {
	m := newMachine(t)
	spec := m.specs()
	spec.Unique = true
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	for _, epoch := range []string{"1.2.3", "1.2.4"} {
		info, err := m.StartOn(t.Context(), spec.Name, container.Terms{Epoch: epoch, UntilMS: 1 << 60})
		if err != nil {
			t.Fatal(err)
		}
		monitor, err := strconv.Atoi(m.service.Podman(t, "inspect", "--format", "{{.State.ConmonPid}}", spec.Name))
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range []int{monitor, info.InitPID} {
			fd, err := unix.PidfdOpen(pid, 0)
			if err == nil {
				err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000); n != 1 {
				t.Fatalf("process %d lives: %v", pid, err)
			}
			unix.Close(fd)
		}
		all, err := m.List(t.Context())
		if err != nil || len(all) != 1 || all[0].State != container.StateStopped {
			t.Errorf("%+v, %v", all, err)
		}
		if info, err = m.Inspect(t.Context(), spec.Name); err != nil || info.State != container.StateStopped {
			t.Errorf("podman takes it for %+v, %v", info, err)
		}
	}
}

// TestNotMadeUnique: nobody can be kept from starting a container that was not made as a
// unique one, so it is none; and nothing unique is made without a place for permits.
func TestNotMadeUnique(t *testing.T) {
	m := newMachine(t)
	spec := m.specs()
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if _, err := m.StartOn(t.Context(), spec.Name, container.Terms{Epoch: "1.2.3", UntilMS: 1 << 60}); !errors.Is(err, container.ErrUnsupported) {
		t.Errorf("it is started under an epoch: %v", err)
	}
	cfg := m.cfg
	cfg.Permits = ""
	r, err := podman.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	spec = m.specs()
	spec.Unique = true
	if err := r.Create(t.Context(), spec); !errors.Is(err, container.ErrUnsupported) {
		t.Errorf("it is made without permits: %v", err)
	}
}
