package containers

import (
	"context"
	"fmt"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// Backups are those of a host. It is safe for concurrent use.
type Backups interface {
	// Image verifies all of a backup, and returns what a container is made from then,
	// and the runtime that it was of.
	Image(ctx context.Context, name string) (container.Kind, container.Image, error)
}

// argsOf are the arguments of a creation. One from a backup is one of LXC, and its
// template is a word for people.
func argsOf(s *protocol.Spec) protocol.CreateArgs {
	if s.Kind == protocol.KindClone {
		return protocol.CreateArgs{Start: protocol.ArgsOf[protocol.CloneArgs](s).Start}
	}
	args, restored := s.Args.(*protocol.RestoreArgs)
	if !restored {
		return protocol.ArgsOf[protocol.CreateArgs](s)
	}
	return protocol.CreateArgs{Template: "backup:" + args.Backup, Runtime: string(container.KindLXC), Start: args.Start}
}

// backedUp is what a container is made from that is restored.
func (o *operation) backedUp(ctx context.Context) (*container.Image, error) {
	if o.cfg.Backups == nil {
		return nil, fmt.Errorf("%w: this host has no backups", actions.CodeUnsupported)
	}
	kind, img, err := o.cfg.Backups.Image(ctx, protocol.ArgsOf[protocol.RestoreArgs](o.spec).Backup)
	if err == nil && kind != container.KindLXC {
		err = fmt.Errorf("%w: it is a backup of %s, and containers are made from backups of lxc alone", container.ErrUnsupported, kind)
	}
	return &img, err
}
