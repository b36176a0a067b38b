package network

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/hostler-io/hostler/container"
)

// Tidier finds rules of the packet filter and devices of limits whose container is gone. It is a
// [container.Tidier].
type Tidier struct {
	Mark  string
	Known func(context.Context) (map[string]bool, error) // ids of all containers
	// Networks are the names of all networks; nil: bridges are not looked at.
	Networks func(context.Context) (map[string]bool, error)
}

// Debris implements [container.Tidier].
func (t Tidier) Debris(ctx context.Context, repair bool) (all []container.Debris, err error) {
	if all, err = shapers(repair); err != nil {
		return nil, err
	}
	bridges, err := t.bridges(ctx, repair)
	if err != nil {
		return all, err
	}
	rules, err := t.rules(ctx, repair)
	return slices.Concat(all, bridges, rules), err
}

// bridges finds those with our mark whose network is not known. One that something is
// plugged into is left alone.
func (t Tidier) bridges(ctx context.Context, repair bool) (all []container.Debris, err error) {
	owned, err := Owned(t.Mark)
	if err != nil || t.Networks == nil || len(owned) == 0 {
		return nil, err
	}
	known, err := t.Networks(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(owned)) {
		if known[name] {
			continue
		}
		bridge := owned[name]
		d := container.Debris{Kind: "bridge", Object: bridge, Cause: "this host has no network " + name, Repair: "remove the bridge"}
		if n, err := Plugins(bridge); err != nil || n > 0 {
			d.Repair, d.Advice = "", "interfaces are plugged into it: unplug them, and look again"
		} else if repair {
			d.Mend(func() error {
				return errors.Join(RemoveTagged(Tagged{Bridge: bridge, Owner: Owner{Mark: t.Mark, Name: name}}), RemoveBridge(bridge))
			})
		}
		all = append(all, d)
	}
	return all, nil
}

// shapers finds devices of limits whose cable is gone.
func shapers(repair bool) (all []container.Debris, err error) {
	gone, err := Shapers()
	for _, name := range gone {
		d := container.Debris{
			Kind: "limit of a network", Object: name,
			Cause: "the cable of the container that it held back is gone", Repair: "remove the device",
		}
		if repair {
			d.Mend(func() error { return RemoveShaper(name) })
		}
		all = append(all, d)
	}
	return all, err
}

func (t Tidier) rules(ctx context.Context, repair bool) (all []container.Debris, err error) {
	rules, err := Marked(t.Mark)
	if errors.Is(err, ErrUnsupported) || err == nil && len(rules) == 0 {
		return nil, nil // where no rules can be, none are left
	}
	if err != nil {
		return nil, err
	}
	known, err := t.Known(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range rules {
		if r.Owner == "" || known[r.Owner] {
			continue
		}
		d := container.Debris{
			Kind: "port rule", Object: r.Chain + ": " + r.Text,
			Cause: "no container of this host has the id " + r.Owner, Repair: "remove the rule",
		}
		if repair {
			d.Mend(func() error { return Unmark(t.Mark, []Rule{r}) })
		}
		all = append(all, d)
	}
	return all, nil
}
