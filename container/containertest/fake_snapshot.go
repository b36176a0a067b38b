package containertest

import (
	"context"
	"slices"

	"github.com/hostler-io/hostler/container"
)

// The operations of snapshots.
const (
	OpSnapshot Op = "snapshot"
	OpRollback Op = "rollback"
)

var _ container.Snapshotter = (*Fake)(nil)

// Snapshot implements container.Snapshotter.
func (f *Fake) Snapshot(ctx context.Context, name string, s container.Snapshot) error {
	return f.onSnapshots(ctx, OpSnapshot, name, func(c *fakeContainer) error {
		at := slices.IndexFunc(c.snapshots, func(o container.Snapshot) bool { return o.Name == s.Name })
		switch {
		case container.CheckSnapshot(s.Name) != nil:
			return container.CheckSnapshot(s.Name)
		case at >= 0 && c.snapshots[at].Key == s.Key && s.Key != "":
			return nil
		case at >= 0:
			return container.ErrExists
		}
		s.Order = 1
		if n := len(c.snapshots); n > 0 {
			s.Order = c.snapshots[n-1].Order + 1
		}
		c.snapshots = append(c.snapshots, s)
		return nil
	})
}

// Snapshots implements container.Snapshotter.
func (f *Fake) Snapshots(_ context.Context, name string) ([]container.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.find(name)
	if err != nil {
		return nil, err
	}
	return slices.Clone(c.snapshots), nil
}

// Rollback implements container.Snapshotter.
func (f *Fake) Rollback(ctx context.Context, name, snapshot string) error {
	return f.onSnapshots(ctx, OpRollback, name, func(c *fakeContainer) error {
		if c.info.State != container.StateStopped {
			return container.ErrBusy
		}
		_, err := c.snapshot(snapshot)
		if err == nil {
			c.rollbacks = append(c.rollbacks, snapshot)
		}
		return err
	})
}

// Rollbacks are the snapshots whose files a container was given, one after the other.
func (f *Fake) Rollbacks(name string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.find(name)
	if err != nil {
		return nil
	}
	return slices.Clone(c.rollbacks)
}

// DropSnapshot implements container.Snapshotter.
func (f *Fake) DropSnapshot(ctx context.Context, name, snapshot string) error {
	return f.onSnapshots(ctx, OpSnapshot, name, func(c *fakeContainer) error {
		at, err := c.snapshot(snapshot)
		if err == nil {
			c.snapshots = slices.Delete(c.snapshots, at, at+1)
		}
		return err
	})
}

// snapshot returns where one is.
func (c *fakeContainer) snapshot(name string) (int, error) {
	at := slices.IndexFunc(c.snapshots, func(o container.Snapshot) bool { return o.Name == name })
	if at < 0 {
		return at, container.ErrNotFound
	}
	return at, nil
}

func (f *Fake) onSnapshots(ctx context.Context, op Op, name string, act func(*fakeContainer) error) error {
	return f.do(ctx, op, name, func() error {
		c, err := f.find(name)
		if err != nil {
			return err
		}
		return act(c)
	})
}
