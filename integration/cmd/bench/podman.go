package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// podmanImage is the one that containers of podman are made from here. Its init is a
// program that needs no handler to obey a SIGKILL.
const podmanImage = "localhost/bench:1"

// podmanConf is what root without CAP_SYS_RESOURCE needs on a hybrid hierarchy of control
// groups.
const podmanConf = `[containers]
default_ulimits=["nofile=1024:1024","nproc=4096:4096"]
[network]
dns_bind_port=0
[engine]
runtime="runc"
cgroup_manager="cgroupfs"
events_logger="file"
`

// withPodman gives a fleet a podman with a store of its own, before it starts.
func withPodman(ctx context.Context, f *fleet) error {
	f.podman = true
	if err := os.WriteFile(f.path("containers.conf"), []byte(podmanConf), 0o600); err != nil {
		return err
	}
	root := f.path("image")
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		return err
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	program, err := os.ReadFile(busybox)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "bin/busybox"), program, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"sh", "true", "sleep"} {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil {
			return err
		}
	}
	if out, err := exec.CommandContext(ctx, "tar", "-C", root, "-cf", root+".tar", ".").CombinedOutput(); err != nil {
		return fmt.Errorf("packing an image: %w: %s", err, out)
	}
	if _, err := f.podmanCLI(ctx, "import", "--change", `CMD ["/bin/sleep","1000000"]`, "--change", "STOPSIGNAL SIGKILL", root+".tar", podmanImage); err != nil {
		return err
	}
	if err := f.run("podman", f.podmanCommand(context.Background(), "system", "service", "--time=0", "unix://"+f.podmanSocket())); err != nil {
		return err
	}
	return until(ctx, "podman's service listens", func() bool {
		_, err := os.Stat(f.podmanSocket())
		return err == nil
	})
}

func (f *fleet) podmanSocket() string { return f.path("podman.sock") }

func (f *fleet) podmanCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := f.command(ctx, "podman", append([]string{"--root", f.path("root"), "--runroot", f.path("runroot"), "--storage-driver", "overlay"}, args...)...)
	cmd.Path, _ = exec.LookPath("podman") // if it is missing, its start says so
	cmd.Env = append(cmd.Env, "CONTAINERS_CONF="+f.path("containers.conf"))
	return cmd
}

// podmanCLI runs podman's own command line on the store of the fleet.
func (f *fleet) podmanCLI(ctx context.Context, args ...string) (string, error) {
	var talk strings.Builder
	cmd := f.podmanCommand(ctx, args...)
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("podman %s: %w: %s", strings.Join(args, " "), err, talk.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// closePodman takes the containers and the mounts of a fleet's podman away.
func (f *fleet) closePodman(ctx context.Context) error {
	// What podman starts to tidy up after a container may still hold its mounts busy.
	err := until(ctx, "podman has no containers", func() bool {
		_, err := f.podmanCLI(ctx, "rm", "--all", "--force", "--time", "0")
		return err == nil
	})
	_ = syscall.Unmount(f.path("root/overlay"), syscall.MNT_DETACH) // it is mounted on itself, if at all
	return err
}

// pods is what is measured on a fleet of its own with podman.
type pods struct{ *bench }

// podmans compares orders with podman's own command line: on the same image, without a
// network of podman's, as containers of Hostler are.
func (b pods) podmans(ctx context.Context) error {
	return b.apart(ctx, withPodman, func(b *bench, ctx context.Context) error { return pods{b}.podmanOrders(ctx) })
}

// deaths measures ends of containers of both runtimes.
func (b pods) deaths(ctx context.Context) error {
	return b.apart(ctx, withPodman, func(b *bench, ctx context.Context) error { return pods{b}.exits(ctx) })
}

func (b pods) podmanOrders(ctx context.Context) error {
	f := b.fleet
	cli := func(ctx context.Context, args ...string) func() (float64, error) {
		return func() (float64, error) {
			return median(1, func() error { _, err := f.podmanCLI(ctx, args...); return err })
		}
	}
	create := []string{"create", "--pull", "never", "--network", "none", "--hostname", "bare", "--name"}
	args := ofPodman()
	number := 0
	if err := b.paired(ctx, pair{
		row: row{name: "podman_create_ratio", unit: shorter, target: 0.9}, n: 15, others: "podman create", compare: quotient,
		ours: func(ctx context.Context) (float64, error) {
			number++
			c, took, err := b.create(ctx, fmt.Sprintf("made-%d", number), args)
			if err != nil {
				return 0, err
			}
			return took, b.destroy(ctx, c)
		},
		theirs: func(ctx context.Context) (float64, error) {
			took, err := b.held(cli(ctx, append(create, "bare", podmanImage)...))
			if err != nil {
				return 0, err
			}
			_, err = f.podmanCLI(ctx, "rm", "bare")
			return took, err
		},
	}); err != nil {
		return err
	}
	c, _, err := b.create(ctx, container, args)
	if err != nil {
		return err
	}
	if _, err := b.ct(ctx, c, protocol.KindStart, nil); err != nil {
		return err
	}
	for _, args := range [][]string{append(create, "bare", podmanImage), {"start", "bare"}} {
		if _, err := f.podmanCLI(ctx, args...); err != nil {
			return err
		}
	}
	if err := b.paired(ctx, pair{
		row: row{name: "podman_start_ratio", unit: shorter, target: 0.9}, n: 15, others: "podman start", compare: quotient,
		ours: func(ctx context.Context) (float64, error) {
			if _, err := b.ct(ctx, c, protocol.KindStop, &protocol.StopArgs{GraceMS: 1}); err != nil {
				return 0, err
			}
			return b.ct(ctx, c, protocol.KindStart, nil)
		},
		theirs: func(ctx context.Context) (float64, error) {
			return b.held(func() (float64, error) {
				if _, err := f.podmanCLI(ctx, "stop", "--time", "0", "bare"); err != nil {
					return 0, err
				}
				return cli(ctx, "start", "bare")()
			})
		},
	}); err != nil {
		return err
	}
	return b.paired(ctx, pair{
		row: row{name: "podman_exec_ratio", unit: shorter, target: 0.9}, n: 30, others: "podman exec", compare: quotient,
		ours: func(ctx context.Context) (float64, error) {
			return b.ct(ctx, c, protocol.KindExec, protocol.Command("true"))
		},
		theirs: func(ctx context.Context) (float64, error) { return b.held(cli(ctx, "exec", "bare", "true")) },
	})
}

// ofPodman asks for a container of podman.
func ofPodman() *protocol.CreateArgs {
	return &protocol.CreateArgs{Template: podmanImage, Runtime: "podman", Pull: "never"}
}

// exits measures how long it takes until the agent tells, at its socket, that a container
// whose first process was killed does not run. Of the two runtimes the slower one counts.
func (b pods) exits(ctx context.Context) error {
	const deaths = 15
	fmt.Fprintln(b.talk, "measuring exit_seen_p50_ms")
	lxc, _, err := b.create(ctx, "box", &protocol.CreateArgs{Template: "busybox", Runtime: "lxc", Start: true})
	if err != nil {
		return err
	}
	podman, _, err := b.create(ctx, "pod", ofPodman())
	if err != nil {
		return err
	}
	path := filepath.Join(b.fleet.dir, hostName, "lxc")
	var medians [2]float64
	for i, of := range []struct {
		own
		init func() (string, error)
	}{
		{lxc, func() (string, error) {
			out, err := exec.CommandContext(ctx, "lxc-info", "-P", path, "-n", lxc.name, "-p", "-H").Output()
			return string(out), err
		}},
		{podman, func() (string, error) {
			return b.fleet.podmanCLI(ctx, "inspect", "--format", "{{.State.Pid}}", podman.name)
		}},
	} {
		var all []float64
		for range deaths {
			took, err := b.death(ctx, of.own, of.init)
			if err != nil {
				return fmt.Errorf("measuring the death of %s: %w", of.name, err)
			}
			all = append(all, took)
		}
		medians[i] = percentile(all, 50)
	}
	b.report.figures = append(b.report.figures, row{name: "exit_seen_p50_ms", unit: "ms", target: 5}.figure(max(medians[0], medians[1]), floors{}))
	b.report.notes = append(b.report.notes, fmt.Sprintf("exit_seen_p50_ms: LXC %s, podman %s; medians of %d, asked for each millisecond at the agent's socket.",
		number(medians[0]), number(medians[1]), deaths))
	return nil
}

// afterStart is how long a container is left alone before it is killed.
const afterStart = 700 * time.Millisecond

// death kills the first process of a container that runs, and waits until the agent tells.
func (b pods) death(ctx context.Context, c own, init func() (string, error)) (float64, error) {
	if _, err := b.ct(ctx, c, protocol.KindStart, nil); err != nil {
		return 0, err
	}
	agent := b.fleet.socket()
	defer agent.client.CloseIdleConnections()
	runs := func() (bool, error) {
		var all []struct{ Name, State string }
		err := agent.get(ctx, "/v1/containers", &all)
		for _, now := range all {
			if now.Name == c.name {
				return now.State == "running", err
			}
		}
		return false, err
	}
	if err := until(ctx, c.name+" runs", func() bool {
		ok, err := runs()
		return ok && err == nil
	}); err != nil {
		return 0, err
	}
	text, err := init()
	if err != nil {
		return 0, err
	}
	// After a look at all containers, such as that of the start, the agent rests.
	if err := pause(ctx, afterStart); err != nil {
		return 0, err
	}
	var pid int
	if _, err := fmt.Sscan(text, &pid); err != nil {
		return 0, fmt.Errorf("its init is %q: %w", text, err)
	}
	begin := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return 0, err
	}
	for {
		on, err := runs()
		took := time.Since(begin)
		switch {
		case err != nil:
			return 0, err
		case !on:
			return ms(took), nil
		case took > patience:
			return 0, fmt.Errorf("the agent does not tell that %s has ended", c.name)
		}
		if err := pause(ctx, time.Millisecond); err != nil { // questions without a pause would take the agent's time
			return 0, err
		}
	}
}
