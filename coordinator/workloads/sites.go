package workloads

import (
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

// site is what placement asks of a host, as it is stored.
type site struct {
	id           protocol.HostID
	state        core.HostState
	quarantined  bool
	availability core.AvailabilityState
	labels       map[string]string
	has, free    placement.Size // all that it has, and what of memory and disk is free
	atMS         int64          // when it has told of its containers
	containers   []resident
}

// resident is a container of a host.
type resident struct {
	id       protocol.CTID // zero: foreign
	name     string
	well     bool // it runs, and does not fail its check
	stopped  bool // its user wants that
	broken   string
	failures int
}

func siteOf(h core.Host) *site {
	info := h.Inventory.Host
	s := &site{
		id: h.ID, state: h.State, quarantined: h.Quarantined != "", availability: h.Availability.State, labels: labelsOf(h), atMS: h.Inventory.AtMS,
		has:  placement.Size{CPU: int64(info.CPUs) * 1000, Memory: info.MemoryBytes, Disk: info.DiskBytes},
		free: placement.Size{Memory: info.MemoryFree, Disk: info.DiskFree},
	}
	if len(h.Inventory.Containers) > 0 {
		s.containers = make([]resident, len(h.Inventory.Containers))
	}
	for i, c := range h.Inventory.Containers {
		s.containers[i] = resident{
			id: c.CTID, name: c.Name, well: c.State == running && c.Health != contract.Unhealthy, stopped: c.Intended == contract.Stopped,
			broken: c.Broken, failures: c.Failures,
		}
	}
	return s
}

// Stored takes a host that [core.Watch] tells of.
func (r *Room) Stored(n uint64, h core.Host, sure bool) { r.sites.Put(n, h, sure) }
