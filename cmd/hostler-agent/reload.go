package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"syscall"

	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/settings"
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
)

// errReload ends one wiring of the agent, so that the next has the new configuration.
var errReload = errors.New("the configuration has changed")

// setup is a configuration as it was read, with what belongs to it.
type setup struct {
	config
	from   settings.Origin
	policy protocol.Digest // of root's policy file; zero if there is none
}

// reloading gives the agent another configuration while it runs: on SIGHUP it reads
// the configuration once more. One that cannot be used changes nothing. It belongs to
// the goroutine that wires agents, and to the one of await while an agent runs.
type reloading struct {
	again   loader
	hangup  chan os.Signal
	log     *slog.Logger
	service daemon.Service
	host    protocol.HostID // of the agent that runs
	now     setup
	before  *setup // of now, until an agent serves with now
}

// ready tells the manager of services that the agent serves with the configuration
// that it has now.
func (r *reloading) ready() { r.tell(r.service.Ready("serves as host " + string(r.host))) }

// tell logs what kept the manager of services from being told. The agent serves
// without it.
func (r *reloading) tell(err error) {
	if err != nil {
		r.log.Warn("systemd does not hear", "error", err)
	}
}

// watch begins to take signals, until stop is called.
func (r *reloading) watch() (stop func()) {
	r.hangup = make(chan os.Signal, 1)
	signal.Notify(r.hangup, syscall.SIGHUP)
	return func() { signal.Stop(r.hangup) }
}

// await ends with errReload when there is another configuration to run with.
func (r *reloading) await(ctx context.Context) error {
	r.before = nil
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.hangup:
		}
		r.tell(r.service.Reloading())
		next, err := r.read()
		switch {
		case err != nil:
			r.log.ErrorContext(ctx, "the new configuration is refused; the one in force goes on", "error", err)
			r.ready()
		case reflect.DeepEqual(next.config, r.now.config) && next.policy == r.now.policy:
			r.log.InfoContext(ctx, "the configuration has not changed")
			r.ready()
		default:
			taken, restart := settings.Changed(&r.now.config, &next.config)
			r.log.InfoContext(ctx, "other settings are taken", "settings", taken, "policy", next.policy != r.now.policy)
			if len(restart) > 0 {
				r.log.WarnContext(ctx, "these settings take a restart of the agent; with systemd: systemctl restart hostler-agent", "settings", restart)
			}
			r.now, r.before = next, new(r.now)
			return errReload
		}
	}
}

// read reads the configuration, and judges what an agent would begin with.
func (r *reloading) read() (setup, error) {
	c, from, err := r.again()
	if err != nil {
		return setup{}, err
	}
	next := setup{config: c, from: from}
	if c.StateDir != r.now.StateDir {
		return next, fmt.Errorf("state_dir = %q: the state stays in %s while the agent runs; stop the agent, move the directory and start the agent", c.StateDir, r.now.StateDir)
	}
	if next.policy, err = policyDigest(c.Policy); err != nil {
		return next, err
	}
	if next.policy != r.now.policy {
		_, err = localPolicy(c.Policy, r.host, c.own())
	}
	return next, err
}

// fallBack returns to the configuration of before if no agent could be wired with the
// new one. It reports false if there is none.
func (r *reloading) fallBack(err error) bool {
	if r.before == nil {
		return false
	}
	r.log.Error("no agent can run with the new configuration; the one before it is taken back", "error", err)
	r.now, r.before = *r.before, nil
	return true
}

func policyDigest(path string) (protocol.Digest, error) {
	b, err := durable.ReadFile(path, policy.MaxText)
	if errors.Is(err, fs.ErrNotExist) {
		return protocol.Digest{}, nil
	}
	if err != nil {
		return protocol.Digest{}, fmt.Errorf("read the policy: %w", err)
	}
	return protocol.Sum(b), nil
}
