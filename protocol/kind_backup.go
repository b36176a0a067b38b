package protocol

import (
	"cmp"

	"github.com/hostler-io/hostler/protocol/data"
)

// The kinds about backups. All but restore and export print a line of JSON for each backup.
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
	export := printing(KindBackupExport, "Write a backup, and the backups that it needs, to the output, as other hosts of the fleet take it.", lifecycleTimeout, new(BackupExportArgs))
	restore.Creates, restore.RootEquivalent, export.RootEquivalent = true, true, true
	return []KindInfo{
		backup, restore, export,
		printing(KindBackupList, "List the backups of the host.", execTimeout, new(ExportArgs)),
		printing(KindBackupVerify, "Hold a backup against its manifest, and that against the key of the host.", lifecycleTimeout, new(BackupArgs)),
		printing(KindBackupRemove, "Remove a backup from the host.", lifecycleTimeout, new(BackupArgs)),
		printing(KindBackupImport, "Take a backup that a host of the fleet has exported.", lifecycleTimeout, new(BackupImportArgs)),
	}
}

type (
	// BackupArgs name a backup.
	BackupArgs struct {
		data.BackupName
		TimeLimit
		OutputOption
	}
	// BackupExportArgs name the backup that is written.
	BackupExportArgs struct {
		data.BackupExport
		TimeLimit
		OutputOption
	}
	// BackupImportArgs name the backup that the payload becomes.
	BackupImportArgs struct {
		data.BackupName
		Input
		TimeLimit
		OutputOption
	}
	// NewBackupArgs ask for a backup.
	NewBackupArgs struct {
		data.NewBackup
		TimeLimit
		OutputOption
	}
	// RestoreArgs ask for a container that is made from a backup.
	RestoreArgs struct{ data.Restore }
)

func (a *BackupArgs) check() error       { return cmp.Or(a.TimeLimit.check(), a.Check()) }
func (a *BackupExportArgs) check() error { return cmp.Or(a.TimeLimit.check(), a.Check()) }
func (a *NewBackupArgs) check() error    { return cmp.Or(a.TimeLimit.check(), a.Check()) }
func (a *RestoreArgs) check() error      { return a.Check() }
func (a *BackupImportArgs) check() error {
	return cmp.Or(a.Check(), a.Input.check(), a.TimeLimit.check())
}
