package lxc

import (
	"context"
	"fmt"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/lxc/internal/wire"
)

// upgrading is the part of the runtime that exchanges the images of containers.
type upgrading struct{ r *Runtime }

var _ container.Upgrader = (*Runtime)(nil)

// PrepareUpgrade implements container.Upgrader.
func (u upgrading) PrepareUpgrade(ctx context.Context, spec container.CreateSpec, key string) (same bool, err error) {
	r := u.r
	if err := spec.Check(); err != nil {
		return false, fmt.Errorf("lxc upgrade: %w", err)
	}
	if container.IsWord(spec.Template) {
		return false, fmt.Errorf("lxc upgrade %q: %w: %s is a template of the host, which has no newer version; name an image such as registry.example/debian:12", spec.Name, container.ErrUnsupported, spec.Template)
	}
	info, err := r.Inspect(ctx, spec.Name)
	if err == nil && info.CTID != "" && info.CTID != spec.CTID {
		err = fmt.Errorf("lxc upgrade %q: %w: it is another container now", spec.Name, container.ErrNotFound)
	}
	if err != nil {
		return false, err
	}
	img, release, err := r.fetch(ctx, spec)
	if err != nil {
		return false, fmt.Errorf("lxc upgrade %q: %w", spec.Name, err)
	}
	defer release()
	if info.CTID != "" && info.Digest == img.Digest {
		return true, nil
	}
	return false, u.do(ctx, wire.OpUpgrade, wire.Request{Name: spec.Name, CTID: spec.CTID, To: key, Create: &spec, Image: &img})
}

// Exchange implements container.Upgrader.
func (u upgrading) Exchange(ctx context.Context, name string, id container.CTID, key string, next bool) error {
	op := wire.OpExchangeBack
	if next {
		op = wire.OpExchange
	}
	return u.do(ctx, op, wire.Request{Name: name, CTID: id, To: key})
}

// EndUpgrade implements container.Upgrader.
func (u upgrading) EndUpgrade(ctx context.Context, name string, id container.CTID) error {
	return u.do(ctx, wire.OpEndUpgrade, wire.Request{Name: name, CTID: id})
}

func (u upgrading) do(ctx context.Context, op string, req wire.Request) error {
	_, err := u.r.call(ctx, op, u.r.cfg.Deadlines.Create, req)
	return err
}
