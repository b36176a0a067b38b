package protocol

import "slices"

// Class is how messages of a type are told apart and how their loss is mended.
type Class string

// The classes.
const (
	ClassState    Class = "state"    // the newest wins; repeated by the next one
	ClassItem     Class = "item"     // each exactly once, in order; repeated until receipted
	ClassChunk    Class = "chunk"    // by absolute offset; repeated until credit passes it
	ClassDocument Class = "document" // by number or digest; fetched
)

// Role is what a key may speak as.
type Role string

// The roles.
const (
	RoleHost        Role = "host"
	RoleCoordinator Role = "coordinator"
	RoleOwner       Role = "owner"  // signs rings and policies
	RolePerson      Role = "person" // signs approvals, and policies if one says so
)

// Sizes of whole envelopes in bytes, attachment included.
const (
	// MaxMessage is the most that travels on a host's main connection, so that
	// nothing there delays a lease: 32 KiB take 27 s at 9.6 kbit/s.
	MaxMessage = 32 << 10
	// MaxChunk is a chunk and its envelope, on the bulk connection.
	MaxChunk = ChunkSize + 4<<10
	// MaxDocument bounds documents: a chain of rings, a roster.
	MaxDocument = 256 << 10
)

// typeRule says who may send a type, where it travels, and how it is read.
type typeRule struct {
	class   Class
	roles   []Role
	channel Channel // empty for what has no topic
	stream  Stream  // of items
	max     int     // bytes of the whole envelope
	lax     bool    // unknown members are let through: what newer hosts tell
	heard   bool    // it answers something that the host sent
}

// rules is the one table of types. It is never written.
var rules = map[Type]typeRule{
	TypePresence:  {class: ClassState, roles: []Role{RoleHost}, channel: ChannelPresence, max: MaxMessage},
	TypeHeartbeat: {class: ClassState, roles: []Role{RoleHost}, channel: ChannelHeartbeat, max: MaxMessage, lax: true},
	TypeLease:     {class: ClassState, roles: []Role{RoleHost}, channel: ChannelLease, max: MaxMessage, lax: true},
	TypeAck:       {class: ClassState, roles: []Role{RoleHost}, channel: ChannelAck, max: MaxMessage},
	TypeReport:    {class: ClassItem, roles: []Role{RoleHost}, channel: ChannelReport, stream: StreamReport, max: MaxMessage, lax: true},
	TypeAlert:     {class: ClassItem, roles: []Role{RoleHost}, channel: ChannelAlert, stream: StreamAlert, max: MaxMessage},
	TypeOut:       {class: ClassChunk, roles: []Role{RoleHost}, channel: ChannelOut, max: MaxChunk},
	TypeSamples:   {class: ClassChunk, roles: []Role{RoleHost}, channel: ChannelSamples, max: MaxMessage},

	TypeOrder:   {class: ClassItem, roles: []Role{RoleCoordinator}, channel: ChannelOrder, stream: StreamOrder, max: MaxMessage, heard: true},
	TypeControl: {class: ClassItem, roles: []Role{RoleCoordinator}, channel: ChannelControl, stream: StreamControl, max: MaxMessage},
	TypeGrant:   {class: ClassState, roles: []Role{RoleCoordinator}, channel: ChannelGrant, max: MaxMessage, heard: true},
	TypeReceipt: {class: ClassState, roles: []Role{RoleCoordinator}, channel: ChannelReceipt, max: MaxMessage},
	TypeIn:      {class: ClassChunk, roles: []Role{RoleCoordinator}, channel: ChannelIn, max: MaxChunk},

	TypeCoordinator: {class: ClassState, roles: []Role{RoleCoordinator}, channel: ChannelCoordinator, max: MaxMessage},
	TypeRevoked:     {class: ClassDocument, roles: []Role{RoleCoordinator}, channel: ChannelRevoked, max: MaxDocument},
	TypeRing:        {class: ClassDocument, roles: []Role{RoleOwner}, max: MaxDocument},
	TypeRoster:      {class: ClassDocument, roles: []Role{RoleCoordinator}, max: MaxDocument},
	TypeCheckpoint:  {class: ClassDocument, roles: []Role{RoleCoordinator, RoleHost}, max: MaxCheckpoint},
	TypeApproval:    {class: ClassDocument, roles: []Role{RolePerson}, max: maxApproval},
	TypeFenced:      {class: ClassDocument, roles: []Role{RolePerson}, max: maxApproval},
	TypePolicy:      {class: ClassDocument, roles: []Role{RoleOwner, RolePerson}, max: maxPolicyDocument},
}

// TypeOf returns the type that travels on a channel. The retained chain of
// rings is not an envelope but several, and is opened as documents.
func TypeOf(c Channel) (Type, bool) {
	for t, r := range rules {
		if r.channel == c && c != "" {
			return t, true
		}
	}
	return "", false
}

// ClassOf returns the class of a type, empty for an unknown one.
func ClassOf(t Type) Class { return rules[t].class }

// MaxSize returns the most bytes that an envelope on the channel may have.
func MaxSize(c Channel) int {
	if c == ChannelRing {
		return MaxDocument
	}
	t, _ := TypeOf(c)
	return rules[t].max
}

// Principal is the owner of a key, and what the key may speak as.
type Principal struct {
	Roles   []Role
	Host    HostID // with RoleHost
	Person  string // with RoleOwner and RolePerson
	Revoked bool
	Key     PublicKey
}

// Can reports whether the principal has one of the roles.
func (p Principal) Can(roles ...Role) bool {
	return slices.ContainsFunc(p.Roles, func(r Role) bool { return slices.Contains(roles, r) })
}

// Member is a key of a ring, and what it may do.
type Member struct {
	Key     KeyID
	Roles   []Role
	Person  string // with RoleOwner and RolePerson
	Revoked bool
}

// Keyring knows who owns which key. It is safe for concurrent use.
type Keyring interface {
	// Principal returns the owner of the key whose primary fingerprint is k.
	// A revoked key is found, and marked.
	Principal(k KeyID) (Principal, bool)
}
