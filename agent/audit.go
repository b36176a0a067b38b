package agent

import (
	"fmt"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// rolledBackAlert is raised when the coordinator knows more of the host's own
// audit log than the host.
const rolledBackAlert = "audit.rolled_back"

// sealed keeps the newest checkpoint of the coordinator's audit log, which every
// hello brings back, and holds the host's own log against what the coordinator
// was told of it.
func (a *Agent) sealed(r *protocol.Receipt) {
	if len(r.Checkpoint) > 0 {
		a.keepCheckpoint(r.Checkpoint)
	}
	if r.Audit != (protocol.Position{}) {
		a.judgeHead(r.Audit)
	}
}

// keepCheckpoint keeps a checkpoint that goes further than the one that is kept.
// One of the same database that does not is kept out: the coordinator went back,
// and what is kept proves it.
func (a *Agent) keepCheckpoint(envelope []byte) {
	next, _, err := protocol.OpenCheckpoint(envelope, a.cfg.Fleet, a.cfg.Trust.Keyring())
	if err != nil || next.Log != protocol.Coordinator {
		a.refuse("checkpoint", fmt.Errorf("checkpoint in a receipt: %w", err))
		return
	}
	kept := a.keptCheckpoint()
	switch {
	case kept.N == 0: // none, or by a coordinator that was removed
	case next.Store != kept.Store && next.Term.Compare(kept.Term) <= 0:
		return
	case next.Store == kept.Store && next.N == kept.N && next.H == kept.H:
		return
	case next.Store == kept.Store && next.N <= kept.N:
		a.refuse("checkpoint", fmt.Errorf("%w: it seals record %d of an audit log whose record %d was sealed before", protocol.ErrStale, next.N, kept.N))
		return
	}
	a.self.Checkpoint, a.kept = envelope, next
	a.cfg.Queue.KeepCheckpoint(envelope)
	a.at(dueFlush, flushAfter)
}

// keptCheckpoint reads the checkpoint that is kept, zero if there is none that a
// coordinator of the ring in force has signed.
func (a *Agent) keptCheckpoint() protocol.Checkpoint {
	if ring := a.cfg.Trust.Ring(); a.kept.N == 0 || ring != a.keptRing {
		a.kept, _, _ = protocol.OpenCheckpoint(a.self.Checkpoint, a.cfg.Fleet, a.cfg.Trust.Keyring())
		a.keptRing = ring
	}
	return a.kept
}

// judgeHead raises an alert if the host's own log does not have what the
// coordinator was told: the disk of this host went back, or another host speaks
// in its name.
func (a *Agent) judgeHead(told protocol.Position) {
	if told.Store != a.self.Store {
		return // of a database that was replaced, which the hello shows
	}
	head, err := a.cfg.Queue.AuditHead(a.loop.Steps())
	if !a.loop.Disk(err) {
		return
	}
	why := ""
	if told.N > head.N {
		why = fmt.Sprintf("the coordinator was told of %d records of the audit log, %d are here", told.N, head.N)
	} else if at, ok, err := a.cfg.Queue.AuditAt(a.loop.Steps(), told.N); !a.loop.Disk(err) || !ok {
		return // it was forgotten, as old records are
	} else if at.H != told.H {
		why = fmt.Sprintf("record %d of the audit log is not the one that the coordinator was told of", told.N)
	}
	if _, raised := a.alerts[rolledBackAlert]; raised == (why != "") {
		return
	}
	alert := protocol.Alert{Raised: why != "", AlertInfo: protocol.AlertInfo{
		ID: rolledBackAlert, Severity: "critical", Text: why, SinceMS: a.cfg.Now().UnixMilli(),
	}}
	if why == "" {
		alert.Text = "the audit log has what the coordinator was told of it"
	}
	a.cfg.Log.Error("the host's own audit log was held against what the coordinator was told of it", "found", alert.Text)
	c := queue.Change{Alerts: []protocol.Alert{alert}}
	if a.loop.Disk(a.cfg.Queue.Apply(a.loop.Steps(), c, a.loop.When())) {
		a.apply(c)
	}
}

// auditHead is the head of the host's own log, zero if it cannot be read.
func (a *Agent) auditHead() protocol.Position {
	head, err := a.cfg.Queue.AuditHead(a.loop.Steps())
	if !a.loop.Disk(err) {
		return protocol.Position{}
	}
	return head
}

// recordRing records that another ring is in force.
func (a *Agent) recordRing() {
	ring := a.cfg.Trust.Ring()
	if ring == a.ring {
		return
	}
	r := audit.Record{AtMS: a.cfg.Now().UnixMilli(), Actor: "host", Verb: "ring.take", Detail: map[string]any{"ring": ring, "before": a.ring}}
	if a.loop.Disk(a.cfg.Queue.Record(a.loop.Steps(), r)) {
		a.ring = ring
	}
}
