package podman

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/failpoint"
)

// upgrading is the part of the runtime that exchanges the images of containers. Podman
// never changes the image of a container, so there are two of them, with the same labels,
// and they exchange the name. One that has a name of these is shown to nobody.
type upgrading struct{ r *Runtime }

var _ container.Upgrader = (*Runtime)(nil)

// The beginnings of the names of what a container becomes, and of what it was. Its id
// follows.
const (
	nextPrefix = "hostler-next-"
	pastPrefix = "hostler-past-"
)

// aside reports whether it is the other one of two.
func (l listed) aside() bool {
	id := l.Labels[labelCTID]
	return id != "" && (l.name() == nextPrefix+id || l.name() == pastPrefix+id)
}

// PrepareUpgrade implements container.Upgrader.
func (u upgrading) PrepareUpgrade(ctx context.Context, spec container.CreateSpec, key string) (same bool, err error) {
	r := u.r
	if err := spec.Check(); err != nil {
		return false, fmt.Errorf("podman upgrade: %w", err)
	}
	err = r.change(ctx, "upgrade", spec.Name, createTime, func(ctx context.Context) error {
		d, err := u.ours(ctx, spec.Name, spec.CTID)
		if errors.Is(err, container.ErrNotFound) && u.exchange(ctx, spec.Name, spec.CTID, false) == nil {
			d, err = u.ours(ctx, spec.Name, spec.CTID) // an exchange was cut short
		}
		if err != nil {
			return err
		}
		image, err := r.Images().fetched(ctx, spec.Template, spec.Pull)
		if err != nil {
			return err
		}
		if same = bare(image) == bare(d.Image); same {
			return nil
		}
		if err := u.clear(ctx, spec.CTID); err != nil {
			return err
		}
		first, err := firstID(d.Config.Labels)
		if err != nil {
			return err
		}
		body, err := r.body(spec, image)
		if err != nil {
			return err
		}
		body.Name, body.Labels[labelUpgrade] = nextPrefix+string(spec.CTID), key
		if first != 0 {
			body.own(first)
		}
		if spec.Unique && !d.unique() {
			err = r.prepare(ctx, spec.CTID, "none") // else that is there for the one in place
		}
		if err != nil {
			return err
		}
		if spec.Unique {
			r.describe(&body, spec.CTID)
		}
		failpoint.Before(failpoint.UpgradePrepared)
		err = r.api.call(ctx, http.MethodPost, "/containers/create", nil, body, nil)
		failpoint.After(failpoint.UpgradePrepared)
		return err
	})
	return same, err
}

// bare is the id of an image without the name of the sum.
func bare(id string) string { return strings.TrimPrefix(id, "sha256:") }

// ours is the container of a name and an id, if it can be upgraded.
func (u upgrading) ours(ctx context.Context, name string, id container.CTID) (details, error) {
	d, err := u.r.inspect(ctx, name)
	switch {
	case err != nil:
		return d, err
	case d.ctid() == "":
		return d, fmt.Errorf("%w: %s was not made by Hostler", container.ErrUnsupported, name)
	case d.ctid() != id:
		return d, fmt.Errorf("%w: %s is another container now", container.ErrNotFound, name)
	case d.mark != nil:
		return d, fmt.Errorf("%w: %s was adopted, so nothing says how it is made anew", container.ErrUnsupported, name)
	}
	return d, nil
}

// Exchange implements container.Upgrader.
func (u upgrading) Exchange(ctx context.Context, name string, id container.CTID, key string, next bool) error {
	return u.r.change(ctx, "exchange", name, createTime, func(ctx context.Context) error {
		if d, err := u.r.inspect(ctx, name); err == nil && (d.Config.Labels[labelUpgrade] == key) == next {
			return nil
		}
		return u.exchange(ctx, name, id, next)
	})
}

// exchange gives the name to the other one of the two: first the one that has it loses it.
// Cut short between the two, neither has it, and either way goes on from there.
func (u upgrading) exchange(ctx context.Context, name string, id container.CTID, next bool) error {
	coming, going := pastPrefix+string(id), nextPrefix+string(id)
	if next {
		coming, going = going, coming
	}
	other, err := u.r.inspect(ctx, coming)
	if errors.Is(err, container.ErrNotFound) && !next {
		_, err = u.r.inspect(ctx, name) // it is in place
		return err
	}
	if err != nil {
		return fmt.Errorf("what is to take the place of %s: %w", name, err)
	}
	switch d, err := u.ours(ctx, name, id); {
	case err == nil && d.info().State != container.StateStopped:
		return fmt.Errorf("%w: it is %s", container.ErrBusy, d.info().State)
	case err == nil:
		failpoint.Before(failpoint.FilesWithdrawn)
		if err := u.r.post(ctx, d.ID, "rename", url.Values{"name": {going}}); err != nil {
			return err
		}
		failpoint.After(failpoint.FilesWithdrawn)
	case !errors.Is(err, container.ErrNotFound):
		return err
	}
	failpoint.Before(failpoint.FilesExchanged)
	err = u.r.post(ctx, other.ID, "rename", url.Values{"name": {name}})
	failpoint.After(failpoint.FilesExchanged)
	return err
}

// EndUpgrade implements container.Upgrader.
func (u upgrading) EndUpgrade(ctx context.Context, name string, id container.CTID) error {
	return u.r.change(ctx, "endupgrade", name, destroyTime, func(ctx context.Context) error {
		if _, err := u.ours(ctx, name, id); err != nil {
			return err
		}
		failpoint.Before(failpoint.UpgradeEnded)
		err := u.clear(ctx, id)
		failpoint.After(failpoint.UpgradeEnded)
		return err
	})
}

// clear removes what is beside the container of an id, which is in place.
func (u upgrading) clear(ctx context.Context, id container.CTID) error {
	for _, prefix := range []string{nextPrefix, pastPrefix} {
		d, err := u.r.inspect(ctx, prefix+string(id))
		switch {
		case errors.Is(err, container.ErrNotFound):
			continue
		case err == nil:
			err = u.r.erase(ctx, d.ID)
		}
		if err != nil {
			return fmt.Errorf("removing %s: %w", prefix+string(id), err)
		}
	}
	return nil
}
