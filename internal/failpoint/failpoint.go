// Package failpoint names the moments at which a process of Hostler may die:
// right before and right after each durable step of the crash table in
// ARCHITECTURE.md. Programs built with the tag hostlertest kill themselves there
// when they are asked to; in all others the calls are empty and nothing of this
// package is left.
//
// Who asks puts a file into the directory that the variable [Variable] of the
// process's environment names. Its name is that of the point, such as
// "A2.before"; it is empty, or holds the number of the hit that is meant, where
// hits at the same moment may count as one. The process that comes to the point
// takes the file away, so that only one dies, leaves "A2.before.hit" with its pid
// instead, and kills itself by SIGKILL.
package failpoint

// Variable names the directory of the points that are armed.
const Variable = "HOSTLER_FAILPOINTS"

// Step is a durable step, by its id in the crash table.
type Step string

// The steps that the agent takes. "One transaction" is meant where nothing else
// is said.
const (
	StartCounted   Step = "A1"  // the process start is counted
	OrderTaken     Step = "A2"  // an order is accepted, or kept as rejected, with its position
	AttemptBegun   Step = "A3"  // a queued action is RUNNING
	OutcomeKept    Step = "A4"  // the outcome, and its report in the outbox
	OutboxFreed    Step = "A5"  // a receipt has freed rows
	CancelTaken    Step = "A6"  // a cancel's mark, tombstone or answer
	ContainersKept Step = "A7"  // records of containers without an action that ends
	MembershipKept Step = "A8"  // the enrolment's file
	QuestionTaken  Step = "A9"  // a question of the coordinator, and its answers
	TermSeen       Step = "A10" // the newest term and its evidence
	ActionsBuried  Step = "A11" // old actions became tombstones, and old tombstones are gone
	QueueMade      Step = "A12" // the queue's first rows and its reserve, and that it was made
	LeavingNoted   Step = "A13" // the file that says that the host leaves
	InputPlaced    Step = "A14" // a payload, or a part of an image, is whole
	PolicyKept     Step = "A15" // the file of the policy in force and of the newest verified date
	RulesKept      Step = "A16" // the rules of alerts that the coordinator has sent, with their position
	AbsenceKept    Step = "A18" // for how long the host was cut off
	PortsApplied   Step = "A33" // the kernel's rules of ports and networks, in one transaction of the packet filter
	BridgeMade     Step = "A34" // the bridge of a network is there, and not marked yet
	BridgeRemoved  Step = "A35" // the bridge of a network is gone
)

// The steps of an upgrade of the agent's own programs.
const (
	UpgradeStaged   Step = "A21" // a release is verified and unpacked
	UpgradeTried    Step = "A22" // what a trial of the new agent has come to
	ProgramReplaced Step = "A23" // a program has its place, where no package manager has put it
)

// The steps that are taken in run directories and with containers, by the
// supervisor or the LXC helper where nothing else is said.
const (
	SpecKept           Step = "S1"  // spec.json, by the agent
	StartDeclared      Step = "S2"  // start.json
	OutputSynced       Step = "S3"  // a stream's file, after its end
	ExitPublished      Step = "S4"  // exit.json
	ContainerClaimed   Step = "S5"  // its directory, with a record that says creating
	LeafMade           Step = "S6"  // the command's control group
	CommandForked      Step = "S7"  // the command
	ContainerReady     Step = "S8"  // the record says ready
	ContainerDoomed    Step = "S9"  // the record says destroying
	ContainerUnnamed   Step = "S10" // its directory has left its name
	ContainerStarted   Step = "S11" // its init runs
	ContainerStopped   Step = "S12" // its init is gone
	RunsRemoved        Step = "S13" // the run directories of a buried action, by the agent
	ContainerLockFreed Step = "S14" // the lock's file of a container that is gone
	ContainerRenamed   Step = "S15" // its directory has its new name
	ContainerSettled   Step = "S16" // the record says that its configuration follows
	FilePushed         Step = "S17" // a file is renamed to its name, by the agent's helper or by who pulls
	ContainerFrozen    Step = "S18" // its processes do not run
	ContainerThawed    Step = "S19" // they run again
	SnapshotMade       Step = "S41" // a snapshot has its name, by the LXC helper or the agent
	SnapshotRestored   Step = "S42" // a container's files are exchanged for those of a snapshot
	SnapshotDoomed     Step = "S43" // a snapshot has left its name
	BackupKept         Step = "S44" // a backup of a container has its name, by the agent's helper
	ImageMade          Step = "S51" // an image that was made of a container has its name
	ImageForgotten     Step = "S52" // an image that became a container again has lost its name
	VolumeMade         Step = "S55" // a volume has its name, by the agent
	VolumeDoomed       Step = "S56" // a volume has left its name, by the agent
	ContainerAdopted   Step = "S54" // a foreign container is ours, by the LXC helper or the agent
	UpgradePrepared    Step = "S57" // what a container becomes is whole beside it, by the LXC helper or the agent
	FilesExchanged     Step = "S58" // it has the place of the container, or what was there before has it again
	UpgradeEnded       Step = "S59" // what is not in place is gone
	FilesWithdrawn     Step = "S60" // of podman: what was in place has left its name, by the agent
	BackupIndexed      Step = "S61" // the list of the files of a backup is kept, by the agent's helper
)

// The steps that the coordinator takes, one transaction each where nothing else
// is said.
const (
	TermCounted     Step = "C1"  // the start is counted
	OrderNumbered   Step = "C2"  // an action, or the number of its order
	ReportsTaken    Step = "C3"  // reports and alerts with their positions
	OutputKept      Step = "C4"  // the offsets of output that was synced
	CancelNumbered  Step = "C5"  // a cancel's mark and control
	ProofJudged     Step = "C6"  // an invite is bound, or a wrong proof counted
	HostDecided     Step = "C7"  // a host is approved, denied, revoked, readmitted, labelled or drained, or has a new certificate
	RingsKept       Step = "C8"  // the files of the ring chain
	AccessKept      Step = "C9"  // a token or a viewer is made or revoked, rings are taken, a request with a key is noted, or a person came to or left a session
	InviteMade      Step = "C10" // an invite
	NotesCompared   Step = "C11" // a hello's streams
	QuestionAsked   Step = "C12" // what a host is asked after its hello
	ActionsExpired  Step = "C13" // orders that were not fetched in time
	AcksFreed       Step = "C14" // acknowledged items are freed
	InventoryKept   Step = "C15" // a full heartbeat
	QuarantineNoted Step = "C16" // a host that must not be trusted, or that we must not be
	AuditSealed     Step = "C17" // a checkpoint of the audit log
	AuditPruned     Step = "C18" // the oldest records of the audit log are forgotten
	PayloadPlaced   Step = "C19" // a payload is whole
	ApprovalKept    Step = "C20" // approvals, or a denial, and what they make of the action
	OutputRemoved   Step = "C21" // output of an ended action is no longer kept
	PastForgotten   Step = "C23" // actions, enrolments and invites that ended long ago are forgotten
	HostReplaced    Step = "C24" // a host's machine is shut out, and another awaited
	AlertRulesSet   Step = "C25" // a rule of alerts is set or removed
	RulesNumbered   Step = "C26" // the rules of alerts of a host, on their way
	NoticesMade     Step = "C27" // notifications of alerts, for every target
	NoticeTried     Step = "C28" // a try to deliver a notification
	AlertsMarked    Step = "C29" // an alert is acknowledged, or alerts are muted
	AutoRuleSet     Step = "C30" // a rule that approves hosts is set or removed
	StoreRecovered  Step = "C31" // a restored store is made another one
	WorkloadDecided Step = "C45" // which host holds a unique workload, under which epoch, or that none does
	FenceStepped    Step = "C46" // a step of a fence, before it is taken, and what came of it
	FenceDevicesSet Step = "C47" // fence devices, and what was found about them
	BackupPlaced    Step = "C32" // a backup that was read back has its name
	RestoreDeclared Step = "C33" // the file that says that a directory is being restored
	StateRestored   Step = "C34" // and that it is
	KeyReplaced     Step = "C35" // the key after a recovery is the coordinator's
	RecoveryEnded   Step = "C36" // the file that says that a directory waits is removed
)

// The steps that any program takes, below all others.
const (
	FilePlaced     Step = "F1" // a small file is renamed into place
	DatabasePlaced Step = "F2" // a new database is renamed into place
	BatchCommitted Step = "F3" // COMMIT of a database's writer
)

// Steps returns all steps, in the order of the table.
func Steps() []Step {
	return []Step{
		StartCounted, OrderTaken, AttemptBegun, OutcomeKept, OutboxFreed, CancelTaken, ContainersKept, MembershipKept,
		QuestionTaken, TermSeen, ActionsBuried, QueueMade, LeavingNoted, InputPlaced, PolicyKept, RulesKept, AbsenceKept, PortsApplied, BridgeMade, BridgeRemoved, UpgradeStaged, UpgradeTried, ProgramReplaced,
		SpecKept, StartDeclared, OutputSynced, ExitPublished, ContainerClaimed, LeafMade, CommandForked, ContainerReady,
		ContainerDoomed, ContainerUnnamed, ContainerStarted, ContainerStopped, RunsRemoved, ContainerLockFreed,
		ContainerRenamed, ContainerSettled, FilePushed, ContainerFrozen, ContainerThawed, SnapshotMade, SnapshotRestored, SnapshotDoomed, BackupKept, ImageMade, ImageForgotten, ContainerAdopted, VolumeMade, VolumeDoomed,
		UpgradePrepared, FilesExchanged, UpgradeEnded, FilesWithdrawn, BackupIndexed,
		TermCounted, OrderNumbered, ReportsTaken, OutputKept, CancelNumbered, ProofJudged, HostDecided, RingsKept,
		AccessKept, InviteMade, NotesCompared, QuestionAsked, ActionsExpired, AcksFreed, InventoryKept, QuarantineNoted,
		AuditSealed, AuditPruned, PayloadPlaced, ApprovalKept, OutputRemoved, PastForgotten, HostReplaced, AlertRulesSet, RulesNumbered, NoticesMade, NoticeTried, AlertsMarked, AutoRuleSet, WorkloadDecided, FenceStepped, FenceDevicesSet, StoreRecovered, BackupPlaced, RestoreDeclared, StateRestored, KeyReplaced, RecoveryEnded,
		FilePlaced, DatabasePlaced, BatchCommitted,
	}
}

// Before is the point right before the step.
func (s Step) Before() string { return string(s) + before }

// After is the point right after the step.
func (s Step) After() string { return string(s) + after }

const (
	before = ".before"
	after  = ".after"
)
