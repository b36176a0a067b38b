package protocol

import (
	"cmp"
	"fmt"
	"strings"
)

// Proto is the highest set of message types that this code speaks. A hello
// carries it, and no higher one is sent to that host.
//
//	1 (2026-11) the first set
const Proto = 1

// Type names what a body is, and its version, which changes with its meaning: "order/1".
type Type string

// The types of version 1.
const (
	TypePresence    Type = "presence/1"
	TypeHeartbeat   Type = "heartbeat/1"
	TypeLease       Type = "lease/1"
	TypeAck         Type = "ack/1"
	TypeReport      Type = "report/1"
	TypeAlert       Type = "alert/1"
	TypeOut         Type = "out/1"
	TypeSamples     Type = "samples/1"
	TypeOrder       Type = "order/1"
	TypeControl     Type = "control/1"
	TypeGrant       Type = "grant/1"
	TypeReceipt     Type = "receipt/1"
	TypeIn          Type = "in/1"
	TypeCoordinator Type = "coordinator/1"
	TypeRing        Type = "ring/1"
	TypeRevoked     Type = "revoked/1"
	TypeRoster      Type = "roster/1"
	TypeApproval    Type = "approval/1"
	TypePolicy      Type = "policy/1"
	TypeFenced      Type = "fenced/1"
	TypeCheckpoint  Type = "checkpoint/1"
)

// Party is an end of a conversation: "host:edge-07", "coordinator", or "*" for
// everybody.
type Party string

// The parties that are not a host.
const (
	Coordinator Party = "coordinator"
	Everybody   Party = "*"
)

// HostParty returns the party of a host.
func HostParty(h HostID) Party { return Party("host:" + string(h)) }

// Host returns the host that the party is, if it is one.
func (p Party) Host() (HostID, bool) {
	s, ok := strings.CutPrefix(string(p), "host:")
	if !ok {
		return "", false
	}
	h, err := ParseHostID(s)
	return h, err == nil
}

// Term orders coordinators: by ring first, so that the coordinator that the
// owners named last wins, then by a counter of starts (durable before the first message).
type Term struct {
	Ring    uint64 `json:"ring" example:"2"`
	Counter uint64 `json:"counter" example:"1"`
}

// String returns "ring.counter".
func (t Term) String() string { return fmt.Sprintf("%d.%d", t.Ring, t.Counter) }

// Compare returns −1, 0 or +1 as t is older than, equal to or newer than u.
func (t Term) Compare(u Term) int {
	if c := cmp.Compare(t.Ring, u.Ring); c != 0 {
		return c
	}
	return cmp.Compare(t.Counter, u.Counter)
}

// Seq orders the state messages of one sender: process starts, connections of
// the process, messages of the connection.
type Seq struct {
	Inc  uint64 `json:"inc"`
	Conn uint64 `json:"conn"`
	K    uint64 `json:"k"`
}

// The last two message numbers of a connection. The will is made before the
// connection and published after it; a goodbye is said instead of it.
const (
	KWill    = 1<<31 - 1
	KGoodbye = 1 << 31
)

// Compare returns −1, 0 or +1 as s comes before, is, or comes after t.
func (s Seq) Compare(t Seq) int {
	if c := cmp.Compare(s.Inc, t.Inc); c != 0 {
		return c
	}
	if c := cmp.Compare(s.Conn, t.Conn); c != 0 {
		return c
	}
	return cmp.Compare(s.K, t.K)
}

// SameConn reports whether s and t are of one connection. A host takes a
// receipt's challenge, and thinks its hello answered, only if Answers is of
// the connection it has: the answer to a hello of another process proves the
// fork of two, and must not be used by the one that is in force.
func (s Seq) SameConn(t Seq) bool { return s.Inc == t.Inc && s.Conn == t.Conn }

// Takes is what a host asks of a receipt before it takes the challenge. s is
// the first hello of its connection that it has sent since it saw the
// receipt's term. An answer to another process or connection is not for it, and
// an answer to an older hello shows that the coordinator knows no more than
// what that one told.
func (s Seq) Takes(answers Seq) bool { return s.SameConn(answers) && answers.K >= s.K }

// valid reports whether s numbers a message.
func (s Seq) valid() bool { return s.Inc > 0 && s.Conn > 0 && s.K > 0 && s.K <= KGoodbye }

// Header starts every message; of items and chunks it is all there is beside
// the item or the attachment. Its first two members are the domain
// separation: a signature over one type or fleet is worth nothing for another.
type Header struct {
	Type    Type    `json:"hostler"`
	Fleet   FleetID `json:"fleet"`
	From    Party   `json:"from"`
	To      Party   `json:"to"`
	Ring    uint64  `json:"ring"`             // number of the ring that the sender holds
	Term    Term    `json:"term,omitzero"`    // of a coordinator's message
	Revoked uint64  `json:"revoked,omitzero"` // number of the revocation list, of a coordinator's message

	// State messages.
	Seq  Seq   `json:"seq,omitzero"`
	Chal Nonce `json:"chal,omitzero"` // the current challenge, upwards, on everything but a hello and the will

	// Items. The item itself is fixed for ever when n is given; the rest is
	// made anew at each sending.
	Store  StoreID `json:"store,omitzero"`
	Stream Stream  `json:"stream,omitzero"`
	N      uint64  `json:"n,omitzero"`
	Item   []byte  `json:"item,omitzero"`

	// Grants and orders answer something that the host sent; an order also
	// says how much of its start budget is left, in milliseconds from the
	// sending of Heard.
	Heard  Seq   `json:"heard,omitzero"`
	LeftMS int64 `json:"left_ms,omitzero"`

	// Chunks.
	Action  ActionID `json:"action,omitzero"`
	Attempt int      `json:"attempt,omitzero"`
	FD      FD       `json:"fd,omitzero"`
	Offset  int64    `json:"offset,omitzero"`
	// Gone, in a chunk without bytes, tells that the host no longer has the bytes
	// from Offset to here, and that the stream goes on here.
	Gone   int64  `json:"gone,omitzero"`
	Size   int64  `json:"size,omitzero"`
	SHA256 Digest `json:"sha256,omitzero"`
}

// Stream names a stream of items between one host and the coordinator.
type Stream string

// The streams. Orders and controls go down, reports and alerts up. An audit log
// is chained as a stream is, and does not travel.
const (
	StreamOrder   Stream = "order"
	StreamControl Stream = "control"
	StreamReport  Stream = "report"
	StreamAlert   Stream = "alert"
	StreamAudit   Stream = "audit"
)

// FD tells the streams of bytes of an action apart.
type FD string

// The streams of bytes: four go up, one comes down, one goes both ways.
const (
	Stdout FD = "stdout"
	Stderr FD = "stderr"
	// Recording is what the terminal of a session has printed, and when, as an
	// asciicast of version 2. It is sent up when the session has ended, all of it.
	Recording FD = "recording"
	Stdin     FD = "stdin"
	// TTYInput is what is typed in a session, as package terminal has it, and upwards how far that was
	// taken, by the acknowledgements of package terminal. It has offsets of its own
	// within, and no credit.
	TTYInput FD = "tty"
	Samples  FD = "samples" // of [TypeSamples]: each message is whole, and Action its own id
)

// Position is a place in a stream: everything up to item N, whose chain of
// digests ends in H.
type Position struct {
	Store  StoreID `json:"store"`
	Stream Stream  `json:"stream"`
	N      uint64  `json:"n"`
	H      Digest  `json:"h"`
}

// PresenceKind is what a presence message announces.
type PresenceKind string

// The kinds of presence.
const (
	PresenceHello   PresenceKind = "hello"   // the first of a connection, repeated until answered
	PresenceOnline  PresenceKind = "online"  // retained for viewers once the hello was answered
	PresenceWill    PresenceKind = "will"    // published by the broker when the connection broke
	PresenceGoodbye PresenceKind = "goodbye" // a clean exit
)

// Presence says that a host is there, or gone.
type Presence struct {
	Header
	Kind  PresenceKind `json:"kind"`
	Hello *Hello       `json:"hello,omitempty"` // of a hello, nothing else
}

// Hello is what a host tells when it connects, before anything else.
type Hello struct {
	Proto int        `json:"proto"`
	Inst  Nonce      `json:"inst"` // of this process
	Boot  string     `json:"boot"` // see runner.Boot
	Store StoreID    `json:"store"`
	Sent  []Position `json:"sent,omitempty"` // newest item of each stream upwards
	// Freed is the newest item of each stream upwards that a receipt has
	// covered. The host has no item up to it any more, so a coordinator that
	// knows less can only go on behind it.
	Freed     []Position `json:"freed,omitempty"`
	Have      []Position `json:"have,omitempty"` // newest item of each stream downwards
	TermSeen  Term       `json:"term_seen"`
	AcceptSeq uint64     `json:"accept_seq"`
	// Evidence is what the host keeps of the coordinator's receipts and words
	// to its fleet, see fresh.Strengthen: bytes signed by a coordinator, the only
	// proof that a coordinator went back in time.
	Evidence []byte `json:"evidence,omitempty"`
	// Checkpoint is the newest of the coordinator's audit log that the host
	// keeps, as it was signed: it too proves a coordinator to have gone back.
	Checkpoint []byte   `json:"checkpoint,omitempty"`
	SelfFence  string   `json:"self_fence"`         // none, guard or watchdog
	Features   []string `json:"features,omitempty"` // sorted words: lxc, podman, cgroup2 …
}

// FeaturePausable is the feature of a host that may be stopped as a whole with its clocks,
// as a virtual machine: the end of its lease proves nothing.
const FeaturePausable = "pausable"

// FeatureReboots is the feature of a host whose guard restarts it if a kill fails. It makes
// the self-fence guard more than that, for coordinators that know it.
const FeatureReboots = "reboots"

// Lease asks to keep what the host holds, and proves that it is alive.
type Lease struct {
	Header
	Number uint64 `json:"number"` // of this lease in this process
	Boot   string `json:"boot"`
	Inst   Nonce  `json:"inst"`
	// Held are the unique containers that the newest grant names, and those that run. One
	// that is not among them does not run, and no grant up to Took lets it start.
	Held    []LeaseHeld `json:"held,omitempty"`
	Took    Seq         `json:"took,omitzero"`     // the newest grant that the host has taken
	SleepMS int64       `json:"sleep_ms,omitzero"` // for how long the host will be silent, from now on
}

// MaxHeld is how many unique containers a host may hold: a grant that names them all
// is one small message.
const MaxHeld = 200

// LeaseHeld is a unique container that the host holds.
type LeaseHeld struct {
	CTID    CTID  `json:"ctid"`
	Epoch   Epoch `json:"epoch"`
	Running bool  `json:"running"`
}

// Epoch is the fencing token of a unique container: the term in which it was
// given and a counter. A higher epoch ends a lower one.
type Epoch struct {
	Term    Term   `json:"term"`
	Counter uint64 `json:"counter" example:"7"`
}

// Compare returns −1, 0 or +1 as e is lower than, equal to or higher than f.
func (e Epoch) Compare(f Epoch) int {
	return cmp.Or(cmp.Compare(e.Term.Ring, f.Term.Ring), cmp.Compare(e.Counter, f.Counter), e.Term.Compare(f.Term))
}

// String returns "ring.counter.epoch".
func (e Epoch) String() string { return fmt.Sprintf("%s.%d", e.Term, e.Counter) }

// Grant answers a lease: what the host may keep, for TTLms from the moment on
// which it sent Heard.
type Grant struct {
	Header
	TTLms int64       `json:"ttl_ms"`
	Held  []LeaseHeld `json:"held,omitempty"`
}

// Ack is the receipt of a host for what came down, and its only way to ask for
// more of what an action reads.
type Ack struct {
	Header
	Have   []Position `json:"have,omitempty"`
	Credit []Credit   `json:"credit,omitempty"` // of [Stdin] alone
}

// Receipt is the receipt of the coordinator. It answers a hello with the
// challenge, frees what the host has sent up to Have, tells how far the
// coordinator's own streams go, and is the only way to ask for more.
type Receipt struct {
	Header
	Answers Seq        `json:"answers"` // newest state message verified of this connection
	Give    Nonce      `json:"give"`    // the challenge to carry from now on
	Have    []Position `json:"have,omitempty"`
	Sent    []Position `json:"sent,omitempty"`
	Want    []string   `json:"want,omitempty"` // "full", "lease"
	Beat    uint64     `json:"beat,omitzero"`  // the newest heartbeat that is durable here: changes may be against it
	Credit  []Credit   `json:"credit,omitempty"`
	Samples bool       `json:"samples,omitzero"` // samples of this host are taken, which has that feature
	// SpreadMS is the reconnect window: over which time the hosts come back when the broker
	// closes their connections together, milliseconds. It stands in a receipt of a host
	// with [FeatureSpread], once for each connection.
	SpreadMS int64 `json:"spread_ms,omitzero"`
	// Checkpoint is the newest of the coordinator's audit log, for the host to
	// keep, in the first receipt of a connection and whenever it is another.
	Checkpoint []byte `json:"checkpoint,omitempty"`
	// Audit is the head of the host's own audit log as the host last told it:
	// a host that stands before it, or elsewhere, has gone back.
	Audit Position `json:"audit,omitzero"`
}

// FeatureSpread is the word of a host that spreads its attempts to connect, MaxSpreadMS the
// longest reconnect window, and FeatureHolders the word of one that reads [CreateArgs.Epochs].
const (
	FeatureSpread  = "spread"
	MaxSpreadMS    = 10 * 60 * 1000 // milliseconds
	FeatureHolders = "holders"
)

// WantFull asks for a full heartbeat, WantLease for a lease now.
const (
	WantFull  = "full"
	WantLease = "lease"
)

// Credit is receipt and permission for a stream of bytes. Both are places in the
// stream and not amounts, so repeating one or mixing up their order does no harm.
//
// Upwards: the coordinator has everything before Offset durably and wants what
// follows, up to Window further. With no Window it asks for nothing: a follower
// has not yet read what is there, and a command in mode
// [OutputStream] waits for them.
//
// Downwards: the host needs nothing before Offset any more and wants what
// follows, up to Window further, which it keeps small enough that all of it passes
// its line in a few seconds. An empty chunk says that the coordinator does not
// have what it asks for.
//
// Of samples it is the answer to one message: its size as Offset if it was taken, a
// Window if it is to be sent again later, neither if it never will be taken.
type Credit struct {
	Action  ActionID `json:"action"`
	Attempt int      `json:"attempt"`
	FD      FD       `json:"fd"`
	Offset  int64    `json:"offset"`
	Window  int64    `json:"window,omitzero"` // 0 is nothing more for now
}

// Sizes of what travels in chunks, in bytes.
const (
	// ChunkSize is the most that one chunk carries: so much that what is done once
	// for each, to sign and to check before all, no longer counts.
	ChunkSize = 512 << 10
	// ChunkWindow is how far a host may send beyond the offset of a credit, at
	// most: enough for 80 MB/s where an answer takes 100 ms, of which a busy disk
	// may need the half, while what of one host may be in memory stays small.
	ChunkWindow = 8 << 20
	// MaxInputWindow is how far a coordinator may send beyond that of a host:
	// with so much on its way a stream runs as fast as with any more.
	MaxInputWindow = 2 << 20
	// LeastChunk is the most that one chunk carries on the slowest line. Its
	// envelope is three quarters of that.
	LeastChunk = 1 << 10
	// OutputKept is how much of the beginning and of the end of each output
	// stream goes up even without a follower.
	OutputKept = 64 << 10
)

// CoordinatorState is the retained word of the coordinator to its fleet. A
// term that a host has not seen makes it say hello again.
type CoordinatorState struct {
	Header
	Online bool `json:"online"` // false: it has said goodbye, and comes back
}

// OrderItem is the item of an order: run this once.
type OrderItem struct {
	Action    ActionID        `json:"action"`
	Spec      []byte          `json:"spec,omitempty"`      // see [Spec]
	Approvals []OrderApproval `json:"approvals,omitempty"` // if the policy of the host asks for them
	Requester string          `json:"requester"`
	CreatedMS int64           `json:"created_ms"` // Unix milliseconds, for people
}

// Verb is what a control asks for.
type Verb string

// The verbs of controls. By themselves they start nothing: what preempt carries
// is an action like any other, with a spec, a requester and an end.
const (
	VerbCancel  Verb = "cancel"  // end Action; of an unknown one write a tombstone
	VerbTell    Verb = "tell"    // answer everything after Since, then IDs; see [Report]
	VerbPreempt Verb = "preempt" // take Order in, of a kind in the lane preempt
	VerbPolicy  Verb = "policy"  // tell the text of the policy in force; see [Report]
	VerbRules   Verb = "rules"   // judge what is measured by Rules from now on
)

// NotCancelled begins the detail of an action that goes on although its cancel was
// asked for; the reason follows.
const NotCancelled = "not cancelled: "

// ControlItem is the item of a control.
type ControlItem struct {
	Verb   Verb       `json:"verb"`
	Action ActionID   `json:"action,omitzero"`
	IDs    []ActionID `json:"ids,omitempty"`   // ≤ MaxTell
	Since  *uint64    `json:"since,omitempty"` // an AcceptSeq
	// Order is the action of a preempt. Its message says heard and left_ms, as
	// that of an order does.
	Order *OrderItem  `json:"order,omitempty"`
	Rules *AlertRules `json:"rules,omitempty"`
}

// MaxTell is how many actions one control may ask about.
const MaxTell = 500

// Report is the item of a report: what became of an action on its host. It
// moves the coordinator's view by [Report.Observe].
//
// An answer to a tell has the event [EventTell] and repeats state and reason
// of the record; of an action that the host does not know the state is
// [StateNone], which is evidence only together with HaveOrder. If the tell asks
// for everything after a number, the actions come first, at most [MaxTell] of
// them with their Spec and Requester, and AcceptSeq of the answers that the ids
// of the question are unknown says how far they go.
type Report struct {
	Action ActionID `json:"action,omitzero"` // none in an answer about the policy
	Digest Digest   `json:"digest,omitzero"` // of the spec bytes
	Event  Event    `json:"event"`
	State  State    `json:"state,omitzero"`
	Reason Reason   `json:"reason,omitzero"`
	// Detail is a sentence for people, why and what to do.
	Detail    string `json:"detail,omitzero"`
	AcceptSeq uint64 `json:"accept_seq,omitzero"`
	Attempt   int    `json:"attempt,omitzero"`
	AtMS      int64  `json:"at_ms"` // the host's wall clock, for people
	// AcceptedMS, StartedMS and EndedMS are when the action was accepted, began
	// first and ended, by that clock; 0 is not yet, or not known.
	AcceptedMS int64 `json:"accepted_ms,omitzero"`
	StartedMS  int64 `json:"started_ms,omitzero"`
	EndedMS    int64 `json:"ended_ms,omitzero"`
	Cancel     bool  `json:"cancelling,omitzero"`
	// Waits tells, in an answer to tell, why the action has not begun. It is
	// true of the moment of the answer and promises nothing.
	Waits  *Waits   `json:"waits,omitempty"`
	Exit   *Exit    `json:"exit,omitempty"`
	Output []Output `json:"output,omitempty"`
	// Spec and Requester come with the first report of an action that began
	// on the host itself, and when everything after a number is asked for.
	Spec      []byte `json:"spec,omitempty"`
	Requester string `json:"requester,omitzero"`
	// Container is what the container of the action has become, so that a
	// client that waited for the action need not wait for a heartbeat as well.
	Container *Container `json:"container,omitempty"`
	// Policy is the text of the policy in force, of at most [MaxToldPolicy] bytes:
	// the answer to [VerbPolicy], which is about no action and says nothing else.
	Policy []byte `json:"policy,omitempty"`
	// HaveOrder and HaveControl tell, in an answer to tell, how far the streams
	// down were taken in when the answer was made.
	HaveOrder   uint64 `json:"have_order,omitzero"`
	HaveControl uint64 `json:"have_control,omitzero"`
}

// WaitsFor is what an action waits for on its host.
type WaitsFor string

// What an action may wait for. Action of [Waits] is the one in front, if there
// is one that can be named.
const (
	WaitsLane      WaitsFor = "lane"      // another action on the same container
	WaitsExclusive WaitsFor = "exclusive" // an action that takes the host alone, or that wants to
	WaitsShared    WaitsFor = "shared"    // it wants the host alone, and others run or wait before it
	WaitsPlaces    WaitsFor = "places"    // as many actions on containers as may run at a time
	WaitsRuns      WaitsFor = "runs"      // as many commands of the host as may run at a time
	WaitsSessions  WaitsFor = "sessions"  // as many interactive sessions as may be at a time
	WaitsDisk      WaitsFor = "disk"      // the host begins nothing while its disk is full or failing
	WaitsStop      WaitsFor = "stop"      // the agent is about to end, and goes on after its start
	WaitsRing      WaitsFor = "ring"      // the order names a ring that the host fetches
	WaitsInput     WaitsFor = "input"     // what it reads is on its way to the host
)

// WaitsOfHosts lists them.
func WaitsOfHosts() []WaitsFor {
	return []WaitsFor{WaitsLane, WaitsExclusive, WaitsShared, WaitsPlaces, WaitsRuns, WaitsSessions, WaitsDisk, WaitsStop, WaitsRing, WaitsInput}
}

// Waits is why an action has not begun.
type Waits struct {
	For    WaitsFor `json:"for"`
	Action ActionID `json:"action,omitzero"`
	// Count is how many run already, or the number of the ring.
	Count uint64 `json:"count,omitzero"`
}

// Exit is how the main process of a command ended.
type Exit struct {
	Code      int  `json:"code"`            // exit code, or 128+signal
	Signal    int  `json:"signal,omitzero"` // the signal that ended it
	OOM       bool `json:"oom,omitzero"`
	TimedOut  bool `json:"timed_out,omitzero"`
	Cancelled bool `json:"cancelled,omitzero"`
	HungUp    bool `json:"hung_up,omitzero"` // a session that all peers had left
	// Unrecorded: a session that was hung up because its recording could not go on.
	Unrecorded bool `json:"unrecorded,omitzero"`
	// Error tells why the command could not begin (binary missing, unknown user).
	Error string `json:"error,omitzero"`
	RunMS int64  `json:"run_ms"` // on the boot clock
}

// Output is the final size of one output stream.
type Output struct {
	FD      FD    `json:"fd"`
	Bytes   int64 `json:"bytes"`   // written by the command
	Dropped int64 `json:"dropped"` // of these, left out at DropAt because of the cap
	DropAt  int64 `json:"drop_at,omitzero"`
	// Archive is what a pull has written here, and left out of it because it was
	// there already.
	Archive *Archive `json:"archive,omitempty"`
	// SHA256 is that of a recording, and Ended why it has ended before its session.
	SHA256 Digest `json:"sha256,omitzero"`
	Ended  string `json:"ended,omitzero"`
}

// RecordingOf returns the account of a session's recording, if there is one.
func RecordingOf(all []Output) (Output, bool) {
	for _, o := range all {
		if o.FD == Recording {
			return o, true
		}
	}
	return Output{}, false
}

// Alert is the item of an alert: raised, or cleared.
type Alert struct {
	AlertInfo
	Raised bool `json:"raised"`
}
