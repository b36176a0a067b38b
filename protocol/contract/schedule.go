package contract

import (
	"errors"
	"fmt"
	"time"
)

// Schedules are what the host of a container makes of it by itself. The host follows them
// whether or not its coordinator can be reached.
type Schedules struct {
	Backup   *Schedule `json:"backup_schedule,omitempty" doc:"How often its host backs it up."`
	Snapshot *Schedule `json:"snapshot_schedule,omitempty" doc:"How often its host makes a snapshot of it."`
}

// Schedule is how often something is made, and which of what it has made stays: the
// newest of each of the last days and weeks that have one. What people have made is not
// touched.
type Schedule struct {
	Off        bool   `json:"off,omitzero" doc:"Make no more; the rest is left out. What was made stays."`
	EveryMS    int64  `json:"every_ms,omitzero" example:"86400000" doc:"How far two are apart, from 60000 to 31622400000."`
	KeepDaily  int64  `json:"keep_daily,omitzero" example:"7" doc:"Of how many days that have one the newest stays. Without it and keep_weekly all stay."`
	KeepWeekly int64  `json:"keep_weekly,omitzero" example:"4" doc:"Of how many weeks that have one the newest stays."`
	Target     string `json:"target,omitzero" example:"\"nas\"" doc:"Of backups: the target in the configuration of the host where they are kept. Empty is the host itself."`
	// Incremental is how many backups a chain of increments has at most; 0: each is a full one.
	Incremental int64 `json:"incremental,omitzero" example:"7" doc:"Of backups: each holds only what has changed since the one before, but for one full one in so many, from 2 to 32. Without it each is a full one."`
	Pause       bool  `json:"pause,omitzero" doc:"Of snapshots: freeze the container while its files are copied."`
}

// Bounds of a schedule.
const (
	minEvery = time.Minute
	maxEvery = 366 * 24 * time.Hour
	maxKept  = 10_000
	maxChain = 32
)

// Every is how far two are apart.
func (s *Schedule) Every() time.Duration { return time.Duration(s.EveryMS) * time.Millisecond }

// Check tells what is wrong with them.
func (s *Schedules) Check() error {
	for name, one := range map[string]*Schedule{"backup": s.Backup, "snapshot": s.Snapshot} {
		if one == nil {
			continue
		}
		if err := one.check(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if s.Snapshot != nil && s.Snapshot.Target != "" {
		return errors.New("snapshot: target is of backups; snapshots lie beside their container")
	}
	if s.Snapshot != nil && s.Snapshot.Incremental != 0 {
		return errors.New("snapshot: incremental is of backups")
	}
	if s.Backup != nil && s.Backup.Pause {
		return errors.New("backup: pause is of snapshots; stop the container before a backup if it must not change meanwhile")
	}
	return nil
}

func (s *Schedule) check() error {
	switch {
	case s.Off && *s != Schedule{Off: true}:
		return errors.New("off stands alone")
	case s.Off:
		return nil
	case s.EveryMS < minEvery.Milliseconds() || s.EveryMS > maxEvery.Milliseconds():
		return fmt.Errorf("the time between two is out of range: use %s to %s", Words(minEvery), Words(maxEvery))
	case len(s.Target) > 63:
		return errors.New("the name of the target has more than 63 characters")
	case s.Incremental != 0 && (s.Incremental < 2 || s.Incremental > maxChain):
		return fmt.Errorf("a chain of %d backups is out of range: use 2 to %d", s.Incremental, maxChain)
	case s.KeepDaily < 0 || s.KeepDaily > maxKept || s.KeepWeekly < 0 || s.KeepWeekly > maxKept:
		return fmt.Errorf("the numbers of days and weeks are out of range: use 0 to %d", maxKept)
	}
	return nil
}

// Prunes reports whether anything goes.
func (s *Schedule) Prunes() bool { return s.KeepDaily+s.KeepWeekly > 0 }

// String tells it to people.
func (s *Schedule) String() string {
	text := "every " + Words(s.Every())
	if s.Target != "" {
		text += " to " + s.Target
	}
	if s.Incremental > 0 {
		text += fmt.Sprintf(", a full one in %d", s.Incremental)
	}
	if s.Prunes() {
		text += fmt.Sprintf(", keeps %d daily and %d weekly", s.KeepDaily, s.KeepWeekly)
	}
	return text
}

// With is what is kept of schedules after a change: what it does not name stays.
func (s Schedules) With(change Schedules) Schedules {
	s.Backup, s.Snapshot = s.Backup.with(change.Backup), s.Snapshot.with(change.Snapshot)
	return s
}

func (s *Schedule) with(change *Schedule) *Schedule {
	switch {
	case change == nil:
		return s
	case change.Off:
		return nil
	}
	return change
}

// Ran is when a schedule was followed the last time, by both clocks; zero is never.
type Ran struct {
	WallMS int64  `json:"wall_ms,omitzero"`
	BootMS int64  `json:"boot_ms,omitzero"` // of Boot
	Boot   string `json:"boot,omitzero"`
	Action string `json:"action,omitzero"`
}

// Due reports whether it is to be followed at a moment. Within a boot the boot clock alone
// says so. After a reboot the wall clock does, as far as it has moved forward; one that
// has fallen back delays it by no more than the time between two.
func (s *Schedule) Due(last Ran, now Ran) bool {
	every := s.EveryMS
	switch {
	case last.Boot == "":
		return true
	case last.Boot == now.Boot:
		return now.BootMS-last.BootMS >= every
	}
	return now.WallMS-last.WallMS >= every || now.BootMS >= every
}
