package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/checkup"
	"github.com/hostler-io/hostler/agent/lease"
	"github.com/hostler-io/hostler/guard"
	"github.com/hostler-io/hostler/internal/cgroup"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// guardIdle is how long a guard that holds nothing waits for an agent.
const guardIdle = time.Minute

// guardCommand is the guard as a process of its own. The agent starts it; people need not.
func guardCommand(logger func(*cobra.Command) *slog.Logger) *cobra.Command {
	var socket string
	var follow bool
	cmd := &cobra.Command{
		Use: "guard", Short: "Kill what this host holds by lease when the lease ends; the agent starts it", Args: noArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := logger(cmd).With("program", "guard")
			if err := guard.Settle(); err != nil {
				log.Warn("the guard is easier to kill than it should be", "error", err)
			}
			g := guard.New(guard.Kill, log)
			ctx, cancel := context.WithCancelCause(context.WithoutCancel(cmd.Context())) // a signal to the agent's group ends no guard
			defer cancel(nil)
			if follow {
				go func() { _ = g.Run(ctx) }() // ends with the process
				return guard.Follow(ctx, g, cmd.InOrStdin())
			}
			self, err := thisProgram()
			if err != nil {
				return err
			}
			l, err := guard.Listen(socket)
			if err != nil {
				return err
			}
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error { return g.Run(ctx) })
			group.Go(func() error { return g.Attend(ctx) })
			group.Go(func() error {
				return g.Twin(ctx, []string{self, "guard", "--follow"}, func() error {
					_, err := fmt.Fprintln(cmd.OutOrStdout()) // it listens, and a second one is there
					return err
				})
			})
			group.Go(func() error { return g.Serve(ctx, l) })
			group.Go(func() error { return g.Idle(ctx, guardIdle) })
			if err := group.Wait(); !errors.Is(err, guard.ErrIdle) {
				return err
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "where the guard listens")
	cmd.Flags().BoolVar(&follow, "follow", false, "follow another guard, which writes to standard input")
	cmd.MarkFlagsOneRequired("socket", "follow")
	cmd.MarkFlagsMutuallyExclusive("socket", "follow")
	return cmd
}

// fence lets the guard be that of the agent's leases.
type fence struct{ client *guard.Client }

// newFence starts the guard, or finds the one that is there, and tests it. The error says
// why this host can hold nothing.
func newFence(ctx context.Context, path string, asks guard.Resort) (*fence, guard.Shown, error) {
	self, err := thisProgram()
	if err != nil {
		return nil, guard.Shown{}, err
	}
	client := guard.NewClient(path, asks, func(ctx context.Context) error {
		return guard.Spawn(ctx, []string{self, "guard", "--socket", path}, path)
	})
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	shown, err := guard.SelfTest(ctx, client)
	if err != nil {
		return nil, shown, errors.Join(fmt.Errorf("the guard has not killed what it was to kill: %w", err), client.Close())
	}
	return &fence{client}, shown, nil
}

// Set implements [lease.Guard].
func (f *fence) Set(ctx context.Context, all []lease.Held) error {
	holds := []guard.Hold{}
	for _, h := range all {
		holds = append(holds, guard.Hold{ID: h.CTID.String(), Group: h.Group, UntilMS: h.UntilMS})
	}
	return f.client.Set(ctx, holds)
}

// Former implements [lease.Guard].
func (f *fence) Former(ctx context.Context) (map[protocol.CTID]int64, error) {
	all, err := f.client.Held(ctx)
	former := make(map[protocol.CTID]int64)
	for _, h := range all {
		if id, err := protocol.ParseCTID(h.ID); err == nil {
			former[id] = h.UntilMS
		}
	}
	return former, err
}

// guarded lets the agent hold unique containers, if the configuration asks for that and
// the guard does what it must.
func (n *node) guarded(ctx context.Context, cfg *agent.Config) {
	if !n.config.Unique.Guard {
		return
	}
	boxed := inContainer("/") // the key would restart the machine below it
	f, shown, err := newFence(ctx, n.config.Socket+"-guard", guard.Resort{Watchdog: n.config.Unique.Watchdog, Reboot: n.config.Unique.Reboot && !boxed})
	n.needs = append(n.needs, checkup.Need{Name: "guard", Problem: err, Mend: "mend what the problem names, then have the agent reload its configuration"})
	if err != nil {
		n.log.Error("this host can hold no unique containers", "error", err)
		return
	}
	cfg.Guard, cfg.SelfFence, cfg.Group = f, string(n.fenced(shown.Watchdog)), cgroup.Payload
	if n.reboots(shown.Reboot, boxed) {
		cfg.Features = append(cfg.Features, protocol.FeatureReboots)
	}
	if n.config.Unique.pausable() {
		cfg.Features = append(cfg.Features, protocol.FeaturePausable)
		n.log.Warn("this machine can be paused as a whole, so the end of its lease proves nothing; if it is never paused, set unique.pausable = \"no\"")
	}
}

// fenced is what was seen to kill unique containers when the agent does not.
func (n *node) fenced(dog guard.Watchdog) unique.SelfFence {
	if n.config.Unique.Watchdog == "" {
		return unique.FenceGuard
	}
	if dog.Armed {
		n.needs = append(n.needs, checkup.Need{Name: "watchdog"})
		n.log.Info("the watchdog resets this machine if the guard does not kill unique containers in time", "watchdog", dog.Path, "driver", dog.Identity)
		return unique.FenceWatchdog
	}
	problem := errors.New(dog.Why())
	n.needs = append(n.needs, checkup.Need{Name: "watchdog", Problem: problem, Mend: "grep . /sys/class/watchdog/*/identity    # lists the watchdogs; free this one or name another, then have the agent reload its configuration"})
	n.log.Warn("the watchdog of this machine is not used, so the guard alone kills unique containers", "error", problem)
	return unique.FenceGuard
}

// reboots reports whether the guard was seen ready to restart this machine if a kill fails.
// It was not asked to be if the agent runs in a container.
func (n *node) reboots(shown guard.Reboot, boxed bool) bool {
	if !n.config.Unique.Reboot {
		return false
	}
	if shown.Ready {
		n.needs = append(n.needs, checkup.Need{Name: "restart by the guard"})
		return true
	}
	problem := errors.New(shown.Why())
	if boxed {
		problem = errors.New("this host is a container, and whatever restarts it would restart the machine below it")
	}
	n.needs = append(n.needs, checkup.Need{Name: "restart by the guard", Problem: problem, Mend: "ls -l /proc/sysrq-trigger    # the kernel needs it; without it name a watchdog in unique.watchdog, or a fence device of this host at the coordinator"})
	n.log.Warn("this machine is not restarted if a kill of a unique container fails", "error", problem)
	return false
}
