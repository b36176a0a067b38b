package containers

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/retry"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/limit"
	"github.com/hostler-io/hostler/protocol/port"
)

// Network is what containers of this host are attached to. It is safe for
// concurrent use.
type Network interface {
	// First is the network of containers that name none. The gateway of each network is
	// [container.Gateway] of it.
	First() queue.Network
	// Can says why this host cannot have such a network at all; nil if it can.
	Can(n queue.Network) error
	// Plan chooses what a network lacks: its bridge and pools, of IPv6 if that is wanted.
	// Nothing that this host has, or that others have, is in them; a pool that was chosen
	// before and is taken is an error.
	Plan(n queue.Network, ipv6 bool, others []queue.Network) (queue.Network, error)
	// Ensure brings the bridge of a network up if it is not.
	Ensure(ctx context.Context, n queue.Network) error
	// Remove removes the bridge of a network; nil if it is gone. One that something is
	// plugged into is ErrInUse.
	Remove(ctx context.Context, n queue.Network) error
	// Apply has these ports of the host lead to containers of these networks, and no others
	// of this agent, and has the containers that run found by their names in their network.
	// It touches nothing that is as it should be. What is wrong with one network is in failed
	// by its name, and keeps no other from what it should be.
	Apply(ctx context.Context, nets []queue.Network, ports []Exposed, names []Named) (failed map[string]error, err error)
	// Listener tells which process of the host listens on the port of a mapping;
	// empty if none does.
	Listener(m port.Mapping) (string, error)
}

// Resolver is a [Network] that tells containers where names are.
type Resolver interface {
	// Resolver returns the path of the file that new containers of a network have as their
	// /etc/resolv.conf; empty: they have their own.
	Resolver(n queue.Network) (path string, err error)
}

// Config is what containers are kept with. Network is optional.
type Config struct {
	Runtimes []container.Runtime // at most one of each kind
	Network  Network
	Loop     *loop.Loop
	Actions  *actions.Actions // whose lanes corrections share
	// Apply makes a change durable outside of any action and has all parts of the
	// agent follow it, [Containers.Applied] among them. An error is that of the
	// queue: nothing has changed. The loop calls it, and the next two.
	Apply func(queue.Change) error
	// Record writes what is about to be done without an action into the host's audit
	// log: on a full disk into the space that is set aside, and else as soon as the
	// disk takes it. It never fails: no record keeps a container from its state.
	Record func([]audit.Record)
	// Coordinator is that of the host; nil if it has none. Leases are what it grants.
	Coordinator *Coordinator
	Leases      Leases
	// Group returns the component of a control group's path by which all processes of a
	// container are known, by its first process; nil if this host has no control groups.
	Group func(init int) (string, error)
	// Probe looks at a container once, and returns why it is not well. It ends soon after
	// its context does. nil: containers are not looked at.
	Probe func(context.Context, Probed, contract.Check) error
	// Limiter limits what containers use; nil if nothing can be limited here.
	Limiter Limiter
	// Backups are those of this host; nil if it has none.
	Backups Backups
	// Volumes are those of this host; nil if it has none.
	Volumes Volumes
	// Witness begins to watch the first process of a container, and returns what waits
	// for its end, and calls gone before it finds out how. nil: only that there was an end is known.
	Witness func(pid int) (wait func(ctx context.Context, gone func()) (queue.End, error), err error)
	// Leaving reports whether the host is going down; nil: it is not known. It may wait.
	Leaving func(context.Context) bool
	// Seen tells that containers have changed, or that a runtime was looked at.
	Seen func()
	Log  *slog.Logger
}

// Limiter limits what containers use. It is safe for concurrent use.
type Limiter interface {
	// Supported are the resources that can be limited on this host, sorted.
	Supported() []limit.Resource
	// Files are how control groups of a container that is about to be started are to be
	// written. What they do not keep is left out.
	Files(limits limit.Limits) ([]container.GroupFile, error)
	// Limit limits a container with a first process from now on. Unless force, a limit
	// below what it uses now is an error, and then nothing is changed.
	Limit(runtime, name string, init int, limits limit.Limits, force bool) error
	// Effective are the limits that the kernel keeps for it.
	Effective(runtime, name string, init int) (limit.Limits, error)
}

// Containers are the containers of a host. All of it belongs to the loop, but for
// Counters and Run.
type Containers struct {
	Counters Counters

	cfg      Config
	managed  map[protocol.CTID]*managed
	nets     []queue.Network // that were made, by name
	foreign  map[container.Kind][]container.Info
	away     map[container.Kind]bool // runtimes that do not answer
	unlooked []container.Kind        // runtimes whose containers were not seen yet
	pokes    []chan struct{}         // ask for a look, one for each runtime
	looks    atomic.Uint64           // counts what was seen of containers, to tell old looks
	forgot   uint64                  // looks that began before this one may see what is gone
	again    *loop.Timer             // for corrections
	contact  *contact
	exposer  exposer
	checks   *checks
	schedule *loop.Timer // a look at what is due
	backed   backed
	staying  staying
	removing map[string]bool // volumes, by name
	starting sync.Map        // names of containers that we are starting; any goroutine's
}

// Counters count since New. They may be read by any goroutine.
type Counters struct {
	Starts        atomic.Uint64 // by corrections
	StartFailures atomic.Uint64
}

// managed is a container that the agent keeps.
type managed struct {
	rec   queue.Container
	info  container.Info // as it was last seen
	seen  bool
	tries retry.Attempts
	held  string // why it is to be stopped, though its user wants it to run
	// stopped is why the agent has begun to stop it by itself.
	stopped queue.Cause
	life    *life  // of its first process; nil if it has none
	look    uint64 // looks that began before this one may tell the past
	// halt ends the correction that is under way, and idle is closed when it has
	// ended. Both are nil if none is.
	halt context.CancelCauseFunc
	idle <-chan struct{}
	// starting tells that the correction starts it. since is when it began to wait for
	// others to run, by the loop's clock: 0 is not; waits says for which.
	starting bool
	since    time.Duration
	waits    string
	probe    probe
	// tried tells that an upgrade checks its health; the usual checks pause meanwhile.
	tried bool
	// free tells that no process of the host has the ports that are about to be exposed.
	free bool
}

// New returns the containers of a host, of which nothing is known.
func New(cfg Config) *Containers {
	c := &Containers{cfg: cfg, managed: make(map[protocol.CTID]*managed), foreign: make(map[container.Kind][]container.Info), away: make(map[container.Kind]bool), removing: make(map[string]bool)}
	for _, r := range cfg.Runtimes {
		c.pokes = append(c.pokes, make(chan struct{}, 1))
		c.unlooked = append(c.unlooked, r.Kind())
	}
	c.again = cfg.Loop.Timer(c.Correct)
	c.contact = &contact{Containers: c, cfg: cfg.Coordinator, loop: cfg.Loop}
	c.contact.tick = cfg.Loop.Timer(c.contact.look)
	c.exposer.poke = make(chan struct{}, 1)
	c.checks = &checks{Containers: c}
	c.checks.tick = cfg.Loop.Timer(c.checks.look)
	c.schedule = cfg.Loop.Timer(func() { followSchedules(c) })
	c.backed.tick = cfg.Loop.Timer(func() { c.backed.look(c) })
	return c
}

// Load takes what is remembered, and the alerts that are raised. Nothing is known of the
// state of containers yet.
func (c *Containers) Load(all []queue.Container, nets []queue.Network, self queue.Identity, alerts []protocol.AlertInfo) {
	c.contact.load(self.Absence)
	c.contact.tick.In(0)
	c.nets = nets
	clear(c.managed)
	for _, rec := range all {
		c.managed[rec.CTID] = &managed{rec: rec, tries: retry.Attempts{Failures: rec.Failures}}
	}
	c.checks.load(alerts)
	c.schedule.In(0)
	c.backed.tick.In(0)
	if self.Rebooted && self.Starts > 1 {
		ends{c}.rebooted()
	}
}

// Applied follows a change that is durable.
func (c *Containers) Applied(change queue.Change) {
	if change.Networks != nil {
		c.nets = *change.Networks
		ports{c}.poke()
	}
	if len(change.Delete) > 0 {
		c.forgot = c.looks.Add(1)
	}
	for _, id := range change.Delete {
		if m := c.managed[id]; m != nil && (len(claimed(&m.rec)) > 0 || m.rec.Address != "") {
			ports{c}.poke()
		}
		if m := c.managed[id]; m != nil && !m.rec.Made {
			c.Look() // it may be foreign again
		}
		if m := c.managed[id]; m != nil && m.rec.Class == contract.Unique && c.cfg.Leases != nil {
			c.cfg.Leases.Release(id) // another container may get its name
		}
		delete(c.managed, id)
	}
	for _, rec := range change.Put {
		if m := c.managed[rec.CTID]; m != nil {
			if !slices.Equal(claimed(&m.rec), claimed(&rec)) || m.rec.Name != rec.Name || m.rec.Address != rec.Address {
				ports{c}.poke()
			}
			rec.Ends, rec.Settings.Backed, rec.Settings.Snapped = m.rec.Ends, m.rec.Settings.Backed, m.rec.Settings.Snapped
			m.rec = rec
			m.free = m.free && len(rec.Settings.Opening) > 0
		} else {
			c.managed[rec.CTID] = adopt{c}.adopted(&managed{rec: rec})
		}
	}
	if len(change.Put) > 0 {
		c.contact.tick.In(0)
		c.checks.tick.In(0)
		c.schedule.In(0)
	}
	for _, e := range change.Ended {
		if m := c.managed[e.CTID]; m != nil {
			m.rec.Ends = e.Ends
		}
	}
	for _, a := range change.Asked {
		if m := c.managed[a.CTID]; m != nil {
			m.rec.Settings.Backed, m.rec.Settings.Snapped = a.Backed, a.Snapped
		}
	}
}

// Settled has containers corrected now: an action about one has ended.
func (c *Containers) Settled() { c.again.In(0) }

// Looked reports whether the containers of all runtimes were looked at.
func (c *Containers) Looked() bool { return len(c.unlooked) == 0 }

// Find returns the name of a container and its runtime, which is nil if the host has
// none of its kind any more. ok is false for a container that is not managed.
func (c *Containers) Find(id protocol.CTID) (name protocol.ContainerName, r container.Runtime, ok bool) {
	m := c.managed[id]
	if m == nil {
		return "", nil, false
	}
	return m.rec.Name, c.runtime(m.rec.Runtime), true
}

// runtime returns the runtime of that name; nil if the host has none.
func (c *Containers) runtime(kind string) container.Runtime {
	for _, r := range c.cfg.Runtimes {
		if string(r.Kind()) == kind {
			return r
		}
	}
	return nil
}

// creator returns the runtime that makes a new container: the one that was asked for,
// or the one that can use its template: podman for an image, where there is podman.
func (c *Containers) creator(args *protocol.CreateArgs) (container.Runtime, error) {
	kind, why := container.Kind(args.Runtime), ""
	if kind == "" {
		kind, why = container.KindLXC, ", and "+args.Template+" needs it; choose another host"
		_, podman := c.runtime(string(container.KindPodman)).(container.Creator)
		switch {
		case strings.HasPrefix(args.Template, backupTemplate): // the backup will tell
			if _, ok := c.runtime(string(kind)).(container.Creator); !ok && podman {
				kind = container.KindPodman
			}
		case podman && container.IsOCI(args.Template):
			kind = container.KindPodman
		}
	}
	r := c.runtime(string(kind))
	if _, ok := r.(container.Creator); !ok {
		return nil, fmt.Errorf("%w: this host makes no containers of %s%s", actions.CodeUnsupported, kind, why)
	}
	return r, nil
}

// used reports whether a name is that of any container of the host.
func (c *Containers) used(name protocol.ContainerName) bool {
	for _, m := range c.managed {
		if m.rec.Name == name {
			return true
		}
	}
	for _, infos := range c.foreign {
		if slices.ContainsFunc(infos, func(i container.Info) bool { return i.Name == string(name) }) {
			return true
		}
	}
	return false
}

// sorted returns the managed containers by name.
func (c *Containers) sorted() []*managed {
	return slices.SortedFunc(maps.Values(c.managed), func(x, y *managed) int { return cmp.Compare(x.rec.Name, y.rec.Name) })
}
