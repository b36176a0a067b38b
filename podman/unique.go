package podman

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/permit"
)

// labelUnique is the label of a container that is started only under an epoch.
const labelUnique = "hostler.unique"

// secretPrefix begins the names of the secrets of unique containers.
const secretPrefix = "hostler-epoch-"

// holding keeps unique containers from being started by others, and tells them their
// epoch. Podman gives a container the value of a secret at each start, by a program that
// the secret names, and starts nothing without it: the program reads the permit. No label
// of a container that is there can be changed, so the epoch is in none.
type holding struct{ *Runtime }

// Group implements container.Holder. Processes of the container, and commands in it, are in
// the group of this name or below it, whoever manages the groups.
func (h holding) Group(ctx context.Context, name string) (group string, err error) {
	err = h.do(ctx, "group", name, h.cfg.Query, func(ctx context.Context) error {
		d, err := h.inspect(ctx, name)
		if err != nil {
			return err
		}
		group = "libpod-" + d.ID
		if d.HostConfig.CgroupManager == "systemd" {
			group += ".scope"
		}
		return nil
	})
	return group, err
}

// PrintedEpoch is what a program prints that podman runs to learn the value of a secret: the
// epoch of a permit. It fails while the container must not be started.
func PrintedEpoch(path string) (string, error) { return permit.Epoch(path) }

// The files of a unique container, and the name of its secret.
func (h holding) epochFile(id container.CTID) string {
	return filepath.Join(h.cfg.Permits, string(id)+".epoch")
}

func (h holding) permitFile(id container.CTID) string {
	return filepath.Join(h.cfg.Permits, string(id)+".permit")
}

func secretOf(id container.CTID) string { return secretPrefix + string(id) }

// prepare makes what podman wants to be there when a unique container is made or started:
// the file that it mounts, and the secret.
func (h holding) prepare(ctx context.Context, id container.CTID, epoch string) error {
	if h.cfg.Permits == "" || len(h.cfg.Permit) == 0 {
		return fmt.Errorf("%w: no directory for permits to start unique containers is configured", container.ErrUnsupported)
	}
	// The users of containers pass through it to the file.
	if err := errors.Join(os.MkdirAll(h.cfg.Permits, 0o711), os.Chmod(h.cfg.Permits, 0o711)); err != nil {
		return err
	}
	if err := permit.Place(h.epochFile(id), epoch+"\n", 0o644); err != nil {
		return err
	}
	if err := h.dropSecret(ctx, id); err != nil {
		return err
	}
	lookup := ""
	for _, word := range append(h.cfg.Permit[:len(h.cfg.Permit):len(h.cfg.Permit)], h.permitFile(id)) {
		lookup += "'" + strings.ReplaceAll(word, "'", `'\''`) + "' "
	}
	options, err := json.Marshal(map[string]string{"lookup": lookup, "store": "cat >/dev/null", "list": "true", "delete": "true"})
	if err != nil {
		return err
	}
	query := url.Values{"name": {secretOf(id)}, "driver": {"shell"}, "driveropts": {string(options)}}
	if err := h.api.call(ctx, http.MethodPost, "/secrets/create", query, strings.NewReader("the permit has it"), nil); err != nil {
		return fmt.Errorf("make the secret %s: %w", secretOf(id), err)
	}
	return nil
}

// dropSecret removes the secret of a container. No secret is no error.
func (h holding) dropSecret(ctx context.Context, id container.CTID) error {
	err := h.api.call(ctx, http.MethodDelete, "/secrets/"+url.PathEscape(secretOf(id)), nil, nil, nil)
	if err != nil && !errors.Is(err, container.ErrNotFound) {
		return fmt.Errorf("remove the secret %s: %w", secretOf(id), err)
	}
	return nil
}

// forget removes what belongs to a unique container that is not there.
func (h holding) forget(ctx context.Context, id container.CTID) error {
	if h.cfg.Permits == "" {
		return h.dropSecret(ctx, id)
	}
	return errors.Join(permit.Remove(h.permitFile(id)), h.dropSecret(ctx, id), permit.Remove(h.epochFile(id)))
}

// describe has a container that is to be made wait for permits.
func (h holding) describe(b *specification, id container.CTID) {
	b.Labels[labelUnique] = "true"
	b.EnvSecrets = map[string]string{container.EpochVariable: secretOf(id)}
	b.Mounts = append(b.Mounts, bind{"bind", h.epochFile(id), container.EpochFile, []string{"bind", "ro"}})
}

// admit permits one start of a container under the epoch of its terms. The function ends
// the permit.
func (h holding) admit(ctx context.Context, d *details, terms container.Terms) (end func() error, err error) {
	end = func() error { return nil }
	switch unique := d.unique(); {
	case !unique && terms.Epoch == "":
		return end, nil
	case !unique:
		return end, fmt.Errorf("%w: podman made %s as a container that every program may start, so it cannot be unique", container.ErrUnsupported, d.Name)
	case terms.Epoch == "":
		return end, permit.ErrRefused
	}
	id := d.ctid()
	if err := h.prepare(ctx, id, terms.Epoch); err != nil {
		return end, err
	}
	if d.State.Status == statusInitialized { // under an epoch that nobody knows any more
		if err := h.post(ctx, d.ID, "stop", url.Values{"timeout": {"0"}}); err != nil {
			return end, err
		}
		if *d, err = h.inspect(ctx, d.ID); err != nil {
			return end, err
		}
	}
	end = func() error { return permit.Remove(h.permitFile(id)) }
	until := terms.UntilMS
	if deadline, ok := ctx.Deadline(); ok {
		until = min(until, clock.BootMS()+int64(time.Until(deadline)/time.Millisecond))
	}
	if err := permit.Give(h.permitFile(id), terms.Epoch, until); err != nil {
		return end, errors.Join(err, end())
	}
	return end, nil
}

// unique tells that a container is started only under an epoch.
func (d details) unique() bool { return d.mark == nil && d.Config.Labels[labelUnique] != "" }

// looseSecrets are those of unique containers that are not there: a creation or a removal
// was cut short.
func (h holding) looseSecrets(ctx context.Context, repair bool) (found []container.Debris, err error) {
	h.making.Lock() // a secret is made before its container
	defer h.making.Unlock()
	var secrets []struct{ Spec struct{ Name string } }
	if err := h.api.call(ctx, http.MethodGet, "/secrets/json", nil, nil, &secrets); err != nil {
		return nil, err
	}
	all, err := h.listAll(ctx, map[string][]string{"label": {labelUnique}})
	if err != nil {
		return nil, err
	}
	there := make(map[string]bool)
	for _, l := range all {
		there[secretOf(container.CTID(l.Labels[labelCTID]))] = true
	}
	for _, s := range secrets {
		id, ours := strings.CutPrefix(s.Spec.Name, secretPrefix)
		if !ours || there[s.Spec.Name] || container.CheckCTID(id) != nil {
			continue
		}
		d := container.Debris{Kind: "secret", Object: "podman:" + s.Spec.Name, Cause: "the unique container that it belongs to is not there: its creation or its removal was cut short", Repair: "remove it"}
		if repair {
			d.Mend(func() error { return h.forget(ctx, container.CTID(id)) })
		}
		found = append(found, d)
	}
	return found, nil
}
