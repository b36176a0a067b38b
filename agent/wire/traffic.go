package wire

import (
	"errors"
	"sync/atomic"

	"github.com/hostler-io/hostler/protocol"
)

// Traffic counts messages. It is safe for concurrent use: the maps are made once
// and only read afterwards, so nothing from outside can make them grow.
type Traffic struct {
	refused        map[protocol.Code]*atomic.Uint64
	sent, received map[protocol.Type]*atomic.Uint64
	dropped        atomic.Uint64
}

// NewTraffic returns counters at zero.
func NewTraffic() *Traffic {
	return &Traffic{
		refused: zeroes(protocol.Codes()),
		sent: zeroes([]protocol.Type{protocol.TypePresence, protocol.TypeHeartbeat, protocol.TypeLease,
			protocol.TypeAck, protocol.TypeReport, protocol.TypeAlert, protocol.TypeOut, protocol.TypeSamples}),
		received: zeroes([]protocol.Type{protocol.TypeOrder, protocol.TypeControl, protocol.TypeGrant,
			protocol.TypeReceipt, protocol.TypeCoordinator}),
	}
}

func zeroes[K comparable](keys []K) map[K]*atomic.Uint64 {
	m := make(map[K]*atomic.Uint64, len(keys))
	for _, k := range keys {
		m[k] = new(atomic.Uint64)
	}
	return m
}

func count[K comparable](m map[K]*atomic.Uint64, k K) {
	if c, ok := m[k]; ok {
		c.Add(1)
	}
}

// Refused counts a message that was not taken, under its one code.
func (t *Traffic) Refused(err error) {
	if code, ok := errors.AsType[protocol.Code](err); ok {
		count(t.refused, code)
	}
}

// Sent counts a message that the connection has taken.
func (t *Traffic) Sent(typ protocol.Type) { count(t.sent, typ) }

// Received counts a message that passed all checks.
func (t *Traffic) Received(typ protocol.Type) { count(t.received, typ) }

// Dropped counts a message that came, or was made, faster than it could be handled.
func (t *Traffic) Dropped() { t.dropped.Add(1) }

// Counts are the counters at one moment.
type Counts struct {
	// Refused counts messages by the check that refused them.
	Refused map[protocol.Code]uint64
	// Sent counts messages by type, Received those that passed all checks.
	Sent, Received map[protocol.Type]uint64
	// Dropped counts messages that came faster than they could be handled.
	Dropped uint64
}

// Counts reads the counters.
func (t *Traffic) Counts() Counts {
	return Counts{read(t.refused), read(t.sent), read(t.received), t.dropped.Load()}
}

func read[K comparable](m map[K]*atomic.Uint64) map[K]uint64 {
	all := make(map[K]uint64, len(m))
	for k, v := range m {
		all[k] = v.Load()
	}
	return all
}
