package hostlink

import (
	"slices"
	"sync"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/samples"
)

// maxCredits is how many streams one receipt asks for: it must not outgrow a
// message, however much output an ended absence has left behind.
const maxCredits = 64

// receipts collects what the next receipt tells one host. Its methods may be
// called from any goroutine, and never wait.
type receipts struct {
	mu      sync.Mutex
	up      []protocol.Position           // durable here, one of each stream; a map of two takes a kilobyte
	credits map[creditKey]protocol.Credit // output to ask for; nil until there is some
	owed    bool                          // something that the host must learn has changed since the newest receipt
	full    bool                          // the next receipt asks for a full heartbeat
	lease   bool                          // the next receipt asks for a lease
	kept    uint64                        // the newest heartbeat of the connection that is durable here
	head    protocol.Position             // head of the host's own audit log that the host is to be told, once
	sealed  uint64                        // newest checkpoint of the audit log that this connection was told
	untold  bool                          // the host takes a reconnect window, and was not told it on this connection
	window  time.Duration                 // the one that it was told last
	samples bool                          // the host sends samples, and they are taken
}

// creditKey names one output stream of one attempt of an action.
type creditKey struct {
	action  protocol.ActionID
	attempt int
	fd      protocol.FD
}

// reset forgets what arrived; the next proven hello tells.
func (r *receipts) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.up = nil
}

// connected is called for each newest hello: its connection was told no
// checkpoint yet, and no reconnect window. taken tells that samples of hosts are.
func (r *receipts) connected(h *protocol.Hello, taken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sealed, r.kept = 0, 0
	r.untold = slices.Contains(h.Features, protocol.FeatureSpread)
	r.samples = taken && slices.Contains(h.Features, samples.Feature)
}

// returns is over which time the host comes back when its connection was closed together
// with others: what it was told last.
func (r *receipts) returns() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.window
}

// begin takes what a proven hello has shown, and owes a receipt.
func (r *receipts) begin(up []protocol.Position, head protocol.Position) {
	r.arrived(up)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.head, r.owed = head, true
}

// arrived notes how far streams are durable here.
func (r *receipts) arrived(up []protocol.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range up {
		if i := slices.IndexFunc(r.up, func(q protocol.Position) bool { return q.Stream == p.Stream }); i >= 0 {
			r.up[i] = p
		} else {
			r.up = append(r.up, p)
		}
	}
}

// owe makes the present batch end with a receipt.
func (r *receipts) owe() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owed = true
}

func (r *receipts) isOwed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owed
}

// wantFull asks for a full heartbeat with the receipt that the batch ends with.
func (l *link) wantFull() {
	l.receipts.mu.Lock()
	defer l.receipts.mu.Unlock()
	l.receipts.full, l.receipts.owed = true, true
}

// wantLease asks for a lease with the next receipt.
func (r *receipts) wantLease() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lease = true
}

// beat names a heartbeat that is durable here, in the receipt that the batch ends with.
func (r *receipts) beat(asOf uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept, r.owed = asOf, true
}

// credit asks for output with the next receipt.
func (r *receipts) credit(cr protocol.Credit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := creditKey{cr.Action, cr.Attempt, cr.FD}
	if cr.FD == protocol.Samples { // a host waits for one answer at a time, and chooses the ids
		key = creditKey{fd: cr.FD}
	}
	set(&r.credits, key, cr)
	r.owed = true
}

// asks reports whether the next receipt asks for output.
func (r *receipts) asks() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.credits) > 0
}

// compose returns what the next receipt tells, and counts that as told. newest is
// the newest checkpoint of the audit log, nil if there is none to tell; window is the
// reconnect window.
func (r *receipts) compose(newest *core.Seal, window time.Duration) protocol.Receipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := protocol.Receipt{Have: append([]protocol.Position{}, r.up...), Audit: r.head, Beat: r.kept, Samples: r.samples}
	if r.full {
		out.Want = []string{protocol.WantFull}
	}
	if r.lease {
		out.Want = append(out.Want, protocol.WantLease)
	}
	for key, cr := range r.credits {
		if len(out.Credit) == maxCredits {
			break // the next receipt has the others
		}
		out.Credit = append(out.Credit, cr)
		delete(r.credits, key)
	}
	if r.untold { // 0 would say nothing, and the host would go on with an earlier one
		out.SpreadMS, r.window = max(window.Milliseconds(), 1), window
	}
	r.untold = false
	if newest != nil && newest.N > r.sealed {
		out.Checkpoint, r.sealed = newest.Checkpoint, newest.N
	}
	r.full, r.lease, r.owed, r.head = false, false, false, protocol.Position{}
	return out
}

// receipt tells a host what arrived, what was sent, and what is wanted. It is
// cumulative, so one that is lost is mended by the next.
func (l *link) receipt() {
	conn, chal := l.presence.conn()
	if chal.IsZero() {
		return
	}
	newest := l.c.cfg.NewestSeal()
	if l.c.base.Recovery() != "" {
		newest = nil
	}
	if err := l.answer(conn, chal, l.receipts.compose(newest, window(l.c))); err != nil {
		l.c.base.Log.Error("cannot send a receipt", "host", l.host, "err", err)
	}
}

// answer seals and sends a receipt to one connection of a host.
func (l *link) answer(to protocol.Seq, give protocol.Nonce, r protocol.Receipt) error {
	r.Header = l.c.wire.Header(protocol.TypeReceipt, protocol.HostParty(l.host))
	r.Answers, r.Give, r.Sent = to, give, l.out.sent()
	l.stateMu.Lock()
	defer l.stateMu.Unlock()
	r.Seq = l.c.wire.NextSeq()
	return l.c.wire.Publish(l.c.wire.HostTopic(l.host, protocol.ChannelReceipt), r)
}
