package sqlstore

import (
	"github.com/hostler-io/hostler/fence"
)

type fences tx

const (
	listFences  = `SELECT record FROM fence ORDER BY id`
	putFence    = `INSERT INTO fence (id, record) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET record = excluded.record`
	removeFence = `DELETE FROM fence WHERE id = $1`
)

func fenceFields(o *fence.Op) []any { return []any{asJSON(o)} }

func (t fences) Put(o fence.Op) error {
	_, err := exec(t.db, putFence, o.ID, asJSON(&o))
	return wrap(err, "putting fence", o.ID)
}

func (t fences) Remove(id string) error {
	_, err := exec(t.db, removeFence, id)
	return wrap(err, "removing fence", id)
}

func (t fences) List() ([]fence.Op, error) {
	all, err := list(t.db, fenceFields, listFences)
	return all, wrap(err, "fences", "all")
}
