package network

import (
	"context"
	"errors"

	"github.com/hostler-io/hostler/container"
)

// Tidier finds rules of the packet filter and devices of limits whose container is gone. It is a
// [container.Tidier].
type Tidier struct {
	Mark  string
	Known func(context.Context) (map[string]bool, error) // ids of all containers
}

// Debris implements [container.Tidier].
func (t Tidier) Debris(ctx context.Context, repair bool) (all []container.Debris, err error) {
	if all, err = shapers(repair); err != nil {
		return nil, err
	}
	rules, err := t.rules(ctx, repair)
	return append(all, rules...), err
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
