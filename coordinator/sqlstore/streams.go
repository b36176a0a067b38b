package sqlstore

import (
	"errors"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

type streams tx

type outputs tx

const (
	streamColumns = `host, stream, store, n, h, freed_store, freed_n, freed_h`

	getStream = `SELECT ` + streamColumns + ` FROM stream WHERE host = $1 AND stream = $2`

	appendItem = `INSERT INTO item (host, stream, n, h, action, item) VALUES ($1, $2, $3, $4, $5, $6)`
	listItems  = `SELECT n, h, action, item FROM item WHERE host = $1 AND stream = $2 AND n >= $3 AND n <= $4 ORDER BY n`
	freeItems  = `DELETE FROM item WHERE host = $1 AND stream = $2 AND n <= $3`

	outputColumns = `action, attempt, fd, have, tail_from, tail_to, gone, removed_ms`

	getOutput = `SELECT ` + outputColumns + ` FROM output WHERE action = $1 AND attempt = $2 AND fd = $3`
)

var (
	putStream = several(upsert("stream", 2, streamColumns))
	putOutput = upsert("output", 3, outputColumns)
)

func streamFields(s *core.StreamState) []any {
	return []any{&s.Host, &s.Pos.Stream, text(&s.Pos.Store), &s.Pos.N, whole(&s.Pos.H), text(&s.Freed.Store), &s.Freed.N, whole(&s.Freed.H)}
}

func itemFields(it *core.Item) []any { return []any{&it.N, whole(&it.H), text(&it.Action), &it.Item} }

func outputFields(o *core.OutputState) []any {
	return []any{whole(&o.Action), &o.Attempt, &o.FD, &o.Have, &o.TailFrom, &o.TailTo, asJSON(&o.Gone), &o.RemovedMS}
}

func (t streams) Get(host protocol.HostID, stream protocol.Stream) (core.StreamState, error) {
	key := streamKey{host, stream}
	if m := t.memory; m != nil {
		if s, ok := m.moved[key]; ok {
			return s, nil
		}
	}
	s, err := recall(tx(t), func(m *memory) *map[streamKey]core.StreamState { return &m.streams }, key, func() (core.StreamState, error) {
		s, err := one(t.db, streamFields, getStream, host, stream)
		if errors.Is(err, core.ErrNotFound) {
			s, err = core.StreamState{}, nil
		}
		s.Host, s.Pos.Stream, s.Freed.Stream = host, stream, stream
		return s, err
	})
	return s, wrap(err, "stream of host", host)
}

// Put is written at the end of the Update: a stream may move more than once.
func (t streams) Put(s core.StreamState) error {
	m := t.memory
	if m == nil {
		return insertAll(t.db, putStream, []core.StreamState{s}, streamFields)
	}
	key := streamKey{s.Host, s.Pos.Stream}
	if m.moved == nil {
		m.moved = make(map[streamKey]core.StreamState)
	}
	m.moved[key] = s
	remember(&m.streams, key, s)
	return nil
}

func (t streams) Append(host protocol.HostID, stream protocol.Stream, it core.Item) error {
	_, err := exec(t.db, appendItem, append([]any{host, stream}, itemFields(&it)...)...)
	return wrap(err, "appending to stream of host", host)
}

func (t streams) Items(host protocol.HostID, stream protocol.Stream, first, last uint64) ([]core.Item, error) {
	all, err := list(t.db, itemFields, listItems, host, stream, upTo(first), upTo(last))
	return all, wrap(err, "items of host", host)
}

func (t streams) Free(host protocol.HostID, stream protocol.Stream, n uint64) error {
	_, err := exec(t.db, freeItems, host, stream, upTo(n))
	return wrap(err, "freeing items of host", host)
}

func (t outputs) Get(action protocol.ActionID, attempt int, fd protocol.FD) (core.OutputState, error) {
	o, err := one(t.db, outputFields, getOutput, action.String(), attempt, fd)
	if errors.Is(err, core.ErrNotFound) {
		return core.OutputState{}, nil
	}
	return o, wrap(err, "output of action", action)
}

func (t outputs) Put(o core.OutputState) error {
	_, err := exec(t.db, putOutput, outputFields(&o)...)
	return wrap(err, "putting output of action", o.Action)
}
