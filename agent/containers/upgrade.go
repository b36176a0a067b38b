package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/retry"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

const (
	// settleTime is how long a container without a check has to run with another image.
	settleTime = 10 * time.Second
	// maxSaid is how many bytes of the container's last output the error of an upgrade has:
	// a report has room for about a thousand.
	maxSaid = 500
	// undoTries is how often the old image is put back while the runtime does not answer,
	// and undoPause lies between two: its service may be upgraded at the same time.
	undoTries = 60
	undoPause = 5 * time.Second
)

// upgrade gives a container another image; name, volumes, address and settings stay. The
// commit point is the record of the container, which names the image. An interruption before
// it puts the old image back; after it, the remains of the old image are removed.
//
//	made beside → stopped → exchanged → started → healthy → recorded → the old one removed
//	                 └──────────┴─ on failure ─┴─────┘→ exchanged back, started
type upgrade struct{ needs }

// Prepare implements [actions.Handler]: who asks for another image of a broken container
// wants it to be started with that.
func (h upgrade) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) {
	rec, end := unmoved(h.Containers, s)
	return forgive(h.Containers, keep(rec), end)
}

// Begin implements [actions.Handler].
func (h upgrade) Begin(j *actions.Job) {
	o := h.operation(j)
	if o == nil {
		return
	}
	m := h.managed[o.rec.CTID]
	m.tries, m.tried = retry.Attempts{}, true
	u := &upgrading{operation: o, all: h.Containers, key: j.Action().ID.String(), args: protocol.ArgsOf[protocol.ContainerUpgradeArgs](o.spec), cut: !o.first}
	s := actions.Saga{Committed: o.rec.Settings.Upgraded == u.key, Undo: u.undo}
	if !s.Committed {
		s.Steps = []actions.Step{{Do: u.prepare}, {Do: u.try, Commit: true}}
	}
	s.Steps = append(s.Steps, actions.Step{Do: u.end})
	h.run(j, o, s)
}

// Settle implements [actions.Settler].
func (h upgrade) Settle(j *actions.Job) { h.Begin(j) }

// upgrading is an upgrade that is under way.
type upgrading struct {
	*operation
	all  *Containers
	key  string
	args protocol.ContainerUpgradeArgs
	same bool // it is of that image already
	cut  bool // the container was stopped for it, or may have been by an attempt before
	went bool // this attempt has begun its steps
	said string
}

// upgrader is the runtime of the container.
func (u *upgrading) upgrader() (container.Upgrader, error) {
	if r, ok := u.runtime.(container.Upgrader); ok {
		return r, nil
	}
	return nil, unsupported(u.operation, "upgrade")
}

// image is the reference of the image that it becomes one of, and when that is fetched.
func (u *upgrading) image() (reference, pull string) {
	if u.args.Image != "" {
		return u.args.Image, u.args.Pull
	}
	return u.rec.Template, cmp.Or(u.args.Pull, container.PullAlways)
}

// prepare fetches the image and makes what the container becomes, beside what it is.
func (u *upgrading) prepare(ctx context.Context) (queue.Change, error) {
	u.went = true
	r, err := u.upgrader()
	if err == nil {
		err = u.allowed(ctx)
	}
	if err != nil {
		return queue.Change{}, err
	}
	network, err := networks{u.all}.attach(ctx, u.operation)
	if err != nil {
		return queue.Change{}, err
	}
	spec := container.CreateSpec{
		Name: string(u.rec.Name), CTID: container.CTID(u.rec.CTID.String()), Network: network,
		Unique:   u.rec.Class == contract.Unique,
		Hostname: string(u.rec.Settings.Hostname), Env: u.rec.Settings.Env, Command: u.rec.Settings.Command,
	}
	spec.Template, spec.Pull = u.image()
	if spec.Mounts, err = (mounted{u.operation}).mounts(ctx); err != nil {
		return queue.Change{}, err
	}
	if u.same, err = r.PrepareUpgrade(ctx, spec, u.key); u.same {
		u.note = fmt.Sprintf("nothing has changed: %s is the image that the container is of already", spec.Template)
	}
	return queue.Change{}, err
}

// allowed refuses what an upgrade would lose, before anything is fetched.
func (u *upgrading) allowed(ctx context.Context) error {
	from, _ := u.image()
	if from == container.Adopted || strings.HasPrefix(from, backupTemplate) {
		return fmt.Errorf("%w: the container was made of no image that could be newer (%s); name the image: hostler ct upgrade HOST/%s IMAGE", container.ErrUnsupported, from, u.rec.Name)
	}
	info, err := u.runtime.Inspect(ctx, string(u.rec.Name))
	if err != nil {
		return err
	}
	if info.State == container.StateFrozen {
		return fmt.Errorf("%w: the container is frozen; let it run first: hostler ct unfreeze", container.ErrBusy)
	}
	s, ok := u.runtime.(container.Snapshotter)
	if !ok || u.args.DropSnapshots {
		return nil
	}
	all, err := s.Snapshots(ctx, string(u.rec.Name))
	if err == nil && len(all) > 0 {
		err = fmt.Errorf("the container has %d snapshots of the old image, which an upgrade removes; ask with --drop-snapshots, or remove the snapshots first: hostler snapshot rm", len(all))
	}
	return err
}

// try exchanges the old image for the new one, and looks at what becomes of the container.
func (u *upgrading) try(ctx context.Context) (queue.Change, error) {
	r, err := u.upgrader()
	if err != nil || u.same {
		return queue.Change{}, err
	}
	u.cut = true
	if _, err := u.stop(ctx); err != nil {
		return queue.Change{}, err
	}
	if err := r.Exchange(ctx, string(u.rec.Name), container.CTID(u.rec.CTID.String()), u.key, true); err != nil {
		return queue.Change{}, err
	}
	if u.rec.Intended == queue.Running {
		err = u.start(ctx)
		if err == nil {
			err = proof{u.operation}.well(ctx, time.Duration(u.args.WaitMS)*time.Millisecond)
		}
		if err != nil {
			u.said = u.lastSaid(ctx)
			return queue.Change{}, err
		}
	}
	// What else is kept of it may have changed while it was looked at.
	rec, err := loop.Ask(ctx, u.cfg.Loop, func() (queue.Container, error) {
		m := u.all.managed[u.rec.CTID]
		if m == nil {
			return queue.Container{}, container.ErrNotFound
		}
		return m.rec, nil
	})
	if err != nil {
		return queue.Change{}, err
	}
	rec.Template, _ = u.image()
	rec.Settings.Upgraded = u.key
	u.rec = rec
	return keep(rec), nil
}

// end removes the remains of the old image.
func (u *upgrading) end(ctx context.Context) (queue.Change, error) {
	r, err := u.upgrader()
	if err != nil || u.same {
		return queue.Change{}, err
	}
	err = insist(ctx, func() error {
		return r.EndUpgrade(ctx, string(u.rec.Name), container.CTID(u.rec.CTID.String()))
	})
	if err != nil {
		return queue.Change{}, fmt.Errorf("the container has the new image; what is left of the old one goes with the next upgrade: %w", err)
	}
	return queue.Change{}, nil
}

// rest lets time go by.
func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lastSaid is what the container has printed last; empty if that is not known.
func (u *upgrading) lastSaid(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookAfter)
	defer cancel()
	said := strings.TrimSpace(lastWords(ctx, u.runtime, string(u.rec.Name)))
	return strings.ToValidUTF8(said[max(0, len(said)-maxSaid):], "")
}

// undo puts the old image back, and starts the container if it is to run.
func (u *upgrading) undo(ctx context.Context, why error) (queue.Change, error) {
	r, err := u.upgrader()
	if err != nil {
		return queue.Change{}, why
	}
	if !u.went {
		why = actions.Interrupted(errors.New("the agent ended in the middle of the upgrade"))
	}
	name, id := string(u.rec.Name), container.CTID(u.rec.CTID.String())
	err = insist(ctx, func() error {
		err := r.Exchange(ctx, name, id, u.key, false)
		if errors.Is(err, container.ErrBusy) {
			if _, err = u.stop(ctx); err == nil {
				err = r.Exchange(ctx, name, id, u.key, false)
			}
		}
		return err
	})
	if err != nil {
		return queue.Change{}, fmt.Errorf("%w; the old image cannot be put back: %w; ask for the upgrade again when the cause is mended", why, err)
	}
	told := why // and nothing of the container has changed
	if u.cut {
		told = fmt.Errorf("the old image is back: %w", why)
		if err := u.resume(ctx); err != nil {
			told = fmt.Errorf("%w; the container does not start with the old image: %w", told, err)
		}
	}
	if err := insist(ctx, func() error { return r.EndUpgrade(ctx, name, id) }); err != nil {
		told = fmt.Errorf("%w; what was made of the new image goes with the next upgrade: %w", told, err)
	}
	if u.said != "" {
		told = fmt.Errorf("%w; the last lines of its log: %s", told, u.said)
	}
	return queue.Change{}, told
}

// resume starts the container, if its user wants it to run by now.
func (u *upgrading) resume(ctx context.Context) error {
	runs, err := loop.Ask(ctx, u.cfg.Loop, func() (bool, error) {
		m := u.all.managed[u.rec.CTID]
		return m != nil && m.rec.Intended == queue.Running, nil
	})
	if err != nil || !runs {
		return err
	}
	return insist(ctx, func() error { return u.start(ctx) })
}

// insist does something until the runtime has answered.
func insist(ctx context.Context, do func() error) error {
	for tries := 1; ; tries++ {
		err := do()
		if tries == undoTries || !errors.Is(err, container.ErrUnavailable) && !errors.Is(err, container.ErrInterrupted) {
			return err
		}
		if rest(ctx, undoPause) != nil {
			return err
		}
	}
}
