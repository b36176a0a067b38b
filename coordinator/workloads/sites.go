package workloads

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

// site is what placement asks of a host, as it is stored.
type site struct {
	n            uint64 // of the put; 0 if it was read
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

func siteOf(n uint64, h core.Host) *site {
	info := h.Inventory.Host
	s := &site{
		n: n, id: h.ID, state: h.State, quarantined: h.Quarantined != "", availability: h.Availability.State, labels: labelsOf(h), atMS: h.Inventory.AtMS,
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

// sites are those of all hosts. They are read once, and kept as hosts are put: to read the
// records of ten thousand hosts takes seconds of processor time and hundreds of MB. Its
// methods may be called from any goroutine.
type sites struct {
	reading sync.Mutex // held while they are read

	mu    sync.Mutex
	known map[protocol.HostID]*site // nil: they are to be read
}

// put takes a host that [core.Watch] tells of.
func (s *sites) put(n uint64, h core.Host, sure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch old := s.known[h.ID]; {
	case s.known == nil:
	case !sure:
		s.known = nil
	case old == nil || old.n < n:
		s.known[h.ID] = siteOf(n, h)
	}
}

// load takes the hosts that are stored. What was put meanwhile is newer.
func (s *sites) load(read func(func(core.Host) error) error) error {
	s.mu.Lock()
	mine := make(map[protocol.HostID]*site)
	s.known = mine
	s.mu.Unlock()
	err := read(func(h core.Host) error {
		x := siteOf(0, h)
		s.mu.Lock()
		defer s.mu.Unlock()
		if mine[h.ID] == nil {
			mine[h.ID] = x
		}
		return nil
	})
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.known = nil
	}
	return err
}

// all returns the sites, by id.
func (s *sites) all(ctx context.Context, base *core.Base) ([]*site, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	for {
		s.mu.Lock()
		all := slices.Collect(maps.Values(s.known))
		known := s.known != nil
		s.mu.Unlock()
		if known {
			slices.SortFunc(all, func(a, b *site) int { return cmp.Compare(a.id, b.id) })
			return all, nil
		}
		if err := s.load(func(each func(core.Host) error) error {
			return base.View(ctx, func(tx core.Tx) error { return core.EachHost(tx, each) })
		}); err != nil {
			return nil, err
		}
	}
}

// Stored takes a host that [core.Watch] tells of.
func (r *Room) Stored(n uint64, h core.Host, sure bool) { r.sites.put(n, h, sure) }
