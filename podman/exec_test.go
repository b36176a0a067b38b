package podman_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/podmantest"
	"github.com/hostler-io/hostler/podman"
	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
)

// commands starts commands by one supervisor.
type commands struct {
	runner     *runner.Runner
	root       string
	supervisor container.Supervisor
	attempt    int
}

func newCommands(t *testing.T, s container.Supervisor) *commands {
	t.Helper()
	c := &commands{root: filepath.Join(t.TempDir(), "runs"), supervisor: s}
	r, err := runner.New(runner.Config{Root: c.root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	c.runner = r
	return c
}

// do runs a shell line to its end and returns what it printed.
func (c *commands) do(t *testing.T, user, line string, change ...func(*rundir.Spec)) (*rundir.Exit, string) {
	t.Helper()
	c.attempt++
	action := "podman-test-" + strconv.Itoa(os.Getpid())
	spec := rundir.Spec{Action: action, Attempt: c.attempt, Argv: []string{"/bin/sh", "-c", line}, User: user, Target: c.supervisor.Target, GraceMS: -1}
	for _, f := range change {
		f(&spec)
	}
	run, err := c.runner.Start(runner.Spec{Spec: spec, Supervisor: c.supervisor.Argv})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := run.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := run.Output(rundir.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	size, err := out.Size()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(io.NewSectionReader(out, 0, size))
	if err != nil {
		t.Fatal(err)
	}
	return exit, strings.TrimSpace(string(raw))
}

// TestExec holds commands in containers to what those in LXC promise beyond the
// conformance suite.
func TestExec(t *testing.T) {
	m, info, supervisor := running(t)
	c := newCommands(t, supervisor)
	t.Run("is inside", func(t *testing.T) {
		for _, tt := range []struct{ user, line, want string }{
			{"", "hostname", info.Name},
			{"", "id -u; id -G", "0\n0"},
			{"nobody", "id -u; id -g; id -G; echo $USER $HOME", "65534\n65534\n65534 50\nnobody /home"},
			{"1234:5678", "id -u; id -G", "1234\n5678"},
			{"", "ls /proc/self/fd | wc -l", "4"}, // 0, 1, 2 and the directory itself
			{"", "readlink /proc/1/exe", "/bin/busybox"},
		} {
			if exit, out := c.do(t, tt.user, tt.line); exit.Code != 0 || exit.Reason != "" || out != tt.want {
				t.Errorf("%q as %q: %q, %+v; want %q", tt.line, tt.user, out, exit, tt.want)
			}
		}
	})
	t.Run("is confined", func(t *testing.T) {
		const confinement = "grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/"
		exit, out := c.do(t, "", confinement+"1/status; echo; "+confinement+"self/status; echo; cat /proc/1/uid_map; echo; cat /proc/self/uid_map")
		parts := strings.Split(out, "\n\n")
		if exit.Code != 0 || len(parts) != 4 || parts[0] != parts[1] || parts[2] != parts[3] || strings.TrimSpace(parts[3]) == "" {
			t.Fatalf("%+v: the command and init are confined by %q", exit, parts)
		}
		if !strings.Contains(parts[1], "Seccomp:\t2") {
			t.Errorf("no filter of system calls: %s", parts[1])
		}
		if _, caps := c.do(t, "nobody", "grep CapEff /proc/self/status"); !strings.HasSuffix(caps, "0000000000000000") {
			t.Errorf("a user who is not root has capabilities: %s", caps)
		}
	})
	t.Run("keeps no way out", func(t *testing.T) {
		for fd := 3; fd < 32; fd++ {
			dir := "/proc/self/fd/" + strconv.Itoa(fd)
			if exit, out := c.do(t, "", "pwd", func(s *rundir.Spec) { s.Dir = dir }); exit.Reason != rundir.ReasonDirectory {
				t.Errorf("in directory %s: %+v, %q; want %s", dir, exit, out, rundir.ReasonDirectory)
			}
		}
	})
	t.Run("not while frozen", func(t *testing.T) {
		m.service.Podman(t, "pause", info.Name)
		defer m.service.Podman(t, "unpause", info.Name)
		if exit, _ := c.do(t, "", "true"); exit.Reason != rundir.ReasonTarget || !strings.Contains(exit.Detail, "frozen") {
			t.Errorf("in a frozen container: %+v, want %s", exit, rundir.ReasonTarget)
		}
	})
	t.Run("files", func(t *testing.T) {
		files, err := m.Files(t.Context(), info.Name)
		if err != nil || files.InitPID != info.InitPID || files.UIDs == "" {
			t.Errorf("Files = %+v, %v", files, err)
		}
	})
	t.Run("is for one incarnation", func(t *testing.T) {
		if _, err := m.Stop(t.Context(), info.Name, 0); err != nil {
			t.Fatal(err)
		}
		if exit, _ := c.do(t, "", "true"); exit.Reason != rundir.ReasonTarget {
			t.Errorf("in a stopped container: %+v, want %s", exit, rundir.ReasonTarget)
		}
		if _, err := m.Start(t.Context(), info.Name); err != nil {
			t.Fatal(err)
		}
		if exit, _ := c.do(t, "", "true"); exit.Reason != rundir.ReasonTarget || !strings.Contains(exit.Detail, "restarted") {
			t.Errorf("in a restarted container: %+v, want %s", exit, rundir.ReasonTarget)
		}
		again, err := m.Exec(t.Context(), info.Name)
		if err != nil {
			t.Fatal(err)
		}
		for key, bad := range map[string]string{"init_ticks": "1", "id": "../" + again.Target["id"], "program": "runc", "extra": "x"} {
			broken := maps.Clone(again.Target)
			broken[key] = bad
			c.supervisor.Target = broken
			if exit, _ := c.do(t, "", "true"); exit.Reason != rundir.ReasonTarget {
				t.Errorf("with %s=%s: %+v, want %s", key, bad, exit, rundir.ReasonTarget)
			}
		}
	})
}

// TestForeign: what podman's own people have made is shown and left alone.
func TestForeign(t *testing.T) {
	m := newMachine(t)
	name := fmt.Sprintf("hpt-foreign-%d", os.Getpid())
	m.service.Podman(t, "create", "--name", name, "--network", "none", "localhost/hostler-test:1")
	info, err := m.Inspect(t.Context(), name)
	if err != nil || info.CTID != "" || info.State != container.StateStopped || !info.Privileged {
		t.Errorf("Inspect = %+v, %v", info, err)
	}
	id := container.CTID("00000000-0000-4000-8000-000000000001")
	if err := m.Destroy(t.Context(), name); !errors.Is(err, container.ErrUnsupported) {
		t.Errorf("Destroy = %v, want ErrUnsupported", err)
	}
	if err := m.Rename(t.Context(), name, "other", id); !errors.Is(err, container.ErrUnsupported) {
		t.Errorf("Rename = %v, want ErrUnsupported", err)
	}
	// Podman takes the beginning of an id for a name.
	whole := m.service.Podman(t, "inspect", "--format", "{{.Id}}", name)
	if _, err := m.Inspect(t.Context(), whole[:12]); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("by a part of its id: %v, want ErrNotFound", err)
	}
}

// TestAdoptRefuses: a container that something else starts or removes stays foreign, and
// the error says what to change.
func TestAdoptRefuses(t *testing.T) {
	m := newMachine(t)
	m.service.Podman(t, "pod", "create", "--name", "pod", "--infra=false")
	for flags, want := range map[string]string{
		"--restart=always":                      "--restart always",
		"--restart=unless-stopped":              "--restart unless-stopped",
		"--rm":                                  "--rm",
		"--pod=pod":                             "pod",
		"--label=PODMAN_SYSTEMD_UNIT=x.service": "x.service",
		"--uidmap=0:900000:1000":                "ids",
	} {
		name := fmt.Sprintf("hpt-refused-%d-%d", os.Getpid(), len(flags))
		m.service.Podman(t, "create", "--name", name, "--network", "none", flags, podmantest.Image)
		_, err := m.Adopt(t.Context(), name, m.specs().CTID)
		if !errors.Is(err, container.ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("with %s: %v, want a word about %q", flags, err, want)
		}
		if info, err := m.Inspect(t.Context(), name); err != nil || info.CTID != "" {
			t.Errorf("with %s it is %+v, %v", flags, info, err)
		}
	}
}

// TestEndsAtOnce: a container whose program ends does not run, and says what it said.
func TestEndsAtOnce(t *testing.T) {
	m := newMachine(t)
	image := m.service.Image(t, "ends", `CMD ["/bin/sh","-c","echo no room for cheese >&2; exit 7"]`)
	spec := m.specs()
	spec.Template = image
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	_, err := m.Start(t.Context(), spec.Name)
	for err == nil { // it was looked at while its program still ran
		_, err = m.Start(t.Context(), spec.Name)
	}
	if !strings.Contains(err.Error(), "exit code 7") || !strings.Contains(err.Error(), "no room for cheese") {
		t.Errorf("Start = %v, want its exit code and its last words", err)
	}
}

// TestServiceAway: without its service podman cannot be asked, and is again when it is
// back. Its containers and the commands in them go on.
func TestServiceAway(t *testing.T) {
	m, info, supervisor := running(t)
	ctx, cancel := context.WithCancel(t.Context())
	ready, seen, ended := make(chan struct{}), make(chan container.Event, 100), make(chan error)
	go func() {
		ended <- m.Watch(ctx, func() { close(ready) }, func(e container.Event) { seen <- e })
	}()
	<-ready
	m.service.Down(t)
	for what, err := range map[string]error{
		"Probe": m.Probe(t.Context()), "Create": m.Create(t.Context(), m.specs()), "Destroy": m.Destroy(t.Context(), info.Name),
	} {
		if !errors.Is(err, container.ErrUnavailable) || !strings.Contains(err.Error(), "podman.socket") {
			t.Errorf("%s without the service = %v, want ErrUnavailable", what, err)
		}
	}
	if exit, out := newCommands(t, supervisor).do(t, "", "hostname"); exit.Code != 0 || out != info.Name {
		t.Errorf("a command without the service: %+v, %q", exit, out)
	}
	m.service.Up(t)
	for e := range seen {
		if e.Name == "" {
			break // something may have been missed
		}
	}
	if now, err := m.Inspect(t.Context(), info.Name); err != nil || now.InitPID != info.InitPID {
		t.Errorf("afterwards: %+v, %v; was %+v", now, err, info)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch = %v", err)
	}
}

// TestCable: the interface of a container is on the bridge, and gone with it.
func TestCable(t *testing.T) {
	m := newMachine(t)
	spec := m.specs()
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Start(t.Context(), spec.Name); err != nil {
		t.Fatal(err)
	}
	s, err := m.Exec(t.Context(), spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	exit, out := newCommands(t, s).do(t, "", "ip -4 addr show eth0; ip link show eth0; ip route")
	for _, want := range []string{spec.Network.Address.String(), spec.Network.MAC, "default via " + spec.Network.Gateway.String()} {
		if exit.Code != 0 || !strings.Contains(out, want) {
			t.Errorf("%+v: no %s in\n%s", exit, want, out)
		}
	}
	if out, err := exec.Command("ping", "-c", "1", "-W", "10", spec.Network.Address.Addr().String()).CombinedOutput(); err != nil {
		t.Errorf("the host does not reach it: %v: %s", err, out)
	}
	if _, err := m.Stop(t.Context(), spec.Name, 0); err != nil {
		t.Fatal(err)
	}
}

// TestIDs: each unprivileged container has ids of the host that no other one has, and
// there are no more than were given.
func TestIDs(t *testing.T) {
	m := newMachine(t)
	m.cfg.IDs = container.IDRange{First: podman.DefaultIDs.First, Count: 2 << 16}
	r, err := podman.New(m.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 2 {
		if err := r.Create(t.Context(), m.specs()); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Create(t.Context(), m.specs()); err == nil || !strings.Contains(err.Error(), "podman.ids") {
		t.Errorf("the third of two: %v", err)
	}
	free := m.specs()
	free.Privileged = true
	if err := r.Create(t.Context(), free); err != nil {
		t.Error(err)
	}
	if info, err := r.Inspect(t.Context(), free.Name); err != nil || !info.Privileged {
		t.Errorf("%+v, %v", info, err)
	}
}
