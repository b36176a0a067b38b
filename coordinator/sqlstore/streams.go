package sqlstore

import (
	"errors"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

type streams tx

type outputs tx

const (
	getStream = `SELECT store, n, h, freed_store, freed_n, freed_h FROM stream WHERE host = $1 AND stream = $2`
	putStream = `INSERT INTO stream (host, stream, store, n, h, freed_store, freed_n, freed_h)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (host, stream) DO UPDATE SET store = excluded.store, n = excluded.n, h = excluded.h,
		freed_store = excluded.freed_store, freed_n = excluded.freed_n, freed_h = excluded.freed_h`

	appendItem = `INSERT INTO item (host, stream, n, h, action, item) VALUES ($1, $2, $3, $4, $5, $6)`
	listItems  = `SELECT n, h, action, item FROM item WHERE host = $1 AND stream = $2 AND n >= $3 AND n <= $4 ORDER BY n`
	freeItems  = `DELETE FROM item WHERE host = $1 AND stream = $2 AND n <= $3`

	getOutput = `SELECT action, attempt, fd, have, tail_from, tail_to, gone, removed_ms FROM output WHERE action = $1 AND attempt = $2 AND fd = $3`
	putOutput = `INSERT INTO output (action, attempt, fd, have, tail_from, tail_to, gone, removed_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (action, attempt, fd) DO UPDATE SET have = excluded.have, tail_from = excluded.tail_from,
		tail_to = excluded.tail_to, gone = excluded.gone, removed_ms = excluded.removed_ms`
)

func scanStream(r scanner) (s core.StreamState, err error) {
	err = r.Scan(textInto(&s.Pos.Store), &s.Pos.N, textInto(&s.Pos.H), textInto(&s.Freed.Store), &s.Freed.N, textInto(&s.Freed.H))
	return s, err
}

func (t streams) Get(host protocol.HostID, stream protocol.Stream) (core.StreamState, error) {
	s, err := one(t.db, scanStream, getStream, host, stream)
	if errors.Is(err, core.ErrNotFound) {
		s, err = core.StreamState{}, nil
	}
	s.Host, s.Pos.Stream, s.Freed.Stream = host, stream, stream
	return s, wrap(err, "stream of host", host)
}

func (t streams) Put(s core.StreamState) error {
	_, err := exec(t.db, putStream, s.Host, s.Pos.Stream, text(s.Pos.Store), s.Pos.N, s.Pos.H.String(),
		text(s.Freed.Store), s.Freed.N, s.Freed.H.String())
	return wrap(err, "putting stream of host", s.Host)
}

func (t streams) Append(host protocol.HostID, stream protocol.Stream, it core.Item) error {
	_, err := exec(t.db, appendItem, host, stream, it.N, it.H.String(), text(it.Action), it.Item)
	return wrap(err, "appending to stream of host", host)
}

func scanItem(r scanner) (it core.Item, err error) {
	err = r.Scan(&it.N, textInto(&it.H), textInto(&it.Action), &it.Item)
	return it, err
}

func (t streams) Items(host protocol.HostID, stream protocol.Stream, first, last uint64) ([]core.Item, error) {
	all, err := list(t.db, scanItem, listItems, host, stream, upTo(first), upTo(last))
	return all, wrap(err, "items of host", host)
}

func (t streams) Free(host protocol.HostID, stream protocol.Stream, n uint64) error {
	_, err := exec(t.db, freeItems, host, stream, upTo(n))
	return wrap(err, "freeing items of host", host)
}

func scanOutput(r scanner) (o core.OutputState, err error) {
	err = r.Scan(textInto(&o.Action), &o.Attempt, &o.FD, &o.Have, &o.TailFrom, &o.TailTo, jsonInto(&o.Gone), &o.RemovedMS)
	return o, err
}

func (t outputs) Get(action protocol.ActionID, attempt int, fd protocol.FD) (core.OutputState, error) {
	o, err := one(t.db, scanOutput, getOutput, action.String(), attempt, fd)
	if errors.Is(err, core.ErrNotFound) {
		return core.OutputState{}, nil
	}
	return o, wrap(err, "output of action", action)
}

func (t outputs) Put(o core.OutputState) error {
	_, err := exec(t.db, putOutput, o.Action.String(), o.Attempt, o.FD, o.Have, o.TailFrom, o.TailTo, asJSON(o.Gone), o.RemovedMS)
	return wrap(err, "putting output of action", o.Action)
}
