package coordinator

import (
	"context"
	"fmt"
	"maps"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/members"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// Summary is the whole fleet in a few numbers. Every word of ours that can be
// counted is present.
type Summary struct {
	Fleet      protocol.FleetName
	FleetID    protocol.FleetID
	Term       protocol.Term
	Ring       uint64
	Key        protocol.KeyID            // of this coordinator
	Recovery   string                    // see Recovery
	Hosts      map[core.Connectivity]int // approved ones
	Revoked    int                       // hosts
	Replacing  int                       // hosts that wait for another machine
	Pending    int                       // enrolments that wait for a person
	Actions    map[protocol.State]int
	Containers map[string]int // by the state that their hosts last told
	Brokers    []string
}

// LoginCode is the code with which the bearer of a token logs in: it names the
// addresses of the API and the ring in force.
func (c *Coordinator) LoginCode(token string) (string, error) {
	ring, digest := c.cfg.Trust.RingInForce()
	code, err := enrol.LoginCode{Addresses: c.cfg.Addresses, Pin: enrol.PinOf(ring, digest), Token: token}.Encode()
	if err != nil {
		return "", fmt.Errorf("make the login code: %w", err)
	}
	return code, nil
}

// Summary counts hosts, what waits, and what has not ended.
func (c *Coordinator) Summary(ctx context.Context) (Summary, error) {
	s := Summary{
		Fleet: c.cfg.FleetName, FleetID: c.cfg.Fleet, Term: c.wire.Term(), Ring: c.cfg.Trust.Ring(), Key: c.cfg.Signer.Key(),
		Recovery: c.base.Recovery(), Brokers: c.cfg.BrokerAddresses,
	}
	err := c.base.View(ctx, func(tx core.Tx) error {
		waiting, err := tx.Enrolments.List(core.EnrolmentPending, members.MaxPending)
		if err != nil {
			return err
		}
		s.Pending = len(waiting)
		if s.Actions, err = countOpen(tx); err != nil {
			return err
		}
		return c.countHosts(tx, &s)
	})
	if err != nil {
		return Summary{}, fmt.Errorf("count the fleet: %w", err)
	}
	return s, nil
}

func countOpen(tx core.Tx) (map[protocol.State]int, error) {
	all, err := tx.Actions.Count()
	open := make(map[protocol.State]int)
	for _, state := range core.OpenStates() {
		open[state] = all[state]
	}
	return open, err
}

func (c *Coordinator) countHosts(tx core.Tx, s *Summary) error {
	s.Hosts = make(map[core.Connectivity]int)
	for _, degree := range core.Degrees() {
		s.Hosts[degree] = 0
	}
	s.Containers = map[string]int{"stopped": 0, "starting": 0, "running": 0, "stopping": 0, "frozen": 0}
	told, err := tx.Hosts.Containers()
	if err != nil {
		return err
	}
	maps.Copy(s.Containers, told)
	revoked, err := tx.Hosts.Names(core.HostRevoked)
	if err != nil {
		return err
	}
	replacing, err := tx.Hosts.Names(core.HostReplacing)
	if err != nil {
		return err
	}
	s.Revoked, s.Replacing = len(revoked), len(replacing)
	approved, err := tx.Hosts.Names(core.HostApproved)
	for _, id := range approved {
		s.Hosts[c.hosts.Presence(id).Connectivity]++
	}
	return err
}

// Rings returns rings as they are served, as [RingStore] does. They authenticate
// themselves.
func (c *Coordinator) Rings(from uint64) []byte { return c.cfg.Rings.Rings(from) }

// TakeRings puts newer rings into force and tells the hosts. It returns the
// number of the ring in force. The term stays that of the start: which keys may
// speak is what a ring changes, and every message names its number.
func (c *Coordinator) TakeRings(ctx context.Context, by core.Actor, rings []byte) (uint64, error) {
	if err := by.May(core.RoleAdmin, "take rings"); err != nil {
		return 0, err
	}
	newer, err := c.cfg.Rings.TakeRings(rings)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	number, digest := c.cfg.Trust.RingInForce()
	if !newer {
		return number, nil
	}
	// It is in force also if the caller has gone, and cannot be taken again.
	ctx = context.WithoutCancel(ctx)
	err = c.base.Update(ctx, failpoint.AccessKept, func(tx core.Tx) error {
		if err := c.base.Audit(tx, by, "ring.take", fmt.Sprint(number), map[string]any{"digest": digest}); err != nil {
			return err
		}
		return c.base.Event(tx, "ring.taken", "", fmt.Sprint(number), map[string]any{"digest": digest})
	})
	c.log.InfoContext(ctx, "a new ring is in force", "ring", number)
	c.sayRings()
	c.base.Wake.Fire(core.EventsKey{})
	if p, ok := c.cfg.Trust.Principal(c.cfg.Signer.Key()); !ok || !p.Can(protocol.RoleCoordinator) {
		c.removedOnce.Do(func() { close(c.removed) })
	}
	return number, err
}

// sayRings replaces the retained chain of rings, and says our own word anew,
// which names the newest.
func (c *Coordinator) sayRings() {
	t := protocol.FleetTopic(c.cfg.FleetName, protocol.ChannelRing)
	if err := c.cfg.Broker.Publish(t.String(), c.cfg.Rings.Rings(0), true); err != nil {
		// The program that runs the broker publishes them when it is up.
		c.log.Debug("cannot publish the rings", "err", err)
	}
	c.sayState(true)
}

// Roster returns the signed list of hosts and their keys.
func (c *Coordinator) Roster() ([]byte, error) { return c.cfg.Rings.Roster() }

// Degraded says why new actions are about to be refused, empty if they are not.
func (c *Coordinator) Degraded() string {
	if !c.relay.Output.Low() {
		return ""
	}
	return "degraded: the disk of the coordinator is nearly full, and there is no output left to remove"
}

// Ready reports why requests cannot be served: the store does not answer, or
// the coordinator is in recovery, which is [core.ErrRecovery] with the way out.
func (c *Coordinator) Ready(ctx context.Context) error {
	err := c.base.View(ctx, func(tx core.Tx) error {
		_, err := core.Started(tx)
		return err
	})
	if err != nil {
		return fmt.Errorf("%w: the store does not answer: %w", core.ErrUnavailable, err)
	}
	return c.base.MayDecide()
}
