package hostlink

import (
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// onAck frees what the host has durably. The rows go with the next transaction
// that is due anyway; until then they are only not sent again.
func (l *link) onAck(in inbound) error {
	m, err := l.openState(in)
	if err != nil {
		return err
	}
	var a protocol.Ack
	if err := m.Decode(&a); err != nil {
		return err
	}
	// It proves the hello as well, whose positions are older than these.
	if err := l.prove(); err != nil {
		return err
	}
	foreign := l.out.ack(a.Have, l.c.uptime(), l.c.base.NowMS())
	if foreign.N > 0 {
		// Nothing is on the wire before its number is known here.
		l.c.cfg.Standing.Quarantine(l.host, fmt.Sprintf("it acknowledges item %d of stream %s, which was never sent: two histories", foreign.N, foreign.Stream))
	}
	for _, cr := range a.Credit {
		if err := l.c.cfg.Input(l.host, cr); err != nil {
			return err
		}
	}
	l.sendWaiting(l.c.base.Ctx)
	return nil
}

// free frees acknowledged items within a transaction. What is not ours is an
// error that names it.
func (l *link) free(tx core.Tx, all []protocol.Position) (freed map[protocol.Stream]uint64, err error) {
	freed = make(map[protocol.Stream]uint64)
	for _, have := range all {
		st, err := tx.Streams.Get(l.host, have.Stream)
		if err != nil {
			return nil, err
		}
		there, err := readItemAt(tx, st, have.N)
		if err != nil {
			return nil, err
		}
		switch free(&st, l.c.base.Store.ID(), have, there) {
		case stream.Differs, stream.Ahead:
			return nil, fmt.Errorf("%w: item %d of stream %s is another one there", errHistory, have.N, have.Stream)
		case stream.Frees:
			if err := errors.Join(tx.Streams.Free(l.host, have.Stream, have.N), tx.Streams.Put(st)); err != nil {
				return nil, err
			}
		}
		freed[have.Stream] = st.Freed.N
	}
	return freed, nil
}

// errHistory tells that a host acknowledges what was never sent to it.
var errHistory = errors.New("two histories")

// flush frees what was acknowledged, and notes when, if no other transaction did.
func (l *link) flush() {
	all, receipted := l.out.takeFreed(), l.out.receipts()
	if len(all) == 0 && len(receipted) == 0 {
		return
	}
	var freed map[protocol.Stream]uint64
	err := l.c.base.Update(l.c.base.Ctx, failpoint.AcksFreed, func(tx core.Tx) (err error) {
		if freed, err = l.free(tx, all); err != nil {
			return err
		}
		for id, at := range receipted {
			a, err := tx.Actions.Get(id)
			if err == nil && a.ReceiptedMS == 0 {
				a.ReceiptedMS = at
				err = tx.Actions.Put(a)
			}
			if err != nil && !errors.Is(err, core.ErrNotFound) {
				return err
			}
		}
		return nil
	})
	l.freed(all, freed, err)
	if err == nil {
		for id := range receipted {
			l.out.forgetReceipt(id)
		}
	}
	if err != nil && !errors.Is(err, errHistory) {
		l.c.base.Log.Error("cannot free acknowledged items; it is tried again", "host", l.host, "err", err)
	}
}

// freed tells the resends what a transaction freed, or keeps what was
// acknowledged for the next one: it is not acknowledged again.
func (l *link) freed(acked []protocol.Position, freed map[protocol.Stream]uint64, err error) {
	if errors.Is(err, errHistory) {
		l.c.cfg.Standing.Quarantine(l.host, err.Error())
		return
	}
	if err != nil {
		l.out.putBack(acked)
		return
	}
	l.out.free(freed, l.c.uptime())
}
