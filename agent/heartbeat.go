package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/hostler-io/hostler/container"
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

// noteChange makes a heartbeat due, soon but not too often.
func (a *Agent) noteChange() {
	a.loop.Moved()
	if !a.link.answered {
		return
	}
	pause := time.Duration(0)
	if a.beat.at != 0 {
		pause = max(0, a.beat.at+beatEvery-a.loop.Now())
	}
	a.at(dueHeartbeat, pause)
}

// noteAction makes one due after an action has moved: of the host it changes the
// length of the queue alone, and to look for that after each action of many would
// cost as much as some of them.
func (a *Agent) noteAction() {
	a.loop.Moved()
	if a.link.answered {
		a.at(dueHeartbeat, beatEvery)
	}
}

// sendHeartbeat tells everything about the host, in pages, if anything but
// figures that always move has changed.
func (a *Agent) sendHeartbeat() {
	a.due[dueHeartbeat].Stop()
	if !a.link.answered || len(a.unlooked) > 0 {
		return // the first look at the containers makes it due again
	}
	host, containers, alerts := a.hostInfo(), a.inventory(), a.raised()
	content, head := steady(host, containers, alerts), a.auditHead()
	// Records alone are told of when nothing else has been for a while.
	quiet := head.N == a.beat.audit || a.beat.at != 0 && a.loop.Now()-a.beat.at < a.cfg.CheckEvery
	if bytes.Equal(content, a.beat.last) && quiet {
		return
	}
	a.beat.number++
	a.beat.at, a.beat.last, a.beat.audit = a.loop.Now(), content, head.N
	a.voice.SawBeat(a.beat.number)
	pages := paginate(steady(host, nil, alerts), containers)
	for i, page := range pages {
		a.state(protocol.TypeHeartbeat, protocol.ChannelHeartbeat, func(h protocol.Header) any {
			b := protocol.Heartbeat{Header: h, AsOf: a.beat.number, Part: i + 1, Parts: len(pages), Containers: page}
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

// paginate splits containers into pages, of which the first has something else
// in it too; there is at least one.
func paginate(first []byte, all []protocol.Container) [][]protocol.Container {
	pages := [][]protocol.Container{nil}
	size := len(first)
	for _, c := range all {
		b, err := json.Marshal(c)
		if err != nil {
			continue // a name of somebody else's that is no text
		}
		if size += len(b) + 1; size > pageSize {
			pages, size = append(pages, nil), len(b)
		}
		last := len(pages) - 1
		pages[last] = append(pages[last], c)
	}
	return pages
}

// hostInfo completes what the host tells of itself.
func (a *Agent) hostInfo() protocol.HostInfo {
	h := a.cfg.HostInfo()
	h.Interfaces = h.Interfaces[:min(len(h.Interfaces), maxInterfaces)]
	h.Policy = &a.rights.info
	h.Boot, h.ClockMS, h.QueueDepth = a.cfg.Boot, a.cfg.Now().UnixMilli(), len(a.jobs)
	return h
}

// What a heartbeat carries of the host has to fit into its first page, whatever
// the host has: alerts all went up as items, interfaces are for people.
const (
	maxAlerts     = 8
	maxInterfaces = 32
)

func (a *Agent) raised() []protocol.AlertInfo {
	all := slices.SortedFunc(maps.Values(a.alerts), func(x, y protocol.AlertInfo) int { return cmp.Compare(x.ID, y.ID) })
	return all[:min(len(all), maxAlerts)]
}

// inventory is every container of the host, managed ones first.
func (a *Agent) inventory() []protocol.Container {
	var all []protocol.Container
	for _, c := range a.containers() {
		all = append(all, c.Container)
	}
	return all
}

// containers returns every container of the host, managed ones first, each by
// name.
func (a *Agent) containers() []Container {
	var all []Container
	for _, t := range a.sorted() {
		c := Container{Container: t.show(), Template: t.rec.Template, MAC: t.rec.MAC}
		all = append(all, c)
	}
	for _, kind := range slices.Sorted(maps.Keys(a.foreign)) {
		for _, info := range a.foreign[kind] {
			c := Container{Foreign: true, MAC: info.MAC, Template: info.Template}
			c.Name, c.Runtime, c.State, c.Addresses = info.Name, kind.String(), info.State.String(), addresses(info)
			all = append(all, c)
		}
	}
	return all
}

// show is a managed container as people see it.
func (t *tracked) show() protocol.Container {
	state := container.StateUnknown
	if t.seen {
		state = t.info.State
	}
	c := protocol.Container{
		CTID: t.rec.CTID, Name: string(t.rec.Name), Runtime: t.rec.Runtime, State: state.String(),
		Intended: t.rec.Intended, Class: t.rec.Class, Offline: t.rec.Offline, Labels: t.rec.Labels,
		Broken: t.rec.Broken, Failures: t.rec.Failures, Addresses: addresses(t.info),
	}
	if len(c.Addresses) == 0 && t.rec.Address != "" {
		c.Addresses = []string{t.rec.Address}
	}
	return c
}

func addresses(info container.Info) []string {
	var all []string
	for _, ip := range info.Addresses {
		all = append(all, ip.String())
	}
	return all
}
