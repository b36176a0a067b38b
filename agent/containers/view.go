package containers

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/mount"
)

// Container is a container as the agent knows and sees it.
type Container struct {
	protocol.Container
	Template string
	MAC      string
	Foreign  bool
	// InitPID is its first process, seen from the host; 0 unless it runs.
	InitPID int
	Ends    []queue.End // of one of ours: how it ended, the newest last
	// Backups tells whether the host has looked at the backups of one of ours.
	Backups bool
	// BackupNumber is the number of the newest good one; see [GoodBackup].
	BackupNumber uint64
}

// All returns every container of the host, managed ones first, each by name.
func (c *Containers) All() []Container {
	all := make([]Container, 0, len(c.managed))
	for _, m := range c.sorted() {
		all = append(all, Container{Container: m.show(c), Template: m.rec.Template, MAC: m.rec.MAC, InitPID: m.info.InitPID, Ends: m.rec.Ends, Backups: c.backed.known, BackupNumber: c.good(m).Number})
	}
	for _, kind := range slices.Sorted(maps.Keys(c.foreign)) {
		for _, info := range c.foreign[kind] {
			f := Container{Foreign: true, MAC: info.MAC, Template: info.Template, InitPID: info.InitPID}
			f.Name, f.Runtime, f.State, f.Addresses, f.Privileged = info.Name, string(kind), string(info.State), addresses(info), info.Privileged
			all = append(all, f)
		}
	}
	return all
}

// Count returns how many containers are managed, by state, and how many of them are
// broken.
func (c *Containers) Count() (states map[container.State]int, broken int) {
	states = make(map[container.State]int)
	for _, m := range c.managed {
		state := container.StateUnknown
		if m.seen {
			state = m.info.State
		}
		states[state]++
		if m.rec.Broken != "" {
			broken++
		}
	}
	return states, broken
}

// became is a container as it will be when a change is made; nil if it will be gone.
func (c *Containers) became(id protocol.CTID, change queue.Change) *protocol.Container {
	m := c.managed[id]
	if m == nil || slices.Contains(change.Delete, id) {
		return nil
	}
	next := *m
	for _, rec := range change.Put {
		if rec.CTID == id {
			next.rec = rec
		}
	}
	shown := next.show(c)
	return &shown
}

// show is a managed container as people see it.
func (m *managed) show(all *Containers) protocol.Container {
	state := container.StateUnknown
	if m.seen {
		state = m.info.State
	}
	c := protocol.Container{
		CTID: m.rec.CTID, Name: string(m.rec.Name), Runtime: m.rec.Runtime, State: string(state),
		Intended: m.rec.Intended, Class: m.rec.Class, Offline: m.rec.Offline, Labels: m.rec.Labels,
		Broken: m.rec.Broken, Failures: m.rec.Failures, Addresses: addresses(m.info), ContainerStatus: m.status(all),
		Privileged: m.seen && m.info.Privileged,
	}
	c.Volumes, c.Mounts = mount.Split(m.rec.Settings.Mounts)
	if len(c.Addresses) == 0 && m.rec.Address != "" {
		c.Addresses = []string{m.rec.Address}
	}
	return c
}

func addresses(info container.Info) []string {
	const maxAddresses = 16 // root in a container adds as many as it likes
	var all []string
	for _, ip := range info.Addresses[:min(len(info.Addresses), maxAddresses)] {
		all = append(all, ip.String())
	}
	return all
}

// status is how it stands to what is intended of it.
func (m *managed) status(all *Containers) protocol.ContainerStatus {
	start := m.rec.Settings.Start
	health := ""
	if m.rec.Settings.Health != nil && m.seen && m.info.State == container.StateRunning {
		health = m.probe.health.State
	}
	good := all.good(m)
	return protocol.ContainerStatus{Backup: good.Name, BackupMS: good.MadeMS, Restored: m.rec.Settings.Restored, Waits: cmp.Or(m.held, m.waits), Health: health, StartOrder: start.Order, StartAfter: namesOf(all, start.After)}
}
