package fencing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/fence/agents"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
)

// Hosts has hosts do actions that the coordinator itself asks for. It is safe for
// concurrent use.
type Hosts interface {
	// Do has a connected host do an action, and returns it when it has ended; or as it is, if
	// it has not begun or not ended in time. An error without an action says why the host was
	// not asked; with one, the host may have been asked, and its answer is not known.
	Do(ctx context.Context, host protocol.HostID, spec []byte, begins, ends time.Duration) (core.Action, error)
}

const (
	// begins is how long the word is waited for that a host has begun: an order that it has
	// not begun by then it never does.
	begins = protocol.FenceTTL + 2*time.Second
	// describes is how long a host may take to describe a device.
	describes = 10 * time.Second
)

// through asks a device by the host that reaches it. The order lives for seconds: a host
// that has not begun by then never does. Whatever is not known is a failure.
func through(ctx context.Context, r *Room, d *fence.Device, c agents.Call) agents.Result {
	failed := func(format string, args ...any) agents.Result {
		return agents.Result{Outcome: fence.OutcomeFailed, Text: fmt.Sprintf(format, args...)}
	}
	spec, err := json.Marshal(protocol.Spec{Kind: protocol.KindHostFence, Args: &protocol.FenceArgs{Fence: data.Fence{
		Device: d.Name, Verb: c.Verb, Plug: c.Plug, Host: c.Host, LimitMS: c.Limit.Milliseconds(),
	}}})
	if err != nil {
		return failed("%s", err)
	}
	if r.cfg.Hosts == nil {
		return failed("this coordinator has no hosts to ask")
	}
	began := r.base.Boot()
	a, err := r.cfg.Hosts.Do(ctx, d.Via, spec, begins, begins+c.Limit)
	took := time.Duration(r.base.Boot()-began) * time.Millisecond
	if err != nil && a.ID.IsZero() {
		return failed("host %s, which is to ask the device, was not asked: %s", d.Via, err)
	}
	if err != nil { // an off may be on its way, so no second one is sent
		return agents.Result{Outcome: fence.OutcomeTimeout, Text: fmt.Sprintf("what host %s has answered is not known: action %s: %s", d.Via, a.ID, err), Took: took}
	}
	res, told := agents.ParseAnswer(a.Detail)
	switch {
	case !a.State.Final():
		res = agents.Result{Outcome: fence.OutcomeTimeout, Text: fmt.Sprintf("host %s has not answered within %s", d.Via, took.Round(time.Second))}
	case a.State != protocol.StateDone && a.State != protocol.StateFailed, !told:
		res = failed("host %s has not asked the device: action %s is %s: %s", d.Via, a.ID, a.State, cmp.Or(a.Detail, string(a.Reason)))
		if a.State == protocol.StateLost || a.Attempt > 0 { // an off may be on its way, so no second one is sent
			res = agents.Result{Outcome: fence.OutcomeTimeout, Text: fmt.Sprintf("host %s has not told what the device said: action %s is %s: %s", d.Via, a.ID, a.State, cmp.Or(a.Detail, string(a.Reason)))}
		}
	}
	res.Took = took
	return res
}

// describe completes a device with what its program can do, and refuses what that does not
// know.
func describe(ctx context.Context, r *Room, d *fence.Device) error {
	if err := d.CheckVia(); err != nil {
		return err
	}
	if d.Via != "" {
		if _, err := core.Read(ctx, r.base, func(tx core.Tx) (core.Host, error) { return tx.Hosts.Get(d.Via) }); errors.Is(err, core.ErrNotFound) {
			return fmt.Errorf("host %q: %w", d.Via, core.ErrUnknownHost)
		}
		if d.Agent != "" {
			return fmt.Errorf("host %s asks the device, and knows its program: leave that out", d.Via)
		}
		res := through(ctx, r, d, agents.Call{Verb: "describe", Host: string(d.Via), Limit: describes})
		if res.Outcome != fence.OutcomeOK {
			return fmt.Errorf("host %s cannot describe it: %s", d.Via, res.Text)
		}
		is, err := agents.ParseDescription(res.Text)
		d.Agent, d.Plugged, d.Status, d.On = is.Agent, is.Plug, is.Status, is.On
		return cmp.Or(err, d.Check())
	}
	if err := fence.CheckAgent(d.Agent); err != nil {
		return err
	}
	if r.cfg.Programs == nil {
		return errors.New("this coordinator runs no programs of fence-agents")
	}
	m, err := r.cfg.Programs.Describe(ctx, d.Agent)
	if err != nil {
		return err
	}
	d.Plugged, d.Status, d.On = m.Plug, m.Status, m.On
	if err := d.Check(); err != nil {
		return err
	}
	return fits(d, m)
}
