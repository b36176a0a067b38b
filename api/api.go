// Package api is the vocabulary of the HTTP API: the JSON that the coordinator
// serves under /v1, that the agent's unix socket offers of it, and that the
// command line reads. Names are snake_case, times RFC 3339 in UTC, durations
// texts with units ("90s"), and enums the words of the state tables.
//
// The types are apart from those of the engines on purpose: what is stored and
// what is signed may change without the API, and the other way round.
package api

import "time"

// Host is an approved or revoked host.
type Host struct {
	ID           string     `json:"id"`
	State        string     `json:"state"`        // approved, revoked
	Connectivity string     `json:"connectivity"` // online, suspect, offline, unknown
	Quarantined  string     `json:"quarantined,omitempty"`
	Key          string     `json:"key"` // fingerprint
	Labels       []string   `json:"labels"`
	SeenAt       *time.Time `json:"seen_at,omitempty"`
	ApprovedAt   time.Time  `json:"approved_at"`
	ApprovedBy   string     `json:"approved_by"`
	RevokedAt    *time.Time `json:"revoked_at,omitempty"`
	Reason       string     `json:"reason,omitempty"`

	InventoryAt  *time.Time  `json:"inventory_at,omitempty"` // when it last told in full
	Hostname     string      `json:"hostname,omitempty"`
	Arch         string      `json:"arch,omitempty"`
	Version      string      `json:"version,omitempty"`
	Kernel       string      `json:"kernel,omitempty"`
	Uptime       string      `json:"uptime,omitempty"`
	CPUs         int         `json:"cpus,omitempty"`
	MemoryBytes  int64       `json:"memory_bytes,omitempty"`
	MemoryFree   int64       `json:"memory_free_bytes,omitempty"`
	DiskBytes    int64       `json:"disk_bytes,omitempty"`
	DiskFree     int64       `json:"disk_free_bytes,omitempty"`
	Load1        float64     `json:"load1,omitempty"`
	QueueDepth   int         `json:"queue_depth"`
	Containers   int         `json:"containers"` // how many it has
	Running      int         `json:"running"`    // how many of them run
	Interfaces   []Interface `json:"interfaces,omitempty"`
	Unsupported  []string    `json:"unsupported,omitempty"`
	ActiveAlerts []Alert     `json:"alerts,omitempty"`
	Degraded     string      `json:"degraded,omitempty"` // why it accepts nothing new
	Policy       *Policy     `json:"policy,omitempty"`   // in force there
}

// Policy is what a host tells of the policy in force there.
type Policy struct {
	Source string `json:"source"`           // builtin, file (of the host's root), document (signed)
	Number uint64 `json:"number,omitempty"` // of a document
	Digest string `json:"digest,omitempty"` // SHA-256 of its text
	Bypass bool   `json:"bypass,omitempty"` // it accepts that it can be bypassed
	Broken string `json:"broken,omitempty"` // why it cannot be used: nobody but root may do anything
}

// Interface is a network interface of a host.
type Interface struct {
	Name      string   `json:"name"`
	MAC       string   `json:"mac"`
	Up        bool     `json:"up"`
	Addresses []string `json:"addresses"`
}

// Alert is an alert that is raised.
type Alert struct {
	ID       string    `json:"id"`
	Severity string    `json:"severity"`
	Text     string    `json:"text"`
	Since    time.Time `json:"since"`
}

// Container is a container as its host last told.
type Container struct {
	Host     string `json:"host"`
	Name     string `json:"name"`
	CTID     string `json:"ctid,omitempty"` // none for a foreign one
	Runtime  string `json:"runtime"`
	State    string `json:"state"`
	Intended string `json:"intended,omitempty"`
	Class    string `json:"class,omitempty"`
	Offline  string `json:"offline,omitempty"`
	Broken   string `json:"broken,omitempty"`
	Failures int    `json:"failures,omitempty"`
	// Privileged tells that root in the container is root of its host.
	Privileged bool     `json:"privileged,omitempty"`
	Addresses  []string `json:"addresses"`
	Labels     []string `json:"labels"`
}

// Payload is what a command is to read: sent before the action that names it.
type Payload struct {
	SHA256   string `json:"sha256"`
	Bytes    int64  `json:"bytes,omitempty" doc:"Size of the whole payload, once all of it is here"`
	Have     int64  `json:"have" doc:"How much of it is here: sending goes on from there"`
	Complete bool   `json:"complete"`
}

// Action is an action, which is also the long-running operation of the API.
type Action struct {
	ID         string     `json:"id"`
	Host       string     `json:"host"`
	Kind       string     `json:"kind"`
	Target     string     `json:"target,omitempty"` // ctid
	Name       string     `json:"name,omitempty"`   // of the container, for people
	State      string     `json:"state"`
	Reason     string     `json:"reason,omitempty"`
	Detail     string     `json:"detail,omitempty"`
	Shown      string     `json:"shown"` // the state as people read it: "undelivered", "cancelling" …
	Requester  string     `json:"requester"`
	Spec       []byte     `json:"spec,omitempty"` // the signed bytes, base64
	Digest     string     `json:"digest"`
	Argv       []string   `json:"argv,omitempty"`
	Attempt    int        `json:"attempt,omitempty"`
	AcceptSeq  uint64     `json:"accept_seq,omitempty"`
	Batch      string     `json:"batch,omitempty"` // what it was asked for together with
	Cancelling bool       `json:"cancelling,omitempty"`
	Exit       *Exit      `json:"exit,omitempty"`
	Output     []Output   `json:"output,omitempty"`
	Conflict   bool       `json:"conflict,omitempty"` // its host has another action of this id: Spec is the host's
	Intent     []byte     `json:"intent,omitempty"`   // what was asked for here instead, base64; reissue asks for it anew
	Corrected  bool       `json:"corrected,omitempty"`
	CreatedAt  time.Time  `json:"created_at"`
	UpdatedAt  time.Time  `json:"updated_at"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	// Needs is what it needs before it is sent, with what is still missing, and
	// Approvals who has approved.
	Needs     []Need     `json:"needs,omitempty"`
	Approvals []Approval `json:"approvals,omitempty"`
	// When its order was sent and when the host's receipt for it came, by the
	// coordinator's clock.
	SentAt      *time.Time `json:"sent_at,omitempty"`
	ReceiptedAt *time.Time `json:"receipted_at,omitempty"`
	// When the host accepted it, began it and ended it, by the host's own clock.
	HostAcceptedAt *time.Time `json:"host_accepted_at,omitempty"`
	HostStartedAt  *time.Time `json:"host_started_at,omitempty"`
	HostEndedAt    *time.Time `json:"host_ended_at,omitempty"`
	// Waits is why it has not begun, or not ended; none once it has ended.
	Waits *Waits `json:"waits,omitempty"`
}

// Need is one thing that must be there before an action is sent.
type Need struct {
	Persons int      `json:"persons"`       // how many different persons must approve
	Missing int      `json:"missing"`       // how many of them have not
	From    []string `json:"from"`          // who counts; none: every person of the ring
	Not     string   `json:"not,omitempty"` // whose approval does not count
	Why     string   `json:"why"`           // what asks for it
}

// Approval is the approval of an action by a person.
type Approval struct {
	Person    string    `json:"person"`
	Key       string    `json:"key"`
	IssuedAt  time.Time `json:"issued_at"` // by the clock of the person
	NotBefore time.Time `json:"not_before"`
	ExpiresAt time.Time `json:"expires_at"`
	Counts    bool      `json:"counts"` // it holds now, by a key of the ring
	Signed    []byte    `json:"signed"` // the envelope
}

// NewApproval gives the approval of a person. Approval is the envelope that was
// signed, Targets what it names, all of it.
type NewApproval struct {
	Approval []byte   `json:"approval"`
	Targets  []Target `json:"targets,omitempty"` // none: the one action of the request's path
}

// Target is an action on a host.
type Target struct {
	Host   string `json:"host"`
	Action string `json:"action"`
}

// Approved is what became of an approval for one target.
type Approved struct {
	Target
	State string `json:"state,omitempty"` // of the action, as it stands
	Shown string `json:"shown,omitempty"`
	// Missing is how many approvals the action still waits for.
	Missing int    `json:"missing"`
	Code    string `json:"code,omitempty"` // of a problem: why it is of no use for this target
	Detail  string `json:"detail,omitempty"`
}

// Key is a key of the ring in force.
type Key struct {
	Key     string   `json:"key"`
	Roles   []string `json:"roles"`            // owner, person, coordinator
	Person  string   `json:"person,omitempty"` // none for a coordinator
	Revoked bool     `json:"revoked,omitempty"`
}

// Reissue asks anew for what a conflict kept from being done.
type Reissue struct {
	ID string `json:"id,omitempty"` // of the new action, UUIDv7; asking again with it changes nothing
}

// Waits is why an action has not ended.
type Waits struct {
	// For is one word: approval, host, quarantine, recovery, turn, receipt, unknown,
	// end; or what its host told: lane, exclusive, shared, places, runs, disk, stop,
	// ring.
	For    string `json:"for"`
	Text   string `json:"text"`
	Action string `json:"action,omitempty"` // the one in front of it
	// LastSeen is when the host was last seen, if that is what it waits for.
	LastSeen *time.Time `json:"last_seen,omitempty"`
	// HostAt is when the host told, by its own clock; none if it was not asked.
	HostAt *time.Time `json:"host_at,omitempty"`
}

// NewBatch asks for the same action on many hosts, at most 500 in one request;
// more of them go into further requests with the same id. Without hosts it notes
// that a batch begins whose operations are asked for one by one.
type NewBatch struct {
	ID    string   `json:"id,omitempty"` // UUIDv7; asking again with it changes nothing
	Hosts []string `json:"hosts,omitempty"`
	Spec  []byte   `json:"spec,omitempty"`
	// Digest is the SHA-256 of the file that the operations are from, and
	// Operations how many they are.
	Digest     string `json:"digest,omitempty"`
	Operations int    `json:"operations,omitempty"`
}

// Batch is what was asked for together.
type Batch struct {
	ID      string         `json:"id"`
	Actions []Action       `json:"actions"`           // without their specs
	Refused []Refusal      `json:"refused,omitempty"` // hosts for which there is none
	States  map[string]int `json:"states"`            // how many actions are in each state
}

// Refusal is why nothing was asked of a host.
type Refusal struct {
	Host   string `json:"host"`
	Code   string `json:"code"` // as of a problem
	Detail string `json:"detail"`
}

// BatchOutput is a piece of what a command of a batch has written.
type BatchOutput struct {
	Action string `json:"action"`
	FD     string `json:"fd"`
	Offset int64  `json:"offset"`
	Data   []byte `json:"data"`
}

// Exit is how a command ended.
type Exit struct {
	Code      int  `json:"code"`
	Signal    int  `json:"signal,omitempty"`
	OOM       bool `json:"oom,omitempty"`
	TimedOut  bool `json:"timed_out,omitempty"`
	Cancelled bool `json:"cancelled,omitempty"`
	HungUp    bool `json:"hung_up,omitempty"` // a session that everybody had left
	// Unrecorded: a session that was hung up because its recording could not go on.
	Unrecorded bool   `json:"unrecorded,omitempty"`
	Error      string `json:"error,omitempty"`
	Run        string `json:"run"` // how long it ran
}

// Output is the final size of one output stream.
type Output struct {
	FD      string `json:"fd"`
	Bytes   int64  `json:"bytes"`
	Dropped int64  `json:"dropped,omitempty"`
	DropAt  int64  `json:"drop_at,omitempty"`
	// Archive is what a pull has copied.
	Archive *Archive `json:"archive,omitempty"`
	// SHA256 is that of a recording, and Ended why it has ended before its session.
	SHA256 string `json:"sha256,omitempty"`
	Ended  string `json:"ended,omitempty"`
}

// Archive is what the archive of a pull holds. List is the digest of a line for
// each file, as sha256sum prints it; Sums has the first of them.
type Archive struct {
	SHA256 string    `json:"sha256"`
	Files  int64     `json:"files"`
	Bytes  int64     `json:"bytes"`
	List   string    `json:"list"`
	Sums   []FileSum `json:"sums,omitempty"`
}

// FileSum is the digest of one file.
type FileSum struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Kind is a kind of action.
type Kind struct {
	Kind           string         `json:"kind"`
	Doc            string         `json:"doc"`
	Target         string         `json:"target"` // host, container, placed (the coordinator chooses the host)
	Lane           string         `json:"lane"`   // what it excludes: none, host, container, exclusive, session, preempt
	Attempts       int            `json:"attempts"`
	RunTimeout     string         `json:"run_timeout,omitempty"` // if the spec names none
	StartTTL       string         `json:"start_ttl"`
	Needs          string         `json:"needs,omitempty"` // ability of the host: containers
	RootEquivalent bool           `json:"root_equivalent,omitempty"`
	Cancellable    bool           `json:"cancellable,omitempty"`
	Progress       bool           `json:"progress,omitempty"`
	Preempts       bool           `json:"preempts,omitempty"`
	Schema         map[string]any `json:"schema"` // JSON Schema of its specs
}

// NewAction asks for an action. Spec holds the bytes of a spec as they are to
// be signed for and hashed: base64 of the JSON that doc/protocol.md describes.
type NewAction struct {
	ID    string `json:"id,omitempty"` // UUIDv7; asking again with it changes nothing
	Host  string `json:"host"`
	Spec  []byte `json:"spec"`
	Batch string `json:"batch,omitempty"` // what it is asked for together with
}

// Invite is permission for one host to ask for enrolment.
type Invite struct {
	ID        string    `json:"id"`
	Code      string    `json:"code,omitempty"` // shown once
	Host      string    `json:"host,omitempty"` // whose new machine it is for; empty: for any host
	Labels    []string  `json:"labels"`
	UsedBy    string    `json:"used_by,omitempty"` // the key of the host that has used it
	Wrong     int       `json:"wrong,omitempty"`   // attempts with a wrong code
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	ExpiresAt time.Time `json:"expires_at"`
}

// NewInvite asks for an invite.
type NewInvite struct {
	TTL    string   `json:"ttl"` // "1h"
	Labels []string `json:"labels,omitempty"`
}

// Replace asks for another machine in the place of a host's.
type Replace struct {
	TTL    string `json:"ttl"` // of the code for the new machine, "1h"
	Reason string `json:"reason,omitempty"`
}

// Replacement is a host whose machine was shut out, and the code for the next one.
type Replacement struct {
	Host       string    `json:"host"`
	Code       string    `json:"code"`
	ExpiresAt  time.Time `json:"expires_at"`
	Labels     []string  `json:"labels"`
	Unsent     int       `json:"unsent"`     // actions that ended without having been sent
	Unknown    int       `json:"unknown"`    // that may have run, or run yet
	Unapproved int       `json:"unapproved"` // that waited for approval
	Containers []string  `json:"containers"` // that the machine told of last
}

// Relabel changes the labels of a host; those that are not named stay.
type Relabel struct {
	Set    []string `json:"set,omitempty"`    // k=v
	Remove []string `json:"remove,omitempty"` // names
}

// Enrolment is a host that waits, or waited, for approval.
type Enrolment struct {
	ID        string     `json:"id"`
	Host      string     `json:"host"`
	Hostname  string     `json:"hostname"`
	Key       string     `json:"key"`
	Words     string     `json:"words"` // the same four on the host's screen
	State     string     `json:"state"` // pending, approved, denied
	Reason    string     `json:"reason,omitempty"`
	Arch      string     `json:"arch"`
	Version   string     `json:"version"`
	Labels    []string   `json:"labels"`
	CreatedAt time.Time  `json:"created_at"`
	DecidedAt *time.Time `json:"decided_at,omitempty"`
	DecidedBy string     `json:"decided_by,omitempty"`
}

// Decision approves or denies an enrolment. Words, if given, must be those of
// the enrolment: so nobody approves another host than the one they look at.
type Decision struct {
	Words  string `json:"words,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Reason goes with a revocation.
type Reason struct {
	Reason string `json:"reason,omitempty"`
}

// Token is an API token. Secret and Login, the code that holds it with the address of
// the coordinator and its ring, are shown once.
type Token struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Role      string     `json:"role"`
	Secret    string     `json:"secret,omitempty"`
	Login     string     `json:"login,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	CreatedBy string     `json:"created_by"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
}

// NewToken asks for a token.
type NewToken struct {
	Name string `json:"name"`
	Role string `json:"role"`
	TTL  string `json:"ttl,omitempty"` // none: for ever
}

// Viewer is a certificate that reads all topics. The PEM members are shown
// once.
type Viewer struct {
	Name        string     `json:"name"`
	Serial      string     `json:"serial"`
	CreatedAt   time.Time  `json:"created_at"`
	CreatedBy   string     `json:"created_by"`
	RevokedAt   *time.Time `json:"revoked_at,omitempty"`
	Certificate string     `json:"certificate,omitempty"`
	Key         string     `json:"key,omitempty"`
	CA          string     `json:"ca,omitempty"`
	Brokers     []string   `json:"brokers,omitempty"`
}

// NewViewer asks for a viewer.
type NewViewer struct {
	Name string `json:"name"`
}

// Event is something that happened. Its number is the id of its SSE message.
type Event struct {
	ID     uint64         `json:"id"`
	At     time.Time      `json:"at"`
	Type   string         `json:"type"`
	Host   string         `json:"host,omitempty"`
	Object string         `json:"object,omitempty"`
	Data   map[string]any `json:"data,omitempty"`
}

// AuditRecord is a record of the audit log: who did what, from where, over which
// bytes.
type AuditRecord struct {
	N      uint64         `json:"n"`
	At     time.Time      `json:"at"`
	Actor  string         `json:"actor"` // "token:alice", "host:edge-07", "coordinator"
	From   string         `json:"from,omitempty"`
	Verb   string         `json:"verb"`
	Host   string         `json:"host,omitempty"`
	Object string         `json:"object,omitempty"`
	Digest string         `json:"digest,omitempty"` // SHA-256 of what was decided over
	Detail map[string]any `json:"detail,omitempty"`
}

// AuditPage is what a search of the audit log has found, in the order of the
// numbers.
type AuditPage struct {
	Records []AuditRecord `json:"records"`
	// Rest is the number before which (with after: behind which) nothing was
	// looked at yet; left out if everything was, or enough was found.
	Rest uint64 `json:"rest,omitempty"`
}

// Rings are rings of the fleet as they were signed, joined by LF.
type Rings struct {
	Rings []byte `json:"rings"`
}

// Ring names the ring in force.
type Ring struct {
	Number uint64 `json:"number"`
}

// Status is one screen about the fleet.
type Status struct {
	Fleet      string         `json:"fleet"`
	FleetID    string         `json:"fleet_id"`
	Version    string         `json:"version"`
	Term       string         `json:"term"` // ring.counter
	Ring       uint64         `json:"ring"`
	Key        string         `json:"key"`                // fingerprint of this coordinator's key
	Recovery   string         `json:"recovery,omitempty"` // why nothing may be decided
	Recovered  *Recovered     `json:"recovered,omitempty"`
	Hosts      map[string]int `json:"hosts"`      // by connectivity, and those that wait for another machine (replacing)
	Pending    int            `json:"pending"`    // enrolments that wait
	Actions    map[string]int `json:"actions"`    // open ones, by state
	Containers map[string]int `json:"containers"` // by state
	Brokers    []string       `json:"brokers"`
}

// Recovered tells of the newest recovery of the coordinator.
type Recovered struct {
	At       time.Time  `json:"at"`
	BackupAt *time.Time `json:"backup_at,omitempty"` // of the backup that was restored
	Hosts    int        `json:"hosts"`               // that are asked what they did since
	Answered int        `json:"answered"`            // of them
	// Records of the audit log from LostFrom to LostTo were sealed by the
	// coordinator before and are not here; left out while no host has shown any.
	LostFrom uint64 `json:"lost_from,omitempty"`
	LostTo   uint64 `json:"lost_to,omitempty"`
}

// Headers of an answer with output. The body is raw bytes without a hole; where
// it ended and where more begins is in the trailers.
const (
	// HeaderNext is the offset from which to ask on, −1 if everything was read.
	HeaderNext = "Hostler-Next-Offset"
)
