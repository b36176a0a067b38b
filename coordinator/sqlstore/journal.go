package sqlstore

import (
	"math"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
)

type events tx

const (
	countUp     = `UPDATE counter SET last = last + 1 WHERE name = $1 RETURNING last`
	lastCounted = `SELECT last FROM counter WHERE name = $1`

	eventColumns = `id, at_ms, type, host, object, data`

	listEvents = `SELECT ` + eventColumns + ` FROM event WHERE id > $1 ORDER BY id LIMIT $2`
	trimEvents = `DELETE FROM event WHERE id <= $1`
	countFrom  = `UPDATE counter SET last = $2 WHERE name = $1`
)

var appendEvent = insert("event", eventColumns)

// eventCounter is the name of the counter of events.
const eventCounter = "event"

// count gives the next number; undone transactions give theirs back.
func count(t *sqldb.Tx, counter string) (uint64, error) {
	return one(t, single[uint64], countUp, counter)
}

func (t events) Append(e core.Event) (uint64, error) {
	id, err := count(t.db, eventCounter)
	if e.ID = id; err == nil {
		_, err = exec(t.db, appendEvent, eventFields(&e)...)
	}
	return id, wrap(err, "appending event", e.Type)
}

func eventFields(e *core.Event) []any {
	return []any{&e.ID, &e.AtMS, &e.Type, &e.Host, &e.Object, &e.Data}
}

func (t events) List(after uint64, limit int) ([]core.Event, error) {
	all, err := list(t.db, eventFields, listEvents, upTo(after), atMost(limit))
	return all, wrap(err, "events after", after)
}

func (t events) Last() (uint64, error) {
	id, err := one(t.db, single[uint64], lastCounted, eventCounter)
	return id, wrap(err, "counter", eventCounter)
}

func (t events) Trim(id uint64) error {
	_, err := exec(t.db, trimEvents, upTo(id))
	return wrap(err, "trimming events to", id)
}

func (t events) Restart(n uint64) error {
	_, err := exec(t.db, trimEvents, upTo(math.MaxUint64))
	if err == nil {
		_, err = exec(t.db, countFrom, eventCounter, n)
	}
	return wrap(err, "restarting events behind", n)
}

type values tx

const (
	getValue = `SELECT value FROM value WHERE name = $1`
	putValue = `INSERT INTO value (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`
	setStore = `UPDATE store SET id = $1 WHERE one = 1`
)

func (t values) Get(name string) ([]byte, error) {
	b, err := one(t.db, single[[]byte], getValue, name)
	return b, wrap(err, "value", name)
}

func (t values) Put(name string, value []byte) error {
	_, err := exec(t.db, putValue, name, value)
	return wrap(err, "putting value", name)
}

func (t values) SetStore(id protocol.StoreID) error {
	_, err := exec(t.db, setStore, id.String())
	return wrap(err, "giving the store the id", id)
}
