package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/protocol"
)

// makers is how many containers of a crowd are made at a time.
const makers = 4

// populated makes so many containers of LXC, which run then.
func (b *bench) populated(ctx context.Context, n int) error {
	fmt.Fprintf(b.talk, "making %d containers\n", n)
	var g errgroup.Group
	g.SetLimit(makers)
	for i := range n {
		g.Go(func() error {
			c, err := newOwn(fmt.Sprintf("ct-%03d", i))
			if err != nil {
				return err
			}
			body, err := request(protocol.Spec{Kind: protocol.KindCreate, Target: c.id, Name: protocol.ContainerName(c.name),
				Args: &protocol.CreateArgs{Template: "busybox", Runtime: "lxc", Start: true}})
			if err != nil {
				return err
			}
			return b.probe.order(ctx, body)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	b.probe.orders += n
	return b.allRun(ctx, n)
}

// allRun waits until the agent tells that so many containers run.
func (b *bench) allRun(ctx context.Context, n int) error {
	agent := b.fleet.socket()
	defer agent.client.CloseIdleConnections()
	return until(ctx, fmt.Sprintf("%d containers run", n), func() bool {
		var all []struct{ State string }
		if agent.get(ctx, "/v1/containers", &all) != nil {
			return false
		}
		running := 0
		for _, c := range all {
			if c.State == "running" {
				running++
			}
		}
		return running == n
	})
}

// The crowd that is at rest, and for how long it is watched.
const (
	crowd     = 100
	crowdTime = 30 * time.Second
)

// atRest measures what an agent takes that has a hundred containers with nothing to do.
func (b *bench) atRest(ctx context.Context) error {
	return b.apart(ctx, nil, func(b *bench, ctx context.Context) error {
		if err := b.populated(ctx, crowd); err != nil {
			return err
		}
		fmt.Fprintln(b.talk, "measuring agent_cpu_100ct_pct")
		if err := pause(ctx, 3*settle); err != nil {
			return err
		}
		before, err := b.fleet.usage()
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := pause(ctx, crowdTime); err != nil {
			return err
		}
		after, err := b.fleet.usage()
		if err != nil {
			return err
		}
		u, wall := after.minus(before), ms(time.Since(begin))
		memory, err := rss(b.fleet.agent)
		if err != nil {
			return err
		}
		b.report.figures = append(b.report.figures, row{name: "agent_cpu_100ct_pct", unit: "%", target: 0.5}.figure(100*(u.agent+u.commands)/wall, floors{}))
		b.add("agent_rss_100ct_mb", memory, 30)
		b.report.notes = append(b.report.notes, fmt.Sprintf("agent_cpu_100ct_pct: of one processor in %s; the agent %s %%, programs that it has run %s %%.",
			crowdTime, number(100*u.agent/wall), number(100*u.commands/wall)))
		return nil
	})
}

// rebooted is how many containers come back after a reboot.
const rebooted = 50

// restore compares the start of an agent after a reboot, until all its containers run
// again, with liblxc alone, which starts the same containers four at a time. The reboot is
// that all processes of the agent and of the containers are killed.
func (b *bench) restore(ctx context.Context) error {
	return b.apart(ctx, nil, func(b *bench, ctx context.Context) error {
		if err := b.populated(ctx, rebooted); err != nil {
			return err
		}
		path := filepath.Join(b.fleet.dir, hostName, "lxc")
		if err := b.fleet.endAgent(); err != nil {
			return err
		}
		return b.paired(ctx, pair{
			row: row{name: "restore_50_ratio", unit: shorter, target: 1.25}, n: 5, way: "the agent", others: "go-lxc four at a time", compare: quotient,
			ours: func(ctx context.Context) (float64, error) {
				if err := endAll(ctx, path); err != nil {
					return 0, err
				}
				took, err := median(1, func() error {
					if err := b.fleet.runAgent(); err != nil {
						return err
					}
					return b.allRun(ctx, rebooted)
				})
				return took, errors.Join(err, b.fleet.endAgent())
			},
			theirs: func(ctx context.Context) (float64, error) {
				if err := endAll(ctx, path); err != nil {
					return 0, err
				}
				return median(1, func() error { return tool(ctx, filepath.Join(b.fleet.bin, "barelxc"), "startall", path, "ct-", "4") })
			},
		})
	})
}

// endAll kills all containers below a path.
func endAll(ctx context.Context, path string) error {
	out, err := exec.CommandContext(ctx, "lxc-ls", "-P", path, "--running", "-1").Output()
	if err != nil {
		return fmt.Errorf("listing containers: %w", err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		if err := tool(ctx, "lxc-stop", "-P", path, "-n", name, "-k"); err != nil {
			return err
		}
	}
	return nil
}
