package podman

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/network"
)

// statusRemoving is podman's word for a container whose removal has begun.
const statusRemoving = "removing"

var _ container.Tidier = (*Runtime)(nil)

// cablePrefix begins the names of our ends of cables, cableForm is their form.
const cablePrefix = "hp"

var cableForm = regexp.MustCompile(`^` + cablePrefix + `[0-9a-f]{12}$`)

// cableOf names our end of the cable of a container.
func cableOf(id container.CTID) string {
	sum := sha256.Sum256([]byte("hostler-cable-1\x00" + id))
	return fmt.Sprintf(cablePrefix+"%x", sum[:6])
}

// Debris implements container.Tidier. Podman keeps its own records whole; what is left
// is a container that was prepared and never started, one whose removal was cut short, the
// secret of a unique one that is gone, and a cable that a namespace holds which a process keeps alive. Of cables it looks at
// those that are plugged into Config.Bridge.
func (r *Runtime) Debris(ctx context.Context, repair bool) (found []container.Debris, err error) {
	err = r.do(ctx, "list", "", destroyTime, func(ctx context.Context) error {
		all, err := r.list(ctx, map[string][]string{"label": {labelCTID}})
		if err != nil {
			return err
		}
		cables := make(map[string]bool) // that containers have
		for _, l := range all {
			if l.Labels[labelCTID] == "" {
				continue // another program has made it of an image that was one of our containers
			}
			d, half := r.half(l)
			if !half {
				cables[cableOf(container.CTID(l.Labels[labelCTID]))] = true
				continue
			}
			if repair {
				d.Mend(func() error { return r.settle(ctx, l) })
			}
			found = append(found, d)
			if !d.Repaired {
				cables[cableOf(container.CTID(l.Labels[labelCTID]))] = true
			}
		}
		secrets, err := r.looseSecrets(ctx, repair)
		if err != nil {
			return err
		}
		more, err := r.looseCables(cables, repair)
		found = slices.Concat(found, secrets, more)
		return err
	})
	return found, err
}

// half tells what is wrong with a container of ours that is half started or half removed.
func (r *Runtime) half(l listed) (d container.Debris, half bool) {
	d = container.Debris{Kind: "half container", Object: "podman:" + l.name()}
	switch l.State {
	case statusInitialized:
		d.Cause, d.Repair = "its start was cut short: its namespaces are there, and nothing of it runs", "stop it; the container stays"
	case statusRemoving:
		d.Cause, d.Repair = "its removal was ordered and cut short", "remove it"
	default:
		return d, false
	}
	return d, true
}

// settle ends what was begun with a half container, if nobody has gone on with it.
func (r *Runtime) settle(ctx context.Context, l listed) error {
	release, err := r.hold(ctx, l.name())
	if err != nil {
		return err
	}
	defer release()
	now, err := r.inspect(ctx, l.ID)
	if err != nil {
		return err
	}
	switch now.State.Status {
	case statusInitialized:
		return r.post(ctx, l.ID, "stop", url.Values{"timeout": {"0"}})
	case statusRemoving:
		return r.api.call(ctx, http.MethodDelete, "/containers/"+url.PathEscape(l.ID), url.Values{"force": {"true"}}, nil, nil)
	}
	return nil
}

// looseCables are those of our names on our bridge that no container has.
func (r *Runtime) looseCables(has map[string]bool, repair bool) (found []container.Debris, err error) {
	if r.cfg.Bridge == "" {
		return nil, nil
	}
	names, err := network.CablesOf(r.cfg.Bridge, cablePrefix)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if has[name] || !cableForm.MatchString(name) {
			continue
		}
		d := container.Debris{Kind: "cable", Object: name, Cause: "it is plugged into " + r.cfg.Bridge + ", and no container has it: another process keeps the network namespace of its other end", Repair: "remove both ends"}
		if repair {
			d.Mend(func() error { return network.RemoveCable(name) })
		}
		found = append(found, d)
	}
	return found, nil
}
