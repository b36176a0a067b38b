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
func newFence(ctx context.Context, path string) (*fence, error) {
	self, err := thisProgram()
	if err != nil {
		return nil, err
	}
	client := guard.NewClient(path, func(ctx context.Context) error {
		return guard.Spawn(ctx, []string{self, "guard", "--socket", path}, path)
	})
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := guard.SelfTest(ctx, client); err != nil {
		return nil, errors.Join(fmt.Errorf("the guard has not killed what it was to kill: %w", err), client.Close())
	}
	return &fence{client}, nil
}

// Set implements [lease.Guard].
func (f *fence) Set(ctx context.Context, all []lease.Held) error {
	t := guard.Table{Holds: []guard.Hold{}}
	for _, h := range all {
		t.Holds = append(t.Holds, guard.Hold{ID: h.CTID.String(), Group: h.Group, UntilMS: h.UntilMS})
	}
	return f.client.Set(ctx, t)
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
	f, err := newFence(ctx, n.config.Socket+"-guard")
	if err != nil {
		n.log.Error("this host can hold no unique containers", "error", err)
		return
	}
	cfg.Guard, cfg.SelfFence, cfg.Group = f, string(unique.FenceGuard), cgroup.Payload
	if n.config.Unique.pausable() {
		cfg.Features = append(cfg.Features, protocol.FeaturePausable)
		n.log.Warn("this machine can be paused as a whole, so the end of its lease proves nothing; if it is never paused, set unique.pausable = \"no\"")
	}
}
