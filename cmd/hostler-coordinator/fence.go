package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/fence/agents"
	"github.com/hostler-io/hostler/internal/settings"
	"github.com/hostler-io/hostler/internal/warnings"
)

// fenceConfig is about hosts that are lost while unique containers may run there.
type fenceConfig struct {
	First     string   `toml:"first" takes:"restart" does:"What comes first where both the end of the lease and a fence device can show that a lost host runs nothing: auto (a device, but the lease where other containers run on the host), lease, or device."`
	FirstAt   []string `toml:"first_at" takes:"restart" default:"none" does:"The sites (label site of a host) for which another order holds than fence.first, each as SITE=auto, SITE=lease or SITE=device."`
	Action    string   `toml:"action" takes:"restart" does:"What a fence does to a host: reboot, or off. It is on again only after it was known to be off."`
	Grace     int      `toml:"grace_seconds" takes:"restart" unit:"s" does:"How long a host is waited for after its lease has ended, before it is switched off."`
	PerHour   int      `toml:"per_hour" takes:"restart" does:"How many hosts of one site (label site) are fenced within an hour at most, without a person. 0: none is without a person."`
	Reconnect int      `toml:"reconnect_seconds" takes:"restart" unit:"s" does:"How long a fenced host must be heard without a break before it is let in again."`
	Unfence   string   `toml:"unfence" takes:"restart" does:"Whether a fenced host that is heard again is let in by itself: auto, or manual (hostler host unfence)."`
	Secrets   string   `toml:"secrets_dir" takes:"restart" does:"The directory of files that hold the secrets of fence devices. A device names a file in it, or credential:NAME for a credential of the systemd unit."`
	Agents    string   `toml:"agents_dir" takes:"restart" does:"The directory of the programs of fence-agents. Programs elsewhere are never run."`
	Witness   []string `toml:"witness" takes:"restart" default:"none" does:"Addresses, as host:port, at the site of the coordinator, such as its router. Before a host is fenced, one of them must answer, if only by refusing the connection: else the coordinator's own network may be what failed. Needed where there are fewer than six hosts."`
}

func defaultFence() fenceConfig {
	p := fence.DefaultPolicy()
	return fenceConfig{
		First: string(p.Order), Action: string(p.Action), Grace: int(p.Grace / time.Second), PerHour: p.PerHour, Reconnect: int(p.Reconnect / time.Second), Unfence: p.Unfence,
		Secrets: "/etc/hostler/fence", Agents: agents.Dir,
	}
}

func (c fenceConfig) policy() fence.Policy {
	sites := make(map[string]fence.Order, len(c.FirstAt))
	for _, text := range c.FirstAt {
		site, order, _ := strings.Cut(text, "=")
		sites[site] = fence.Order(order)
	}
	return fence.Policy{
		Order: fence.Order(c.First), Sites: sites, Action: fence.Action(c.Action), Grace: time.Duration(c.Grace) * time.Second, PerHour: c.PerHour,
		Reconnect: time.Duration(c.Reconnect) * time.Second, Unfence: c.Unfence,
	}
}

func (c fenceConfig) check() error {
	for name, dir := range map[string]string{"secrets_dir": c.Secrets, "agents_dir": c.Agents} {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf("fence.%s: %q is not an absolute path", name, dir)
		}
	}
	for _, w := range c.Witness {
		if host, port, err := net.SplitHostPort(w); err != nil || host == "" || port == "" {
			return fmt.Errorf("fence.witness: %q: use host:port", w)
		}
	}
	p := c.policy()
	if len(p.Sites) < len(c.FirstAt) {
		return errors.New("fence.first_at: a site is named twice")
	}
	return p.Check()
}

// secret reads the secret of a fence device.
func (c fenceConfig) secret(file string) (string, error) {
	if !strings.Contains(file, ":") {
		file = filepath.Join(c.Secrets, file)
		if i, err := os.Stat(file); err == nil && i.Mode().Perm()&0o077 != 0 {
			return "", fmt.Errorf("%s can be read by others than its owner: chmod 600 %s", file, file)
		}
	}
	b, err := settings.Secret("the secret of the fence device", file, os.Getenv)
	return string(b), err
}

// witnessPatience is how long a witness may take to answer.
const witnessPatience = 2 * time.Second

// witness says what is wrong with our own side: the broker does not serve, or no witness
// answers. A refused connection is an answer.
func (s *server) witness(ctx context.Context) string {
	if s.broker.server.Load() == nil {
		return "the broker does not serve, so no host can be heard"
	}
	all := s.config.Fence.Witness
	for _, w := range all {
		d := net.Dialer{Timeout: witnessPatience}
		c, err := d.DialContext(ctx, "tcp", w)
		if err == nil {
			_ = c.Close() // it has answered
		}
		if err == nil || errors.Is(err, syscall.ECONNREFUSED) {
			return ""
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("no witness answers (%s), so the coordinator's own network may be what failed", strings.Join(all, ", "))
}

// fences is what hosts are cut off with.
func (s *server) fences() coordinator.Fences {
	return coordinator.Fences{
		FencePolicy: s.config.Fence.policy(), Programs: agents.Runner{Dir: s.config.Fence.Agents, Known: new(agents.Descriptions)}, Secret: s.config.Fence.secret, Witness: s.witness,
	}
}

// fenceDevices says which devices could not switch their hosts off.
func (s *server) fenceDevices() error {
	var all []error
	for _, d := range s.coord.Fencing().Devices() {
		for _, t := range d.Targets {
			if why := d.Usable(t); why != "" {
				all = append(all, fmt.Errorf("%s is not used for host %s: %s", d.Name, t.Host, why))
			}
		}
		if d.Trouble != "" {
			all = append(all, fmt.Errorf("%s does not answer: %s", d.Name, d.Trouble))
		}
	}
	return errors.Join(all...)
}

// waitsForFence says which hosts keep their unique containers from starting elsewhere.
func (s *server) waitsForFence() error {
	var all []error
	for host, concerns := range s.coord.Fencing().Concerns() {
		for _, a := range concerns {
			if a.ID == string(warnings.FenceNeeded) {
				all = append(all, fmt.Errorf("host %s: %s", host, a.Text))
			}
		}
	}
	return errors.Join(all...)
}
