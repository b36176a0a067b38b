package containers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// startPatience is how long a container waits at most for those to run after which it is
// started. What never runs keeps nothing else from running.
const startPatience = 2 * time.Minute

// startOrder says, in one look at all containers, which may be started now.
type startOrder struct {
	*Containers
	first int64 // the lowest place of those that are about to be started; 0 is none
}

// all are the containers in the order in which they are started.
func (o *startOrder) all() []*managed {
	all := o.sorted()
	slices.SortStableFunc(all, func(x, y *managed) int {
		return cmp.Compare(x.rec.Settings.Start.Place(), y.rec.Settings.Start.Place())
	})
	return all
}

// passes takes a container at which something is done: those behind it wait while it is
// started.
func (o *startOrder) passes(m *managed) {
	if m.starting && o.first == 0 {
		o.first = m.rec.Settings.Start.Place()
	}
}

// waits tells that a container that is to be started waits for others.
func (o *startOrder) waits(m *managed, now time.Duration) bool {
	lacks := o.lacking(m)
	if m.since == 0 {
		m.since = now
	}
	left := m.since + startPatience - now
	before := m.waits
	switch {
	case len(lacks) > 0 && left > 0:
		m.waits = "it is started after " + strings.Join(lacks, ", ")
		o.again.In(left)
	case len(lacks) > 0:
		o.cfg.Log.Warn("a container is started though those before it do not run", "container", string(m.rec.Name), "waited_for", lacks)
		fallthrough
	default:
		m.waits = ""
	}
	if m.waits != before {
		o.cfg.Seen()
	}
	if m.waits != "" {
		return true
	}
	place := m.rec.Settings.Start.Place()
	if o.first == 0 {
		o.first = place
	}
	return place > o.first
}

// lacking are the containers that do not run and after which a container is started, each
// with what is known of why.
func (o *startOrder) lacking(m *managed) (lacks []string) {
	for _, id := range m.rec.Settings.Start.After {
		ctid, err := protocol.ParseCTID(id)
		d := o.managed[ctid]
		if err != nil || d == nil || d.seen && d.info.State == container.StateRunning && !d.starting {
			continue // one that is gone keeps no other waiting
		}
		why := "which does not run yet"
		switch {
		case d.rec.Broken != "":
			why = "which is broken: " + d.rec.Broken
		case d.held != "":
			why = "which is stopped: " + d.held
		case d.rec.Intended == queue.Stopped:
			why = "which its user has stopped"
		case d.waits != "":
			why = "which waits: " + d.waits
		}
		lacks = append(lacks, fmt.Sprintf("%s (%s)", d.rec.Name, why))
	}
	return lacks
}

// names are those of containers that are still there.
func namesOf(c *Containers, ids []string) (names []string) {
	for _, id := range ids {
		if ctid, err := protocol.ParseCTID(id); err == nil && c.managed[ctid] != nil {
			names = append(names, string(c.managed[ctid].rec.Name))
		}
	}
	return names
}
