// Package backups gives the containers of a host the backups that it can reach: its own, and
// of unique containers those of other hosts at a target that they share.
package backups

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// Backups are those of a host. It implements [containers.Backups].
type Backups struct {
	// Open opens those of the host itself. It makes the key of a host that has none yet.
	Open func() (backup.Store, error)
	// Trust returns how a signature of any host of the fleet is verified, which tells the
	// host.
	Trust func() (func(body, sig []byte) (string, error), error)
	// Targets are the others, as [backup.ParseTargets] reads them, and Access how the host is let
	// into those that are buckets.
	Targets []string
	Access  backup.Access
}

// at opens the backups at a target; an empty one is the host itself.
func (b Backups) at(target string) (s backup.Store, err error) {
	if s, err = b.Open(); err != nil {
		return s, err
	}
	targets, err := backup.ParseTargets(b.Targets, b.Access)
	if err != nil {
		return s, err
	}
	return s.At(targets, target)
}

// Image implements [containers.Backups].
func (b Backups) Image(ctx context.Context, target, name string) (containers.StoredBackup, error) {
	s, err := b.at(target)
	if err != nil {
		return containers.StoredBackup{}, err
	}
	m, img, err := s.Image(ctx, name)
	return containers.StoredBackup{CTID: m.CTID, Kind: m.Runtime, Image: img, Kept: m.Kept, Volumes: m.VolumesIn(img)}, err
}

// Newest implements [containers.Backups].
func (b Backups) Newest(ctx context.Context) (map[container.CTID]containers.GoodBackup, error) {
	s, err := b.Open()
	if err != nil {
		return nil, err
	}
	all, err := s.Newest(ctx)
	newest := make(map[container.CTID]containers.GoodBackup, len(all))
	for id, n := range all {
		newest[id] = containers.GoodBackup(n)
	}
	return newest, err
}

// Latest implements [containers.Backups].
func (b Backups) Latest(ctx context.Context, id container.CTID, order *protocol.CreateArgs) (found containers.Restored, img container.Image, err error) {
	s, err := b.Open()
	if err != nil {
		return found, img, err
	}
	trust, err := b.Trust()
	if err != nil {
		return found, img, err
	}
	signed := &holders{trust: trust, order: order}
	s.Key = signed
	targets, err := backup.ParseTargets(b.Targets, b.Access)
	if err != nil {
		return found, img, err
	}
	at, newest, err := s.Latest(ctx, targets, id)
	if err != nil {
		return found, img, err
	}
	m, img, err := at.Image(ctx, newest.Name)
	if err == nil && (m.CTID != id || m.SHA256 != newest.SHA256) {
		err = fmt.Errorf("%w: backup %s was changed while it was read", backup.ErrArchive, newest.Name)
	}
	return containers.Restored{Kind: m.Runtime, Name: at.Target() + ":" + newest.Name, Host: signed.last, MadeMS: m.Made}, img, err
}

// holders verifies manifests that hosts have signed which held a container, each under an
// epoch that it had, and keeps which of them has signed what was verified last.
type holders struct {
	trust func(body, sig []byte) (string, error)
	order *protocol.CreateArgs
	last  protocol.HostID
}

// Verify implements [backup.Verifier].
func (h *holders) Verify(sig, body []byte) error {
	host, err := h.trust(body, sig)
	if err != nil {
		return err
	}
	var m backup.Manifest
	if err := json.Unmarshal(body, &m); err != nil {
		return fmt.Errorf("its manifest: %w", err)
	}
	h.last = protocol.HostID(host)
	i := slices.Index(h.order.Restore, h.last)
	switch {
	case i < 0:
		return fmt.Errorf("host %s has signed it, which has not held the container", host)
	case len(h.order.Epochs) > 0 && m.Epoch.Compare(h.order.Epochs[i]) > 0:
		return fmt.Errorf("host %s has signed it, which has not held the container under epoch %s", host, m.Epoch)
	}
	return nil
}
