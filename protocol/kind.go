package protocol

import (
	"slices"
	"time"
)

// Kind is what an action does.
type Kind string

// TargetKind is the object of a kind.
type TargetKind string

// The targets.
const (
	TargetHost      TargetKind = "host"      // the host itself
	TargetContainer TargetKind = "container" // one container, named by its id
	TargetPlaced    TargetKind = "placed"    // a workload: the coordinator chooses the host; no kind is so yet
)

// Lane is what an action excludes while it runs. Lanes are a readers–writer
// lock in accept order: actions on containers share the host, one at a time
// for each container; exclusive ones take the host alone.
type Lane string

// The lanes.
const (
	LaneNone      Lane = "none"      // excludes nothing
	LaneHost      Lane = "host"      // host commands: no lane, but a bounded number at a time
	LaneContainer Lane = "container" // one at a time per container
	LaneExclusive Lane = "exclusive" // alone on the host
	// LaneSession is for interactive sessions: no lane, so that an open terminal
	// stops nothing, but a bounded number at a time.
	LaneSession Lane = "session"
	// LanePreempt waits for nothing and ends what runs in its container's lane.
	// Its actions travel as controls, past the orders that wait.
	LanePreempt Lane = "preempt"
)

// Capability is an ability of a host that a kind needs. Empty is none.
type Capability string

// CapabilityContainers is a runtime of containers.
const CapabilityContainers Capability = "containers"

// KindInfo is what a kind promises: its row in the table of kinds.
type KindInfo struct {
	Kind Kind
	// Doc says in one sentence what the kind does, for help and the API.
	Doc    string
	Target TargetKind
	Lane   Lane
	// Attempts is how often an action may begin. 1 means once: after an
	// interruption its progress is unknown, and it is not tried again. More means
	// that doing it again does no harm.
	Attempts int
	// RunTimeout is the time limit if the spec names none; 0 is none.
	RunTimeout time.Duration
	// StartTTL is the start budget: an action that has not begun by then never
	// does.
	StartTTL time.Duration
	// Urgent tells that it is done at once or never: a request that would have to wait for an
	// approval is refused.
	Urgent bool
	// Needs is the ability that the host must have.
	Needs Capability
	// RootEquivalent tells that a requester can become root on the host by this
	// kind, so that reserving another kind while granting this one is a hole.
	RootEquivalent bool
	Cancellable    bool
	// Admin tells that the coordinator takes it from admins alone.
	Admin bool
	// Command tells that a supervisor runs a command for it.
	Command bool
	// Prints tells that the command is the agent's own, and prints what the host knows.
	Prints bool
	// Creates tells that the target does not exist before: Name is then the name of
	// the new container. Removes tells that it does not exist afterwards.
	Creates, Removes bool
	// Starts tells that the container runs afterwards: a stop that preempts drops
	// such actions while they wait.
	Starts bool

	form *specForm // of its arguments
}

// OnContainer reports whether the spec names a container by id.
func (i *KindInfo) OnContainer() bool { return i.Target == TargetContainer }

// Enters reports whether the command is one of the container, and runs in it.
func (i *KindInfo) Enters() bool { return i.OnContainer() && i.Command && !i.Prints && !i.Files() }

// Preempts reports whether actions of the kind travel past those that wait.
func (i *KindInfo) Preempts() bool { return i.Lane == LanePreempt }

// Files reports whether the kind moves files: the command is the host's own.
func (i *KindInfo) Files() bool {
	return i.form.tail.Has("files")
}

// Limits of kinds: an exec may take 60 s, a step of a container's life 60 min,
// and an order waits at most a day for its host (the defaults that operators
// of the systems before Hostler know). A session serves a person at a keyboard.
const (
	execTimeout      = 60 * time.Second
	lifecycleTimeout = 60 * time.Minute
	startTTL         = 24 * time.Hour
	sessionTTL       = time.Minute
	// An upgrade waits for hosts that are away for weeks: it is asked of all of them.
	upgradeTTL = 60 * 24 * time.Hour
)

// kinds is the one table. It is never written. Each row stands in the file of its
// kind.
var kinds = tableOf(slices.Concat(kindsOfSnapshots(), kindsOfBackups(), kindsOfNetworks(), kindsOfImages(), kindsOfVolumes(), []KindInfo{
	kindPing(), kindRun(), kindAttach(), kindHostPush(), kindHostPull(), kindHostAudit(), kindHostMetrics(), kindHostCheck(), kindHostUpgrade(), kindHostDrill(), kindHostFence(), kindPolicySet(),
	kindExec(), kindContainerAttach(), kindContainerPush(), kindContainerPull(),
	kindCreate(), kindClone(), kindAdopt(), kindPromote(), kindDemote(), kindStart(), kindStop(), kindStopNow(), kindRestart(), kindReset(), kindContainerUpgrade(), kindRename(), kindDestroy(),
	kindFreeze(), kindUnfreeze(), kindLogs(), kindInspect(), kindLimit(), kindSet(), kindConfig(),
})...)

func tableOf(rows ...KindInfo) map[Kind]KindInfo {
	t := make(map[Kind]KindInfo, len(rows))
	for _, r := range rows {
		t[r.Kind] = r
	}
	return t
}

// Kinds lists every kind, sorted.
func Kinds() []Kind {
	all := make([]Kind, 0, len(kinds))
	for k := range kinds {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// KindOf returns what a kind promises; false if there is no such kind.
func KindOf(k Kind) (KindInfo, bool) {
	i, ok := kinds[k]
	i.Kind = k
	return i, ok
}

// Interactive reports whether the action is a session that people type in.
func (k Kind) Interactive() bool { return kinds[k].Lane == LaneSession }

// lifecycle is the row of a step of a container's life.
func lifecycle(k Kind, doc string, args Args) KindInfo {
	return KindInfo{
		Kind: k, Doc: doc, Target: TargetContainer, Lane: LaneContainer, Attempts: 3,
		RunTimeout: lifecycleTimeout, StartTTL: startTTL, Needs: CapabilityContainers, form: formOf(args),
	}
}

// printing is the row of a kind whose command is the agent's own, on the host. None
// gives more than its requester could learn or make anyway.
func printing(k Kind, doc string, limit time.Duration, args Args) KindInfo {
	return KindInfo{
		Kind: k, Doc: doc, Target: TargetHost, Lane: LaneHost, Attempts: 1, RunTimeout: limit, StartTTL: startTTL,
		Cancellable: true, Command: true, Prints: true, form: formOf(args),
	}
}

// inContainer is the row of a host's kind, done in a container.
func inContainer(i KindInfo, k Kind, doc string, lane Lane) KindInfo {
	i.Kind, i.Doc, i.Target, i.Lane, i.Needs = k, doc, TargetContainer, lane, CapabilityContainers
	return i
}
