package podman

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
)

// mark makes a container ours that somebody else has made: podman changes no labels of
// containers that are there. It is a file in podman's own directory of the container, and
// goes with it.
type mark struct {
	CTID container.CTID `json:"ctid"`
}

const (
	markFile = "hostler.json"
	maxMark  = 4 << 10
)

// labelUnit names the unit of systemd that starts a container, as podman's own tools and
// Quadlet write it.
const labelUnit = "PODMAN_SYSTEMD_UNIT"

func (d *details) markPath() string { return filepath.Join(d.StaticDir, markFile) }

// readMark has the labels of a container that was adopted say so.
func (d *details) readMark() error {
	if d.ctid() != "" || !filepath.IsAbs(d.StaticDir) {
		return nil
	}
	b, err := durable.ReadFile(d.markPath(), maxMark)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var m mark
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err == nil {
		err = container.CheckCTID(string(m.CTID))
	}
	if err != nil {
		return fmt.Errorf("its mark %s: %w", d.markPath(), err)
	}
	first, err := d.firstID()
	if err != nil {
		return err
	}
	d.mark = &m
	d.Config.Labels = map[string]string{labelCTID: string(m.CTID), labelTemplate: d.ImageName}
	if first != 0 {
		d.Config.Labels[labelIDs] = strconv.FormatUint(uint64(first), 10)
	}
	return nil
}

// firstID is the first of the ids of the host of a container that we did not make; 0 if it
// has those of the host.
func (d *details) firstID() (uint32, error) {
	if d.HostConfig.IDMappings == nil || len(d.HostConfig.IDMappings.UIDMap) == 0 {
		return 0, nil
	}
	m := d.HostConfig.IDMappings
	var inside, first, size uint32
	if n, _ := fmt.Sscanf(m.UIDMap[0], "%d:%d:%d", &inside, &first, &size); n != 3 || len(m.UIDMap) != 1 || len(m.GIDMap) != 1 || m.GIDMap[0] != m.UIDMap[0] || inside != 0 || first == 0 || size != idsEach {
		return 0, fmt.Errorf("%w: it maps ids by %q and %q, and Hostler keeps containers with one range of %d of them, the same for users and groups", container.ErrUnsupported, m.UIDMap, m.GIDMap, idsEach)
	}
	return first, nil
}

// adopting is the part of the runtime that takes over containers.
type adopting struct{ r *Runtime }

// Adopt implements container.Adopter. Podman cannot be told later to restart a container no
// more, so one that it restarts is refused.
func (a adopting) Adopt(ctx context.Context, name string, id container.CTID) (info container.Info, err error) {
	r := a.r
	err = r.change(ctx, "adopt", name, r.cfg.Query, func(ctx context.Context) error {
		if err := errors.Join(container.CheckName(name), container.CheckCTID(string(id))); err != nil {
			return err
		}
		r.making.Lock()
		defer r.making.Unlock()
		d, err := r.inspect(ctx, name)
		if err != nil {
			return err
		}
		twin, err := r.byCTID(ctx, id)
		switch {
		case err != nil:
			return err
		case d.ctid() == id && d.mark != nil:
			info = d.info()
			return nil
		case d.ctid() != "":
			return fmt.Errorf("%w: %s is one of Hostler's", container.ErrExists, name)
		case twin != nil:
			return fmt.Errorf("%w: %s is the id of %s", container.ErrExists, id, twin.name())
		}
		if err := d.adoptable(); err != nil {
			return err
		}
		b, err := json.Marshal(mark{id})
		if err != nil {
			return err
		}
		failpoint.Before(failpoint.ContainerAdopted)
		if err := durable.WriteFile(d.markPath(), b, 0o600, maxMark); err != nil {
			return err
		}
		failpoint.After(failpoint.ContainerAdopted)
		d, err = r.inspect(ctx, name)
		info = d.info()
		return err
	})
	if err != nil {
		return container.Info{}, err
	}
	return info, nil
}

// adoptable refuses a foreign container that something else starts or removes.
func (d *details) adoptable() error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", container.ErrUnsupported, fmt.Sprintf(format, args...))
	}
	switch policy := d.HostConfig.RestartPolicy.Name; {
	case policy != "" && policy != "no":
		return refuse("podman itself starts it again (--restart %s), which cannot be changed; make it anew without --restart, and adopt that", policy)
	case d.HostConfig.AutoRemove:
		return refuse("podman removes it when it ends (--rm); make it anew without --rm, and adopt that")
	case d.Pod != "":
		return refuse("it belongs to a pod, which podman starts and stops as one")
	case d.Config.Labels[labelUnit] != "":
		return refuse("the unit %.120q of systemd starts it; make it anew without the unit, and adopt that", d.Config.Labels[labelUnit])
	case !filepath.IsAbs(d.StaticDir):
		return refuse("podman does not tell where it keeps its files")
	}
	_, err := d.firstID()
	return err
}

// Disown implements container.Adopter.
func (a adopting) Disown(ctx context.Context, name string, id container.CTID) error {
	return a.r.change(ctx, "disown", name, a.r.cfg.Query, func(ctx context.Context) error {
		d, err := a.r.inspect(ctx, name)
		if errors.Is(err, container.ErrNotFound) || err == nil && (d.mark == nil || d.ctid() != id) {
			return nil
		}
		if err == nil {
			err = durable.Remove(d.markPath())
		}
		return err
	})
}
