// Package alerting keeps the rules of alerts that people set for the hosts of the fleet,
// sees to it that each host has those that are for it, and tells people of alerts.
package alerting

import (
	"context"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// Links are the conversations with hosts. They are safe for concurrent use.
type Links interface {
	Presence(protocol.HostID) core.Presence
	// Control gives a control item its number within the caller's transaction; the
	// function that it returns sends it, when the transaction is durable.
	Control(core.Tx, protocol.HostID, protocol.ControlItem) (send func(), _ error)
}

// Room holds rules. All methods are safe for concurrent use.
type Room struct {
	base  *core.Base
	links Links
	tells *notifier
	// concerns are alerts about hosts that other rooms raise.
	concerns func() map[protocol.HostID][]protocol.AlertInfo
	kick     chan struct{} // one place: there is something due
	hosts    core.Roster[core.Host]

	mu   sync.Mutex
	all  bool                                // every host is due
	due  map[protocol.HostID]bool            // hosts that may need other rules
	sent map[protocol.HostID]protocol.Digest // the newest rules that this process has sent
}

// New returns a room that has sent nothing. concerns are the alerts about hosts that other
// rooms raise, by host.
func New(base *core.Base, links Links, notices Notices, concerns func() map[protocol.HostID][]protocol.AlertInfo) *Room {
	return &Room{concerns: concerns, hosts: core.Roster[core.Host]{Of: judgedOf}, base: base, links: links, tells: newNotifier(base, notices), kick: make(chan struct{}, 1), due: make(map[protocol.HostID]bool), sent: make(map[protocol.HostID]protocol.Digest)}
}

// Stored takes a host that [core.Watch] tells of: the store of the room's base is one of these.
func (r *Room) Stored(n uint64, h core.Host, sure bool) { r.hosts.Put(n, h, sure) }

// Due has a host looked at whose labels have changed. It does not wait.
func (r *Room) Due(host protocol.HostID) {
	r.mu.Lock()
	r.due[host] = true
	r.mu.Unlock()
	r.wake()
}

// everyHost has all hosts looked at.
func (r *Room) everyHost() {
	r.mu.Lock()
	r.all = true
	r.mu.Unlock()
	r.wake()
}

func (r *Room) wake() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Run sends rules to the hosts that are there, and notifications, until ctx ends. A host
// that is away gets its rules with its first heartbeat, see [Room.Next].
func (r *Room) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.sendRules(ctx) })
	g.Go(func() error { return r.tells.run(ctx) })
	g.Go(func() error { return r.judgeLoop(ctx) })
	return g.Wait()
}

func (r *Room) sendRules(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.kick:
		}
		hosts, err := r.take(ctx)
		if err != nil {
			r.base.Log.ErrorContext(ctx, "cannot list the hosts for which rules of alerts may have changed; their next heartbeats bring them", "err", err)
		}
		for _, host := range hosts {
			if ctx.Err() != nil {
				return nil
			}
			if how := r.links.Presence(host).Connectivity; how == core.Online || how == core.Late {
				r.offer(ctx, host)
			}
		}
	}
}

// take returns the hosts that are due, and none of them is any more.
func (r *Room) take(ctx context.Context) ([]protocol.HostID, error) {
	r.mu.Lock()
	all, due := r.all, slices.Sorted(maps.Keys(r.due))
	r.all = false
	clear(r.due)
	r.mu.Unlock()
	if !all {
		return due, nil
	}
	return core.Read(ctx, r.base, func(tx core.Tx) ([]protocol.HostID, error) { return tx.Hosts.Names(core.HostApproved) })
}

// offer sends a host the rules that it lacks.
func (r *Room) offer(ctx context.Context, host protocol.HostID) {
	var send func()
	var item *protocol.ControlItem
	err := r.base.Update(ctx, failpoint.RulesNumbered, func(tx core.Tx) error {
		send = nil
		h, err := tx.Hosts.Get(host)
		if err != nil {
			return err
		}
		if item, err = r.Next(tx, h); err != nil || item == nil {
			return err
		}
		send, err = r.links.Control(tx, host, *item)
		return err
	})
	if err != nil {
		r.base.Log.ErrorContext(ctx, "cannot send a host its rules of alerts; its next heartbeat brings them", "host", host, "err", err)
		return
	}
	if send != nil {
		r.Sent(host, item.Rules)
		send()
	}
}
