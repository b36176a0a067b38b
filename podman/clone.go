package podman

import (
	"context"
	"fmt"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
	"github.com/hostler-io/hostler/internal/tree"
)

// Clone implements container.Cloner: a container of the same image, with a copy of the
// layer that holds what the other one has changed. Podman's own commit would pack and
// unpack that, and leave an image behind.
func (r *Runtime) Clone(ctx context.Context, from string, spec container.CreateSpec) (info container.Info, err error) {
	err = r.change(ctx, "clone", spec.Name, createTime, func(ctx context.Context) error {
		source, err := r.inspect(ctx, from)
		switch {
		case err != nil:
			return err
		case source.ctid() == "":
			return fmt.Errorf("%w: %s was not made by Hostler", container.ErrUnsupported, from)
		}
		layer, err := source.GraphDriver.snapshots()
		if err != nil {
			return err
		}
		first, err := firstID(source.Config.Labels)
		if err != nil {
			return err
		}
		spec.Template, spec.Privileged = source.Config.Labels[labelTemplate], first == 0
		if err := spec.Check(); err != nil {
			return err
		}
		if err := r.make(ctx, spec, source.Image); err != nil {
			return err
		}
		made, err := r.stopped(ctx, spec.Name)
		if err != nil {
			return err
		}
		into, err := made.GraphDriver.snapshots()
		if err != nil {
			return err
		}
		shift := tree.Shift{From: first}
		if shift.To, err = firstID(made.Config.Labels); first != 0 {
			shift.Count = idsEach
		}
		if err != nil {
			return err
		}
		if err := into.Replace(ctx, layer.Tree, shift, rootfs.Renew); err != nil {
			return err
		}
		info = made.info()
		return nil
	})
	if err != nil {
		return container.Info{}, err
	}
	return info, nil
}
