package uplink

import (
	"fmt"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// seals are what this host knows of both audit logs: the newest seal on the
// coordinator's, and its own. They belong to the loop.
type seals struct {
	cfg      *Config
	newest   protocol.Checkpoint // that is kept, once it was read
	readRing uint64              // the ring that it was judged by
	ring     uint64              // number of the newest ring that was recorded
}

// keep keeps a checkpoint that goes further than the one that is kept, and reports
// whether it does. One of the same database that does not is an error: the
// coordinator went back, and what is kept proves it.
func (s *seals) keep(kept, envelope []byte) (bool, error) {
	next, _, err := protocol.OpenCheckpoint(envelope, s.cfg.Host.Fleet, s.cfg.Trust.Keyring())
	if err != nil || next.Log != protocol.Coordinator {
		return false, fmt.Errorf("checkpoint in a receipt: %w", err)
	}
	before := s.read(kept)
	switch {
	case before.N == 0: // none, or by a coordinator that was removed
	case next.Store != before.Store && next.Term.Compare(before.Term) <= 0:
		return false, nil
	case next.Store == before.Store && next.N == before.N && next.H == before.H:
		return false, nil
	case next.Store == before.Store && next.N <= before.N:
		return false, fmt.Errorf("%w: it seals record %d of an audit log whose record %d was sealed before", protocol.ErrStale, next.N, before.N)
	}
	s.newest = next
	s.cfg.Queue.Audit().KeepCheckpoint(envelope)
	return true, nil
}

// read reads the checkpoint that is kept, zero if there is none that a coordinator
// of the ring in force has signed.
func (s *seals) read(kept []byte) protocol.Checkpoint {
	if ring := s.cfg.Trust.Ring(); s.newest.N == 0 || ring != s.readRing {
		s.newest, _, _ = protocol.OpenCheckpoint(kept, s.cfg.Host.Fleet, s.cfg.Trust.Keyring())
		s.readRing = ring
	}
	return s.newest
}

// judge says why the host's own log is not what the coordinator was told of it, and
// nothing if it is: the disk of this host went back, or another host speaks in its
// name. It is false if that cannot be told.
func (s *seals) judge(told protocol.Position) (why string, ok bool) {
	log, ctx, disk := s.cfg.Queue.Audit(), s.cfg.Loop.Steps(), s.cfg.Loop.Disk
	head, err := log.Head(ctx)
	if !disk(err) {
		return "", false
	}
	if told.N > head.N {
		return fmt.Sprintf("the coordinator was told of %d records of the audit log, %d are here", told.N, head.N), true
	}
	at, ok, err := log.At(ctx, told.N)
	if !disk(err) || !ok {
		return "", false // it was forgotten, as old records are
	}
	if at.H != told.H {
		return fmt.Sprintf("record %d of the audit log is not the one that the coordinator was told of", told.N), true
	}
	return "", true
}

// head is the head of the host's own log, zero if it cannot be read.
func (s *seals) head() protocol.Position {
	head, err := s.cfg.Queue.Audit().Head(s.cfg.Loop.Steps())
	if !s.cfg.Loop.Disk(err) {
		return protocol.Position{}
	}
	return head
}

// recordRing records that another ring is in force.
func (s *seals) recordRing() {
	ring := s.cfg.Trust.Ring()
	if ring == s.ring {
		return
	}
	r := audit.Record{AtMS: s.cfg.Loop.WallMS(), Actor: "host", Verb: "ring.take", Detail: map[string]any{"ring": ring, "before": s.ring}}
	if s.cfg.Loop.Disk(s.cfg.Queue.Audit().Record(s.cfg.Loop.Steps(), r)) {
		s.ring = ring
	}
}
