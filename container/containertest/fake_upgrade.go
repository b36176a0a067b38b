package containertest

import (
	"context"
	"fmt"

	"github.com/hostler-io/hostler/container"
)

// The operations of an upgrade.
const (
	OpPrepareUpgrade Op = "prepare-upgrade"
	OpExchange       Op = "exchange"
	OpEndUpgrade     Op = "end-upgrade"
)

// fakeFiles are the files of a container, with their image and the key of their upgrade.
type fakeFiles struct{ template, digest, key string }

var _ container.Upgrader = (*Fake)(nil)

// Retag has the registry call another image by a reference from now on.
func (f *Fake) Retag(reference string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tags[reference]++
}

// filesOf are those of an image. The caller holds the lock.
func (f *Fake) filesOf(template, key string) fakeFiles {
	return fakeFiles{template, fmt.Sprintf("%s#%d", template, f.tags[template]), key}
}

// Beside returns the image of the files that lie beside those of a container; empty if no
// files do.
func (f *Fake) Beside(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.containers[name]; c != nil && c.beside != nil {
		return c.beside.template
	}
	return ""
}

// PrepareUpgrade implements container.Upgrader.
func (f *Fake) PrepareUpgrade(ctx context.Context, spec container.CreateSpec, key string) (same bool, err error) {
	err = f.do(ctx, OpPrepareUpgrade, spec.Name, func() error {
		c, err := f.upgraded(spec.Name, spec.CTID)
		if err != nil {
			return err
		}
		next := f.filesOf(spec.Template, key)
		if same = next.digest == c.files.digest; !same {
			c.beside = &next
		}
		return nil
	})
	return same, err
}

// upgraded finds a container that can be upgraded. The caller holds the lock.
func (f *Fake) upgraded(name string, id container.CTID) (*fakeContainer, error) {
	c, err := f.find(name)
	switch {
	case err != nil:
		return nil, err
	case c.info.CTID == "" || c.adopted:
		return nil, container.ErrUnsupported
	case c.info.CTID != id:
		return nil, container.ErrNotFound
	}
	return c, nil
}

// Exchange implements container.Upgrader.
func (f *Fake) Exchange(ctx context.Context, name string, id container.CTID, key string, next bool) error {
	return f.do(ctx, OpExchange, name, func() error {
		c, err := f.upgraded(name, id)
		switch {
		case err != nil:
			return err
		case (c.files.key == key) == next:
			return nil
		case c.info.State != container.StateStopped:
			return container.ErrBusy
		case c.beside == nil:
			return container.ErrNotFound
		}
		c.files, *c.beside = *c.beside, c.files
		c.info.Template = c.files.template
		return nil
	})
}

// EndUpgrade implements container.Upgrader.
func (f *Fake) EndUpgrade(ctx context.Context, name string, id container.CTID) error {
	return f.do(ctx, OpEndUpgrade, name, func() error {
		c, err := f.upgraded(name, id)
		if err != nil || c.beside == nil {
			return err
		}
		if c.beside = nil; c.files.key != "" {
			c.snapshots = nil
		}
		return nil
	})
}
