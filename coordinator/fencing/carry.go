package fencing

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/fence/agents"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

// stale is how old a step may be when its device is asked. An off that comes late kills a
// host that has recovered.
const stale = 10 * time.Second

// storeEvery is how often it is tried to store what came of a device.
const storeEvery = time.Second

// carryOut does what an operation asks for, until it has ended or ctx does. What is stored
// is done at most once.
func (r *Room) carryOut(ctx context.Context, c carry) {
	for {
		for r.store(ctx, core.Self(), c.op) != nil {
			if !pause(ctx, storeEvery) {
				return
			}
			// Nothing was sent, and what is sent now may be too late.
			if c.next.Run == fence.Off {
				c.op, c.next = c.op.GiveUp(r.base.NowMS(), "the disk took no record of it in time"), fence.Effect{}
			}
		}
		switch {
		case c.next.Run != "":
			res, late := r.ask(ctx, c.op, c.next.Run)
			if ctx.Err() != nil {
				return // the next process asks for the status
			}
			if late != "" {
				c.op, c.next = c.op.GiveUp(r.base.NowMS(), late), fence.Effect{}
				continue
			}
			c.op, c.next = c.op.Ran(res.Outcome, res.Text, res.Took, r.base.NowMS())
		case c.next.Wait > 0:
			if !pause(ctx, c.next.Wait) {
				return
			}
			if why := r.moot(c.op); why != "" {
				c.op, c.next = c.op.GiveUp(r.base.NowMS(), why), fence.Effect{}
				continue
			}
			c.op, c.next = c.op.Waited(r.base.NowMS())
		default:
			if err := r.prune(ctx); err != nil && ctx.Err() == nil {
				r.base.Log.ErrorContext(ctx, "cannot forget old fences; it is tried again", "err", err)
			}
			return
		}
	}
}

// moot says why an operation that nothing was sent for is not needed any more.
func (r *Room) moot(o fence.Op) string {
	heard, _, _ := r.cfg.Workloads.Heard(o.Host)
	return fence.Moot(o, heard > 0 && r.base.Boot()-heard < r.cfg.TTL.Milliseconds(), r.cfg.Workloads.Maintenance(o.Host))
}

// ask has the device of the step that is under way asked, one question after the other.
// moot says why an off was not sent: what has changed while the device was busy.
func (r *Room) ask(ctx context.Context, o fence.Op, verb fence.Verb) (res agents.Result, moot string) {
	s := o.Steps[o.At]
	began := r.base.Boot()
	unlock := r.lock(s.Device)
	defer unlock()
	d, ok := r.device(s.Device)
	if !ok {
		return agents.Result{Outcome: fence.OutcomeFailed, Text: "the device was removed"}, ""
	}
	call, err := r.call(&d, string(verb), string(o.Host), s.Plug)
	if err != nil {
		return agents.Result{Outcome: fence.OutcomeFailed, Text: err.Error()}, ""
	}
	if verb == fence.Off {
		if why := r.moot(o); why != "" {
			return res, why
		}
		if late := time.Duration(r.base.Boot()-began) * time.Millisecond; late > stale {
			return agents.Result{Outcome: fence.OutcomeTimeout, Text: fmt.Sprintf("the device was busy for %s, and an off that late is not sent", late)}, ""
		}
	}
	call.Limit = time.Duration(s.TryMS) * time.Millisecond
	return r.run(ctx, &d, call), ""
}

// run asks a device, if anything can.
func (r *Room) run(ctx context.Context, d *fence.Device, c agents.Call) agents.Result {
	if d.Via != "" {
		return through(ctx, r, d, c)
	}
	if r.cfg.Programs == nil {
		return agents.Result{Outcome: fence.OutcomeMissing, Text: "this coordinator runs no programs of fence-agents"}
	}
	return r.cfg.Programs.Run(ctx, c)
}

// lock takes the one place of a device, for which it waits.
func (r *Room) lock(device string) (unlock func()) {
	r.mu.Lock()
	l := r.locks[device]
	if l == nil {
		l = make(chan struct{}, 1)
		r.locks[device] = l
	}
	r.mu.Unlock()
	l <- struct{}{}
	return func() { <-l }
}

// call is one question to a device, with its secrets.
func (r *Room) call(d *fence.Device, verb, host, plug string) (agents.Call, error) {
	c := agents.Call{Agent: d.Agent, Verb: verb, Host: host, PlugKey: d.Plugged, Plug: plug, Params: make(map[string]string), Limit: time.Duration(d.TryMS) * time.Millisecond}
	for key, value := range d.Params {
		c.Params[key] = value
	}
	for key, file := range d.Secrets {
		value, err := r.cfg.Secret(file)
		if err != nil {
			return c, fmt.Errorf("secret %s: %w", key, err)
		}
		c.Params[key] = value
		c.Hide = append(c.Hide, value)
	}
	return c, nil
}

// pause waits. It reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// running is the state of a container that runs.
const running = "running"

// pinned reports whether a host runs more than unique workloads.
func pinned(h core.Host) bool {
	return slices.ContainsFunc(h.Inventory.Containers, func(c protocol.Container) bool {
		return c.Class != contract.Unique && c.State == running
	})
}

// stale copies are unique containers that run on a host to which nothing is granted.
func staleCopies(h core.Host) (names []string) {
	for _, c := range h.Inventory.Containers {
		if c.Class == contract.Unique && c.State == running {
			names = append(names, c.Name)
		}
	}
	return names
}

// letIn lets hosts in again that were fenced: when one has been heard for a while without a
// break, has told all that it has, and runs nothing of what it held.
func (r *Room) letIn(ctx context.Context) {
	now := r.base.Boot()
	for _, o := range r.Ops() {
		if !o.Closes() || o.State != fence.Done {
			continue
		}
		heard, _, _ := r.cfg.Workloads.Heard(o.Host)
		r.mu.Lock()
		switch {
		case heard == 0 || now-heard >= r.cfg.TTL.Milliseconds():
			delete(r.back, o.Host)
		case r.back[o.Host] == 0 && heard > r.ended[o.ID]: // what it said before says nothing of now
			r.back[o.Host] = now
		}
		back := r.back[o.Host]
		r.mu.Unlock()
		if back == 0 || time.Duration(now-back)*time.Millisecond < r.cfg.Policy.Reconnect || r.cfg.Policy.Unfence == "manual" {
			continue
		}
		if err := r.admit(ctx, core.Self(), o); err != nil && ctx.Err() == nil {
			r.base.Log.DebugContext(ctx, "a fenced host is not let in yet", "host", string(o.Host), "why", err)
		}
	}
}

// admit lets a host in if what it told since the operation ended shows that it runs
// nothing of what it held. Dates do not say what was told since: they step. Of an operation
// that ended before this process began, all that the process was told is from after.
func (r *Room) admit(ctx context.Context, by core.Actor, o fence.Op) error {
	h, err := core.Read(ctx, r.base, func(tx core.Tx) (core.Host, error) { return tx.Hosts.Get(o.Host) })
	if err != nil {
		return err
	}
	_, _, told := r.cfg.Workloads.Heard(o.Host)
	r.mu.RLock()
	since := told > r.ended[o.ID]
	r.mu.RUnlock()
	switch stale := staleCopies(h); {
	case !since:
		return fmt.Errorf("%w: host %s has not told what it has since it was fenced", core.ErrConflict, o.Host)
	case len(stale) > 0:
		return fmt.Errorf("%w: host %s runs %s still, which it is not granted", core.ErrConflict, o.Host, stale[0])
	}
	o.ReturnedMS = r.base.NowMS()
	if err := r.store(ctx, by, o); err != nil {
		return err
	}
	r.mu.Lock()
	delete(r.back, o.Host)
	r.mu.Unlock()
	return nil
}
