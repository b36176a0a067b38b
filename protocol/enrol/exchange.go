package enrol

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// The refusals of an exchange. Each says which check failed; none tells the
// other side more than it knows.
var (
	ErrCommit    = errors.New("the offer differs from the commitment")
	ErrOffer     = errors.New("the offer breaks its own rules")
	ErrSigned    = errors.New("the signature of the host's key does not fit")
	ErrProof     = errors.New("the proof of the join code's secret does not fit")
	ErrExpired   = errors.New("the join code has expired")
	ErrBurned    = errors.New("the join code was burned by wrong proofs")
	ErrUsed      = errors.New("the join code was used by another host")
	ErrMalformed = errors.New("malformed request")
)

// What the exchange runs on, and how patient it is.
const (
	Path      = "/enrol/v1/" // before rings, begin, offer, state
	MaxBody   = 64 << 10     // bytes of any body, requests and answers alike
	MaxOffer  = 24 << 10     // bytes of an offer
	NonceSize = 32           // bytes of nonce_a and of nonce_c
	// A pending agent asks again after a random time between PollMin and a
	// bound that doubles up to PollMax.
	PollMin = 5 * time.Second
	PollMax = 5 * time.Minute
)

// ExchangeID names one exchange. It is drawn by the coordinator and known to
// both sides only; [StateRequest] is signed all the same.
type ExchangeID [16]byte

// String returns 32 lower-case hexadecimal digits.
func (s ExchangeID) String() string { return hex.EncodeToString(s[:]) }

// MarshalText returns what String returns.
func (s ExchangeID) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText accepts 32 lower-case hexadecimal digits.
func (s *ExchangeID) UnmarshalText(b []byte) error {
	var id protocol.FleetID // the same text form
	if err := id.UnmarshalText(b); err != nil {
		return fmt.Errorf("session id: %w", protocol.ErrID)
	}
	*s = ExchangeID(id)
	return nil
}

// BeginRequest opens an exchange.
type BeginRequest struct {
	Invite  InviteID        `json:"invite"`   // of the code's secret
	HostKey []byte          `json:"host_key"` // OpenPGP certificate of the host, binary
	Commit  protocol.Digest `json:"commit"`
}

// BeginResponse answers it.
type BeginResponse struct {
	Exchange       ExchangeID `json:"session"`
	NonceC         []byte     `json:"nonce_c"`
	CoordinatorKey []byte     `json:"coordinator_key"` // OpenPGP certificate; it must be one of the ring
	Ring           uint64     `json:"ring"`            // the coordinator's ring in force; its digest enters the transcript
}

// OfferRequest reveals what was committed to.
type OfferRequest struct {
	Exchange ExchangeID `json:"session"`
	Offer    []byte     `json:"offer"` // the very bytes of an Offer
	NonceA   []byte     `json:"nonce_a"`
	Sig      []byte     `json:"sig"`   // by the host's key, over OfferStatement
	Proof    []byte     `json:"proof"` // Proof(secret, transcript)
}

// StateRequest asks what became of an exchange. An approved host asks it again
// when its TLS certificate is old, and gets a new one for the same key.
type StateRequest struct {
	Exchange ExchangeID `json:"session"`
	Sig      []byte     `json:"sig"` // by the host's key, over StateStatement
}

// State is where an enrolment stands.
type State string

// The states: pending → approved | denied, approved → revoked.
const (
	Pending  State = "pending"
	Approved State = "approved"
	Denied   State = "denied"
	Revoked  State = "revoked"
)

// StateResponse answers an offer and every later question. It holds no words:
// a side shows those that it computed, or comparing them proves nothing.
type StateResponse struct {
	State  State           `json:"state"`
	Reason string          `json:"reason,omitzero"` // for people, with denied and revoked
	Host   protocol.HostID `json:"host"`
	// With approved:
	Fleet       protocol.FleetID   `json:"fleet,omitzero"`
	FleetName   protocol.FleetName `json:"fleet_name,omitzero"`
	Certificate []byte             `json:"certificate,omitzero"` // TLS certificate of the host, DER
	CA          []byte             `json:"ca,omitzero"`          // certificate of its issuer, DER
	Brokers     []string           `json:"brokers,omitzero"`     // host:port of MQTT over TLS, tried in order
	Rings       []byte             `json:"rings,omitzero"`       // the chain from the ring of BeginResponse on
}

// Check refuses an answer that is incomplete for its state.
func (r StateResponse) Check() error {
	ok := true
	switch r.State {
	case Pending, Denied, Revoked:
	case Approved:
		ok = !r.Fleet.IsZero() && r.FleetName != "" && len(r.Certificate) > 0 && len(r.CA) > 0 && len(r.Brokers) > 0
	default:
		ok = false
	}
	if !ok || r.Host == "" {
		return fmt.Errorf("%w: the answer is incomplete for state %.20q", ErrMalformed, r.State)
	}
	return nil
}

// Decode reads the body of a request or an answer. Members that v does not
// have are refused.
func Decode(body []byte, v any) error {
	if len(body) > MaxBody {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrMalformed, len(body), MaxBody)
	}
	if err := protocol.DecodeJSON(body, v, false); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// Commit is SHA-256(nonce_a ‖ offer). nonce_a has a fixed size, so the two
// cannot be cut in another place.
func Commit(nonceA [NonceSize]byte, offer []byte) protocol.Digest {
	return protocol.Sum(append(nonceA[:], offer...))
}

// Transcript is everything that the two sides must agree on. Keys stand in it
// as the SHA-256 digest of their primary key.
type Transcript struct {
	Ring        protocol.Digest // of the ring that BeginResponse names
	Coordinator protocol.Digest
	HostKey     protocol.Digest
	CSR         []byte
	Host        protocol.HostID
	Offer       []byte
	NonceA      [NonceSize]byte
	NonceC      [NonceSize]byte
}

// Bytes writes the transcript: "hostler-enrol-1", then each field in the order
// of the struct after its length in bytes, a big-endian uint32.
func (t Transcript) Bytes() []byte {
	b := []byte("hostler-enrol-1")
	for _, part := range [][]byte{t.Ring[:], t.Coordinator[:], t.HostKey[:], t.CSR, []byte(t.Host), t.Offer, t.NonceA[:], t.NonceC[:]} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	return b
}

// Proof is HMAC-SHA-256 under the secret over "hostler-proof-1" ‖ transcript.
func Proof(secret Secret, transcript []byte) []byte {
	h := hmac.New(sha256.New, secret[:])
	h.Write([]byte("hostler-proof-1"))
	h.Write(transcript)
	return h.Sum(nil)
}

// OfferStatement is what the host's key signs in an [OfferRequest]. It has the
// form of a body of its own type, so that it never passes for a message.
func OfferStatement(fleet protocol.FleetID, transcript []byte) []byte {
	return fmt.Appendf(nil, `{"hostler":"enrol/1","fleet":"%s","transcript":"%s"}`, fleet, protocol.Sum(transcript))
}

// StateStatement is what the host's key signs in a [StateRequest].
func StateStatement(fleet protocol.FleetID, session ExchangeID) []byte {
	return fmt.Appendf(nil, `{"hostler":"enrol-state/1","fleet":"%s","session":"%s"}`, fleet, session)
}
