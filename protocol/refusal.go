package protocol

import "fmt"

// Code is why something was refused. It is an error by itself, so that
// errors.Is(err, ErrStale) asks for one reason; what [Open] returns wraps
// exactly one Code. The words are stable: they name metrics, appear in
// problem documents and in the receipts of rejected items.
type Code string

// Error returns the sentence that people read.
func (c Code) Error() string {
	if s := c.sentence(); s != "" {
		return s
	}
	return string(c)
}

// The refusals of Open, in the order of its checks (the number is the check).
const (
	ErrSize          Code = "size"           // 1: larger than the topic's class allows
	ErrGrammar       Code = "grammar"        // 2: not an envelope
	ErrTopic         Code = "topic"          // 3: not a topic of ours, or not one for this receiver
	ErrUnknownKey    Code = "unknown_key"    // 4: signed by a key that nobody vouches for
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
	ErrTo            Code = "to"             // 8: meant for somebody else
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

// Check returns the number of the check of [Open] that gives this code, 13 for
// the payload, 0 for codes that Open never returns.
func (c Code) Check() int {
	switch c {
	case ErrSize:
		return 1
	case ErrGrammar:
		return 2
	case ErrTopic:
		return 3
	case ErrUnknownKey, ErrRevokedKey, ErrRole, ErrWrongHost:
		return 4
	case ErrSignatureForm:
		return 5
	case ErrSignature:
		return 6
	case ErrJSON, ErrHeader:
		return 7
	case ErrType, ErrFleet, ErrFrom, ErrTo, ErrAction:
		return 8
	case ErrAttachment:
		return 9
	case ErrRing:
		return 10
	case ErrStale, ErrChallenge, ErrHeard, ErrFork:
		return 11
	case ErrTerm, ErrStore:
		return 12
	case ErrPayload:
		return 13
	}
	return 0
}

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

func (c Code) sentence() string {
	switch c {
	case ErrSize:
		return "the message is larger than its topic allows"
	case ErrGrammar:
		return "the message is not a Hostler envelope"
	case ErrTopic:
		return "the topic is not one that this receiver takes"
	case ErrUnknownKey:
		return "the message is signed by a key that nobody here vouches for"
	case ErrRevokedKey:
		return "the message is signed by a revoked key"
	case ErrRole:
		return "the key's owner may not send this type of message"
	case ErrWrongHost:
		return "the message is signed by one host on the topic of another"
	case ErrSignatureForm:
		return "the signature is not exactly one binary OpenPGP v4 signature"
	case ErrSignature:
		return "the signature does not fit the body"
	case ErrJSON:
		return "the body is not strict JSON"
	case ErrHeader:
		return "the header is incomplete or malformed"
	case ErrType:
		return "the type of the message does not belong on its topic"
	case ErrFleet:
		return "the message belongs to another fleet"
	case ErrFrom:
		return "the message names a sender other than its signer"
	case ErrTo:
		return "the message is meant for somebody else"
	case ErrAction:
		return "the message names another action than its topic"
	case ErrAttachment:
		return "the attachment does not have the size and digest that were signed"
	case ErrRing:
		return "the message names a newer ring than the one held here"
	case ErrStale:
		return "the message is not newer than what was already seen"
	case ErrChallenge:
		return "the message does not carry the current challenge"
	case ErrHeard:
		return "the message answers nothing that this process sent"
	case ErrFork:
		return "two processes speak for the same host"
	case ErrTerm:
		return "the message comes from a coordinator that was superseded"
	case ErrStore:
		return "the message belongs to another store"
	case ErrPayload:
		return "the payload breaks the rules of its type"
	case ErrUnknownKind:
		return "this host does not know that kind of action"
	case ErrSpec:
		return "the spec breaks the rules of its kind"
	case ErrNotApproved:
		return "the policy of this host does not allow it as it was approved"
	case ErrPolicy:
		return "the policy cannot be put into force"
	case ErrTooManySessions:
		return "too many sessions"
	}
	return ""
}

// refuse wraps a code with what exactly was wrong. The detail may quote bytes
// from outside only through %q with a width.
func refuse(c Code, format string, args ...any) error {
	return fmt.Errorf("%w: %s", c, fmt.Sprintf(format, args...))
}
