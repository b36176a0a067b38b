package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/limit"
	"github.com/hostler-io/hostler/protocol/port"
	"github.com/hostler-io/hostler/protocol/setting"
)

// Backups are those of a host. It is safe for concurrent use.
type Backups interface {
	// Image verifies all of a backup, and returns what a container is made from then. An
	// empty target is the host itself. What it returns can be read until ctx ends.
	Image(ctx context.Context, target, name string) (StoredBackup, error)
	// Newest tells the newest backup of each container that was read as a whole and found
	// good. It may wait for a disk.
	Newest(ctx context.Context) (map[container.CTID]GoodBackup, error)
	// Latest verifies all of the newest backup of a unique container that the host can reach
	// and that one of the hosts in the order has signed under an epoch that it has had, and
	// returns what a container is made from then, as Image does. None is container.ErrNotFound.
	Latest(ctx context.Context, id container.CTID, order *protocol.CreateArgs) (Restored, container.Image, error)
}

// Restored describes the backup from which a unique container is made anew.
type Restored struct {
	Kind   container.Kind  // the runtime that it was of
	Name   string          // TARGET:NAME
	Host   protocol.HostID // that has signed it
	MadeMS int64           // Unix milliseconds of that host
}

// text says which backup it is, and how old at a time.
func (r Restored) text(now time.Time) string {
	made := time.UnixMilli(r.MadeMS).UTC()
	return fmt.Sprintf("backup %s of host %s, made %s, %s before", r.Name, r.Host, made.Format("2006-01-02 15:04:05 UTC"), max(0, now.Sub(made)).Round(time.Second))
}

// latest is what a unique container is made from whose data are in its backups.
func (h create) latest(ctx context.Context, o *operation, order *protocol.CreateArgs) (*container.Image, error) {
	if o.cfg.Backups == nil {
		return nil, fmt.Errorf("%w: this host has no backups", actions.CodeUnsupported)
	}
	r, img, err := o.cfg.Backups.Latest(ctx, container.CTID(o.rec.CTID.String()), order)
	if err != nil {
		return nil, fmt.Errorf("make it of its newest backup: %w", err)
	}
	by := h.runtime(string(r.Kind))
	_, creates := by.(container.Creator)
	if _, holds := by.(container.Holder); !creates || !holds {
		return nil, fmt.Errorf("%w: its backup is of a container of %s, and this host makes no unique ones of these", container.ErrUnsupported, r.Kind)
	}
	// Its runtime is durable before anything is made with it.
	o.rec.Runtime = string(r.Kind)
	if _, err := loop.Ask(ctx, h.cfg.Loop, func() (struct{}, error) {
		o.rec.Settings.Restored = r.text(time.UnixMilli(h.cfg.Loop.WallMS()))
		return struct{}{}, h.cfg.Apply(keep(o.rec))
	}); err != nil {
		return nil, err
	}
	o.note = "made of " + o.rec.Settings.Restored
	o.runtime = by
	return &img, nil
}

// StoredBackup is what a container is made from that is restored.
type StoredBackup struct {
	CTID    container.CTID // of the container that was backed up
	Kind    container.Kind // of its runtime
	Image   container.Image
	Kept    setting.New                // how it was kept
	Volumes map[string]container.Layer // the files of its volumes, by name, as far as they are in it
}

// GoodBackup is the newest good backup of a container. One without a name is none.
type GoodBackup struct {
	Name   string // TARGET:NAME of one that is not in the host's own directory
	MadeMS int64  // Unix milliseconds of the host
	// Number orders the backups of one container in one directory, and grows from one to
	// the next, whatever clocks do; 0 if it is not known.
	Number uint64
}

// backupTemplate begins the template of a container that was made from a backup, a word
// for people.
const backupTemplate = "backup:"

// argsOf are the arguments of a creation.
func argsOf(s *protocol.Spec) protocol.CreateArgs {
	switch a := s.Args.(type) {
	case *protocol.CloneArgs:
		return protocol.CreateArgs{Start: a.Start}
	case *protocol.DemoteArgs:
		return protocol.CreateArgs{Template: a.Image, Runtime: a.Runtime, Pull: container.PullNever, Start: a.Start}
	case *protocol.RestoreArgs:
		return protocol.CreateArgs{Template: backupTemplate + a.Backup, Start: a.Start, Privileged: a.Privileged, Hostname: protocol.ContainerName(a.Hostname), Network: a.Network, Volumes: a.Volumes, Mounts: a.Mounts, Expose: a.Expose}
	}
	return protocol.ArgsOf[protocol.CreateArgs](s)
}

// backedUp is what a container is made from that is restored. Its record is that of the
// container that was backed up, as far as this host can do that.
func (o *operation) backedUp(ctx context.Context, c *Containers) (*container.Image, error) {
	if o.cfg.Backups == nil {
		return nil, fmt.Errorf("%w: this host has no backups", actions.CodeUnsupported)
	}
	args := protocol.ArgsOf[protocol.RestoreArgs](o.spec)
	b, err := o.cfg.Backups.Image(ctx, args.Target, args.Backup)
	if err != nil {
		return nil, err
	}
	r := c.runtime(string(b.Kind))
	if _, ok := r.(container.Creator); !ok {
		return nil, fmt.Errorf("%w: it is a backup of a container of %s, and this host makes none of these", container.ErrUnsupported, b.Kind)
	}
	if args.KeepIdentity {
		if string(b.CTID) != o.rec.CTID.String() {
			return nil, fmt.Errorf("it is a backup of container %s, whose identity container %s cannot have", b.CTID, o.rec.CTID)
		}
		b.Image.Copy = false
		o.rec.Settings.Start.Order = max(0, args.StartOrder)
		o.rec.Template = cmp.Or(b.Kept.Template, o.rec.Template) // an upgrade goes on from there
	}
	// Its runtime is durable before anything is made with it.
	o.rec.Runtime = string(b.Kind)
	if err := o.keepAs(ctx, c, b.Kept); err != nil {
		return nil, err
	}
	for _, m := range o.rec.Settings.Mounts {
		part, ok := b.Volumes[m.Volume]
		switch {
		case m.Volume == "":
			continue
		case !ok:
			return nil, fmt.Errorf("the backup has no files of volume %s: make one with them, hostler backup create --volumes", m.Volume)
		}
		if err := o.cfg.Volumes.Fill(m.Volume, o.cfg.Loop.WallMS(), part); err != nil {
			return nil, err
		}
	}
	o.runtime = r
	return &b.Image, nil
}

// keepAs has a restored container kept as one was. Ports of the host that lead elsewhere
// now are left out: the first container may be there still.
func (o *operation) keepAs(ctx context.Context, c *Containers, was setting.New) error {
	set, err := limit.Parse(was.Limits)
	if err == nil {
		err = errors.Join(was.Check(), limitable(c, set), checkable(c, was.Health), counted(c.cfg.Coordinator, was.Offline))
	}
	if err != nil {
		return fmt.Errorf("the container that this is made of was kept as no container of this host can be: %w", err)
	}
	rec := &o.rec
	rec.Class, rec.Offline, rec.Labels = cmp.Or(was.Class, rec.Class), cmp.Or(was.Offline, rec.Offline), was.Labels
	rec.Settings.Limits, rec.Settings.Env, rec.Settings.Command, rec.Settings.Health = set, was.Env, was.Command, was.Health
	rec.Settings.Schedules = contract.Schedules{}.With(was.Schedules)
	if protocol.ArgsOf[protocol.RestoreArgs](o.spec).KeepIdentity { // its ports were asked for
		_, err := loop.Ask(ctx, c.cfg.Loop, func() (struct{}, error) { return struct{}{}, c.cfg.Apply(keep(*rec)) })
		return err
	}
	wanted, _ := port.ParseAll(was.Expose) // Check has read them
	if c.cfg.Network == nil {
		wanted = nil
	}
	wanted = slices.DeleteFunc(wanted, func(p port.Mapping) bool {
		who, err := c.cfg.Network.Listener(p)
		return err != nil || who != ""
	})
	_, err = loop.Ask(ctx, c.cfg.Loop, func() (struct{}, error) {
		rec.Settings.Opening = slices.DeleteFunc(wanted, func(p port.Mapping) bool { return ports{c}.claim(rec.CTID, []port.Mapping{p}) != nil })
		return struct{}{}, c.cfg.Apply(keep(*rec))
	})
	return err
}
