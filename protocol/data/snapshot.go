// Package data is what is asked for about the data of containers: arguments of actions,
// which package protocol embeds.
package data

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// SnapshotName names a snapshot of a container.
type SnapshotName struct {
	_        struct{} `required:"snapshot"`
	Snapshot string   `json:"snapshot,omitzero" example:"\"before-update\"" doc:"The name of the snapshot: letters, digits and, not at the beginning, any of ._-."`
}

// maxName is how long a name may be.
const maxName = 63

// Check reports what is wrong with it.
func (n *SnapshotName) Check() error {
	if n.Snapshot == "" {
		return nil // that it is missing is told elsewhere
	}
	return checkName("snapshot", n.Snapshot)
}

func checkName(member, name string) error {
	if len(name) > maxName {
		return fmt.Errorf("%s: it has %d characters, want at most %d", member, len(name), maxName)
	}
	for i, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && strings.IndexByte("-_.", c) >= 0:
		default:
			return fmt.Errorf("%s: %q: want letters, digits and, not at the beginning, any of ._-", member, name)
		}
	}
	return nil
}

// NewSnapshot asks for a snapshot.
type NewSnapshot struct {
	SnapshotName
	Keeping
	Pause bool `json:"pause,omitzero" doc:"Freeze the container while its files are copied, so that they are all of one moment."`
}

// Check reports what is wrong with it.
func (n *NewSnapshot) Check() error { return errors.Join(n.SnapshotName.Check(), n.Keeping.Check()) }

// Rollback asks for the files of a snapshot in place of those that a container has.
type Rollback struct {
	SnapshotName
	Restart bool `json:"restart,omitzero" doc:"Stop the container first, if it runs, and start it again. Without this, one that runs is left as it is."`
}

// Retention says which snapshots stay: the newest of each of the last days and weeks that
// have one.
type Retention struct {
	KeepDaily  int64 `json:"keep_daily,omitzero" min:"0" max:"10000" example:"7" doc:"Of how many days that have a snapshot the newest one stays."`
	KeepWeekly int64 `json:"keep_weekly,omitzero" min:"0" max:"10000" example:"4" doc:"Of how many weeks that have a snapshot the newest one stays."`
}

// Keeping is what a schedule asks for of the rest: those that it has made, but for the
// ones that stay, go when the new one is whole.
type Keeping struct {
	Scheduled bool `json:"scheduled,omitzero" doc:"It is made by a schedule."`
	Retention
}

// Check reports what is wrong with it.
func (k *Keeping) Check() error {
	if !k.Scheduled && k.Prunes() {
		return errors.New("keep_daily and keep_weekly: they count what a schedule has made; ask for scheduled, too")
	}
	return nil
}

// Prunes reports whether anything is to go.
func (k *Keeping) Prunes() bool { return k.KeepDaily+k.KeepWeekly > 0 }

// NewBackup asks for a backup.
type NewBackup struct {
	BackupName
	Keeping
	WithVolumes   bool  `json:"with_volumes,omitzero" doc:"The files of its volumes, too."`
	WithSnapshots bool  `json:"with_snapshots,omitzero" doc:"The files of its snapshots, too, each a whole archive. A restore that keeps the identity gives them to the container. Versions before know of none and refuse it."`
	Incremental   int64 `json:"incremental,omitzero" min:"0" max:"32" example:"7" doc:"Only what has changed since the backup before it at this target, which it needs then. How many backups such a chain has at most, from 2 to 32; the next one is a full one again, as without a whole chain. Versions before know of no increments and refuse it."`
	Measure       bool  `json:"measure,omitzero" doc:"Make no backup: only tell how many bytes its files take on the disk."`
}

// Check reports what is wrong with it.
func (n *NewBackup) Check() error {
	switch {
	case n.Incremental != 0 && (n.Incremental < 2 || n.Incremental > MaxChain):
		return fmt.Errorf("incremental: a chain of %d backups; use 2 to %d", n.Incremental, MaxChain)
	case n.Incremental != 0 && (n.WithVolumes || n.WithSnapshots):
		return errors.New("incremental: a backup with volumes or snapshots is always a full one; leave out either incremental, or with_volumes and with_snapshots")
	}
	return errors.Join(n.BackupName.Check(), n.Keeping.Check())
}

// MaxChain is how many backups a chain of increments has at most, the full one among them.
const MaxChain = 32

// Flags returns the options of the agent's own command.
func (n *NewBackup) Flags() []string {
	all := n.BackupName.Flags()
	if n.WithVolumes {
		all = append(all, "--volumes")
	}
	if n.WithSnapshots {
		all = append(all, "--snapshots")
	}
	if n.Incremental > 0 {
		all = append(all, fmt.Sprintf("--incremental=%d", n.Incremental))
	}
	if n.Measure {
		all = append(all, "--measure")
	}
	if n.Scheduled {
		all = append(all, "--scheduled", fmt.Sprintf("--keep-daily=%d", n.KeepDaily), fmt.Sprintf("--keep-weekly=%d", n.KeepWeekly))
	}
	return all
}

// MoveBackup is the name of the backup by which a container moves to another host. It is made
// for the way, and removed when the container runs there.
func MoveBackup(container string) string { return "move-" + container }

// BackupName names a backup of a host.
type BackupName struct {
	_      struct{} `required:"backup"`
	Backup string   `json:"backup,omitzero" example:"\"web-20261124\"" doc:"The name of the backup: letters, digits and, not at the beginning, any of ._-."`
	Target string   `json:"kept_at,omitzero" example:"\"nas\"" doc:"Where it is kept: the name of a target in the configuration of its host. Empty is the host itself."`
}

// Check reports what is wrong with it.
func (n *BackupName) Check() error {
	if n.Target != "" {
		if err := checkName("target", n.Target); err != nil {
			return err
		}
	}
	if n.Backup == "" {
		return nil // that it is missing is told elsewhere
	}
	return checkName("backup", n.Backup)
}

// BackupExport asks for a backup as another host takes it.
type BackupExport struct {
	BackupName
	LeftOut []string `json:"left_out,omitempty" example:"[\"web-20261123\"]" doc:"Of the backups that it holds and is laid over, those whose files the other host has: their manifests go alone. Versions before know of no increments and refuse it."`
}

// Check reports what is wrong with it.
func (e *BackupExport) Check() error {
	if len(e.LeftOut) > MaxChain {
		return fmt.Errorf("left_out: it has %d names, want at most %d", len(e.LeftOut), MaxChain)
	}
	for _, name := range e.LeftOut {
		if err := checkName("left_out", name); err != nil {
			return err
		}
		if name == "" {
			return errors.New("left_out: a name is empty")
		}
	}
	return e.BackupName.Check()
}

// Flags returns the options of the agent's own command.
func (e *BackupExport) Flags() []string {
	all := e.BackupName.Flags()
	for _, name := range e.LeftOut {
		all = append(all, "--left-out="+name)
	}
	return all
}

// backupTime ends the name of a backup that nobody has named, and digest is how much of a
// digest stands in it for the rest of a long name of a container.
const (
	backupTime = "-20060102-150405"
	digest     = 8
)

// BackupOf is the name of a backup that nobody has named: after its container and the time
// (UTC). Of a name that is too long with the time behind it the beginning stands there and
// a digest of all of it, so that containers whose names begin alike have backups of
// different names.
func BackupOf(container string, at time.Time) string {
	if most := maxName - len(backupTime); len(container) > most {
		sum := sha256.Sum256([]byte(container))
		container = container[:most-1-digest] + "-" + hex.EncodeToString(sum[:])[:digest]
	}
	return container + at.UTC().Format(backupTime)
}

// Flags returns the options of the agent's own command that name it.
func (n *BackupName) Flags() []string {
	all := []string{"--backup=" + n.Backup}
	if n.Target != "" {
		all = append(all, "--target="+n.Target)
	}
	return all
}
