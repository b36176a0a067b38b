package unique

import (
	"fmt"

	"github.com/hostler-io/hostler/protocol"
)

// Copies says what becomes of a workload that is found running where it may not run.
type Copies string

// What becomes of it.
const (
	// StopStale stops all copies but that of the host that holds the newest epoch.
	StopStale Copies = "stop_stale"
	// StopAll stops all copies, and a person starts one again.
	StopAll Copies = "stop_all"
	// Block stops none, and decides nothing about the workload while there are several.
	Block Copies = "block"
)

// Check refuses words that are not known.
func (c Copies) Check() error {
	if c != StopStale && c != StopAll && c != Block {
		return fmt.Errorf("unique.copies: %.40q: use stop_stale, stop_all or block", string(c))
	}
	return nil
}

// Copy is a workload that a host tells it runs.
type Copy struct {
	Host protocol.HostID
	// Epoch is the one under which it runs; zero if its host did not tell any.
	Epoch protocol.Epoch
	// Ignored tells that the discovery of the workload leaves this host out: nothing
	// follows from the copy but that people are told.
	Ignored bool
	// Maintenance tells that nothing is done on the host.
	Maintenance bool
}

// Resolved is what follows from the copies of a workload.
type Resolved struct {
	// Stray are the copies that run where the workload may not run.
	Stray []Copy
	// Stop are the hosts on which it is stopped.
	Stop []protocol.HostID
	// Blocked says why nothing is decided about the workload, and Waits why it is not
	// placed; empty if it is.
	Blocked, Waits string
}

// Resolve says what follows from copies of a workload that hosts tell of. The epoch that
// was given last is the rightful one, and one host alone holds it. A host that names a
// higher epoch is not believed: no host may take a workload from another by its word.
func Resolve(w Workload, told []Copy, how Copies) (r Resolved) {
	counts := false
	var all []protocol.HostID
	for _, c := range told {
		rightful := c.Host == w.Host && w.Phase != Free
		if !rightful {
			r.Stray = append(r.Stray, c)
			counts = counts || !c.Ignored
		}
		if !c.Ignored && !c.Maintenance && (how == StopAll || how == StopStale && !rightful) {
			all = append(all, c.Host)
		}
	}
	if !counts {
		return r
	}
	r.Stop = all
	host := r.first()
	switch {
	case how == Block:
		r.Blocked = "host " + host + " runs a second copy, and nothing is decided until a person has stopped one (unique.copies = block)"
		r.Waits = r.Blocked
	case w.Phase == Free:
		r.Waits = "host " + host + " still runs a copy, which must stop first"
	case how == StopAll:
		r.Waits = "host " + host + " runs a second copy, and all copies are stopped (unique.copies = stop_all)"
	}
	return r
}

// first is the first host whose copy counts.
func (r *Resolved) first() string {
	for _, c := range r.Stray {
		if !c.Ignored {
			return string(c.Host)
		}
	}
	return ""
}
