package workloads

import (
	"slices"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// restoredEvent tells that a host has made a workload from a backup.
const restoredEvent = "workload.restored"

// tellRestore writes an event that names the backup from which a host made a workload, if
// the coordinator has just learnt it.
func tellRestore(r *Room, tx core.Tx, before string, w *core.Workload) error {
	if w.Restored == before || w.Restored == "" {
		return nil
	}
	return r.base.Event(tx, restoredEvent, w.Host, w.CTID.String(), map[string]any{"name": string(w.Name), "host": string(w.Host), "epoch": w.Epoch.String(), "why": w.Restored})
}

// carried takes the end of an action that makes a workload on its host: whether that host
// has the newest data now. If the action is lost, the coordinator cannot know.
func carried(w *core.Workload, a *core.Action) {
	if a.Kind != protocol.KindCreate {
		return
	}
	switch a.State {
	case protocol.StateDone:
		if w.DataHost != w.Host {
			w.Restored = a.Detail
		}
		w.DataHost = w.Host
	case protocol.StateLost:
		w.DataHost = ""
	}
}

// holds adds the host of a workload to those that have held it, under its epoch.
func holds(w *core.Workload) {
	all := append(slices.DeleteFunc(slices.Clone(w.Holders), func(h protocol.HostID) bool { return h == w.Host }), w.Host)
	w.Holders = all[max(0, len(all)-protocol.MaxRestore):]
	had := map[protocol.HostID]protocol.Epoch{}
	for _, h := range w.Holders {
		if e, ok := w.Had[h]; ok {
			had[h] = e
		}
	}
	had[w.Host] = w.Epoch
	w.Had = had
}

// epochs are the newest epochs of the holders of a workload, in their order. If the epoch of a
// holder is not known, it is the workload's epoch of now: the holder had no higher one.
func epochs(w *core.Workload) (all []protocol.Epoch) {
	for _, h := range w.Holders {
		e, ok := w.Had[h]
		if !ok {
			e = w.Epoch
		}
		all = append(all, e)
	}
	return all
}

// aged are the hosts that have an old copy of a workload which is made of backups, by what
// hosts have told. Such a copy would start with old data.
func aged(w *workload, hosts []*site) (all []string) {
	if w.Data != unique.DataBackup {
		return nil
	}
	for _, h := range hosts {
		may := h.id == w.DataHost || h.id == w.Host && w.Phase != unique.Free
		if !may && slices.ContainsFunc(h.containers, func(c resident) bool { return c.id == w.CTID }) {
			all = append(all, string(h.id))
		}
	}
	return all
}
