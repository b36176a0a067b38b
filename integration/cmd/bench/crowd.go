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

	"github.com/hostler-io/hostler/integration/cmd/bench/proc"
	"github.com/hostler-io/hostler/protocol"
)

// makers is how many containers of a crowd are made at a time.
const makers = 4

// crowds is what is measured of many containers.
type crowds struct{ *bench }

// populated makes containers of LXC until there are so many, which all run then.
func (b crowds) populated(ctx context.Context, have, n int) error {
	fmt.Fprintf(b.talk, "making %d containers\n", n-have)
	var g errgroup.Group
	g.SetLimit(makers)
	for i := have; i < n; i++ {
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
	b.probe.orders += n - have
	return b.allRun(ctx, n)
}

// allRun waits until the agent tells that so many containers run.
func (b crowds) allRun(ctx context.Context, n int) error {
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

// restTime is for how long a crowd is watched that is at rest.
const restTime = 30 * time.Second

// atRest measures what an agent takes that has twenty containers with nothing to do, and
// then a hundred: it tells their state, and measures them each fifteen seconds.
func (b crowds) atRest(ctx context.Context) error {
	return b.apart(ctx, nil, func(there *bench, ctx context.Context) error {
		b, have := crowds{there}, 0
		for _, c := range []struct {
			containers  int
			cpu, memory float64 // goals
		}{{20, 0, 0}, {100, 0.5, 30}} {
			if err := b.populated(ctx, have, c.containers); err != nil {
				return err
			}
			have = c.containers
			if err := b.rest(ctx, have, c.cpu, c.memory); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b crowds) rest(ctx context.Context, containers int, cpu, memory float64) error {
	name := fmt.Sprintf("agent_cpu_%dct_pct", containers)
	fmt.Fprintln(b.talk, "measuring", name)
	if err := pause(ctx, 3*settle); err != nil {
		return err
	}
	before, err := b.fleet.usage()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := pause(ctx, restTime); err != nil {
		return err
	}
	after, err := b.fleet.usage()
	if err != nil {
		return err
	}
	u, wall := after.minus(before), ms(time.Since(begin))
	mb, err := proc.RSS(b.fleet.agent)
	if err != nil {
		return err
	}
	file, err := proc.RSSFile(b.fleet.agent)
	if err != nil {
		return err
	}
	b.report.figures = append(b.report.figures, row{name: name, unit: "%", target: cpu}.figure(100*(u.agent+u.commands)/wall, floors{}))
	b.add(fmt.Sprintf("agent_rss_%dct_mb", containers), mb, memory)
	b.report.notes = append(b.report.notes, fmt.Sprintf("%s: of one processor in %s; the agent %s %%, programs that it has run %s %%.",
		name, restTime, number(100*u.agent/wall), number(100*u.commands/wall)))
	b.report.notes = append(b.report.notes, fmt.Sprintf("agent_rss_%dct_mb: of it %s MB are the agent's own program file.", containers, number(file)))
	return nil
}

// rebooted is how many containers come back after a reboot.
const rebooted = 50

// restore compares the start of an agent after a reboot, until all its containers run
// again, with liblxc alone, which starts the same containers four at a time. The reboot is
// that all processes of the agent and of the containers are killed.
func (b crowds) restore(ctx context.Context) error {
	return b.apart(ctx, nil, func(there *bench, ctx context.Context) error {
		b := crowds{there}
		if err := b.populated(ctx, 0, rebooted); err != nil {
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
