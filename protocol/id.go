package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/hostler-io/hostler/protocol/ident"
)

// ErrID tells that a text is not a well-formed identifier of the wanted type.
var ErrID = ident.ErrMalformed

// MaxLabel is the longest name of a host, fleet or container, in bytes.
const MaxLabel = ident.MaxLabel

// HostID names a host within its fleet: a DNS label chosen at enrolment,
// unique from approval on, never changed.
type HostID string

// FleetName is the human name of a fleet, a DNS label. It is part of every
// topic; the [FleetID] is what signatures bind.
type FleetName string

// ContainerName names a container on its host, a DNS label.
type ContainerName string

// ParseHostID checks that s is a DNS label in lower case.
func ParseHostID(s string) (HostID, error) {
	return HostID(s), ident.CheckLabel("host id", s)
}

// ParseFleetName checks that s is a DNS label in lower case.
func ParseFleetName(s string) (FleetName, error) {
	return FleetName(s), ident.CheckLabel("fleet name", s)
}

// ParseContainerName checks that s is a DNS label in lower case.
func ParseContainerName(s string) (ContainerName, error) {
	return ContainerName(s), ident.CheckLabel("container name", s)
}

// The texts: labels as they are, fingerprints as gpg prints them, other ids in lower-case
// hexadecimal, and UUIDs in their usual form.
func (h HostID) String() string        { return string(h) }
func (f FleetName) String() string     { return string(f) }
func (c ContainerName) String() string { return string(c) }
func (k KeyID) String() string         { return strings.ToUpper(hex.EncodeToString(k[:])) }
func (f FleetID) String() string       { return hex.EncodeToString(f[:]) }
func (s StoreID) String() string       { return hex.EncodeToString(s[:]) }
func (n Nonce) String() string         { return hex.EncodeToString(n[:]) }
func (d Digest) String() string        { return hex.EncodeToString(d[:]) }
func (a ActionID) String() string      { return ident.UUIDText(a) }
func (c CTID) String() string          { return ident.UUIDText(c) }
func (b BatchID) String() string       { return ident.UUIDText(b) }

// UnmarshalText accepts what String returns, and nothing else.
func (h *HostID) UnmarshalText(b []byte) (err error) { *h, err = ParseHostID(string(b)); return err }
func (f *FleetName) UnmarshalText(b []byte) (err error) {
	*f, err = ParseFleetName(string(b))
	return err
}
func (c *ContainerName) UnmarshalText(b []byte) (err error) {
	*c, err = ParseContainerName(string(b))
	return err
}
func (k *KeyID) UnmarshalText(b []byte) error    { return ident.ParseHex("key id", k[:], b, 'A') }
func (f *FleetID) UnmarshalText(b []byte) error  { return ident.ParseHex("fleet id", f[:], b, 'a') }
func (s *StoreID) UnmarshalText(b []byte) error  { return ident.ParseHex("store id", s[:], b, 'a') }
func (n *Nonce) UnmarshalText(b []byte) error    { return ident.ParseHex("nonce", n[:], b, 'a') }
func (d *Digest) UnmarshalText(b []byte) error   { return ident.ParseHex("digest", d[:], b, 'a') }
func (a *ActionID) UnmarshalText(b []byte) error { return ident.ParseUUID("action id", a[:], b) }
func (c *CTID) UnmarshalText(b []byte) error     { return ident.ParseUUID("container id", c[:], b) }
func (b *BatchID) UnmarshalText(t []byte) error  { return ident.ParseUUID("batch id", b[:], t) }

// KeyID is the fingerprint of the primary key of an OpenPGP v4 certificate.
// Its text is 40 upper-case hexadecimal digits, as gpg prints it.
type KeyID [20]byte

// FleetID identifies a fleet in everything that is signed: 16 random bytes,
// made once. Its text is 32 lower-case hexadecimal digits.
type FleetID [16]byte

// StoreID identifies one database, on either side: 16 random bytes made
// together with it. A stream belongs to a store, so that a lost or restored
// database never continues the numbers of another.
type StoreID [16]byte

// Nonce is 64 random bits: the instance of a process, or the challenge that
// answers a hello. Its text is 16 lower-case hexadecimal digits.
type Nonce [8]byte

// Digest is a SHA-256 digest. Its text is 64 lower-case hexadecimal digits.
type Digest [32]byte

// ActionID names an action for ever: a UUID of version 7, made by the client that
// creates the action.
type ActionID [16]byte

// CTID names a container independent of its name: a UUID of version 7 given at
// creation or adoption. A renamed container keeps it.
type CTID [16]byte

// BatchID names what was asked for together: a UUID of version 7. The ids of
// its actions follow from it, see [BatchID.Action].
type BatchID [16]byte

// Sum returns the SHA-256 digest of b.
func Sum(b []byte) Digest { return sha256.Sum256(b) }

// IsZero reports whether the id is missing.
func (k KeyID) IsZero() bool    { return k == KeyID{} }
func (f FleetID) IsZero() bool  { return f == FleetID{} }
func (s StoreID) IsZero() bool  { return s == StoreID{} }
func (n Nonce) IsZero() bool    { return n == Nonce{} }
func (d Digest) IsZero() bool   { return d == Digest{} }
func (a ActionID) IsZero() bool { return a == ActionID{} }
func (c CTID) IsZero() bool     { return c == CTID{} }
func (b BatchID) IsZero() bool  { return b == BatchID{} }

// MarshalText refuses the zero id, which means nothing. Any digest is written: the zero
// one is the head of an empty stream.
func (b BatchID) MarshalText() ([]byte, error)  { return marshalID("batch id", b) }
func (k KeyID) MarshalText() ([]byte, error)    { return marshalID("key id", k) }
func (f FleetID) MarshalText() ([]byte, error)  { return marshalID("fleet id", f) }
func (s StoreID) MarshalText() ([]byte, error)  { return marshalID("store id", s) }
func (n Nonce) MarshalText() ([]byte, error)    { return marshalID("nonce", n) }
func (d Digest) MarshalText() ([]byte, error)   { return []byte(d.String()), nil }
func (a ActionID) MarshalText() ([]byte, error) { return marshalID("action id", a) }
func (c CTID) MarshalText() ([]byte, error)     { return marshalID("container id", c) }

// ParseBatchID parses the text form of a BatchID.
func ParseBatchID(s string) (b BatchID, err error) { err = b.UnmarshalText([]byte(s)); return b, err }

// ParseStoreID parses the text form of a StoreID.
func ParseStoreID(s string) (t StoreID, err error) { err = t.UnmarshalText([]byte(s)); return t, err }

// ParseDigest parses the text form of a Digest.
func ParseDigest(s string) (d Digest, err error) { err = d.UnmarshalText([]byte(s)); return d, err }

// ParseActionID parses the text form of an ActionID.
func ParseActionID(s string) (a ActionID, err error) { err = a.UnmarshalText([]byte(s)); return a, err }

// ParseCTID parses the text form of a CTID.
func ParseCTID(s string) (c CTID, err error) { err = c.UnmarshalText([]byte(s)); return c, err }

// NewActionID makes an id from a wall-clock time in milliseconds and ten random
// bytes. The time only serves sorting.
func NewActionID(unixMS int64, random [10]byte) ActionID { return ident.NewUUID(unixMS, random) }

// NewCTID makes a container id as [NewActionID] makes an action's.
func NewCTID(unixMS int64, random [10]byte) CTID { return ident.NewUUID(unixMS, random) }

// NewBatchID makes the id of a batch as [NewActionID] makes an action's.
func NewBatchID(unixMS int64, random [10]byte) BatchID { return ident.NewUUID(unixMS, random) }

// Action returns the id of the action that does one part of a batch: a host's,
// or an operation's. A client that asks for the part again, because an answer was lost
// or the first to ask was interrupted, asks for the same action.
func (b BatchID) Action(part string) ActionID {
	sum := sha256.Sum256(append([]byte("hostler-batch-1\x00"+string(b[:])), part...))
	ms := int64(0)
	for _, c := range b[:6] {
		ms = ms<<8 | int64(c)
	}
	return NewActionID(ms, [10]byte(sum[:10]))
}

func marshalID[T interface {
	IsZero() bool
	String() string
}](what string, id T) ([]byte, error) {
	if id.IsZero() {
		return nil, fmt.Errorf("%s: %w: missing", what, ErrID)
	}
	return []byte(id.String()), nil
}
