package protocol

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Code is why something was refused. It is an error by itself, so that
// errors.Is(err, ErrStale) asks for one reason; what [Open] returns wraps
// exactly one Code. The words are stable: they name metrics, appear in
// problem documents and in the receipts of rejected items.
type Code string

// Error returns the sentence that people read.
func (c Code) Error() string { return cmp.Or(sentences[c], string(c)) }

// The refusals of Open, in the order of its checks (the number is the check).
const (
	ErrSize          Code = "size"           // 1: larger than the topic's class allows
	ErrGrammar       Code = "grammar"        // 2: not an envelope
	ErrTopic         Code = "topic"          // 3: not a topic of ours, or not one for this receiver
	ErrUnknownKey    Code = "unknown_key"    // 4: signed by a key that no ring vouches for
	ErrRevokedKey    Code = "revoked_key"    // 4: signed by a key that was revoked
	ErrRole          Code = "role"           // 4: the key's owner may not say this
	ErrWrongHost     Code = "wrong_host"     // 4: a host's key on another host's topic
	ErrSignatureForm Code = "signature_form" // 5: not exactly one plain v4 binary signature
	ErrSignature     Code = "signature"      // 6: the signature does not fit the body
	ErrJSON          Code = "json"           // 7: the body is not I-JSON
	ErrHeader        Code = "header"         // 7: the header is incomplete or of the wrong form
	ErrType          Code = "type"           // 8: not the type that belongs to this topic
	ErrFleet         Code = "fleet"          // 8: another fleet's message
	ErrFrom          Code = "from"           // 8: the sender it names is not the key's owner
	ErrTo            Code = "to"             // 8: meant for another receiver
	ErrAction        Code = "action"         // 8: the action it names is not the topic's
	ErrAttachment    Code = "attachment"     // 9: attachment of the wrong size or digest
	ErrRing          Code = "ring_ahead"     // 10: names a newer ring than we hold
	ErrStale         Code = "stale"          // 11: not newer than what was seen
	ErrChallenge     Code = "challenge"      // 11: does not carry the current challenge
	ErrHeard         Code = "heard"          // 11: answers nothing that this process sent
	ErrFork          Code = "fork"           // 11: two processes speak for one host
	ErrTerm          Code = "term"           // 12: from a coordinator that was superseded
	ErrStore         Code = "store"          // 12: of another store than the one in force
	ErrPayload       Code = "payload"        // after 12: the payload breaks its own rules
	ErrUnknownKind   Code = "unknown_kind"   // a spec of a kind that this side does not know
	ErrSpec          Code = "bad_spec"       // a spec that breaks the rules of its kind
	ErrNotApproved   Code = "not_approved"   // the host's policy asks for approvals that did not come
	ErrPolicy        Code = "bad_policy"     // a policy that cannot be put into force
	// ErrTooManySessions: as many interactive sessions are open as the host has.
	ErrTooManySessions Code = "too_many_sessions"
)

// Codes lists every code that [Open] can return, in the order of its checks.
// Metrics are made from it so that each is present from the start.
func Codes() []Code {
	return []Code{
		ErrSize, ErrGrammar, ErrTopic, ErrUnknownKey, ErrRevokedKey, ErrRole, ErrWrongHost,
		ErrSignatureForm, ErrSignature, ErrJSON, ErrHeader, ErrType, ErrFleet, ErrFrom, ErrTo,
		ErrAction, ErrAttachment, ErrRing, ErrStale, ErrChallenge, ErrHeard, ErrFork, ErrTerm,
		ErrStore, ErrPayload,
	}
}

// sentences are what people read. The table is never written.
var sentences = map[Code]string{
	ErrSize:            "the message is larger than its topic allows",
	ErrGrammar:         "the message is not a Hostler envelope",
	ErrTopic:           "the topic is not one that this receiver takes",
	ErrUnknownKey:      "the message is signed by a key that is not known here",
	ErrRevokedKey:      "the message is signed by a revoked key",
	ErrRole:            "the key's owner may not send this type of message",
	ErrWrongHost:       "the message is signed by one host on the topic of another",
	ErrSignatureForm:   "the signature is not exactly one binary OpenPGP v4 signature",
	ErrSignature:       "the signature does not fit the body",
	ErrJSON:            "the body is not strict JSON",
	ErrHeader:          "the header is incomplete or malformed",
	ErrType:            "the type of the message does not belong on its topic",
	ErrFleet:           "the message belongs to another fleet",
	ErrFrom:            "the message names a sender other than its signer",
	ErrTo:              "the message is meant for another receiver",
	ErrAction:          "the message names another action than its topic",
	ErrAttachment:      "the attachment does not have the size and digest that were signed",
	ErrRing:            "the message names a newer ring than the one held here",
	ErrStale:           "the message is not newer than what was already seen",
	ErrChallenge:       "the message does not carry the current challenge",
	ErrHeard:           "the message answers nothing that this process sent",
	ErrFork:            "two processes speak for the same host",
	ErrTerm:            "the message comes from a coordinator that was superseded",
	ErrStore:           "the message belongs to another store",
	ErrPayload:         "the payload breaks the rules of its type",
	ErrUnknownKind:     "this host does not know that kind of action",
	ErrSpec:            "the spec breaks the rules of its kind",
	ErrNotApproved:     "the policy of this host does not allow it as it was approved",
	ErrPolicy:          "the policy cannot be put into force",
	ErrTooManySessions: "too many sessions",
}

// Refusals lists every code, sorted.
func Refusals() []Code { return slices.Sorted(maps.Keys(sentences)) }

// refuse wraps a code with what exactly was wrong. The detail may quote bytes
// from outside only through %q with a width.
func refuse(c Code, format string, args ...any) error {
	return fmt.Errorf("%w: %s", c, fmt.Sprintf(format, args...))
}
