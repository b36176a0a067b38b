package workloads

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// order is the part of a room that knows which workloads run. The caller of its methods holds
// the lock.
type order struct{ *Room }

// up tells of the name of each workload whether that runs, by what its host has told since
// it holds it. Of several with one name all must.
func (r order) up(hosts []*site) map[string]bool {
	all := make(map[string]bool, len(r.all))
	for _, w := range r.all {
		all[string(w.Name)] = true
	}
	told := make(map[protocol.CTID]bool)
	for _, h := range hosts {
		for i := range h.containers {
			c := &h.containers[i]
			if w := r.all[c.id]; w != nil && w.Host == h.id && c.well && r.toldSince(h.id, h.atMS, w) {
				told[c.id] = true
			}
		}
	}
	for id, w := range r.all {
		if w.Phase != unique.Held || w.shut || !told[id] {
			all[string(w.Name)] = false
		}
	}
	return all
}

// toldSince reports whether what a host told of its containers at atMS (Unix ms) is from after a
// workload went where it is, or was still true then. When that lies ahead, the date went back
// since, and says nothing: then the boot clock tells.
func (r order) toldSince(host protocol.HostID, atMS int64, w *workload) bool {
	h, since, nowMS := r.host(host), sinceMS(w), r.base.NowMS()
	if since > nowMS {
		return h.toldMS > w.movedMS || h.heardMS > max(w.movedMS, r.started)+current.Milliseconds()
	}
	return atMS > since || h.heardMS > 0 && nowMS-(r.base.Boot()-h.heardMS) > since+current.Milliseconds()
}

// mayFollow refuses that a workload starts after others if there is none of such a name, or
// if these start after it themselves.
func mayFollow(tx core.Tx, id protocol.CTID, name protocol.ContainerName, after []string) error {
	if len(after) == 0 {
		return nil
	}
	all, err := tx.Workloads.List()
	if err != nil {
		return err
	}
	known := map[string][]string{string(name): slices.Clone(after)}
	for _, w := range all {
		if w.CTID != id {
			known[string(w.Name)] = append(known[string(w.Name)], w.Wants.After...)
		}
	}
	for _, other := range after {
		if _, there := known[other]; !there {
			return fmt.Errorf("%w: place.after: no unique container is named %.63q; their names: hostler lease ls", core.ErrInvalid, other)
		}
	}
	if circle := placement.Circle(string(name), known); circle != nil {
		return fmt.Errorf("%w: place.after: none of these would ever start: %s", core.ErrInvalid, strings.Join(circle, " starts after "))
	}
	return nil
}
