package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// ErrNoMember tells that the host belongs to no fleet: it has no key to sign with.
var ErrNoMember = errors.New("this host is not a member of a fleet")

// ExportAudit writes the host's audit log as package audit describes it, line by
// line, without line ends, and signs it with the host's key. Records that come
// meanwhile are left out. It may be called from any goroutine, also while the disk
// is full. It fails with [ErrNoMember] and with the error of write.
func (a *Agent) ExportAudit(ctx context.Context, write func(line []byte) error) error {
	if a.cfg.Signer == nil {
		return fmt.Errorf("exporting the audit log: %w", ErrNoMember)
	}
	// The newest checkpoint stands first, so the head has to be known before.
	base, head, err := a.cfg.Queue.Audit().Export(ctx, func([]byte) error { return nil })
	if err != nil {
		return err
	}
	out, err := audit.NewExporter(base, head, a.signCheckpoint, write)
	if err != nil {
		return fmt.Errorf("exporting the audit log: %w", err)
	}
	again, _, err := a.cfg.Queue.Audit().Export(ctx, out.Record)
	switch {
	case err != nil:
		return err
	case again.N != base.N:
		return errors.New("exporting the audit log: its oldest records were forgotten meanwhile; export it again")
	}
	return nil
}

// signCheckpoint vouches for the host's log up to a position.
func (a *Agent) signCheckpoint(after uint64, at protocol.Position) ([]byte, error) {
	body, err := json.Marshal(protocol.Checkpoint{
		Type: protocol.TypeCheckpoint, Fleet: a.cfg.Fleet, Log: protocol.HostParty(a.cfg.Host), Store: at.Store,
		After: after, N: at.N, H: at.H, Ring: a.cfg.Trust.Ring(), AtMS: a.cfg.Now().UnixMilli(),
	})
	if err != nil {
		return nil, err
	}
	return protocol.Seal(a.cfg.Signer, body, nil)
}
