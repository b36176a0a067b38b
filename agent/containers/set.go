package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

// set changes how a container is kept. All of it is durable with the start of the
// action; corrections follow.
type set struct{ verb }

// Admit implements [actions.Handler].
func (h set) Admit(s *protocol.Spec) error {
	args := protocol.ArgsOf[protocol.SetArgs](s)
	return errors.Join(checkable(h.Containers, args.Health), counted(h.cfg.Coordinator, args.Offline))
}

// checkable refuses a check on a host that makes none.
func checkable(c *Containers, check *contract.Check) error {
	if check != nil && !check.Off && c.cfg.Probe == nil {
		return fmt.Errorf("%w: this host does not look at containers", actions.CodeUnsupported)
	}
	return nil
}

// counted refuses a contract on a host that cannot be cut off, for it has no coordinator.
func counted(by *Coordinator, offline string) error {
	o, err := contract.Parse(offline)
	if err == nil && o.StopAfter > 0 && by == nil {
		err = fmt.Errorf("%w: %s counts for how long the host is cut off from its coordinator, and this host has none", actions.CodeUnsupported, o)
	}
	return err
}

// Prepare implements [actions.Handler]: it changes the record of the container.
func (h set) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) {
	rec, end := unmoved(h.Containers, s)
	if end != nil {
		return queue.Change{}, end
	}
	args := protocol.ArgsOf[protocol.SetArgs](s)
	offline, class := cmp.Or(args.Offline, rec.Offline), cmp.Or(args.Class, rec.Class)
	if err := contract.CheckChange(rec.Class, rec.Offline, class, offline); err != nil {
		return queue.Change{}, &queue.Step{Event: protocol.EventFail, Detail: err.Error()}
	}
	rec.Offline, rec.Class = offline, class
	if o, err := contract.Parse(rec.Offline); err == nil {
		rec.Offline = o.String()
	}
	if args.Health != nil {
		if rec.Settings.Health = args.Health; args.Health.Off {
			rec.Settings.Health = nil
		}
	}
	rec.Settings.Schedules = rec.Settings.Schedules.With(args.Schedules)
	if why := h.starts(&rec, &args.Change); why != "" {
		return queue.Change{}, &queue.Step{Event: protocol.EventFail, Detail: why}
	}
	return keep(rec), nil
}

// Claims implements [actions.Claimer].
func (set) Claims(s *protocol.Spec) bool {
	return len(protocol.ArgsOf[protocol.SetArgs](s).StartAfter) > 0
}

// starts changes when a container is started. It returns why that cannot be.
func (h set) starts(rec *queue.Container, change *contract.Change) (why string) {
	if change.StartOrder != 0 {
		rec.Settings.Start.Order = max(0, change.StartOrder)
	}
	if len(change.StartAfter) == 0 {
		return ""
	}
	byName, byID := make(map[string]*managed), make(map[string]*managed)
	for _, m := range h.managed {
		byName[string(m.rec.Name)], byID[m.rec.CTID.String()] = m, m
	}
	var after []string
	for _, name := range change.StartAfter {
		m := byName[name]
		switch {
		case name == contract.None:
		case m == nil:
			return fmt.Sprintf("Hostler keeps no container %q on this host, after which %s could be started", name, rec.Name)
		default:
			after = append(after, m.rec.CTID.String())
		}
	}
	way := contract.Cycle(rec.CTID.String(), after, func(id string) []string {
		if m := byID[id]; m != nil {
			return m.rec.Settings.Start.After
		}
		return nil
	})
	if way != nil {
		for i, id := range way {
			way[i] = string(byID[id].rec.Name)
		}
		return "each would wait for the other: " + strings.Join(way, " after ")
	}
	slices.Sort(after)
	rec.Settings.Start.After = slices.Compact(after)
	return ""
}

// failing is a step that cannot be made.
func failing(err error) func(context.Context) (queue.Change, error) {
	return func(context.Context) (queue.Change, error) { return queue.Change{}, err }
}

// nothing is what is left to do of a change of the record.
func (o *operation) nothing(context.Context) (queue.Change, error) { return queue.Change{}, nil }
