package containertest

import (
	"context"
	"fmt"

	"github.com/hostler-io/hostler/container"
)

// StartOn implements container.Starter. It writes no files of control groups.
func (f *Fake) StartOn(ctx context.Context, name string, terms container.Terms) (info container.Info, err error) {
	err = f.do(ctx, OpStart, name, func() error {
		c, err := f.find(name)
		if err != nil {
			return err
		}
		if c.info.State == container.StateStopped {
			if c.unique && (terms.Epoch == "" || terms.UntilMS <= 1) {
				return fmt.Errorf("%s is unique, and nothing permits its start", name)
			}
			c.epoch = terms.Epoch
			f.enter(c, container.StateStarting)
		}
		f.enter(c, container.StateRunning)
		info = c.copy()
		return nil
	})
	if err != nil {
		return container.Info{}, err
	}
	return info, nil
}

// Group implements container.Holder.
func (f *Fake) Group(_ context.Context, name string) (string, error) {
	return "lxc.payload." + name, nil
}

// Epoch is that under which a container was started last; empty if it is not unique.
func (f *Fake) Epoch(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.find(name)
	if err != nil {
		return ""
	}
	return c.epoch
}
