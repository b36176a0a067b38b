package containers

import (
	"encoding/json"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/data"
)

// scheduleEvery is how often the host looks at what is due.
const scheduleEvery = time.Minute

// followSchedules asks for what is due of all containers, as actions like any other. That
// it was asked for is noted after that: an agent that is killed in between asks once more,
// and nothing is left out.
func followSchedules(c *Containers) {
	if c.cfg.Loop.Stopping() {
		return
	}
	for _, m := range c.sorted() {
		follow(c, m, m.rec.Settings.Backup, m.rec.Settings.Backed, func(a *queue.AskedOf, r contract.Ran) { a.Backed = r }, backupDue)
		follow(c, m, m.rec.Settings.Snapshot, m.rec.Settings.Snapped, func(a *queue.AskedOf, r contract.Ran) { a.Snapped = r }, snapshotDue)
	}
}

// follow asks for one thing of a container, if it is due and the last one has ended.
func follow(c *Containers, m *managed, s *contract.Schedule, last contract.Ran, note func(*queue.AskedOf, contract.Ran), due func(*queue.Container, *contract.Schedule, time.Time) protocol.Spec) {
	if s == nil || !m.rec.Made {
		return
	}
	c.schedule.In(scheduleEvery)
	when := c.cfg.Loop.When()
	now := contract.Ran{WallMS: when.WallMS, BootMS: when.BootMS, Boot: when.Boot}
	if !s.Due(last, now) || c.cfg.Loop.Degraded() != "" {
		return
	}
	if id, err := protocol.ParseActionID(last.Action); err == nil && c.cfg.Actions.Job(id) != nil {
		return
	}
	spec := due(&m.rec, s, time.UnixMilli(when.WallMS))
	spec.Target, spec.Name = m.rec.CTID, m.rec.Name
	b, err := json.Marshal(spec)
	if err == nil {
		var a queue.Action
		if a, err = c.cfg.Actions.Propose(protocol.ActionID{}, b, queue.BySchedule); err == nil {
			now.Action = a.ID.String()
		}
	}
	if err != nil {
		c.cfg.Log.Warn("what is due of a container was not taken", "container", m.rec.Name, "kind", spec.Kind, "error", err)
		return // it is tried again at the next look
	}
	asked := queue.AskedOf{CTID: m.rec.CTID, Backed: m.rec.Settings.Backed, Snapped: m.rec.Settings.Snapped}
	note(&asked, now)
	if err := c.cfg.Apply(queue.Change{Asked: []queue.AskedOf{asked}}); err != nil {
		c.cfg.Log.Warn("that something was asked for by a schedule is not noted", "container", m.rec.Name, "error", err)
	}
}

func backupDue(rec *queue.Container, s *contract.Schedule, at time.Time) protocol.Spec {
	n := data.NewBackup{BackupName: data.BackupName{Backup: data.BackupOf(string(rec.Name), at), Target: s.Target}, Keeping: keeping(s), Incremental: s.Incremental}
	return protocol.Spec{Kind: protocol.KindBackup, Args: &protocol.NewBackupArgs{NewBackup: n}}
}

func snapshotDue(_ *queue.Container, s *contract.Schedule, at time.Time) protocol.Spec {
	n := data.NewSnapshot{SnapshotName: data.SnapshotName{Snapshot: "auto" + at.UTC().Format("-20060102-150405")}, Keeping: keeping(s), Pause: s.Pause}
	return protocol.Spec{Kind: protocol.KindSnapshot, Args: &protocol.SnapshotArgs{NewSnapshot: n}}
}

func keeping(s *contract.Schedule) data.Keeping {
	return data.Keeping{Scheduled: true, Retention: data.Retention{KeepDaily: s.KeepDaily, KeepWeekly: s.KeepWeekly}}
}
