package workloads

import (
	"bytes"
	"slices"

	"github.com/hostler-io/hostler/protocol"
)

// heldBy are the workloads that each host holds, or held last, in the order of their ids: a
// lease is about those of one host, and there may be thousands of others.
type heldBy map[protocol.HostID][]*workload

// add adds a workload to those of its host.
func (h heldBy) add(w *workload) {
	all := h[w.Host]
	i, _ := slices.BinarySearchFunc(all, w.CTID, func(o *workload, id protocol.CTID) int { return byID(o.CTID, id) })
	h[w.Host] = slices.Insert(all, i, w)
}

// remove removes a workload from those of its host.
func (h heldBy) remove(w *workload) {
	left := slices.DeleteFunc(h[w.Host], func(o *workload) bool { return o == w })
	if h[w.Host] = left; len(left) == 0 {
		delete(h, w.Host)
	}
}

// byID is the order of ids.
func byID(a, b protocol.CTID) int { return bytes.Compare(a[:], b[:]) }
