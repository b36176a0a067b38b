package sqlstore

import (
	"bytes"
	"database/sql"
	"errors"
	"math"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

type events tx

const (
	// lastEvents are the newest event, if one is left, and what was the newest of those
	// that are gone.
	lastEvents = `SELECT max(id) FROM event UNION ALL SELECT last FROM counter WHERE name = $1`

	eventColumns = `id, at_ms, type, host, object, data`

	listEvents = `SELECT ` + eventColumns + ` FROM event WHERE id > $1 ORDER BY id LIMIT $2`
	trimEvents = `DELETE FROM event WHERE id <= $1`
	countFrom  = `UPDATE counter SET last = $2 WHERE name = $1`
)

var appendEvent = several(insert("event", eventColumns))

// eventsBefore is the name of the counter behind which events go on when none is left.
const eventsBefore = "events before"

// Append adds the event at the end of the Update, with others.
func (t events) Append(e core.Event) (uint64, error) {
	last, err := t.Last()
	if err != nil {
		return 0, err
	}
	e.ID = last + 1
	if m := t.memory; m != nil {
		m.events, m.event = append(m.events, e), &e.ID
		return e.ID, nil
	}
	return e.ID, insertAll(t.db, appendEvent, []core.Event{e}, eventFields)
}

func eventFields(e *core.Event) []any {
	return []any{&e.ID, &e.AtMS, &e.Type, &e.Host, &e.Object, &e.Data}
}

func (t events) List(after uint64, limit int) ([]core.Event, error) {
	all, err := settled(tx(t), eventFields, listEvents, upTo(after), atMost(limit))
	return all, wrap(err, "events after", after)
}

func (t events) Last() (last uint64, err error) {
	if m := t.memory; m != nil && m.event != nil {
		return *m.event, nil
	}
	ids, err := list(t.db, single[sql.Null[uint64]], lastEvents, eventsBefore)
	for _, id := range ids {
		last = max(last, id.V)
	}
	if err == nil && t.memory != nil {
		t.memory.event = &last
	}
	return last, wrap(err, "newest", "event")
}

func (t events) Trim(id uint64) error {
	last, err := t.Last()
	if err == nil {
		err = t.goOn(id, last)
	}
	return wrap(err, "trimming events to", id)
}

func (t events) Restart(n uint64) error {
	return wrap(t.goOn(math.MaxUint64, n), "restarting events behind", n)
}

// goOn removes events up to an id. If none is left the next follows upon last.
func (t events) goOn(id, last uint64) error {
	err := tx(t).settle()
	if err == nil {
		_, err = exec(t.db, trimEvents, upTo(id))
	}
	if err == nil {
		_, err = exec(t.db, countFrom, eventsBefore, last)
	}
	if t.memory != nil {
		t.memory.event = nil
	}
	return err
}

type values tx

const (
	getValue = `SELECT value FROM value WHERE name = $1`
	putValue = `INSERT INTO value (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`
	setStore = `UPDATE store SET id = $1 WHERE one = 1`
)

func (t values) Get(name string) ([]byte, error) {
	v, err := recall(tx(t), func(m *memory) *map[string]value { return &m.values }, name, func() (v value, err error) {
		v.b, err = one(t.db, single[[]byte], getValue, name)
		if v.missing = errors.Is(err, core.ErrNotFound); v.missing {
			err = nil
		}
		return v, err
	})
	if t.memory != nil && len(v.b) > maxValue {
		delete(t.memory.values, name)
	}
	if err == nil && v.missing {
		err = core.ErrNotFound
	}
	return bytes.Clone(v.b), wrap(err, "value", name)
}

func (t values) Put(name string, value []byte) error {
	if t.memory != nil {
		delete(t.memory.values, name)
	}
	_, err := exec(t.db, putValue, name, value)
	return wrap(err, "putting value", name)
}

func (t values) SetStore(id protocol.StoreID) error {
	_, err := exec(t.db, setStore, id.String())
	return wrap(err, "giving the store the id", id)
}
