package protocol

import (
	"cmp"

	"github.com/hostler-io/hostler/protocol/data"
)

// The kinds about backups of containers: archives on their host. All but the restore and
// the export print one line of JSON for each backup that they are about.
const (
	KindBackup       Kind = "container.backup"
	KindRestore      Kind = "container.restore"
	KindBackupList   Kind = "host.backup-list"
	KindBackupVerify Kind = "host.backup-verify"
	KindBackupRemove Kind = "host.backup-remove"
	KindBackupExport Kind = "host.backup-export"
	KindBackupImport Kind = "host.backup-import"
)

func kindsOfBackups() []KindInfo {
	backup := inContainer(printing("", "", lifecycleTimeout, new(NewBackupArgs)), KindBackup, "Write all files of a container into a signed archive on its host.", LaneContainer)
	restore := lifecycle(KindRestore, "Create a container from a backup, with an identity of its own or that of the first one.", new(RestoreArgs))
	restore.Creates, restore.RootEquivalent = true, true
	export := onBackup(KindBackupExport, "Write a backup to the output, as other hosts of the fleet take it.")
	export.RootEquivalent = true
	return []KindInfo{
		backup, restore, export,
		printing(KindBackupList, "List the backups of the host.", execTimeout, new(ExportArgs)),
		onBackup(KindBackupVerify, "Hold a backup against its manifest, and that against the key of the host."),
		onBackup(KindBackupRemove, "Remove a backup from the host."),
		printing(KindBackupImport, "Take a backup that a host of the fleet has exported.", lifecycleTimeout, new(BackupImportArgs)),
	}
}

func onBackup(k Kind, doc string) KindInfo {
	return printing(k, doc, lifecycleTimeout, new(BackupArgs))
}

// BackupArgs name a backup.
type BackupArgs struct {
	data.BackupName
	TimeLimit
	OutputOption
}

// BackupImportArgs name the backup that the payload becomes.
type BackupImportArgs struct {
	data.BackupName
	Input
	TimeLimit
	OutputOption
}

// NewBackupArgs ask for a backup.
type NewBackupArgs struct {
	data.NewBackup
	TimeLimit
	OutputOption
}

// RestoreArgs ask for a container that is made from a backup.
type RestoreArgs struct{ data.Restore }

func (a *BackupArgs) check() error    { return cmp.Or(a.TimeLimit.check(), a.Check()) }
func (a *NewBackupArgs) check() error { return cmp.Or(a.TimeLimit.check(), a.Check()) }
func (a *RestoreArgs) check() error   { return a.Check() }
func (a *BackupImportArgs) check() error {
	return cmp.Or(a.Check(), a.Input.check(), a.TimeLimit.check())
}
