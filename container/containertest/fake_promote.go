package containertest

import (
	"context"

	"github.com/hostler-io/hostler/container"
)

// OpPromote makes an image of a container, OpForget takes its name from one.
const (
	OpPromote Op = "promote"
	OpForget  Op = "forget"
)

var _ container.Promoter = (*Fake)(nil)

// Promote implements container.Promoter.
func (f *Fake) Promote(ctx context.Context, name string, p container.Promotion) error {
	return f.do(ctx, OpPromote, name, func() error {
		c, err := f.find(name)
		there, made := f.images[p.Reference]
		switch {
		case err != nil:
			return err
		case c.info.CTID == "":
			return container.ErrUnsupported
		case made && there.Key == p.Key:
			return nil
		case made:
			return container.ErrExists
		}
		f.images[p.Reference] = p
		return nil
	})
}

// Kept implements container.Promoter.
func (f *Fake) Kept(_ context.Context, reference string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.images[reference]
	if !ok {
		return nil, container.ErrNotFound
	}
	return p.Kept, nil
}

// Forget implements container.Promoter.
func (f *Fake) Forget(ctx context.Context, reference string) error {
	return f.do(ctx, OpForget, reference, func() error {
		if _, ok := f.images[reference]; !ok {
			return container.ErrNotFound
		}
		delete(f.images, reference)
		return nil
	})
}
