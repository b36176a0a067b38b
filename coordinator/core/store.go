package core

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// What callers branch on. A Store returns them wrapped; they are also what the
// API's answers are made from.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("already exists")
	ErrConflict = errors.New("conflicts with the present state")
	ErrDenied   = errors.New("not permitted")
	ErrInvalid  = errors.New("invalid request")
	ErrGone     = errors.New("no longer available")
	// ErrUnavailable asks to try again later.
	ErrUnavailable = errors.New("unavailable")
	ErrRecovery    = errors.New("the coordinator is older than what its hosts have seen")
	ErrRemoved     = errors.New("the owners of the fleet took this coordinator out")
	// ErrAmbiguous tells that the beginning of an id is that of several actions.
	ErrAmbiguous = errors.New("ambiguous")

	// Special cases of the errors above, with a code of their own in the API.
	ErrRole         = fmt.Errorf("%w", ErrDenied)   // the role of the actor is too low
	ErrUnknownHost  = fmt.Errorf("%w", ErrNotFound) // the host does not exist
	ErrChanged      = fmt.Errorf("%w", ErrConflict) // it is not as the requester read it
	ErrUnread       = fmt.Errorf("%w", ErrConflict) // it is there, and the requester has not said which one was read
	ErrBadReference = fmt.Errorf("%w", ErrInvalid)  // the text cannot name an action
)

// Store is the coordinator's memory across restarts. It is safe for concurrent
// use.
type Store interface {
	// ID identifies this database; it was made together with it.
	ID() protocol.StoreID
	// Update runs fn in a transaction that may change things. When Update
	// returns nil the change is durable: it survives a crash of the machine.
	// Any error undoes everything that fn did.
	//
	// fn may run more than once, so it does no I/O and no cryptography, starts
	// nothing, and assigns what it returns through captured variables afresh
	// each time. Effects follow only after Update returned nil. Transactions
	// are serializable: fn sees every change committed before it and no other.
	Update(ctx context.Context, fn func(Tx) error) error
	// View runs fn in a read-only transaction over one consistent state, which
	// may be some milliseconds old. Changes in it are an error.
	View(ctx context.Context, fn func(Tx) error) error
	// Close waits for what is under way and closes the database.
	Close() error
}

// Tx is one transaction: the tables, as it sees them. It is valid until its function
// returns and belongs to one goroutine. Records are values: changing a record that
// was read changes nothing until it is put. A get of what is not there is
// [ErrNotFound].
type Tx struct {
	Hosts      Hosts
	Enrolments Enrolments
	Actions    Actions
	Queue      Queue
	Streams    Streams
	Outputs    Outputs
	Access     Access
	Events     Events
	Audit      AuditLog
	Past       Past
	Values     Values
	Workloads  Workloads
	Fences     Fences
}

// HostState is where a host stands.
type HostState string

// The states of hosts. A host that waits for approval is an [Enrolment].
const (
	HostApproved HostState = "approved"
	HostRevoked  HostState = "revoked"
	// HostReplacing is one whose machine was lost and shut out, and whose name waits
	// for another machine.
	HostReplacing HostState = "replacing"
)

// Host is a host that was approved once.
type Host struct {
	ID         protocol.HostID
	State      HostState
	Key        protocol.KeyID
	PublicKey  []byte // its OpenPGP certificate
	Labels     []string
	ApprovedMS int64 // Unix milliseconds, as all times of records
	ApprovedBy string
	RevokedMS  int64
	Reason     string // why it was revoked
	// Quarantined says why nothing is sent to the host although it is
	// approved; empty if it is not.
	Quarantined string
	// Store is the host's own database as of its newest hello; a new one
	// starts its streams anew. AcceptSeq is the highest seen of it.
	Store     protocol.StoreID
	AcceptSeq uint64
	// Adopted is the number of the coordinator's state message at which the
	// streams were made to go on where the host stands. What was signed before
	// says nothing about how far they are.
	Adopted   protocol.Seq
	Inventory Inventory
	// Former are the keys of the machines that had the name before, all revoked: of a
	// host that is replacing, Key is the last of them.
	Former []protocol.KeyID
	// CSR is the certificate request of a machine that took the place of another: of
	// the certificates in this name, only those of its key are good. Of others it is
	// empty.
	CSR []byte
	// Awaits is the invite of the machine for which a host that is replacing waits.
	Awaits string
	// Availability is what people have decided about workloads on the host.
	Availability Availability
}

// Availability says whether workloads may be placed on a host.
type Availability struct {
	State   AvailabilityState `json:"state,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	By      string            `json:"by,omitempty"`
	SinceMS int64             `json:"since_ms,omitzero"`
	// UntilMS is when maintenance ends by itself; 0 if a person ends it.
	UntilMS int64 `json:"until_ms,omitzero"`
}

// AvailabilityState is one of the states below.
type AvailabilityState string

// The states of availability.
const (
	Open        AvailabilityState = ""            // the host takes workloads
	Cordoned    AvailabilityState = "cordoned"    // it keeps its workloads and takes no new ones
	Draining    AvailabilityState = "draining"    // its workloads move to other hosts, if those can take them
	Maintenance AvailabilityState = "maintenance" // as cordoned, and nothing is decided about its workloads
)

// Inventory is what a host last told in full.
type Inventory struct {
	AtMS       int64                `json:"at_ms"`
	Host       protocol.HostInfo    `json:"host"`
	Containers []protocol.Container `json:"containers"`
	Alerts     []protocol.AlertInfo `json:"alerts"`
	// Audit is the head of the host's own audit log.
	Audit protocol.Position `json:"audit,omitzero"`
}

// Hosts is the table of hosts, by id.
type Hosts interface {
	Get(id protocol.HostID) (Host, error)
	// Standing returns a host without its certificate, labels, inventory, and what
	// is known of its machines before: what each order and each receipt asks for.
	Standing(id protocol.HostID) (Host, error)
	// Put inserts or replaces. Two hosts with one key are [ErrExists].
	Put(Host) error
	// List returns up to limit hosts with ids after the given one, in order.
	List(after protocol.HostID, limit int) ([]Host, error)
	// Names returns the ids of all hosts in a state, in order. It reads an index and
	// nothing else.
	Names(HostState) ([]protocol.HostID, error)
	// Containers returns how many containers the approved hosts last told of, by
	// their states. It counts nothing: the numbers are kept.
	Containers() (map[string]int, error)
}

// Invite is permission to ask for enrolment.
type Invite struct {
	ID        string // text of the digest of the secret, shortened
	Secret    []byte // 16 bytes; needed to check proofs
	Labels    []string
	CreatedMS int64
	CreatedBy string
	ExpiresMS int64
	Host      protocol.HostID // whose new machine it is for; empty if it is for any host
	Wrong     int             // wrong proofs so far
	BoundKey  protocol.KeyID  // the first host key that proved the secret
	RevokedMS int64
}

// EnrolmentState is where an enrolment stands.
type EnrolmentState string

// The states of enrolments.
const (
	EnrolmentPending  EnrolmentState = "pending"
	EnrolmentApproved EnrolmentState = "approved"
	EnrolmentDenied   EnrolmentState = "denied"
)

// Enrolment is a host that proved an invite and waits, or waited, for a person.
type Enrolment struct {
	ID          string // of its exchange, random
	Invite      string
	Host        protocol.HostID // as wanted, or as given at approval
	Key         protocol.KeyID
	PublicKey   []byte
	CSR         []byte // DER
	Offer       []byte // as sent
	Words       string // the four words, separated by spaces
	Labels      []string
	State       EnrolmentState
	Reason      string
	CreatedMS   int64
	DecidedMS   int64
	DecidedBy   string
	Certificate []byte // TLS certificate, DER, once approved
}

// Enrolments holds invites and enrolments.
type Enrolments interface {
	Invite(id string) (Invite, error)
	PutInvite(Invite) error
	Get(id string) (Enrolment, error)
	// ByKey returns the newest enrolment of a host key.
	ByKey(protocol.KeyID) (Enrolment, error)
	Put(Enrolment) error
	// List returns up to limit enrolments in a state (all if empty), the
	// oldest first.
	List(state EnrolmentState, limit int) ([]Enrolment, error)
}

// Action is an action as the coordinator sees it.
type Action struct {
	ID        protocol.ActionID
	Host      protocol.HostID
	Kind      protocol.Kind
	Target    protocol.CTID
	Name      protocol.ContainerName // of the target, for people
	Spec      []byte
	Digest    protocol.Digest // of Spec
	State     protocol.State
	Reason    protocol.Reason
	Detail    string
	Requester string
	CreatedMS int64
	UpdatedMS int64
	EndedMS   int64
	ExpiresMS int64 // end of the start budget
	// Batch is what it was asked for together with; zero for one alone.
	Batch protocol.BatchID
	// AtOnce is how many actions of its batch may be under way while its order gets a
	// number; the first one that fails ends those without a number. 0 is no limit.
	AtOnce int
	// N is the number of its order, 0 until one was given. From then on only
	// the host can end the action.
	N uint64
	// Former tells that the store before a recovery numbered its order, or may have:
	// the order is never sent from here, N is 0, and only the host can end the action.
	Former bool
	// SentMS is when the order got its number and began to be sent, ReceiptedMS
	// when the host's receipt for it was noted, by the clock here; 0 is not yet.
	SentMS, ReceiptedMS int64
	// AcceptedMS, StartedMS and FinishedMS are by the host's own wall clock.
	AcceptedMS, StartedMS, FinishedMS int64

	AcceptSeq  uint64
	Attempt    int
	Cancelling bool // a cancel is under way
	CancelBy   string
	Exit       *protocol.Exit
	Output     []protocol.Output
	// Conflict is what was asked for under this id here if the host has it
	// with another content: the host's record won.
	Conflict []byte
	// Corrected tells that a LOST was corrected by late evidence.
	Corrected bool
	// Needs are what had to be there before it was sent, as of the request, and
	// Approvals what was given, one for each person.
	Needs     []Need
	Approvals []Approval
}

// Unnumbered reports that no order of the action was ever given a number, so that it
// can be ended here.
func (a *Action) Unnumbered() bool { return a.N == 0 && !a.Former }

// BegunOnHost reports that the host's own people have begun it, without a coordinator.
func (a *Action) BegunOnHost() bool {
	return strings.HasPrefix(a.Requester, "host:"+string(a.Host)+"/uid:")
}

// Approval is the approval of one action by one person, as its order carries it.
type Approval struct {
	Person      string                 `json:"person"`
	Key         protocol.KeyID         `json:"key"`
	IssuedMS    int64                  `json:"issued_ms"` // by the clock of the person
	NotBeforeMS int64                  `json:"not_before_ms"`
	ExpiresMS   int64                  `json:"expires_ms"`
	Signed      protocol.OrderApproval `json:"signed"`
	GivenMS     int64                  `json:"given_ms"` // when it came here
	GivenBy     string                 `json:"given_by"` // token that brought it
}

// ActionFilter chooses actions; the zero value chooses all.
type ActionFilter struct {
	Host   protocol.HostID
	Target protocol.CTID
	Batch  protocol.BatchID
	States []protocol.State
	Before protocol.ActionID // only older ids
	Limit  int               // 0 means 100
}

// Actions is the table of actions, by id.
type Actions interface {
	Get(protocol.ActionID) (Action, error)
	// Insert adds a new action; [ErrExists] if the id is taken.
	Insert(Action) error
	// Put replaces an action that is there.
	Put(Action) error
	// Find returns up to limit ids that begin or end with a text of hexadecimal
	// digits and hyphens, in order. It reads all ids.
	Find(part string, limit int) ([]protocol.ActionID, error)
	// List returns actions, the newest first.
	List(ActionFilter) ([]Action, error)
	// Count returns how many actions are in each state; one that is missing has none.
	// It counts nothing: the numbers are kept.
	Count() (map[protocol.State]int, error)
}

// Queue are the actions that have no order number yet.
type Queue interface {
	// Unsent returns up to limit actions of a host that travel on a stream, see
	// [StreamOf], in PENDING_SCHEDULE without an order number, in the order in which
	// they were inserted.
	Unsent(host protocol.HostID, on protocol.Stream, limit int) ([]Action, error)
	// Expired returns up to limit actions without an order number, waiting for
	// approval or schedule, whose start budget ended before a time.
	Expired(nowMS int64, limit int) ([]Action, error)
}

// StreamState is how far a stream of items has come.
type StreamState struct {
	Host protocol.HostID
	// Pos is, downwards, the newest item that was given a number; upwards, the
	// newest that was taken in. Its Stream names the stream.
	Pos protocol.Position
	// Freed is, downwards, the newest item that a receipt covered.
	Freed protocol.Position
}

// Item is an item downwards that no receipt covers yet.
type Item struct {
	N    uint64
	H    protocol.Digest
	Item []byte
	// Action is the action that an order is about, zero otherwise.
	Action protocol.ActionID
}

// Streams holds positions of all streams and the items downwards.
type Streams interface {
	// Get returns the state of a stream; a stream without any is at its zero
	// position, with Pos.Stream and Freed.Stream set.
	Get(host protocol.HostID, stream protocol.Stream) (StreamState, error)
	Put(StreamState) error
	// Append adds an item. Its number must not be there.
	Append(host protocol.HostID, stream protocol.Stream, it Item) error
	// Items returns the items with numbers from first to last that are still
	// there, in order.
	Items(host protocol.HostID, stream protocol.Stream, first, last uint64) ([]Item, error)
	// Free removes the items up to n.
	Free(host protocol.HostID, stream protocol.Stream, n uint64) error
}

// Outputs tells how much of each output stream is held.
type Outputs interface {
	// Get returns the zero value if there is nothing.
	Get(action protocol.ActionID, attempt int, fd protocol.FD) (OutputState, error)
	Put(OutputState) error
}

// TokenRole is what the bearer of an API token may do.
type TokenRole string

// The roles, each of which may do what the ones before it may.
const (
	RoleViewer   TokenRole = "viewer"   // look
	RoleOperator TokenRole = "operator" // request and cancel actions
	RoleApprover TokenRole = "approver" // approve hosts and actions
	RoleAdmin    TokenRole = "admin"    // tokens, viewers, invites, revocation
)

// Token is an API token. The secret itself is never stored.
type Token struct {
	ID        string // public name of the token, random
	Name      string // whose it is
	Person    string // of the ring, who uses it; empty if it is bound to none
	Role      TokenRole
	Hash      protocol.Digest // of the secret
	CreatedMS int64
	CreatedBy string
	ExpiresMS int64 // 0: never
	RevokedMS int64
}

// Viewer is a certificate that may read all topics.
type Viewer struct {
	Name      string
	Serial    string // of its certificate, hexadecimal
	CreatedMS int64
	CreatedBy string
	RevokedMS int64
}

// Access holds what people and tools authenticate with.
type Access interface {
	Token(id string) (Token, error)
	TokenByHash(protocol.Digest) (Token, error)
	PutToken(Token) error
	Tokens() ([]Token, error)
	Viewer(name string) (Viewer, error)
	PutViewer(Viewer) error
	Viewers() ([]Viewer, error)
}

// Event is something that happened, for clients that watch.
type Event struct {
	ID     uint64 // dense, given by Events.Append
	AtMS   int64
	Type   string // "action.state", "host.online" …
	Host   protocol.HostID
	Object string // id of what it is about
	Data   []byte // a JSON object
}

// Events are kept for a while, for clients that watch.
type Events interface {
	Append(Event) (id uint64, err error)
	// List returns up to limit events after an id, in order.
	List(after uint64, limit int) ([]Event, error)
	// Last returns the newest id, 0 if there is none.
	Last() (uint64, error)
	// Trim removes the events up to an id; numbers go on.
	Trim(upTo uint64) error
	// Restart removes all events; the id of the next one is n+1.
	Restart(n uint64) error
}

// Ended is a place in the order in which things ended. The zero value is before
// everything.
type Ended struct {
	AtMS int64
	ID   string
}

// Past holds what has ended and may be forgotten: actions, enrolments that were
// decided, and invites by the time at which they end. Lists begin after a place,
// with what ended first; to remove what is not there is nothing.
type Past interface {
	// Actions returns actions that have ended.
	Actions(after Ended, limit int) ([]Action, error)
	// RemoveAction removes an action, its approvals, and what is known of its output.
	RemoveAction(protocol.ActionID) error
	Enrolments(after Ended, limit int) ([]Enrolment, error)
	RemoveEnrolment(id string) error
	Invites(after Ended, limit int) ([]Invite, error)
	RemoveInvite(id string) error
}

// AuditRecord is a record of the audit log as package audit encodes it, and the
// number that it was given.
type AuditRecord struct {
	N      uint64
	Stored []byte
}

// Seal is a checkpoint of the audit log and what is kept beside it.
type Seal struct {
	N          uint64          // of the newest record that it seals
	H          protocol.Digest // the end of the chain
	AtMS       int64
	Leaves     []byte // of the records since the checkpoint before, 32 bytes each
	Checkpoint []byte // the envelope
}

// AuditLog holds what was done and decided, each in the transaction that does
// it, and the checkpoints that seal it.
type AuditLog interface {
	// Append adds a record. Its number is one more than the newest there is.
	Append(stored []byte) error
	// Records returns up to limit records after a number, in order.
	Records(after uint64, limit int) ([]AuditRecord, error)
	// RecordsBefore returns up to limit records before a number, the newest
	// first.
	RecordsBefore(n uint64, limit int) ([]AuditRecord, error)
	// Seal adds a checkpoint; [ErrExists] if there is one of that number.
	Seal(Seal) error
	// Seals returns up to limit checkpoints after a number, in order.
	Seals(after uint64, limit int) ([]Seal, error)
	// SealUpTo returns the newest checkpoint whose number is n or less.
	SealUpTo(n uint64) (Seal, error)
	// Prune removes the records up to n and the checkpoints before n, which is
	// the number of one, and not of the newest record.
	Prune(n uint64) error
}

// Values holds single named values, such as the counter of starts.
type Values interface {
	Get(name string) ([]byte, error)
	Put(name string, value []byte) error
	// SetStore gives the database another id. Store.ID returns it at the latest
	// when the database has been opened again.
	SetStore(id protocol.StoreID) error
}

// Workload is a unique workload: where it stands, and what makes it anew elsewhere.
type Workload struct {
	unique.Workload
	Spec      []byte            `json:"spec"` // of the action that creates it
	Requester string            `json:"requester"`
	Pending   protocol.ActionID `json:"pending,omitzero"` // that creates it on its host
	// Changes are the actions, the oldest first, that change how it is made and that have
	// not ended yet.
	Changes []protocol.ActionID `json:"changes,omitempty"`
	// Holders are the hosts that have held it, the newest last, and DataHost is that which
	// has its newest data; empty if that is not known. Of what is not made of backups,
	// nothing follows from them.
	Holders  []protocol.HostID `json:"holders,omitempty"`
	DataHost protocol.HostID   `json:"data_host,omitempty"`
	// Had are the newest epochs of the holders. A version that kept none has left holders
	// without one.
	Had map[protocol.HostID]protocol.Epoch `json:"had,omitempty"`
	// Restored names the backup from which its host made it; empty if it used none.
	Restored string `json:"restored,omitempty"`
	// Failed are the hosts on which it did not run as it should.
	Failed    map[protocol.HostID]Failure `json:"failed,omitempty"`
	Wants     placement.Wants             `json:"wants,omitzero"`
	Moved     MoveEnd                     `json:"moved,omitzero"`    // the newest move by a person that has ended
	History   []WorkloadStep              `json:"history,omitempty"` // the newest last
	ChangedMS int64                       `json:"changed_ms"`
}

// MoveEnd is the end of a move that a person asked for.
type MoveEnd struct {
	unique.Move
	Why   string `json:"why,omitempty"` // why it was dropped; empty if the workload is where it was to go
	EndMS int64  `json:"end_ms,omitzero"`
}

// Failure is the newest failure of a workload on a host.
type Failure struct {
	AtMS int64  `json:"at_ms"`
	Why  string `json:"why"`
}

// WorkloadStep is something that became of a workload.
type WorkloadStep struct {
	AtMS  int64           `json:"at_ms"`
	Host  protocol.HostID `json:"host"`
	Epoch protocol.Epoch  `json:"epoch"`
	Phase unique.Phase    `json:"phase"`
	Why   string          `json:"why,omitempty"`
}

// Fences is the table of fences, by their ids, which are in the order of their beginnings.
type Fences interface {
	Put(fence.Op) error
	// Remove forgets one; what is not there is no error.
	Remove(id string) error
	List() ([]fence.Op, error)
}

// Workloads is the table of unique workloads, by the id of their container.
type Workloads interface {
	Get(protocol.CTID) (Workload, error)
	Put(Workload) error
	// Remove forgets one; what is not there is no error.
	Remove(protocol.CTID) error
	List() ([]Workload, error)
}
