package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/time/rate"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/port"
)

// Exposed is a port of the host that leads to a container.
type Exposed struct {
	CTID protocol.CTID
	// Address and Address6 are those of the container; of IPv6, it may have none.
	Address, Address6 netip.Addr
	Network           string // by name
	Port              port.Mapping
}

// Named is a container that has an address in a network.
type Named struct {
	Name protocol.ContainerName
	// Network by name; MAC of the first interface; Address and Address6 as in [Exposed].
	Network, MAC      string
	Address, Address6 netip.Addr
	Running           bool
}

// exposer keeps the ports of the host that lead to containers as they are remembered.
// They are applied one at a time, each time as they are remembered then: the newest wins.
type exposer struct {
	applying sync.Mutex
	poke     chan struct{} // asks for it
	failed   string        // why they could not be applied the last time; of [ports.keep] alone
}

// ports is the part of Containers that is about ports.
type ports struct{ *Containers }

// apply has the kernel do what is remembered. What is wrong with one network is in failed by
// its name.
func (c ports) apply(ctx context.Context) (failed map[string]error, err error) {
	if c.cfg.Network == nil {
		return nil, nil
	}
	c.exposer.applying.Lock()
	defer c.exposer.applying.Unlock()
	var nets []queue.Network
	var names []Named
	all, err := loop.Ask(ctx, c.cfg.Loop, func() ([]Exposed, error) {
		nets, names = networks(c).all(), networks(c).named()
		return c.exposed(), nil
	})
	if err != nil {
		return nil, err
	}
	return c.cfg.Network.Apply(ctx, nets, all, names)
}

// keep applies them whenever it is asked to, as often as looks may begin, and so after each
// look: what others have flushed comes back.
func (c ports) keep(ctx context.Context) {
	for limit := rate.NewLimiter(rate.Every(lookPause), lookBurst); limit.Wait(ctx) == nil; {
		select {
		case <-ctx.Done():
			return
		case <-c.exposer.poke:
		}
		why := ""
		failed, err := c.apply(ctx)
		for _, name := range slices.Sorted(maps.Keys(failed)) {
			err = errors.Join(err, failed[name])
		}
		if ctx.Err() == nil && err != nil {
			why = err.Error()
		}
		if why != c.exposer.failed && why != "" {
			c.cfg.Log.Warn("networks of containers are not as they should be, or their ports do not lead there; it is tried again", "error", why)
		}
		c.exposer.failed = why
	}
}

// poke asks for it.
func (c ports) poke() { wake(c.exposer.poke) }

// exposed are the ports of all containers, those that are about to be exposed among
// them as soon as no process of the host is known to have them.
func (c ports) exposed() (all []Exposed) {
	for _, m := range c.sorted() {
		address, err := netip.ParsePrefix(m.rec.Address)
		if err != nil {
			continue // it is being made
		}
		six, _ := netip.ParsePrefix(m.rec.Settings.Address6)
		through := m.rec.Settings.Ports
		if m.free {
			through = claimed(&m.rec)
		}
		for _, p := range through {
			all = append(all, Exposed{CTID: m.rec.CTID, Address: address.Addr(), Address6: six.Addr(), Network: m.rec.Settings.Network, Port: p})
		}
	}
	return all
}

// claimed returns the ports of the host that belong to the container, or are about to.
func claimed(rec *queue.Container) []port.Mapping {
	return slices.Concat(rec.Settings.Ports, rec.Settings.Opening)
}

// opened takes that the ports that were about to be exposed are.
func opened(rec *queue.Container) {
	all := claimed(rec)
	slices.SortFunc(all, port.Compare)
	rec.Settings.Ports, rec.Settings.Opening = slices.Compact(all), nil
}

// claim finds out whether ports of the host are free for a container, as far as other
// containers have them.
func (c ports) claim(id protocol.CTID, wanted []port.Mapping) error {
	for _, m := range c.sorted() {
		if m.rec.CTID == id {
			continue
		}
		for _, p := range wanted {
			if slices.ContainsFunc(claimed(&m.rec), p.Clashes) {
				return fmt.Errorf("port %s of this host leads to container %s; choose another port, or free it: hostler net unexpose HOST/%s %s",
					p.Outer(), m.rec.Name, m.rec.Name, p.Outer())
			}
		}
	}
	return nil
}

// open lets ports through to a container whose record claims them, unless a process of
// the host listens there.
func (o *operation) open(ctx context.Context, c ports) error {
	if err := c.supported(); err != nil { // the host may have been configured anew since it was asked for
		return err
	}
	for _, p := range o.rec.Settings.Opening {
		who, err := o.cfg.Network.Listener(p)
		if err != nil {
			return err
		}
		if who != "" {
			return fmt.Errorf("port %s of this host is taken by %s; choose another port, or stop that", p.Outer(), who)
		}
	}
	_, err := loop.Ask(ctx, c.cfg.Loop, func() (struct{}, error) {
		if m := c.managed[o.rec.CTID]; m != nil {
			m.free = true
		}
		return struct{}{}, nil
	})
	if err != nil {
		return err
	}
	failed, err := c.apply(ctx)
	return cmp.Or(err, failed[o.rec.Settings.Network])
}

// expose lets ports of the host lead to a container. They are claimed with the start of
// the action, and belong to the container with its end.
type expose struct{ ports }

// Admit implements [actions.Handler].
func (h expose) Admit(s *protocol.Spec) error {
	if _, err := port.ParseAll(protocol.ArgsOf[protocol.PortArgs](s).Ports); err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrSpec, err)
	}
	return h.supported()
}

// supported says whether this host can expose ports at all.
func (c ports) supported() error {
	if c.cfg.Network == nil {
		return fmt.Errorf("%w: containers of this host have no network; set network.bridge in its configuration", actions.CodeUnsupported)
	}
	return nil
}

// Prepare implements [actions.Handler].
func (h expose) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) {
	rec, end := unmoved(h.Containers, s)
	if end != nil {
		return queue.Change{}, end
	}
	args := protocol.ArgsOf[protocol.PortArgs](s)
	wanted, err := port.ParseAll(args.Ports)
	if err == nil {
		err = h.claim(rec.CTID, wanted)
	}
	if err == nil {
		err = networks(h.ports).exposable(rec.Settings.Network, len(wanted))
	}
	var opening []port.Mapping
	for _, p := range wanted {
		at := slices.IndexFunc(rec.Settings.Ports, p.Clashes)
		switch {
		case err != nil:
		case at < 0:
			opening = append(opening, p)
		case rec.Settings.Ports[at] != p:
			err = fmt.Errorf("port %s of this host leads to port %d of this container; free it first: hostler net unexpose HOST/%s %s", p.Outer(), rec.Settings.Ports[at].Container, rec.Name, p.Outer())
		}
	}
	if err == nil && len(rec.Settings.Ports)+len(opening) > port.Max {
		err = fmt.Errorf("a container exposes at most %d ports", port.Max)
	}
	if err == nil && len(opening) > 0 && rec.Address == "" {
		err = errors.New("this container has no address in the network of the host, so no port can lead to it")
	}
	if err != nil {
		return queue.Change{}, &queue.Step{Event: protocol.EventFail, Detail: err.Error()}
	}
	rec.Settings.Opening = opening
	return keep(rec), nil
}

// Claims implements [actions.Claimer].
func (expose) Claims(*protocol.Spec) bool { return true }

// Begin implements [actions.Handler].
func (h expose) Begin(j *actions.Job) {
	o := h.operation(j)
	if o == nil {
		return
	}
	h.run(j, o, actions.Saga{
		Steps: []actions.Step{{Commit: true, Do: func(ctx context.Context) (queue.Change, error) {
			if err := o.open(ctx, h.ports); err != nil {
				return queue.Change{}, err
			}
			opened(&o.rec)
			return keep(o.rec), nil
		}}},
		Undo: func(_ context.Context, why error) (queue.Change, error) {
			o.rec.Settings.Opening = nil
			return keep(o.rec), why // and with that the rules follow
		},
	})
}

// Settle implements [actions.Settler].
func (h expose) Settle(j *actions.Job) { h.Begin(j) }

// unexpose ends that ports of the host lead to a container. That is remembered with the
// start of the action, so that it holds whatever happens to it.
type unexpose struct{ verb }

// Admit implements [actions.Handler].
func (h unexpose) Admit(s *protocol.Spec) error {
	for _, text := range protocol.ArgsOf[protocol.PortArgs](s).Ports {
		if outer, err := port.ParseOuter(text); err != nil || outer != text {
			return fmt.Errorf("%w: port %.60q: want 8080/tcp or 53/udp", protocol.ErrSpec, text)
		}
	}
	return ports{h.Containers}.supported()
}

// Prepare implements [actions.Handler].
func (h unexpose) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) {
	rec, end := unmoved(h.Containers, s)
	if end != nil {
		return queue.Change{}, end
	}
	args := protocol.ArgsOf[protocol.PortArgs](s)
	var left []port.Mapping
	for _, p := range rec.Settings.Ports {
		if !slices.Contains(args.Ports, p.Outer()) {
			left = append(left, p)
		}
	}
	rec.Settings.Ports, rec.Settings.Opening = left, nil // no expose is under way: the lane is ours
	return keep(rec), nil
}

// unexpose takes the rules away that are not wanted any more.
func (c ports) unexpose(_ *operation, ctx context.Context) (queue.Change, error) {
	if _, err := c.apply(ctx); err != nil {
		return queue.Change{}, fmt.Errorf("the port is not kept any more, and its rules will be removed as soon as that works: %w", err)
	}
	return queue.Change{}, nil
}
