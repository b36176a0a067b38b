package enrol

import (
	"fmt"

	"github.com/hostler-io/hostler/protocol"
)

// Attempt is the host's side of one exchange. NonceA is drawn anew for each.
type Attempt struct {
	Fleet  protocol.FleetID // of the ring that the code led to
	Secret Secret
	Offer  []byte // from Offer.Encode
	NonceA [NonceSize]byte
	Signer protocol.Signer // the host's key, the one in the offer
	// HostKey is the primary digest of that key.
	HostKey protocol.Digest
}

// Begin makes the first request.
func (a Attempt) Begin() (BeginRequest, error) {
	o, err := DecodeOffer(a.Offer)
	if err != nil {
		return BeginRequest{}, err
	}
	return BeginRequest{Invite: a.Secret.ID(), HostKey: o.Key, Commit: Commit(a.NonceA, a.Offer)}, nil
}

// Reveal makes the second request out of the answer to the first, and returns
// the transcript, for [Words]. ring is the digest of the ring that the answer
// names, coordinator the primary digest of the key that it names. Before, the
// caller has verified that ring, and found that key among its coordinators: a
// key that merely came with the answer says nothing.
func (a Attempt) Reveal(r BeginResponse, ring, coordinator protocol.Digest) (OfferRequest, []byte, error) {
	if len(r.NonceC) != NonceSize {
		return OfferRequest{}, nil, fmt.Errorf("%w: nonce_c has %d bytes, want %d", ErrMalformed, len(r.NonceC), NonceSize)
	}
	o, err := DecodeOffer(a.Offer)
	if err != nil {
		return OfferRequest{}, nil, err
	}
	transcript := Transcript{
		Ring: ring, Coordinator: coordinator, HostKey: a.HostKey, CSR: o.CSR, Host: o.Host,
		Offer: a.Offer, NonceA: a.NonceA, NonceC: [NonceSize]byte(r.NonceC),
	}.Bytes()
	sig, err := a.Signer.Sign(OfferStatement(a.Fleet, transcript))
	if err != nil {
		return OfferRequest{}, nil, fmt.Errorf("signing the offer: %w", err)
	}
	return OfferRequest{
		Exchange: r.Exchange, Offer: a.Offer, NonceA: a.NonceA[:], Sig: sig, Proof: Proof(a.Secret, transcript),
	}, transcript, nil
}

// Poll makes the request that asks for the state of a session.
func (a Attempt) Poll(session ExchangeID) (StateRequest, error) {
	sig, err := a.Signer.Sign(StateStatement(a.Fleet, session))
	if err != nil {
		return StateRequest{}, fmt.Errorf("signing the question: %w", err)
	}
	return StateRequest{Exchange: session, Sig: sig}, nil
}
