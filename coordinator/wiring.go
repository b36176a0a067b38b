package coordinator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/policies"
	"github.com/hostler-io/hostler/coordinator/recovery"
	"github.com/hostler-io/hostler/protocol"
)

// othersOf is what the room of hosts is given of the rooms that keep something of a host.
type othersOf struct{ c *Coordinator }

// Lost implements [members.Others].
func (o othersOf) Lost(host protocol.HostID) {
	o.c.relay.Output.Lose(host)
	o.c.recovery.End(host)
}

// Forget implements [members.Others].
func (othersOf) Forget(tx core.Tx, host protocol.HostID) error {
	return errors.Join(recovery.Forget(tx, host), policies.Forget(tx, host))
}

// AskAnew implements [members.Others].
func (othersOf) AskAnew(tx core.Tx, host protocol.HostID) error { return recovery.AskAnew(tx, host) }

// Labelled implements [members.Others].
func (o othersOf) Labelled(host protocol.HostID) { o.c.alerts.Due(host) }

// RecoveredMS implements [members.Others].
func (o othersOf) RecoveredMS() int64 { return o.c.recovery.MadeMS() }

// fencingOf is what the room of unique workloads is given of the room that fences.
type fencingOf struct{ c *Coordinator }

// Closed implements [workloads.Fencing].
func (f fencingOf) Closed(host protocol.HostID) string { return f.c.fencing.Closed(host) }

// Off implements [workloads.Fencing].
func (f fencingOf) Off(host protocol.HostID) (device, person bool) { return f.c.fencing.Off(host) }

// Offs implements [workloads.Fencing].
func (f fencingOf) Offs() (all []protocol.HostID) {
	for _, o := range f.c.fencing.Ops() {
		if o.Off() && !slices.Contains(all, o.Host) {
			all = append(all, o.Host)
		}
	}
	return all
}

// Do implements [fencing.Hosts].
func (f fencingOf) Do(ctx context.Context, host protocol.HostID, spec []byte, begins, ends time.Duration) (a core.Action, err error) {
	if here, _ := f.c.hosts.Here(host); !here {
		return a, errors.New("the host is not connected")
	}
	asked, err := f.c.actions.ProposeSelf(ctx, host, spec)
	if err != nil {
		return core.Action{}, err
	}
	end := f.c.actions.Follow(asked.ID)
	defer end.Close()
	if a, err = f.c.actions.Get(ctx, asked.ID); err == nil {
		a, err = end.Wait(ctx, a, begins)
	}
	if err == nil && a.State == protocol.StateRunning {
		a, err = end.Wait(ctx, a, ends-begins)
	}
	if err != nil { // the host may carry the order out
		return asked, err
	}
	return a, nil
}

// concerns are the alerts about hosts that the rooms of unique workloads and of fencing
// raise.
func (c *Coordinator) concerns() map[protocol.HostID][]protocol.AlertInfo {
	all := c.fencing.Concerns()
	for host, more := range c.workloads.Concerns() {
		all[host] = append(all[host], more...)
	}
	return all
}
