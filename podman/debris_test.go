package podman_test

import (
	"context"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/podmantest"
	"github.com/hostler-io/hostler/network"
	"github.com/hostler-io/hostler/podman"
)

// TestDebris plants a start that was cut short and cables that nobody has, among a
// container that runs and one of somebody else: what is ours is found and removed.
func TestDebris(t *testing.T) {
	m := newMachine(t)
	runs, half := m.specs(), m.specs()
	bridge := runs.Network.Bridge
	cfg := m.cfg
	cfg.Bridge = bridge
	r, err := podman.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, spec := range []container.CreateSpec{runs, half} {
		if err := m.Create(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Start(t.Context(), runs.Name); err != nil {
		t.Fatal(err)
	}
	m.service.Podman(t, "create", "--name", "foreign", "--network", "none", podmantest.Image)
	for _, name := range []string{half.Name, "foreign"} {
		initialize(t, m.cfg.Socket, name)
	}
	// Somebody keeps a network namespace, and in it the ends of a cable of ours and one
	// of his own.
	keeper := exec.Command("sleep", "1000000")
	keeper.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = keeper.Process.Kill() // it goes on for ever
		_ = keeper.Wait()         // killed
	})
	for i, name := range []string{"hp0123456789ab", "hpself"} {
		if err := network.Lay(network.Cable{Name: name, Bridge: bridge, Peer: "eth" + string(rune('0'+i)), PID: keeper.Process.Pid}); err != nil {
			t.Fatal(err)
		}
	}
	look := func(repair bool, want ...string) {
		t.Helper()
		found, err := r.Debris(t.Context(), repair)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, d := range found {
			all = append(all, d.Kind+" "+d.Object)
			if d.Cause == "" || d.Repair == "" || d.Repaired != repair {
				t.Errorf("%+v", d)
			}
		}
		if !slices.Equal(all, want) {
			t.Errorf("found %q, want %q", all, want)
		}
	}
	// The container of one secret is gone, that of another one is there, and a third one is
	// somebody else's.
	gone, stays := m.specs(), m.specs()
	gone.Unique, stays.Unique = true, true
	for _, spec := range []container.CreateSpec{gone, stays} {
		if err := m.Create(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
	m.service.Podman(t, "rm", gone.Name)
	m.service.Podman(t, "secret", "create", "hostler-epoch-of-others", "/etc/hostname")
	want := []string{"half container podman:" + half.Name, "secret podman:hostler-epoch-" + string(gone.CTID), "cable hp0123456789ab"}
	look(false, want...)
	look(true, want...)
	look(true)
	for name, want := range map[string]container.State{runs.Name: container.StateRunning, half.Name: container.StateStopped, "foreign": container.StateStarting} {
		if info, err := m.Inspect(t.Context(), name); err != nil || info.State != want {
			t.Errorf("%s is %s, want %s: %v", name, info.State, want, err)
		}
	}
	left, err := network.CablesOf(bridge, "hp")
	if err != nil || len(left) != 2 || !slices.Contains(left, "hpself") {
		t.Errorf("left are the cables %q, %v; want the one of %s and hpself", left, err, runs.Name)
	}
}

// initialize has podman prepare a container and not start it.
func initialize(t *testing.T, socket, name string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}, DisableKeepAlives: true}}
	resp, err := client.Post("http://podman/v4.0.0/libpod/containers/"+name+"/init", "application/json", strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("init of %s: %s", name, resp.Status)
	}
}
