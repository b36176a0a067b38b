package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hostler-io/hostler/agent/bridges"
	"github.com/hostler-io/hostler/agent/checkup"
	"github.com/hostler-io/hostler/agent/fsck"
	"github.com/hostler-io/hostler/agent/join"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/network/names"
	"github.com/hostler-io/hostler/podman"
)

// lookOver checks this host as it is configured, and what its agent has found that it needs.
func lookOver(ctx context.Context, c config, found ...checkup.Need) []api.Finding {
	quiet := slog.New(slog.DiscardHandler)
	s := state(c.StateDir)
	cfg := checkup.Config{
		Dirs: []checkup.Dir{{Name: "state", Path: c.StateDir}, {Name: "containers", Path: c.LXC.Path}, {Name: "volumes", Path: c.volumes()}},
		Left: func(ctx context.Context) (int, error) {
			ctx, cancel := context.WithTimeout(ctx, tidyFor)
			defer cancel()
			r, err := check(ctx, c.withoutTargets(), false, quiet)
			if err == nil && len(r.Unchecked) > 0 {
				err = errors.New(strings.Join(r.Unchecked, "; "))
			}
			return r.Left(), err
		},
	}
	unmanaged := managed(systemdRuns)
	cfg.NoSystemd = unmanaged != nil
	restart, servePodman := " && systemctl restart hostler-agent", " && systemctl enable --now podman.socket"
	if cfg.NoSystemd {
		restart = "    # then start hostler-agent run anew"
		servePodman = " && podman system service --time=0 unix://" + c.Podman.Socket + restart
	}
	cfg.Needs = append(cfg.Needs, checkup.Need{Name: "service manager", Problem: unmanaged, Mend: "have another supervisor start hostler-agent run, at boot and whenever it has ended"})
	if _, err := os.Stat(s.queueFile()); err == nil {
		cfg.Memory = s.intact
	}
	asked, cancel := context.WithTimeout(ctx, askFor)
	l, err := openLXC(asked, s, c, quiet)
	if err == nil {
		err = l.Close()
	}
	cancel()
	cfg.Needs = append(cfg.Needs, checkup.Need{Name: "lxc", Problem: err, Mend: "apt-get install hostler-agent-lxc"})
	if c.Podman.Use != podmanOff {
		asked, cancel := context.WithTimeout(ctx, askFor)
		p, err := openPodman(asked, c, quiet)
		if err == nil {
			_, err = p.List(asked)
			if r, is := p.(*podman.Runtime); is && err == nil {
				var dir string
				if dir, err = podman.Storage(asked, r); err == nil {
					cfg.Dirs = append(cfg.Dirs, checkup.Dir{Name: "containers of podman", Path: dir})
				}
			}
			err = errors.Join(err, p.Close())
		}
		cancel()
		cfg.Needs = append(cfg.Needs, checkup.Need{Name: "podman", Problem: err, Mend: "apt-get install podman" + servePodman})
	}
	if c.Network.Bridge != "" && c.Network.Names {
		_, err := names.Find()
		cfg.Needs = append(cfg.Needs, checkup.Need{Name: bridges.Feature, Problem: err, Mend: "apt-get install " + names.Package + restart})
	}
	_, err = os.Stat(c.Commands.Supervisor)
	cfg.Needs = append(cfg.Needs, checkup.Need{Name: "commands", Problem: err, Mend: "apt-get install --reinstall hostler-agent"},
		checkup.Need{Name: "cgroup2", Problem: containment(), Mend: "grep cgroup2 /proc/mounts    # is it writable there, and the kernel 5.14 or newer? doc/hosts.md says what works without"},
		checkup.Need{Name: "user namespaces", Problem: namespaces(), Mend: "sysctl -w user.max_user_namespaces=65536"})
	for i, ids := range []container.IDRange{c.LXC.ids(), c.Podman.ids()} {
		cfg.Needs = append(cfg.Needs, checkup.Need{Name: []string{"ids of lxc", "ids of podman"}[i], Problem: checkup.Shared(ids.First, ids.Count, "/etc/subuid", "/etc/subgid"), Mend: "hostler-agent config show --origin | grep first_id    # set another one, or take other ids in that line"})
	}
	rec, err := s.record()
	switch {
	case err == nil && rec.Member():
		m, member, err := s.look(rec, quiet)
		if err != nil {
			cfg.Needs = append(cfg.Needs, checkup.Need{Name: "membership", Problem: err, Mend: "hostler-agent leave    # then join again; or restore the files"})
			break
		}
		_, cfg.Certificate = m.validity()
		cfg.Addresses = addressesOf(rec, m, member)
		for _, p := range c.HTTP.ports() {
			cfg.Addresses = append(cfg.Addresses, p.own())
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		cfg.Needs = append(cfg.Needs, checkup.Need{Name: "membership", Problem: err, Mend: "hostler-agent leave    # then join again; or restore " + s.membership()})
	}
	cfg.Needs = append(cfg.Needs, found...)
	return checkup.Run(ctx, cfg)
}

// managed tells why no unit starts the agent, where runs is not there; nil if it is.
func managed(runs string) error {
	if _, err := os.Stat(runs); errors.Is(err, fs.ErrNotExist) {
		return errors.New("systemd does not run here, so no unit starts hostler-agent at boot, nor again after its end")
	}
	return nil
}

// look opens what the host knows of its fleet, to read it alone: it makes no key, and what
// it opens keeps nothing.
func (s state) look(r join.Record, log *slog.Logger) (*membership, *join.Client, error) {
	id, err := certs.LoadIdentity(s.identity())
	if err != nil {
		return nil, nil, fmt.Errorf("the host's key: %w", err)
	}
	key, err := certs.LoadTLSKey(s.tlsKey())
	if err != nil {
		return nil, nil, fmt.Errorf("the host's TLS key: %w", err)
	}
	c, err := join.New(join.Config{Identity: id, TLS: key, Timeout: tryFor, Log: log})
	if err != nil {
		return nil, nil, err
	}
	m, err := newMembership(r, key, c, func(join.Record) error { return nil }, log)
	return m, c, err
}

const (
	// tryFor bounds a question to the coordinator.
	tryFor = 5 * time.Second
	// askFor bounds what one runtime is asked, and tidyFor what is asked for debris: one that
	// hangs must not take the time of all other checks, which are an order of a minute.
	askFor  = 10 * time.Second
	tidyFor = 20 * time.Second
)

// addressesOf are those that a member dials.
func addressesOf(r join.Record, m *membership, c *join.Client) (all []checkup.Address) {
	for _, a := range r.Addresses {
		all = append(all, checkup.Address{Name: "API", Address: a, Try: func(ctx context.Context, address string) error {
			_, err := c.Rings(ctx, []string{address}, m.Ring())
			return err
		}})
	}
	dial := m.dialer()
	for _, a := range r.Brokers {
		all = append(all, checkup.Address{Name: "broker", Address: a, Try: func(ctx context.Context, address string) error {
			conn, err := dial(ctx, address)
			if err == nil {
				err = conn.Close()
			}
			return err
		}})
	}
	return all
}

// intact reads the agent's memory whole: each page is held against its sum. A directory
// that is left because the process was killed is removed by fsck.
func (s state) intact(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp(string(s), fsck.Spare+"*")
	if err != nil {
		return fmt.Errorf("make room for a copy: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	q, err := queue.OpenCopy(ctx, queue.Config{Path: s.queueFile()}, filepath.Join(dir, "queue.db"))
	if err != nil {
		return err
	}
	return q.Close()
}

// namespaces tells why containers cannot have users of their own; nil if they can.
func namespaces() error {
	const limit = "/proc/sys/user/max_user_namespaces"
	if firstField(text(limit)) == "0" {
		return fmt.Errorf("%s is 0: containers cannot have users of their own", limit)
	}
	if _, err := os.Stat("/proc/self/ns/user"); err != nil {
		return fmt.Errorf("the kernel has no user namespaces: %w", err)
	}
	return nil
}
