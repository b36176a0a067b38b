package sqlstore

import (
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

type workloads tx

const (
	getWorkload    = `SELECT record FROM workload WHERE ctid = $1`
	listWorkloads  = `SELECT record FROM workload ORDER BY ctid`
	putWorkload    = `INSERT INTO workload (ctid, record) VALUES ($1, $2) ON CONFLICT (ctid) DO UPDATE SET record = excluded.record`
	removeWorkload = `DELETE FROM workload WHERE ctid = $1`
)

func workloadFields(w *core.Workload) []any { return []any{asJSON(w)} }

func (t workloads) Get(id protocol.CTID) (core.Workload, error) {
	w, err := one(t.db, workloadFields, getWorkload, id.String())
	return w, wrap(err, "workload", id)
}

func (t workloads) Put(w core.Workload) error {
	_, err := exec(t.db, putWorkload, w.CTID.String(), asJSON(&w))
	return wrap(err, "putting workload", w.CTID)
}

func (t workloads) Remove(id protocol.CTID) error {
	_, err := exec(t.db, removeWorkload, id.String())
	return wrap(err, "removing workload", id)
}

func (t workloads) List() ([]core.Workload, error) {
	all, err := list(t.db, workloadFields, listWorkloads)
	return all, wrap(err, "workloads", "all")
}
