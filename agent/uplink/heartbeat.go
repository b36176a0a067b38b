package uplink

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// Numbers of heartbeats.
const (
	// beatEvery is how far heartbeats are apart at least. What changes sooner is
	// told together, not left out.
	beatEvery = 5 * time.Second
	// pageSize bounds the payload of one page, so that it delays no lease.
	pageSize = 14 << 10
)

// heartbeat is what the loop remembers of those it sent.
type heartbeat struct {
	number uint64
	at     time.Duration
	last   []byte // the content of the newest, without what always changes
	audit  uint64 // number of the newest record that it told of
}

// Changed makes a heartbeat due, soon but not too often.
func (u *Uplink) Changed() {
	u.loop.Moved()
	if !u.link.answered {
		return
	}
	pause := time.Duration(0)
	if u.beat.at != 0 {
		pause = max(0, u.beat.at+beatEvery-u.loop.Now())
	}
	u.beatSoon.In(pause)
}

// ActionMoved makes one due after an action has moved: of the host it changes the
// length of the queue alone, and to look for that after each action of many would
// cost as much as some of them.
func (u *Uplink) ActionMoved() {
	u.loop.Moved()
	if u.link.answered {
		u.beatSoon.In(beatEvery)
	}
}

// sendHeartbeat tells everything about the host, in pages, if anything but
// figures that always move has changed.
func (u *Uplink) sendHeartbeat() {
	u.beatSoon.Stop()
	if !u.link.answered {
		return
	}
	r, ok := u.cfg.Report()
	if !ok {
		return // the first look at the containers makes it due again
	}
	host, containers, alerts := r.Host, r.Containers, append(r.Alerts, u.raised()...)
	host.Interfaces = host.Interfaces[:min(len(host.Interfaces), maxInterfaces)]
	content, head := steady(host, containers, alerts), u.seals.head()
	// Records alone are told of when nothing else has been for a while.
	quiet := head.N == u.beat.audit || u.beat.at != 0 && u.loop.Now()-u.beat.at < u.cfg.QuietEvery
	if bytes.Equal(content, u.beat.last) && quiet {
		return
	}
	u.beat.number++
	u.beat.at, u.beat.last, u.beat.audit = u.loop.Now(), content, head.N
	u.cfg.Numbers.SawBeat(u.beat.number)
	pages := paginate(steady(host, nil, alerts), containers)
	for i, page := range pages {
		u.state(protocol.TypeHeartbeat, protocol.ChannelHeartbeat, func(h protocol.Header) any {
			b := protocol.Heartbeat{Header: h, AsOf: u.beat.number, Part: i + 1, Parts: len(pages), Containers: page}
			if i == 0 {
				b.Host, b.Alerts, b.Audit = &host, alerts, head
			}
			return b
		})
	}
}

// steady is what of a heartbeat tells a change.
func steady(host protocol.HostInfo, containers []protocol.Container, alerts []protocol.AlertInfo) []byte {
	host.UptimeMS, host.ClockMS, host.MemoryFree, host.DiskFree, host.Load1000 = 0, 0, 0, 0, 0
	b, err := json.Marshal([]any{host, containers, alerts})
	if err != nil {
		return nil // never: it is then told once more
	}
	return b
}

// paginate splits containers into pages. There is at least one, and the first has
// room for what else it carries.
func paginate(first []byte, all []protocol.Container) [][]protocol.Container {
	pages := [][]protocol.Container{nil}
	size := len(first)
	for _, c := range all {
		b, err := json.Marshal(c)
		if err != nil {
			continue // a foreign container whose name is no text
		}
		if size += len(b) + 1; size > pageSize {
			pages, size = append(pages, nil), len(b)
		}
		last := len(pages) - 1
		pages[last] = append(pages[last], c)
	}
	return pages
}

// What a heartbeat carries of the host has to fit into its first page, whatever
// the host has: alerts all went up as items, interfaces are for people.
const (
	maxAlerts     = 8
	maxInterfaces = 32
)

func (u *Uplink) raised() []protocol.AlertInfo {
	all := slices.SortedFunc(maps.Values(u.alerts), func(x, y protocol.AlertInfo) int { return cmp.Compare(x.ID, y.ID) })
	return all[:min(len(all), maxAlerts)]
}

// HeartbeatNow sends a full heartbeat. It reports false if the coordinator has not
// answered.
func (u *Uplink) HeartbeatNow() bool {
	if !u.link.answered {
		return false
	}
	u.beat.last = nil
	u.sendHeartbeat()
	return true
}
