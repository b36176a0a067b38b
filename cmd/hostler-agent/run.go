package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/checkup"
	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/drill"
	"github.com/hostler-io/hostler/agent/fsck"
	"github.com/hostler-io/hostler/agent/join"
	"github.com/hostler-io/hostler/agent/local"
	"github.com/hostler-io/hostler/agent/probe"
	"github.com/hostler-io/hostler/agent/uplink"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/buildinfo"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/internal/limiter"
	"github.com/hostler-io/hostler/internal/settings"
	"github.com/hostler-io/hostler/mqtt"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/samples"
	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/volume"
)

// errJoined ends the agent of a host without a fleet, so that the next one
// begins with a coordinator.
var errJoined = errors.New("the host has joined a fleet")

// group is the group whose members may use the socket.
const group = "hostler"

// collectAt is by how many percent the heap grows between two collections of garbage. It is
// small, so they cost little, and what it may grow by is much of what the agent has for itself.
const collectAt = 50

// run serves until ctx ends. A host that joins a fleet meanwhile goes on as its
// member; commands and containers do not notice. configured are the options by which
// another process of this program reads the same configuration.
func run(ctx context.Context, again loader, configured []string, log *slog.Logger) error {
	if os.Getenv("GOGC") == "" { // a person who set it knows better
		defer debug.SetGCPercent(debug.SetGCPercent(collectAt))
	}
	c, from, err := again()
	if err != nil {
		return err
	}
	r := &reloading{again: again, log: log, service: daemon.ServiceOf(os.Environ(), os.Getpid()), now: setup{config: c, from: from}}
	defer r.watch()()
	defer context.AfterFunc(ctx, func() { r.tell(r.service.Stopping()) })()
	r.now.policy, _ = policyDigest(c.Policy) // a policy that cannot be read is told by what takes it
	s := state(c.StateDir)
	if err := s.prepare(); err != nil {
		return err
	}
	held, err := s.lockSoon(ctx, lockRun, lockPatience)
	if err != nil {
		return err
	}
	defer held.Close()
	for {
		switch err := once(ctx, s, r, log); {
		case errors.Is(err, errJoined):
			log.Info("the host has joined a fleet")
		case errors.Is(err, errUpgrade):
			if err := (&upgrader{state: s, reload: r, configured: configured, log: log}).run(ctx); err != nil {
				return err
			}
		case errors.Is(err, errReload):
			log.Info("the configuration has changed; the agent begins anew with it")
		case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
			return nil
		case !r.fallBack(err):
			return err
		}
	}
}

// node is everything of one agent.
type node struct {
	state   state
	config  config
	reload  *reloading
	log     *slog.Logger
	record  join.Record
	member  *membership // nil without a fleet
	bulk    *mqtt.Bulk  // likewise
	agent   *agent.Agent
	meter   *meter
	machine *machine
	needs   []checkup.Need // what the start has shown of the guard
	swap    chan struct{}  // the release that is staged is to be tried or put in place
}

// once wires one agent and runs it to its end.
func once(ctx context.Context, s state, r *reloading, log *slog.Logger) (err error) {
	c, from := r.now.config, r.now.from
	n := &node{state: s, config: c, reload: r, log: log, swap: make(chan struct{}, 1)}
	if n.record, err = s.record(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	host := protocol.HostID(c.Host)
	if n.record.Member() {
		if where, set := from["host"]; set && host != n.record.Host {
			return fmt.Errorf("%s says host = %q, and this host is %s since it joined; a host keeps its id", where, host, n.record.Host)
		}
		host = n.record.Host
	}
	r.host = host
	q, err := s.openQueue(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	runs, err := runner.New(runner.Config{Root: s.runs(), Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runs.Close()) }()
	runtimes, unsupported, err := openRuntimes(ctx, s, c, log)
	if err != nil {
		return err
	}
	defer closeRuntimes(runtimes)
	boot, err := runner.Boot()
	if err != nil {
		return err
	}
	limits, missing := limiter.New(c.LXC.Path)
	unsupported = append(unsupported, missing...)
	cfg := agent.Config{
		Host: host, Fleet: noFleet(), FleetName: "none", Queue: q, Runtimes: runtimes,
		Boot: boot, Features: features(runtimes, limits.Supported()), BootMS: clock.BootMS, Now: clock.Now, Rand: rand.Reader, Log: log,
		HostRuns: c.Commands.Parallel, Lanes: c.Commands.Lanes, Sessions: c.Sessions.Parallel,
		RecordSessions: c.Sessions.Record, RecordBytes: int64(c.Sessions.RecordMiB) << 20, RecordOrEnd: c.Sessions.Unrecorded == unrecordedEnd,
		OutputTotal: int64(c.Commands.OutputMiB) << 20, OutputAge: time.Duration(c.Commands.OutputDays) * 24 * time.Hour,
	}
	if _, err := os.Stat(c.Commands.Supervisor); err == nil {
		supervisors := commands.NewSupervisors(runs, boot)
		cfg.Commands, cfg.RunDirs, cfg.Supervisor = supervisors, supervisors, []string{c.Commands.Supervisor}
		if err := containment(); err != nil {
			unsupported = append(unsupported, "cgroup2: "+err.Error()+"; commands run, but what they leave behind goes on after their end, and they cannot be cancelled")
			log.Warn("commands cannot be held in cgroups", "error", err)
		}
		self, err := thisProgram()
		if err != nil {
			return err
		}
		cfg.Mover = []string{self, "files"}
		if cfg.Printers, err = c.told(self, s).Printers(runtimes); err != nil {
			return err
		}
	} else {
		unsupported = append(unsupported, "commands: "+err.Error())
		log.Warn("commands are not supported", "error", err)
	}
	prober, err := probe.New(c.Socket+"-checks", log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, prober.Close()) }()
	cfg.Probe = prober.Probe
	cfg.Witness, cfg.Leaving, cfg.Limiter, cfg.Backups = watchEnd, leaving(systemdRuns), limits, s.containerBackups(c.Backups)
	cfg.Volumes = &volume.Store{Dir: c.volumes()}
	cfg.Fences = c.Fence.dir().Ask
	nets, missing, err := c.openNetworks(s, &cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, nets.Close()) }()
	unsupported = append(unsupported, missing...)
	if cfg.Payloads, err = s.openPayloads(); err != nil {
		return err
	}
	n.machine = newMachine(c.StateDir, unsupported)
	cfg.HostInfo = n.machine.info
	cfg.Policies.Local, cfg.Policies.Broken = localPolicy(c.Policy, host, c.own())
	cfg.Policies.Own = c.own()
	if c.Metrics.Influx.Via == viaCoordinator {
		cfg.Features = append(cfg.Features, samples.Feature)
	}
	if err := n.join(ctx, &cfg); err != nil {
		return err
	}
	if n.meter, err = newMeter(ctx, s, c, q, nets, map[string]string{"host": string(host), "fleet": string(cfg.FleetName)}, n.writeSamples, log); err != nil {
		return err
	}
	cfg.Watch, cfg.Rules = n.meter.run, n.meter.rules
	if n.agent, err = agent.New(cfg); err != nil {
		return err
	}
	n.meter.facts.Degraded = func() bool { return n.agent.Metrics().Degraded }
	n.meter.list, n.meter.disk = n.agent.Containers, limits.Disk
	if n.member != nil {
		n.meter.facts.Unsent = func() uint64 { return n.agent.Metrics().Unsent }
		n.meter.facts.Certificate = n.member.validity
	}
	return n.serve(ctx, host)
}

// noFleet stands for the fleet of a host that has none. It is never shown.
func noFleet() protocol.FleetID { return protocol.FleetID{1} }

// join gives the agent its coordinator, if the host is a member.
func (n *node) join(ctx context.Context, cfg *agent.Config) error {
	if !n.record.Member() {
		n.log.Info("this host is no member of a fleet; it works for itself alone")
		return nil
	}
	id, key, err := n.state.keys(string(n.record.Host))
	if err != nil {
		return err
	}
	client, err := join.New(join.Config{Identity: id, TLS: key, Log: n.log})
	if err != nil {
		return err
	}
	if n.member, err = newMembership(n.record, key, client, n.state.keep, n.log); err != nil {
		return err
	}
	n.record.Revoked = nil // the member has those that count, and the others may be many
	ring := n.member.keys.Chain().Ring()
	cfg.Fleet, cfg.FleetName, cfg.Signer, cfg.Trust = ring.Fleet, ring.Name, id, n.member
	cfg.Unseal, cfg.Programs = id.Decrypt, n.programs()
	n.state.loadPolicies(ring.Fleet, &cfg.Policies)
	l, bulk, err := connect(n.member, n.record.Host, n.record.Brokers, n.log)
	if err != nil {
		return err
	}
	cfg.Link, cfg.Bulk, n.bulk, cfg.Spread = l, bulk, bulk, l.Spread
	n.guarded(ctx, cfg)
	cfg.Faults = drill.Faults{
		protocol.FaultPartition: n.member.outage.Begin,
		protocol.FaultStopAgent: stopAgent,
	}
	return nil
}

// serve runs what was wired until ctx ends, or until the host joins a fleet.
func (n *node) serve(ctx context.Context, host protocol.HostID) error {
	from := n.reload.now.from
	handler, err := local.New(local.Config{
		Agent: n.agent, Host: host, Version: buildinfo.Version, Measured: n.meter.scrape, Log: n.log,
		Check: func(ctx context.Context) []api.Finding { return lookOver(ctx, n.config, n.needs...) },
		Support: map[string]func(context.Context, io.Writer) error{
			"config": func(_ context.Context, w io.Writer) error { return settings.Show(w, &n.config, from) },
			"fsck": func(ctx context.Context, w io.Writer) error {
				r, err := check(ctx, n.config.withoutTargets(), false, n.log)
				if err != nil {
					return err
				}
				return printReport(w, r)
			},
		},
	})
	if err != nil {
		return err
	}
	socket, err := local.Listen(ctx, n.config.Socket, groupID())
	if err != nil {
		return err
	}
	doors := n.doors()
	for _, d := range doors {
		d.try(ctx) // before the agent tells that it serves
	}
	// The agent says goodbye over the connections, so they end after it.
	beside, end := context.WithCancelCause(context.WithoutCancel(ctx))
	g, inner := errgroup.WithContext(ctx)
	others, beside := errgroup.WithContext(beside)
	g.Go(func() error { return n.agent.Run(inner) })
	g.Go(func() error { return n.reload.await(inner) })
	g.Go(func() error { return n.awaitSwap(inner) })
	others.Go(func() error { return local.Serve(beside, socket, handler) })
	for _, d := range doors {
		others.Go(func() error {
			l, err := d.bind(beside)
			if err != nil {
				return err
			}
			return local.Serve(beside, l, d.asked(handler))
		})
	}
	if n.member != nil {
		others.Go(func() error { return n.bulk.Run(beside, mqtt.Opening(n.agent.BulkSession())) })
		others.Go(func() error { return n.member.upkeep(beside) })
		others.Go(func() error { return n.member.askWhy(beside) })
	} else {
		g.Go(func() error { return n.await(inner) })
	}
	others.Go(func() error { return daemon.Tidy(beside) })
	others.Go(func() error { n.sweepLeaves(beside); return nil })
	others.Go(func() error { n.collectImages(beside); return nil })
	others.Go(func() error {
		return n.machine.watch(beside, func(ctx context.Context) error { return agent.HostChanged(ctx, n.agent) }, n.log)
	})
	g.Go(func() error { // what runs beside the agent must not end before it
		select {
		case <-beside.Done():
			return context.Cause(beside)
		case <-inner.Done():
			return nil
		}
	})
	g.Go(func() error {
		return n.reload.service.Watch(inner, func(ctx context.Context) { _, _ = n.agent.Status(ctx) })
	})
	n.log.Info("serving", "host", string(host), "version", buildinfo.Version, "socket", n.config.Socket, "fleet", n.member != nil)
	n.reload.ready()
	err = g.Wait()
	end(err)
	if failed := others.Wait(); !errors.Is(failed, err) {
		err = errors.Join(err, failed)
	}
	return err
}

// doors are the listeners for other machines.
func (n *node) doors() (all []*door) {
	for _, p := range n.config.HTTP.ports() {
		if n.member == nil {
			n.log.Info("an address for other machines is not served before the host has joined a fleet, which certifies who may ask", "setting", p.setting)
			continue
		}
		all = append(all, &door{port: p, log: n.log, listen: func(ctx context.Context, address string) (net.Listener, error) {
			return local.ListenTLS(ctx, address, n.member.reached())
		}})
	}
	return all
}

// sweepLeaves removes the control groups of commands of which kills have left nothing
// else. What stays is told by fsck.
func (n *node) sweepLeaves(ctx context.Context) {
	removed, err := fsck.Config{Runs: n.state.runs()}.SweepLeaves(ctx, time.After(fsck.LeafAge))
	if len(removed) > 0 {
		n.log.Info("empty control groups of commands that are over were removed", "count", len(removed), "first", removed[0])
	}
	if err != nil && ctx.Err() == nil {
		n.log.Warn("control groups of commands that are over stay; to look: hostler-agent fsck", "error", err)
	}
}

// lookForMembership is how often a host without a fleet looks whether it has
// joined one.
const lookForMembership = 2 * time.Second

// await ends with errJoined when the host is a member. An enrolment that waits
// for its approval, and that nobody else looks after, is looked after here: so
// it comes through a reboot.
func (n *node) await(ctx context.Context) error {
	for {
		if err := wait(ctx, lookForMembership, nil); err != nil {
			return err
		}
		r, err := n.state.record()
		switch {
		case err != nil:
			continue // none yet; if it is broken, the next start says so
		case r.Member():
			return errJoined
		case r.Code == "":
			continue // it was decided against us
		}
		held, err := n.state.lock(lockJoin)
		if err != nil {
			continue // join is at work
		}
		err = n.finish(ctx)
		held.Close()
		if err != nil {
			return err
		}
	}
}

// finish takes the enrolment to its decision.
func (n *node) finish(ctx context.Context) error {
	r, err := n.state.record()
	if err != nil || r.Code == "" {
		return nil // decided meanwhile, by the holder of the lock
	}
	client, err := enrolment(n.state, n.config, r, n.log, n.state.keep, func(r join.Record) {
		n.log.Info("the host waits for approval", "host", string(r.Host), "words", r.Words)
	})
	if err != nil {
		return err
	}
	r, err = client.Run(ctx, r)
	switch {
	case err == nil:
		return errJoined
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	n.log.Error("the host did not join", "error", err)
	if r.Code == "" {
		return nil // the decision was kept
	}
	r.Code = ""
	return n.state.keep(r)
}

// groupID is the number of the socket's group, −1 if the host has none.
func groupID() int {
	g, err := user.LookupGroup(group)
	if err != nil {
		return -1
	}
	id, err := strconv.Atoi(g.Gid)
	if err != nil {
		return -1
	}
	return id
}

// link lets an MQTT client be the agent's [uplink.Link].
type link struct{ *mqtt.Client }

// Run shadows the client's: the two kinds of session are one.
func (l link) Run(ctx context.Context, open func(conn uint64) (uplink.Opening, error)) error {
	return l.Client.Run(ctx, func(conn uint64) (mqtt.Opening, error) {
		s, err := open(conn)
		return mqtt.Opening(s), err
	})
}

// connect makes both connections of a member. Neither is open yet.
func connect(m *membership, host protocol.HostID, brokers []string, log *slog.Logger) (link, *mqtt.Bulk, error) {
	cfg := mqtt.Config{Addresses: brokers, Dial: m.dialer(), ClientID: string(host), Logger: log}
	client, err := mqtt.New(cfg)
	if err != nil {
		return link{}, nil, err
	}
	bulk, err := mqtt.NewBulk(cfg)
	return link{client}, bulk, err
}
