//go:build linux

package dev

import (
	"bufio"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/network"
)

// programs and helpers are what a fleet is run with. Agents find the helpers by themselves.
var (
	programs = []string{"hostler", "hostler-coordinator", "hostler-agent"}
	helpers  = []string{"hostler-run", "hostler-lxc"}
)

// Up brings the fleet up with that many hosts, each of them online, and makes
// its context the one in use. If it fails, or ctx ends, nothing is left behind.
func (f *Fleet) Up(ctx context.Context, hosts int) (Status, error) {
	if err := f.check(hosts); err != nil {
		return Status{}, err
	}
	// Who makes the directory has the name, and who has the bridge the network.
	release, err := f.lockRoot()
	if err != nil {
		return Status{}, err
	}
	defer release()
	if err := os.Mkdir(f.dir(), 0o711); errors.Is(err, fs.ErrExist) {
		return Status{}, fmt.Errorf("fleet %q: %w", f.cfg.Name, ErrUp)
	} else if err != nil {
		return Status{}, err
	}
	unlock, err := f.lock()
	if err != nil {
		return Status{}, err
	}
	defer unlock()
	r, err := f.claim(ctx, hosts)
	release()
	if err == nil {
		err = f.populate(ctx, r)
	}
	if err != nil {
		f.cfg.Progress(ending(ctx) + "; taking it down again")
		return Status{}, errors.Join(err, f.down(context.WithoutCancel(ctx)))
	}
	return f.Status()
}

// ending says why a fleet that was begun is not finished.
func ending(ctx context.Context) string {
	if ctx.Err() != nil {
		return "interrupted"
	}
	return "that failed"
}

// check refuses what cannot work, before anything is made.
func (f *Fleet) check(hosts int) error {
	if os.Geteuid() != 0 {
		return ErrRoot
	}
	if hosts < 1 || hosts > MaxHosts {
		return fmt.Errorf("%d hosts: want 1 to %d", hosts, MaxHosts)
	}
	for _, p := range slices.Concat(programs, helpers) {
		if _, err := os.Stat(f.program(p)); err != nil {
			return fmt.Errorf("looking for the programs of a fleet: %w", err)
		}
	}
	_, err := hierarchies()
	return err
}

// claim takes a network, and what bears the fleet's name in the operator's
// configuration.
func (f *Fleet) claim(ctx context.Context, hosts int) (record, error) {
	r := record{Hosts: hosts}
	var err error
	if r.Subnet, err = freeSubnet(); err != nil {
		return r, err
	}
	if r.Operator, err = f.operator(ctx); err != nil {
		return r, err
	}
	if err := f.save(r); err != nil {
		return r, err
	}
	f.cfg.Progress(fmt.Sprintf("bridge %s, network %s", f.bridge(), r.Subnet))
	gateway := netip.PrefixFrom(r.Subnet.Addr().Next(), r.Subnet.Bits())
	return r, network.EnsureBridge(network.BridgeConfig{Name: f.bridge(), Address: gateway})
}

// populate starts the coordinator and lets the hosts in.
func (f *Fleet) populate(ctx context.Context, r record) error {
	c, err := f.startCoordinator(ctx, r)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range f.nodes(r)[1:] {
		g.Go(func() error {
			if err := n.join(ctx, c); err != nil {
				return fmt.Errorf("%s: %w", n.name, err)
			}
			f.cfg.Progress(n.name + " is online, at " + n.addr.Addr().String())
			return nil
		})
	}
	return g.Wait()
}

// freeSubnet finds a /24 without a route on this machine. Networks that
// Hostler gives to containers by itself are not among them.
func freeSubnet() (netip.Prefix, error) {
	for third := range 256 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 209, byte(third), 0}), 24)
		taken, err := network.Taken(p)
		if err != nil {
			return p, err
		}
		if !taken {
			return p, nil
		}
	}
	return netip.Prefix{}, errors.New("no network below 10.209.0.0/16 is free")
}

// startCoordinator makes the fleet, its coordinator and the context, and
// returns who speaks to it.
func (f *Fleet) startCoordinator(ctx context.Context, r record) (*client.Client, error) {
	n := f.node(r, 0)
	addr := n.addr.Addr().String()
	if err := os.WriteFile(n.config(), fmt.Appendf(nil,
		"state_dir = %q\n[http]\nlisten = %q\n[mqtt]\nlisten = %q\n", n.state(), addr+":"+httpPort, addr+":"+mqttPort), 0o600); err != nil {
		return nil, err
	}
	f.cfg.Progress("making fleet " + f.cfg.Name + " and its coordinator")
	made, err := f.hostler(ctx, r.Operator, "fleet", "init", f.cfg.Name, "--coordinator", n.state())
	if err != nil {
		return nil, err
	}
	token := fieldOf(made, "token")
	if token == "" {
		return nil, errors.New("hostler fleet init printed no token")
	}
	if err := os.WriteFile(f.path("token"), []byte(token+"\n"), 0o600); err != nil {
		return nil, err
	}
	if _, err := n.boot(ctx, nil); err != nil {
		return nil, err
	}
	c, err := n.answers(ctx, f.url(r), token)
	if err != nil {
		return nil, err
	}
	f.cfg.Progress("the coordinator serves " + f.url(r))
	_, err = f.hostler(ctx, r.Operator, "login", f.url(r), "--token-file", f.path("token"), "--ca", n.authority(), "--context", f.cfg.Name)
	return c, err
}

func (n node) authority() string { return filepath.Join(n.state(), "ca.crt") }

func (n node) client(url, token string) (*client.Client, error) {
	b, err := durable.ReadFile(n.authority(), 64<<10)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("%s is no certificate", n.authority())
	}
	return client.New(client.Config{Address: url, Token: token, CA: block.Bytes})
}

// glance is how often it is looked whether the coordinator answers.
const glance = 20 * time.Millisecond

// answers returns who speaks to the coordinator, when it does answer. A new one
// writes its certificate first.
func (n node) answers(ctx context.Context, url, token string) (*client.Client, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the coordinator does not answer; see %s", n.log()))
	defer cancel()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		c, err := n.client(url, token)
		if err == nil {
			err = c.Get(ctx, "/v1/status", nil, new(api.Status))
		}
		if err == nil || !errors.Is(err, client.ErrUnreachable) && !errors.Is(err, fs.ErrNotExist) {
			return c, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// join brings a new host in and waits until it is online.
func (n node) join(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it does not come online; see %s", n.log()))
	defer cancel()
	if err := os.Mkdir(n.state(), 0o711); err != nil {
		return err
	}
	if err := os.WriteFile(n.config(), fmt.Appendf(nil,
		"host = %q\nstate_dir = %q\nsocket = %q\n[lxc]\npath = %q\n", n.name, n.state(), n.socket(), filepath.Join(n.state(), "lxc")), 0o600); err != nil {
		return err
	}
	var invite api.Invite
	if err := c.Post(ctx, "/v1/invites", nil, api.NewInvite{TTL: "1h"}, &invite); err != nil {
		return err
	}
	screen, err := n.boot(ctx, []string{n.fleet.program(n.daemon()), "--config", n.config(), "join", invite.Code})
	if err != nil {
		return err
	}
	defer screen.Close()
	words, err := n.read(ctx, screen)
	if err != nil {
		return err
	}
	if err := n.approve(ctx, c, words); err != nil {
		return err
	}
	// Closed now, the screen would end the joining half-way.
	if _, err := io.Copy(io.Discard, screen); err != nil {
		return err
	}
	return n.online(ctx, c)
}

// read returns the four words that the host shows.
func (n node) read(ctx context.Context, screen io.ReadCloser) (string, error) {
	stop := context.AfterFunc(ctx, func() { screen.Close() })
	defer stop()
	lines := bufio.NewScanner(screen)
	for lines.Scan() {
		if words := fieldOf(lines.Text(), "words"); words != "" {
			return words, nil
		}
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return "", fmt.Errorf("it cannot join; see %s", n.log())
}

// approve lets the host in, if the coordinator has the same words of it.
func (n node) approve(ctx context.Context, c *client.Client, words string) error {
	var all []api.Enrolment
	if err := c.Get(ctx, "/v1/enrolments", nil, &all); err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(e api.Enrolment) bool { return e.Host == n.name && e.State == "pending" })
	if i < 0 {
		return errors.New("the coordinator knows nothing of its enrolment")
	}
	if all[i].Words != words {
		return fmt.Errorf("it shows the words %q, the coordinator %q: someone is intercepting the connection", words, all[i].Words)
	}
	return c.Post(ctx, "/v1/enrolments/"+all[i].ID+"/approve", nil, api.Decision{Words: words}, nil)
}

// errEnough ends a stream of events.
var errEnough = errors.New("enough")

// online returns when the host is.
func (n node) online(ctx context.Context, c *client.Client) error {
	err := c.Events(ctx, 0, func(e api.Event) error {
		if e.Type == "host.online" && e.Host == n.name {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	if err == nil {
		err = errors.New("the coordinator ended the events")
	}
	return err
}

// fieldOf returns what a program printed on its line "name: value".
func fieldOf(printed, name string) string {
	for line := range strings.Lines(printed) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
