// Package api is the vocabulary of the HTTP API: the JSON that the coordinator
// serves under /v1, that the agent's unix socket offers of it, and that the
// command line reads. Names are snake_case, times RFC 3339 in UTC, durations
// texts with units ("90s"), and enums the words of the state tables.
//
// The types are apart from those of the engines on purpose: what is stored and
// what is signed may change without the API, and the other way round.
package api

import (
	"encoding/json"
	"time"
)

// Host is an approved or revoked host.
type Host struct {
	ID           string     `json:"id" example:"edge-07" doc:"The name of the host"`
	State        string     `json:"state" enum:"approved,revoked,replacing" doc:"Whether the host is a member"`
	Connectivity string     `json:"connectivity" enum:"online,late,offline,asleep,goodbye,unknown" doc:"Whether the host is there: see doc/hosts.md"`
	Presence     string     `json:"presence,omitempty" example:"socket lost 14 s ago" doc:"Why it is so, for people"`
	PresentSince *time.Time `json:"connectivity_since,omitempty" doc:"Since when it is so; left out if that is not known"`
	AsleepUntil  *time.Time `json:"asleep_until,omitempty" doc:"Until when a host sleeps that has told so"`
	Ring         uint64     `json:"ring,omitempty" example:"3" doc:"The number of the ring that the host has in force; left out if it was not heard since the coordinator started"`
	Quarantined  string     `json:"quarantined,omitempty" doc:"Why nothing is sent to the host although it is approved; left out if it is not"`
	Key          string     `json:"key" doc:"The fingerprint of the host's OpenPGP key"`
	Labels       []string   `json:"labels" example:"[\"site=lab\"]" doc:"Labels, each NAME=VALUE, sorted"`
	SeenAt       *time.Time `json:"seen_at,omitempty" doc:"When the host was last heard of"`
	ApprovedAt   time.Time  `json:"approved_at" doc:"When the host was approved"`
	ApprovedBy   string     `json:"approved_by" doc:"The person who approved it, or rule: and the name of the rule"`
	RevokedAt    *time.Time `json:"revoked_at,omitempty" doc:"When the host was revoked"`
	Reason       string     `json:"reason,omitempty" doc:"Why it was revoked"`

	InventoryAt  *time.Time    `json:"inventory_at,omitempty" doc:"When the host last told its inventory, from which the members below are"`
	Hostname     string        `json:"hostname,omitempty" doc:"The name that the machine has for itself"`
	Arch         string        `json:"arch,omitempty" example:"amd64" doc:"The architecture of the machine"`
	Version      string        `json:"version,omitempty" doc:"The version of the agent"`
	Kernel       string        `json:"kernel,omitempty" doc:"The version of the kernel"`
	ClockOffset  string        `json:"clock_offset,omitempty" example:"1.2s" doc:"How far the clock of the machine was ahead of the coordinator's when it told its inventory"`
	Uptime       string        `json:"uptime,omitempty" example:"26h3m0s" doc:"How long the machine has run"`
	CPUs         int           `json:"cpus,omitempty" doc:"How many processors the machine has"`
	MemoryBytes  int64         `json:"memory_bytes,omitempty" doc:"The memory of the machine"`
	MemoryFree   int64         `json:"memory_free_bytes,omitempty" doc:"How much of the memory is available"`
	DiskBytes    int64         `json:"disk_bytes,omitempty" doc:"The size of the disk of the state directory"`
	DiskFree     int64         `json:"disk_free_bytes,omitempty" doc:"How much of that disk is free"`
	Load1        float64       `json:"load1,omitempty" doc:"The load average over one minute"`
	QueueDepth   int           `json:"queue_depth" doc:"How many actions wait on the host"`
	Containers   int           `json:"containers" doc:"How many containers the host has"`
	Running      int           `json:"running" doc:"How many of them run"`
	Interfaces   []Interface   `json:"interfaces,omitempty" doc:"The network interfaces of the machine"`
	Unsupported  []string      `json:"unsupported,omitempty" doc:"What the host cannot do, see doc/hosts.md"`
	Features     []string      `json:"features,omitempty" example:"lxc" doc:"What the host can do beyond what every host can, such as lxc.unique; left out while the host was not heard"`
	ActiveAlerts []Alert       `json:"alerts,omitempty" doc:"The alerts that are raised on the host"`
	Availability *Availability `json:"availability,omitempty" doc:"What people have decided about workloads on the host; left out if it takes them"`
	Degraded     string        `json:"degraded,omitempty" doc:"Why the host accepts nothing new; left out if it does"`
	SelfFence    string        `json:"self_fence,omitempty" example:"guard" doc:"What kills unique containers there when the agent does not: none, guard, reboot or watchdog; left out while the host was not heard"`
	Pausable     bool          `json:"pausable,omitempty" doc:"The machine can be paused as a whole, so the end of its lease proves nothing"`
	LeaseLeftMS  int64         `json:"lease_left_ms,omitempty" doc:"How long the lease of the host is good for, in milliseconds; left out if it has ended"`
	Fencing      string        `json:"fencing,omitempty" doc:"How the host stands with fencing: fenced, held back, or how many devices can switch it off"`
	Policy       *Policy       `json:"policy,omitempty" doc:"The policy in force on the host"`
	AlertRules   uint64        `json:"alert_rules,omitempty" doc:"The newest change of the rules of alerts that the host has taken from here; see alert-rules"`
}

// Policy is what a host tells of the policy in force there.
type Policy struct {
	Source string `json:"source" enum:"builtin,file,document" doc:"Where it is from: built in, a file of the host's root, a signed document"`
	Number uint64 `json:"number,omitempty" doc:"The number of a signed document"`
	Digest string `json:"digest,omitempty" doc:"The SHA-256 of its text"`
	Bypass bool   `json:"bypass,omitempty" doc:"It accepts that it can be bypassed"`
	Broken string `json:"broken,omitempty" doc:"Why it cannot be used: only root may request anything"`
}

// Interface is a network interface of a host.
type Interface struct {
	Name      string   `json:"name" example:"eth0" doc:"The name of the interface"`
	MAC       string   `json:"mac" doc:"Its hardware address"`
	Up        bool     `json:"up" doc:"It is in use"`
	Addresses []string `json:"addresses" doc:"Its addresses, each with the length of its prefix"`
}

// Alert is an alert that is raised.
type Alert struct {
	ID       string    `json:"id" example:"disk.low/root" doc:"The name of the alert, which is the same as long as its cause"`
	Severity string    `json:"severity" example:"warning" doc:"How bad it is"`
	Text     string    `json:"text" doc:"What is wrong, for people"`
	Since    time.Time `json:"since" doc:"Since when"`
}

// Payload is what a command is to read: sent before the action that names it.
type Payload struct {
	SHA256   string `json:"sha256" doc:"The SHA-256 of the whole payload"`
	Bytes    int64  `json:"bytes,omitempty" doc:"The size of the whole payload, once all of it is here"`
	Have     int64  `json:"have" doc:"How much of it is here: sending goes on from there"`
	Complete bool   `json:"complete" doc:"All of it is here"`
}

// Action is an action, which is also the long-running operation of the API.
type Action struct {
	ID             string     `json:"id" example:"01890a5d-ac96-774b-bcce-b302099a8057" doc:"The id of the action, a UUIDv7"`
	Host           string     `json:"host" example:"edge-07" doc:"The host that does it"`
	Kind           string     `json:"kind" doc:"What it does"`
	Target         string     `json:"target,omitempty" doc:"The id of its container"`
	Name           string     `json:"name,omitempty" doc:"The name of its container, for people"`
	State          string     `json:"state" doc:"Where it stands"`
	Reason         string     `json:"reason,omitempty" doc:"Why it stands there; every final state has one"`
	Detail         string     `json:"detail,omitempty" doc:"A sentence for people: why, and what to do"`
	Shown          string     `json:"shown" example:"waits for its host" doc:"The state as people read it"`
	Requester      string     `json:"requester" doc:"The token that asked for it"`
	Spec           []byte     `json:"spec,omitempty" doc:"The bytes of the spec, which approvals sign, in base64"`
	Digest         string     `json:"digest" doc:"The SHA-256 of those bytes"`
	Argv           []string   `json:"argv,omitempty" doc:"The command line, if the kind has one"`
	Session        string     `json:"session,omitempty" enum:"closed,shared" doc:"Who takes part, if it is a session that began on its host: root and its requester alone (closed), or others too (shared)"`
	Attempt        int        `json:"attempt,omitempty" doc:"How often it has begun"`
	AcceptSeq      uint64     `json:"accept_seq,omitempty" doc:"Its number in the order in which its host accepted actions"`
	Batch          string     `json:"batch,omitempty" doc:"The batch that it was asked for with"`
	Cancelling     bool       `json:"cancelling,omitempty" doc:"A person has asked to cancel it"`
	CancelRefused  bool       `json:"cancel_refused,omitempty" doc:"Its host cannot cancel it: detail says why, and it goes on"`
	Exit           *Exit      `json:"exit,omitempty" doc:"How its command ended"`
	Output         []Output   `json:"output,omitempty" doc:"How much its command wrote"`
	Conflict       bool       `json:"conflict,omitempty" doc:"Its host has another action of this id: the spec is the host's"`
	Intent         []byte     `json:"intent,omitempty" doc:"What was asked for here instead, in base64; reissue asks for it anew"`
	Corrected      bool       `json:"corrected,omitempty" doc:"It was LOST, and a late report told what became of it"`
	CreatedAt      time.Time  `json:"created_at" doc:"When it was asked for"`
	UpdatedAt      time.Time  `json:"updated_at" doc:"When anything of it last changed"`
	EndedAt        *time.Time `json:"ended_at,omitempty" doc:"When it ended"`
	ExpiresAt      *time.Time `json:"expires_at,omitempty" doc:"Until when it may begin"`
	Needs          []Need     `json:"needs,omitempty" doc:"What must be there before it is sent, with what is still missing"`
	Approvals      []Approval `json:"approvals,omitempty" doc:"Who has approved it"`
	SentAt         *time.Time `json:"sent_at,omitempty" doc:"When its order was sent, by the clock of the coordinator"`
	ReceiptedAt    *time.Time `json:"receipted_at,omitempty" doc:"When the receipt of its host for the order came, by the clock of the coordinator"`
	HostAcceptedAt *time.Time `json:"host_accepted_at,omitempty" doc:"When its host accepted it, by the host's clock"`
	HostStartedAt  *time.Time `json:"host_started_at,omitempty" doc:"When its host began it, by the host's clock"`
	HostEndedAt    *time.Time `json:"host_ended_at,omitempty" doc:"When its host ended it, by the host's clock"`
	Waits          *Waits     `json:"waits,omitempty" doc:"Why it has not begun, or not ended; left out once it has ended"`
}

// Who takes part in a session that began on its host: root and the user who began it
// alone, or others too. Of a closed one nothing leaves its host.
const (
	SessionClosed = "closed"
	SessionShared = "shared"
)

// Need is one thing that must be there before an action is sent.
type Need struct {
	Persons int      `json:"persons" doc:"How many different persons must approve"`
	Missing int      `json:"missing" doc:"How many of them have not"`
	From    []string `json:"from" doc:"The persons who count; none: every person of the ring"`
	Not     string   `json:"not,omitempty" doc:"The person whose approval does not count"`
	Why     string   `json:"why" doc:"What asks for it"`
}

// Approval is the approval of an action by a person.
type Approval struct {
	Person    string    `json:"person" doc:"The person who approved"`
	Key       string    `json:"key" doc:"The fingerprint of the key that signed"`
	IssuedAt  time.Time `json:"issued_at" doc:"When it was signed, by the clock of the person"`
	NotBefore time.Time `json:"not_before" doc:"From when on it counts"`
	ExpiresAt time.Time `json:"expires_at" doc:"Until when it counts"`
	Counts    bool      `json:"counts" doc:"It counts now, by a key of the ring"`
	Signed    []byte    `json:"signed" doc:"The signed envelope"`
}

// NewApproval gives the approval of a person. Approval is the envelope that was
// signed, Targets what it names, all of it.
type NewApproval struct {
	Approval []byte   `json:"approval" example:"eyJ2IjoxfQ==" doc:"The signed envelope"`
	Targets  []Target `json:"targets,omitempty" doc:"What it names, all of it; none: the one action of the request's path"`
}

// Target is an action on a host.
type Target struct {
	Host   string `json:"host" example:"edge-07" doc:"The host"`
	Action string `json:"action" example:"0191f1a2-7b3c-7def-8123-456789abcdef" doc:"The id of the action"`
}

// Approved is what became of an approval for one target.
type Approved struct {
	Target
	State   string `json:"state,omitempty" doc:"The state of the action now"`
	Shown   string `json:"shown,omitempty" doc:"The state as people read it"`
	Missing int    `json:"missing" doc:"How many approvals the action still waits for"`
	Code    string `json:"code,omitempty" doc:"Why the approval is of no use for this target: the code of a problem"`
	Detail  string `json:"detail,omitempty" doc:"The same, for people"`
}

// Key is a key of the ring in force.
type Key struct {
	Key     string   `json:"key" doc:"The fingerprint"`
	Roles   []string `json:"roles" doc:"What it may sign for: owner, person, coordinator"`
	Person  string   `json:"person,omitempty" doc:"The person whose key it is; left out for a coordinator"`
	Revoked bool     `json:"revoked,omitempty" doc:"It counts no more"`
}

// Reissue asks anew for what a conflict kept from being done.
type Reissue struct {
	ID string `json:"id,omitempty" example:"0191f1a2-7b3c-7def-8123-456789abcdef" doc:"The id of the new action, a UUIDv7; asking again with it changes nothing"`
}

// Waits is why an action has not ended.
type Waits struct {
	For      string     `json:"for" doc:"What it waits for, in one word"`
	Text     string     `json:"text" doc:"The same, for people"`
	Action   string     `json:"action,omitempty" doc:"The action in front of it"`
	LastSeen *time.Time `json:"last_seen,omitempty" doc:"When the host was last seen, if that is what it waits for"`
	HostAt   *time.Time `json:"host_at,omitempty" doc:"When the host told it, by the host's clock; left out if it was not asked"`
}

// NewBatch asks for the same action on many hosts, at most 500 in one request;
// more of them go into further requests with the same id. Without hosts it notes
// that a batch begins whose operations are asked for one by one.
type NewBatch struct {
	ID         string          `json:"id,omitempty" example:"0191f1a2-7b3c-7def-8123-456789abcdef" doc:"The id of the batch, a UUIDv7; asking again with it changes nothing"`
	Hosts      []string        `json:"hosts,omitempty" example:"[\"edge-07\",\"edge-08\"]" doc:"The hosts, at most 500; more of them go into further requests with the same id"`
	Kind       string          `json:"kind,omitempty" example:"host.run" doc:"What each host is to do; a kind whose target is the host"`
	Args       json.RawMessage `json:"args,omitempty" example:"{\"argv\":[\"uname\",\"-a\"]}" doc:"The arguments of the kind"`
	Spec       []byte          `json:"spec,omitempty" example:"eyJraW5kIjoiaG9zdC5ydW4iLCJhcmd2IjpbInRydWUiXX0=" doc:"The bytes of a spec as they are signed and hashed, in base64, in place of kind and args"`
	Digest     string          `json:"digest,omitempty" example:"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" doc:"The SHA-256 of the file that the operations are from"`
	Operations int             `json:"operations,omitempty" example:"12" doc:"How many operations the file has"`
	AtOnce     int             `json:"at_once,omitempty" minimum:"0" maximum:"500" example:"10" doc:"How many actions of the batch may be under way at once, hosts that come later included; the first that fails ends those that were not sent. 0 is no limit; all requests with the same id give the same"`
}

// Batch is what was asked for together.
type Batch struct {
	ID      string         `json:"id" doc:"The id of the batch"`
	Actions []Action       `json:"actions" doc:"Its actions, without their specs"`
	Refused []Refusal      `json:"refused,omitempty" doc:"The hosts for which there is no action"`
	States  map[string]int `json:"states" doc:"How many of the actions are in each state"`
}

// BatchEntry is a batch in a list of them.
type BatchEntry struct {
	ID        string    `json:"id" doc:"The id of the batch"`
	Kind      string    `json:"kind" doc:"What its newest action is to do"`
	Requester string    `json:"requester" doc:"The name of the token that asked for that"`
	At        time.Time `json:"at" doc:"When that was asked for"`
}

// Refusal is why nothing was asked of a host.
type Refusal struct {
	Host   string `json:"host" doc:"The host"`
	Code   string `json:"code" doc:"Why nothing was asked of it: the code of a problem"`
	Detail string `json:"detail" doc:"The same, for people"`
}

// BatchOutput is a piece of what a command of a batch has written.
type BatchOutput struct {
	Action string `json:"action" doc:"The id of the action"`
	FD     string `json:"fd" doc:"The stream: stdout or stderr"`
	Offset int64  `json:"offset" doc:"Where in the stream the piece belongs"`
	Data   []byte `json:"data" doc:"The piece"`
}

// Exit is how a command ended.
type Exit struct {
	Code       int    `json:"code" doc:"The exit code, or 128 and the number of the signal"`
	Signal     int    `json:"signal,omitempty" doc:"The signal that ended it"`
	OOM        bool   `json:"oom,omitempty" doc:"It was ended because it took too much memory"`
	TimedOut   bool   `json:"timed_out,omitempty" doc:"Its time limit ended it"`
	Cancelled  bool   `json:"cancelled,omitempty" doc:"A cancel ended it"`
	HungUp     bool   `json:"hung_up,omitempty" doc:"It was a session, and all terminals had left it"`
	Unrecorded bool   `json:"unrecorded,omitempty" doc:"It was a session that was hung up because its recording could not go on"`
	Error      string `json:"error,omitempty" doc:"Why the command could not begin"`
	Run        string `json:"run" example:"1.204s" doc:"How long it ran"`
}

// Output is the final size of one output stream.
type Output struct {
	FD      string   `json:"fd" doc:"The stream: stdout, stderr or recording"`
	Bytes   int64    `json:"bytes" doc:"How much the command wrote"`
	Dropped int64    `json:"dropped,omitempty" doc:"How much of it was left out because it is more than is kept"`
	DropAt  int64    `json:"drop_at,omitempty" doc:"Where in the stream that was left out"`
	Archive *Archive `json:"archive,omitempty" doc:"What a pull has copied"`
	SHA256  string   `json:"sha256,omitempty" doc:"The SHA-256 of a recording"`
	Ended   string   `json:"ended,omitempty" doc:"Why a recording ended before its session"`
}

// Archive is what the archive of a pull holds. List is the digest of a line for
// each file, as sha256sum prints it; Sums has the first of them.
type Archive struct {
	SHA256 string    `json:"sha256" doc:"The SHA-256 of the archive"`
	Files  int64     `json:"files" doc:"How many files it holds"`
	Bytes  int64     `json:"bytes" doc:"The size of the files"`
	List   string    `json:"list" doc:"The digest of a line for each file, as sha256sum prints it"`
	Sums   []FileSum `json:"sums,omitempty" doc:"The first of those lines"`
}

// FileSum is the digest of one file.
type FileSum struct {
	Name   string `json:"name" doc:"The name of the file"`
	Bytes  int64  `json:"bytes" doc:"Its size"`
	SHA256 string `json:"sha256" doc:"Its SHA-256"`
}

// Kind is a kind of action.
type Kind struct {
	Kind           string         `json:"kind" doc:"The word for it"`
	Doc            string         `json:"doc" doc:"What it does, in a sentence"`
	Target         string         `json:"target" enum:"host,container,placed" doc:"What it is done to: the host itself, a container, or a workload for which the coordinator chooses the host"`
	Lane           string         `json:"lane" enum:"none,host,container,exclusive,session,preempt" doc:"What it excludes while it runs"`
	Attempts       int            `json:"attempts" doc:"How often it may begin; more than once: doing it again does no harm"`
	RunTimeout     string         `json:"run_timeout,omitempty" example:"1m0s" doc:"The time limit if the arguments name none; left out: none"`
	StartTTL       string         `json:"start_ttl" example:"24h0m0s" doc:"How long after the request it may still begin"`
	Needs          string         `json:"needs,omitempty" doc:"The ability that the host must have: containers"`
	RootEquivalent bool           `json:"root_equivalent,omitempty" doc:"A person who may ask for it can become root on the host"`
	Cancellable    bool           `json:"cancellable,omitempty" doc:"It can be cancelled while it runs"`
	Preempts       bool           `json:"preempts,omitempty" doc:"It goes past actions that wait"`
	Admin          bool           `json:"admin,omitempty" doc:"Admins alone may ask for it"`
	Schema         map[string]any `json:"schema" doc:"The JSON Schema of its specs"`
	Args           map[string]any `json:"args" doc:"The JSON Schema of its arguments"`
	Example        map[string]any `json:"example" doc:"Arguments that it takes"`
}

// Capabilities is what this coordinator takes.
type Capabilities struct {
	Version  string   `json:"version" doc:"The version of the coordinator"`
	Role     string   `json:"role" enum:"viewer,operator,approver,admin" doc:"The role of the token that asks"`
	Features []string `json:"features" doc:"What the API has learnt since its first release; a word is never taken back"`
	Kinds    []string `json:"kinds" doc:"The kinds of actions that it takes; /v1/kinds describes them"`
	Limits   Limits   `json:"limits" doc:"What is too much"`
}

// Limits are the bounds of requests.
type Limits struct {
	BodyBytes  int64  `json:"body_bytes" doc:"The longest body of a request, but for payloads"`
	SpecBytes  int64  `json:"spec_bytes" doc:"The longest spec"`
	BatchHosts int    `json:"batch_hosts" doc:"How many hosts one request may name for a batch or an approval"`
	Wait       string `json:"wait" doc:"The longest time that one request waits for the end of an action"`
	Rate       int    `json:"requests_per_second" doc:"How many requests may come with tokens of one name, on average; more are answered with 429 and Retry-After"`
	Burst      int    `json:"burst" doc:"How many of them may come at once"`
}

// NewAction asks for an action in one of two ways: by its kind and arguments, from which
// the coordinator makes the bytes of the spec, or by the bytes themselves. A requester
// that signs the spec sends the bytes.
type NewAction struct {
	ID     string          `json:"id,omitempty" example:"0191f1a2-7b3c-7def-8123-456789abcdef" doc:"The id of the action, a UUIDv7; asking again with it changes nothing"`
	Host   string          `json:"host" example:"edge-07" doc:"The host that is to do it; empty with place"`
	Place  *Wishes         `json:"place,omitempty" doc:"On which hosts a container that is created may be. With an empty host the coordinator chooses the best one"`
	Kind   string          `json:"kind,omitempty" example:"host.run" doc:"What it is to do"`
	Target string          `json:"target,omitempty" example:"0191f1a2-7b3c-7def-8123-456789abcdef" doc:"The id of the container; left out: that of the container with this name now, and of a new one the id of the action"`
	Name   string          `json:"name,omitempty" example:"web" doc:"The name of the container; of a new one the name that it gets"`
	Args   json.RawMessage `json:"args,omitempty" example:"{\"argv\":[\"uname\",\"-a\"]}" doc:"The arguments of the kind"`
	Spec   []byte          `json:"spec,omitempty" example:"eyJraW5kIjoiaG9zdC5ydW4iLCJhcmd2IjpbInRydWUiXX0=" doc:"The bytes of a spec as they are signed and hashed, in base64, in place of kind, target, name and args"`
	Batch  string          `json:"batch,omitempty" example:"0191f1a2-7b3c-7def-8123-456789abcdef" doc:"The batch that it is asked for with"`
}

// Invite is permission for one host to ask for enrolment.
type Invite struct {
	ID        string    `json:"id" doc:"The id of the invite"`
	Code      string    `json:"code,omitempty" doc:"The code that a host joins with; shown once"`
	Host      string    `json:"host,omitempty" doc:"The host whose new machine it is for; left out: any host"`
	Labels    []string  `json:"labels" doc:"Labels that the host gets, each NAME=VALUE"`
	UsedBy    string    `json:"used_by,omitempty" doc:"The key of the host that has used it"`
	Wrong     int       `json:"wrong,omitempty" doc:"How often a wrong code was tried"`
	CreatedAt time.Time `json:"created_at" doc:"When it was made"`
	CreatedBy string    `json:"created_by" doc:"The token that made it"`
	ExpiresAt time.Time `json:"expires_at" doc:"Until when it can be used"`
}

// NewInvite asks for an invite.
type NewInvite struct {
	TTL    string   `json:"ttl" example:"1h" doc:"How long it can be used, at most 30d"`
	Labels []string `json:"labels,omitempty" example:"[\"site=lab\"]" doc:"Labels that the host gets, each NAME=VALUE"`
}

// AutoRule approves hosts in the place of a person.
type AutoRule struct {
	Name      string    `json:"name" doc:"The name of the rule, which no other has"`
	Selector  string    `json:"selector" doc:"The labels that the invite of a host must have"`
	Subnets   []string  `json:"subnets" doc:"The networks from which a host must ask; empty: any"`
	Count     int       `json:"count" doc:"How many hosts it may approve"`
	Approved  int       `json:"approved" doc:"How many it has approved since it was set"`
	State     string    `json:"state" enum:"open,used up,expired" doc:"Whether it approves hosts"`
	ExpiresAt time.Time `json:"expires_at" doc:"Until when it approves hosts"`
	SetBy     string    `json:"set_by" doc:"Who set it"`
	SetAt     time.Time `json:"set_at" doc:"When"`
}

// NewAutoRule says which hosts are approved without a person. Everything is needed but
// the networks.
type NewAutoRule struct {
	Selector string   `json:"selector" maxLength:"1024" example:"site=lab,tier!=db" doc:"The labels that the invite of a host must have; at least one must be there"`
	Subnets  []string `json:"subnets,omitempty" maxItems:"32" example:"[\"10.1.0.0/16\"]" doc:"The networks from which a host must ask, by the address that the coordinator sees; left out: any"`
	Count    int      `json:"count" minimum:"1" maximum:"10000" example:"20" doc:"How many hosts it may approve"`
	TTL      string   `json:"ttl" example:"8h" doc:"For how long it approves hosts, at most 90d"`
}

// Replace asks for another machine in the place of a host's.
type Replace struct {
	TTL    string `json:"ttl" example:"1h" doc:"How long the code for the new machine can be used"`
	Reason string `json:"reason,omitempty" example:"the disk is broken" doc:"Why, for the audit log"`
}

// Replacement is a host whose machine was shut out, and the code for the next one.
type Replacement struct {
	Host       string    `json:"host" doc:"The host"`
	Code       string    `json:"code" doc:"The code that the new machine joins with; shown once"`
	ExpiresAt  time.Time `json:"expires_at" doc:"Until when the code can be used"`
	Labels     []string  `json:"labels" doc:"The labels that the host keeps"`
	Unsent     int       `json:"unsent" doc:"How many actions ended without having been sent"`
	Unknown    int       `json:"unknown" doc:"How many actions may have run, or may run yet"`
	Unapproved int       `json:"unapproved" doc:"How many actions waited for approval"`
	Containers []string  `json:"containers" doc:"The containers that the machine told of last"`
}

// Relabel changes the labels of a host; those that are not named stay.
type Relabel struct {
	Set    []string `json:"set,omitempty" example:"[\"site=lab\"]" doc:"Labels to set, each NAME=VALUE"`
	Remove []string `json:"remove,omitempty" example:"[\"tier\"]" doc:"Names of labels to remove"`
}

// Labels are all labels of a host.
type Labels struct {
	Labels []string `json:"labels" example:"[\"site=lab\"]" doc:"Labels, each NAME=VALUE"`
}

// Enrolment is a host that waits, or waited, for approval.
type Enrolment struct {
	ID        string     `json:"id" doc:"The id of the enrolment"`
	Host      string     `json:"host" doc:"The name that the host wants"`
	Hostname  string     `json:"hostname" doc:"The name that the machine has for itself"`
	Key       string     `json:"key" doc:"The fingerprint of the host's key"`
	Words     string     `json:"words" doc:"The four words that are on the host's screen too"`
	State     string     `json:"state" enum:"pending,approved,denied" doc:"Where it stands"`
	Reason    string     `json:"reason,omitempty" doc:"Why it was denied"`
	Arch      string     `json:"arch" doc:"The architecture of the machine"`
	Version   string     `json:"version" doc:"The version of the agent"`
	Labels    []string   `json:"labels" doc:"The labels of the invite"`
	CreatedAt time.Time  `json:"created_at" doc:"When the host asked"`
	DecidedAt *time.Time `json:"decided_at,omitempty" doc:"When a person decided"`
	DecidedBy string     `json:"decided_by,omitempty" doc:"The person who decided, or rule: and the name of the rule"`
}

// Decision approves or denies an enrolment. Words, if given, must be those of
// the enrolment: so a person approves the host that they look at, and no other.
type Decision struct {
	Words  string `json:"words,omitempty" example:"acid-baker-cabin-dance" doc:"The words on the host's screen: if they are given and wrong, nothing is decided"`
	Reason string `json:"reason,omitempty" example:"unknown machine" doc:"Why, for the host and the audit log"`
}

// Reason goes with a revocation.
type Reason struct {
	Reason string `json:"reason,omitempty" example:"stolen" doc:"Why, for the audit log"`
}

// Token is an API token. Secret and Login, the code that holds it with the address of
// the coordinator and its ring, are shown once.
type Token struct {
	ID        string     `json:"id" doc:"The id of the token"`
	Name      string     `json:"name" doc:"The name that actions and the audit log show"`
	Person    string     `json:"person,omitempty" doc:"The person of the ring to whom it is bound; left out: none"`
	Role      string     `json:"role" enum:"viewer,operator,approver,admin" doc:"What it may do: look; ask for actions and cancel them; approve hosts and actions; everything"`
	Secret    string     `json:"secret,omitempty" doc:"The token itself; shown once"`
	Login     string     `json:"login,omitempty" doc:"The code for hostler login, which holds the secret, the address and the ring; shown once"`
	CreatedAt time.Time  `json:"created_at" doc:"When it was made"`
	CreatedBy string     `json:"created_by" doc:"The token that made it"`
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"Until when it is valid; left out: for ever"`
	RevokedAt *time.Time `json:"revoked_at,omitempty" doc:"When it was revoked"`
}

// NewToken asks for a token.
type NewToken struct {
	Name string `json:"name" example:"alice-laptop" doc:"The name that actions and the audit log show"`
	// Person is whose approvals do not count for what the token asks for.
	Person string `json:"person,omitempty" example:"alice" doc:"The person of the ring to whom it is bound: with four_eyes, approvals of that person do not count for what the token asks for; left out: none"`
	Role   string `json:"role" enum:"viewer,operator,approver,admin" example:"operator" doc:"What it may do"`
	TTL    string `json:"ttl,omitempty" example:"7d" doc:"How long it is valid; left out: for ever"`
	// Secret makes it harmless to ask again.
	Secret string `json:"secret,omitempty" example:"hst_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" doc:"Its secret, hst_ and 160 random bits in base32, so that asking again makes no second token; left out: made by the coordinator"`
}

// Viewer is a certificate that reads all topics. The PEM members are shown
// once.
type Viewer struct {
	Name        string     `json:"name" doc:"The name of the viewer"`
	Serial      string     `json:"serial" doc:"The serial number of its certificate"`
	CreatedAt   time.Time  `json:"created_at" doc:"When it was made"`
	CreatedBy   string     `json:"created_by" doc:"The token that made it"`
	RevokedAt   *time.Time `json:"revoked_at,omitempty" doc:"When it was revoked"`
	Certificate string     `json:"certificate,omitempty" doc:"Its certificate, PEM; shown once"`
	Key         string     `json:"key,omitempty" doc:"Its private key, PEM; shown once"`
	CA          string     `json:"ca,omitempty" doc:"The certificate of the fleet's authority, PEM; shown once"`
	Brokers     []string   `json:"brokers,omitempty" doc:"The addresses of the brokers"`
}

// NewViewer asks for a viewer.
type NewViewer struct {
	Name string `json:"name" example:"screen" doc:"The name of the viewer"`
}

// HostEvent is something that happened to a host.
type HostEvent struct {
	At     time.Time      `json:"at" doc:"When, by the clock of the coordinator"`
	Who    string         `json:"who" example:"token:alice" doc:"Who did it, or told of it: token:NAME, host:ID or coordinator"`
	What   string         `json:"what" example:"host.late" doc:"What happened: the verb of the audit log, or the type of the event"`
	Object string         `json:"object,omitempty" doc:"What it is about, such as the id of an action or an alert"`
	Detail map[string]any `json:"detail,omitempty" doc:"What else is known of it"`
}

// Event is something that happened. Its number is the id of its SSE message.
type Event struct {
	ID     uint64         `json:"id" doc:"Its number, which goes up by one"`
	At     time.Time      `json:"at" doc:"When it happened"`
	Type   string         `json:"type" example:"action.changed" doc:"What happened, in a word"`
	Host   string         `json:"host,omitempty" doc:"The host that it is about"`
	Object string         `json:"object,omitempty" doc:"The id of what it is about"`
	Data   map[string]any `json:"data,omitempty" doc:"More, which depends on the type"`
}

// AuditRecord is a record of the audit log: who did what, from where, over which
// bytes.
type AuditRecord struct {
	N      uint64         `json:"n" doc:"Its number, which goes up by one"`
	At     time.Time      `json:"at" doc:"When it was recorded"`
	Actor  string         `json:"actor" example:"token:alice" doc:"The one who did it: token:NAME, host:ID or coordinator"`
	From   string         `json:"from,omitempty" doc:"The address that the request came from"`
	Verb   string         `json:"verb" example:"host.approve" doc:"What was done"`
	Host   string         `json:"host,omitempty" doc:"The host that it is about"`
	Object string         `json:"object,omitempty" doc:"The id of what it is about"`
	Digest string         `json:"digest,omitempty" doc:"The SHA-256 of the bytes that were decided over"`
	Detail map[string]any `json:"detail,omitempty" doc:"More, which depends on the verb"`
}

// AuditPage is what a search of the audit log has found, in the order of the
// numbers.
type AuditPage struct {
	Records []AuditRecord `json:"records" doc:"What was found, in the order of the numbers"`
	Rest    uint64        `json:"rest,omitempty" doc:"The number before which (with after: behind which) nothing was looked at yet; left out if everything was, or enough was found"`
}

// Rings are rings of the fleet as they were signed, joined by LF.
type Rings struct {
	Rings []byte `json:"rings" example:"eyJ2IjoxfQ==" doc:"Rings as they were signed, joined by LF, in base64"`
}

// Ring names the ring in force.
type Ring struct {
	Number uint64 `json:"number" doc:"The number of the ring in force"`
}

// Status is one screen about the fleet.
type Status struct {
	Fleet      string         `json:"fleet" doc:"The name of the fleet"`
	FleetID    string         `json:"fleet_id" doc:"The id of the fleet"`
	Version    string         `json:"version" doc:"The version of the coordinator"`
	Now        time.Time      `json:"now" doc:"The time by the clock of the coordinator"`
	Term       string         `json:"term" example:"1.4" doc:"The term of the coordinator: the number of the ring and a counter"`
	Ring       uint64         `json:"ring" doc:"The number of the ring in force"`
	Key        string         `json:"key" doc:"The fingerprint of this coordinator's key"`
	Recovery   string         `json:"recovery,omitempty" doc:"Why nothing may be decided; left out if it may"`
	Recovered  *Recovered     `json:"recovered,omitempty" doc:"The newest recovery, while hosts are asked what they did since"`
	Hosts      map[string]int `json:"hosts" doc:"How many hosts there are by connectivity, and how many wait for another machine (replacing)"`
	Pending    int            `json:"pending" doc:"How many enrolments wait"`
	Actions    map[string]int `json:"actions" doc:"How many actions have not ended, by state"`
	Containers map[string]int `json:"containers" doc:"How many containers there are, by state"`
	Brokers    []string       `json:"brokers" doc:"The addresses of the brokers that hosts are told"`
}

// Recovered tells of the newest recovery of the coordinator.
type Recovered struct {
	At       time.Time  `json:"at" doc:"When the coordinator was recovered"`
	BackupAt *time.Time `json:"backup_at,omitempty" doc:"When the backup was made that was restored"`
	Hosts    int        `json:"hosts" doc:"How many hosts are asked what they did since"`
	Answered int        `json:"answered" doc:"How many of them have answered"`
	LostFrom uint64     `json:"lost_from,omitempty" doc:"The first record of the audit log that was sealed before and is not here; left out while no host has shown any"`
	LostTo   uint64     `json:"lost_to,omitempty" doc:"The last of them"`
}

// Headers of an answer with output. The body is raw bytes without a hole; where
// it ended and where more begins is in the trailers.
const (
	// HeaderNext is the offset from which to ask on, −1 if everything was read.
	HeaderNext = "Hostler-Next-Offset"
)

// Backup is an archive of a container on its host. Hosts print it, one line each.
type Backup struct {
	Name      string     `json:"name"`
	Target    string     `json:"target,omitempty"` // where it is kept; empty is the host itself
	Container string     `json:"container"`        // as it was called
	Runtime   string     `json:"runtime"`
	Made      time.Time  `json:"made"`             // by the clock of the host
	Bytes     int64      `json:"bytes"`            // of the file
	SHA256    string     `json:"sha256,omitempty"` // of the archive in it
	Entries   int        `json:"entries"`
	Scheduled bool       `json:"scheduled,omitempty"` // a schedule has made it
	Verified  *time.Time `json:"verified,omitempty"`  // when all of it was read last, and found good
	Problem   string     `json:"problem,omitempty"`   // why it cannot be used
	From      string     `json:"from,omitempty"`      // the host that it was brought from; empty if this host has made it
	CTID      string     `json:"ctid,omitempty"`      // the id of the container
	Volumes   []string   `json:"volumes,omitempty"`   // whose files are in it, too
	Snapshots []string   `json:"snapshots,omitempty"` // whose files are in it, too, in their order
	// EncryptedTo are the fingerprints of the OpenPGP keys that can read it; empty: it is not encrypted.
	EncryptedTo []string `json:"encrypted_to,omitempty"`
	Parent      string   `json:"parent,omitempty"`      // what it is an increment of; empty: it is a full backup
	Chain       int      `json:"chain,omitempty"`       // how many backups a restore of it reads
	ChainBytes  int64    `json:"chain_bytes,omitempty"` // and how long they are
	// Full is why it is a full backup, though an increment was asked for.
	Full string `json:"full_because,omitempty"`
}
