package containertest

import (
	"context"

	"github.com/hostler-io/hostler/container"
)

// Freeze implements container.Freezer.
func (f *Fake) Freeze(ctx context.Context, name string) (container.Info, error) {
	return f.between(ctx, OpFreeze, name, container.StateFrozen)
}

// Unfreeze implements container.Freezer.
func (f *Fake) Unfreeze(ctx context.Context, name string) (container.Info, error) {
	return f.between(ctx, OpThaw, name, container.StateRunning)
}

// between brings a container that has processes into a state.
func (f *Fake) between(ctx context.Context, op Op, name string, to container.State) (info container.Info, err error) {
	err = f.do(ctx, op, name, func() error {
		c, err := f.find(name)
		if err != nil {
			return err
		}
		if c.info.State != container.StateRunning && c.info.State != container.StateFrozen {
			return container.ErrNotRunning
		}
		f.enter(c, to)
		info = c.copy()
		return nil
	})
	if err != nil {
		return container.Info{}, err
	}
	return info, nil
}
