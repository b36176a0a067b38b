package queue

import (
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/limit"
	"github.com/hostler-io/hostler/protocol/mount"
	"github.com/hostler-io/hostler/protocol/port"
)

var (
	// ErrDisk: the step could not be written. Nothing of it was kept; it can be
	// tried again and works as soon as the disk does.
	ErrDisk = errors.New("the agent's queue cannot be written")
	// ErrAudit is ErrDisk where the audit log alone takes no record: what would have to
	// be recorded there cannot be done.
	ErrAudit = fmt.Errorf("%w: its audit log takes no records", ErrDisk)
	// ErrUnfinished: its maker was killed before the first rows were there, so
	// there is nothing in it to lose.
	ErrUnfinished = errors.New("the agent's queue was never finished")
	// ErrFull: too many reports wait for the coordinator, or too many actions for
	// their turn; no new action is taken, and nothing that was taken is dropped.
	ErrFull = errors.New("too many actions or their reports wait: nothing new is taken until some have ended and were told to the coordinator")
	// ErrUnknown: no action, or no container, of that id is kept.
	ErrUnknown = errors.New("not known to this host")
	// ErrExists: the id, or the name of the container, is taken.
	ErrExists = errors.New("already exists")
)

// Limits of what is kept. They are the numbers of the protocol's promises:
// enough of the past to answer, bounded for years without a coordinator.
const (
	// MaxOutbox is how many reports may wait before new actions are refused.
	// Reports of actions that were accepted are written beyond it.
	MaxOutbox = 10_000
	// MaxAlerts is how many alert rows may wait before rows of one id merge.
	MaxAlerts = 1_000
	// MaxTombstones is how many ids of forgotten actions are remembered, and
	// KeepTombstonesMS for how much uptime of this host: the newest 100,000, for
	// 400 days.
	MaxTombstones    = 100_000
	KeepTombstonesMS = 400 * 24 * 3600 * 1000
	// KeepActions and KeepMS are how many finished actions stay, and how long,
	// once their final report was receipted: the newest 100, and those with output
	// that may be on this host alone, for 14 days.
	KeepActions = 100
	KeepMS      = 14 * 24 * 3600 * 1000
	// maxRejected is how many unreadable items are remembered, for people.
	maxRejected = 1_000
)

// BySchedule is the requester of what the host makes of a container by itself. The person
// that set the schedule was allowed to; no user of the host is called like that.
const BySchedule = "hostler:schedule"

// CodeQueueFull is the reason of an action that was refused because too many
// reports wait.
const CodeQueueFull protocol.Code = "queue_full"

// Identity is who this agent is, as of the start of its process.
type Identity struct {
	Store     protocol.StoreID // of this database
	Inc       uint64           // number of this process start: they are counted from one at random
	Starts    uint64           // how many there were, this one included
	Boot      string           // of this start
	Rebooted  bool             // the process before this one ran in another boot
	Term      protocol.Term    // newest seen
	Coord     protocol.StoreID // the coordinator's store; zero until Term has named one
	AcceptSeq uint64           // of the newest action
	Evidence  []byte           // what coordinators have signed, see fresh.Strengthen
	// Checkpoint is the newest of the coordinator's audit log, as it was signed;
	// empty before the first.
	Checkpoint []byte
	// Absence is for how long the host was cut off from its coordinator.
	Absence contract.Absence
}

// Positions are the places in all streams.
type Positions struct {
	Have  []protocol.Position // down: order, control; of the coordinator's store
	Sent  []protocol.Position // up: report, alert; of our store
	Freed []protocol.Position // up: what a receipt has freed
}

// Row is an item that waits for its receipt.
type Row struct {
	N    uint64
	Item []byte
}

// Action is one action as this host knows it.
type Action struct {
	ID        protocol.ActionID
	AcceptSeq uint64 // order of acceptance on this host, from 1
	Digest    protocol.Digest
	Spec      []byte // the bytes that were approved; see [protocol.DecodeSpec]
	Requester string
	Local     bool // it began on this host
	State     protocol.State
	Event     protocol.Event // the last that moved it
	Reason    protocol.Reason
	Detail    string
	Attempt   int
	// Cancelling tells that an end was asked for and is not reached yet.
	Cancelling bool
	// BudgetMS is how long it may wait for its start, counted on the boot clock
	// from AcceptBootMS of Boot.
	BudgetMS     int64
	Boot         string
	AcceptBootMS int64
	// Unix milliseconds of the wall clock, for people; 0 is not yet.
	CreatedMS, AcceptedMS, StartedMS, EndedMS int64
	Exit                                      *protocol.Exit
	Output                                    []protocol.Output
	// ReportN is the number of its newest report. It is 0 for a brief action that has
	// just begun, and for the tombstone of an action that was forgotten.
	ReportN uint64

	// ApprovedMS: none of the approvals that it rests on is dated later; 0 if it
	// rests on none. Of an action that was forgotten it is not told.
	ApprovedMS int64
	// Within is that of its order.
	Within []string

	approved []string // of a new one, for its record in the audit log
}

// Closed reports whether an action is a session that began on this host and is not
// shared: nothing of what it shows leaves the host.
func (a *Action) Closed(spec *protocol.Spec) bool {
	return a.Local && spec.Kind.Interactive() && !spec.Shared()
}

// Expired reports whether the start budget of an action that waits is gone at
// a moment of the boot clock. After a reboot it counts from the beginning:
// time powered off does not count, and the rest is unknown.
func (a *Action) Expired(boot string, bootMS int64) bool {
	from := a.AcceptBootMS
	if a.Boot != boot {
		from = 0
	}
	return bootMS-from >= a.BudgetMS
}

// Container is what the agent remembers of a container that it manages.
type Container struct {
	CTID    protocol.CTID
	Name    protocol.ContainerName
	Runtime string // lxc or podman
	Class   string // pinned or cloned
	Epoch   protocol.Epoch
	// Intended is running or stopped: what a user asked for last. Nothing but
	// an action of a user changes it.
	Intended string
	Offline  string   // see [contract.Parse]
	Labels   []string // K=V, sorted
	Template string
	Address  string // CIDR; empty without an interface
	MAC      string
	Made     bool // its creation was completed
	Failures int  // failed starts in a row
	Broken   string
	// Former are the names that it had before, the newest last.
	Former []protocol.ContainerName
	// Ends are the last times that it ended, at most [MaxEnds], the newest last.
	Ends []End
	// Settings are what its user has set beyond that.
	Settings Settings
}

// MaxEnds is how many ends of a container are remembered, and MaxEndLog how much of its
// log with each, in bytes.
const (
	MaxEnds   = 10
	MaxEndLog = 1 << 10
)

// End is how a container ended. Either Code or Signal is set if Known.
type End struct {
	AtMS   int64  `json:"at_ms"` // Unix milliseconds
	Known  bool   `json:"known,omitzero"`
	Code   int    `json:"code,omitzero"`
	Signal int    `json:"signal,omitzero"`
	OOM    bool   `json:"oom,omitzero"`   // the kernel killed a process of it for want of memory
	Asked  bool   `json:"asked,omitzero"` // a stop was asked for
	Cause  Cause  `json:"cause,omitzero"`
	Log    string `json:"log,omitzero"` // its last words
}

// Cause is what a container ended by.
type Cause string

// The causes. The zero value is not known: it ended while no agent ran, or the kernel did
// not tell how.
const (
	CauseOrder    Cause = "order"    // an action of a user
	CauseContract Cause = "contract" // its host was cut off for too long
	CauseHealth   Cause = "health"   // its check failed too often
	CauseAgent    Cause = "agent"    // it had been started against its user's will
	CauseHost     Cause = "host"     // its host was shut down, or lost power
	CauseOOM      Cause = "oom"      // it wanted more memory than there was
	CauseExit     Cause = "exit"     // its first process ended without an error
	CauseCrash    Cause = "crash"    // its first process failed, or was killed
)

// Settings are what the user of a container has set. The zero value is what a container
// has of which nothing was set.
type Settings struct {
	// Limits are what it may use at most.
	Limits limit.Limits `json:"limits,omitempty"`
	// Start is when it is started.
	Start contract.Start `json:"start,omitzero"`
	// Ports are the ports of the host that lead to it, sorted. Opening are those that an
	// action is about to add: no other container gets them meanwhile.
	Ports   []port.Mapping `json:"ports,omitempty"`
	Opening []port.Mapping `json:"opening,omitempty"`
	// Mounts are its volumes, and what it has of the host's files.
	Mounts []mount.Mount `json:"mounts,omitempty"`
	// Paused is the action for which the container is frozen, RolledBack the last that has
	// given it the files of a snapshot, and Upgraded the last that has given it an image.
	Paused     string `json:"paused,omitzero"`
	RolledBack string `json:"rolled_back,omitzero"`
	Upgraded   string `json:"upgraded,omitzero"`
	// Moving is where it is moved to; nil is nowhere.
	Moving *Moving `json:"moving,omitempty"`
	// Restored names, for people, the backup from which the host made a unique container.
	Restored string `json:"restored,omitempty"`
	// Health is how it is looked at; nil is not at all.
	Health *contract.Check `json:"health,omitempty"`
	// Schedules are what its host makes of it by itself; Backed and Snapped are when it
	// was asked for last.
	contract.Schedules
	Backed  contract.Ran `json:"backed,omitzero"`
	Snapped contract.Ran `json:"snapped,omitzero"`
	// Env, Hostname and Command are what it was made with. An empty host name is the
	// name of the container, and an empty command that of its image.
	Env      []string               `json:"env,omitempty"`
	Hostname protocol.ContainerName `json:"hostname,omitempty"`
	// Network is the name of the network that it is attached to; empty is the first one.
	// Address6 is its address of IPv6 there, CIDR; empty is none.
	Network  string   `json:"network,omitempty"`
	Address6 string   `json:"address6,omitempty"`
	Command  []string `json:"command,omitempty"`
}

// Moving is that a container was stopped to be moved to another host.
type Moving struct {
	To  string `json:"to"`
	Ran bool   `json:"ran,omitzero"` // its user wanted it to run
}

// The values of [Container.Intended].
const (
	Running = "running"
	Stopped = "stopped"
)

// Change is what a step does to containers, in the same transaction. Put
// inserts or replaces by CTID.
type Change struct {
	Put    []Container
	Delete []protocol.CTID
	Alerts []protocol.Alert // see [Queue.Apply]
	// Ended replaces what is remembered of how containers ended, which Put leaves as it
	// is: it becomes known while something is being done to them.
	Ended []EndsOf
	// Asked replaces when schedules of containers were followed, which Put leaves as it is:
	// they are followed while something is being done to the container.
	Asked []AskedOf
	// Networks replaces what is remembered of networks; nil leaves it as it is.
	Networks *[]Network
}

// EndsOf are the ends of a container, the newest last.
type EndsOf struct {
	CTID protocol.CTID
	Ends []End
}

// AskedOf is when the schedules of a container were followed last.
type AskedOf struct {
	CTID            protocol.CTID
	Backed, Snapped contract.Ran
}

// Order asks for a new action.
type Order struct {
	Action    protocol.ActionID
	Spec      []byte
	Requester string
	CreatedMS int64 // Unix milliseconds
	// BudgetMS is how long it may wait for its start; 0 or less is expired.
	BudgetMS int64
	// Refusal, if set, ends the action as it comes: FAILED with this reason.
	Refusal protocol.Code
	Detail  string // a sentence with Refusal
	// Approved are the persons whose approval it rests on, for the audit log, and
	// ApprovedMS a date, in Unix milliseconds, that none of them signed after.
	Approved   []string
	ApprovedMS int64
	// Within are the directories to which the policy that let it in holds it: empty
	// holds it to none, nil is not known.
	Within []string
	// Begin, if set, starts the action in the transaction that accepts it, so
	// that its NEW is never reported, and makes the changes of its start.
	Begin *Change
	// Brief, with Begin, leaves its start to be reported with its end, or by
	// [Queue.TellStarted] if that does not come soon.
	Brief bool
	// Done, with Begin, ends it there too, as DONE: nothing of it is left to do.
	Done bool
}

// Arrival is an order and its place in the stream that it came by. A zero place
// is an action that began on this host.
type Arrival struct {
	At    protocol.Position
	Order Order
}

// Accepted is what became of an arrival: the action as it is afterwards, and
// whether it is new.
type Accepted struct {
	Action Action
	Fresh  bool
}

// Ending ends an action.
type Ending struct {
	Action protocol.ActionID
	Step   Step
}

// Step is one move of an action.
type Step struct {
	Event  protocol.Event
	Carry  protocol.Reason // with [protocol.EventRefuse]
	Detail string
	Exit   *protocol.Exit
	Output []protocol.Output
	Change Change
	// Container is what the container of the action has become, for the report.
	Container *protocol.Container
	// Record is what the audit log is to say beside the step, before it; nil is
	// nothing.
	Record *audit.Record
}

// Now is the time of a step.
type Now struct {
	WallMS int64  // Unix milliseconds, for people
	BootMS int64  // of the boot clock
	Boot   string // the boot that it belongs to
}
