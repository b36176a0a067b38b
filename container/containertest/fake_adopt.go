package containertest

import (
	"context"

	"github.com/hostler-io/hostler/container"
)

// Adopt implements container.Adopter.
func (f *Fake) Adopt(ctx context.Context, name string, id container.CTID) (info container.Info, err error) {
	err = f.do(ctx, OpAdopt, name, func() error {
		c, err := f.find(name)
		switch {
		case err != nil:
			return err
		case container.CheckCTID(string(id)) != nil:
			return container.CheckCTID(string(id))
		case c.adopted && c.info.CTID == id:
			info = c.copy()
			return nil
		case c.info.CTID != "":
			return container.ErrExists
		}
		for _, o := range f.containers {
			if o.info.CTID == id {
				return container.ErrExists
			}
		}
		c.adopted, c.info.CTID = true, id
		if c.info.Template == "" {
			c.info.Template = container.Adopted
		}
		info = c.copy()
		return nil
	})
	if err != nil {
		return container.Info{}, err
	}
	return info, nil
}

// Disown implements container.Adopter.
func (f *Fake) Disown(ctx context.Context, name string, id container.CTID) error {
	return f.do(ctx, OpDisown, name, func() error {
		if c, err := f.find(name); err == nil && c.adopted && c.info.CTID == id {
			c.adopted, c.info.CTID = false, ""
		}
		return nil
	})
}
