package enrol

import (
	"crypto/hmac"
	"fmt"

	"github.com/hostler-io/hostler/protocol"
)

// MaxWrong is how many wrong proofs burn an invite.
const MaxWrong = 5

// InviteID finds the invite of a secret without telling the secret.
type InviteID = protocol.Nonce

// ID returns the id of the secret's invite: the first 64 bits of
// SHA-256("hostler-invite-1" ‖ secret).
func (s Secret) ID() InviteID {
	sum := protocol.Sum(append([]byte("hostler-invite-1"), s[:]...))
	return InviteID(sum[:8])
}

// Invite is what the coordinator remembers of a join code.
type Invite struct {
	Secret  Secret
	Expires int64          // milliseconds, on the clock that Judge is given
	Bound   protocol.KeyID // the host key that proved the secret; zero until then
	Wrong   int            // wrong proofs so far
}

// Judge decides about a proof by a host key at the time now, and returns the
// invite to be stored before the answer is sent, whatever the answer. The
// errors are [ErrProof], [ErrBurned], [ErrExpired] and [ErrUsed]. The key that
// an invite is bound to is welcome for ever: a host that lost the answer asks
// again, however long its way back took.
func (i Invite) Judge(now int64, key protocol.KeyID, transcript, proof []byte) (Invite, error) {
	right := hmac.Equal(proof, Proof(i.Secret, transcript))
	switch {
	case !i.Bound.IsZero() && !right:
		// Nobody can use it any more, so there is nothing left to burn.
		return i, ErrProof
	case !i.Bound.IsZero() && i.Bound != key:
		return i, ErrUsed
	case !i.Bound.IsZero():
		return i, nil
	case i.Wrong >= MaxWrong:
		return i, ErrBurned
	case now >= i.Expires:
		return i, ErrExpired
	case !right:
		i.Wrong++
		return i, ErrProof
	}
	i.Bound = key
	return i, nil
}

// HostKey is a host's public key as the judge needs it.
type HostKey interface {
	protocol.PublicKey
	// Key returns the fingerprint of the primary key.
	Key() protocol.KeyID
	// PrimaryDigest returns the SHA-256 digest of the primary key.
	PrimaryDigest() protocol.Digest
}

// Exchange is what the coordinator remembers between begin and offer.
type Exchange struct {
	Fleet       protocol.FleetID
	Invite      InviteID
	Commit      protocol.Digest
	HostKey     HostKey         // parsed from BeginRequest
	HostKeyRaw  []byte          // the bytes it was parsed from
	Ring        protocol.Digest // of the ring that BeginResponse named
	Coordinator protocol.Digest // primary digest of our key
	NonceC      [NonceSize]byte
}

// Reveal checks an offer against the session that it belongs to: the
// commitment first, then the offer's form, the key, and the host's signature.
// It returns the offer and the transcript; the proof is for [Invite.Judge], and
// the certificate request for the authority.
func (s Exchange) Reveal(r OfferRequest) (Offer, []byte, error) {
	if len(r.NonceA) != NonceSize {
		return Offer{}, nil, fmt.Errorf("%w: nonce_a has %d bytes, want %d", ErrMalformed, len(r.NonceA), NonceSize)
	}
	nonceA := [NonceSize]byte(r.NonceA)
	if Commit(nonceA, r.Offer) != s.Commit {
		return Offer{}, nil, ErrCommit
	}
	o, err := DecodeOffer(r.Offer)
	if err != nil {
		return Offer{}, nil, err
	}
	if string(o.Key) != string(s.HostKeyRaw) {
		return Offer{}, nil, fmt.Errorf("%w: its key is not the one of the first request", ErrOffer)
	}
	transcript := Transcript{
		Ring: s.Ring, Coordinator: s.Coordinator, HostKey: s.HostKey.PrimaryDigest(), CSR: o.CSR, Host: o.Host,
		Offer: r.Offer, NonceA: nonceA, NonceC: s.NonceC,
	}.Bytes()
	if err := CheckSigned(s.HostKey, r.Sig, OfferStatement(s.Fleet, transcript)); err != nil {
		return Offer{}, nil, err
	}
	return o, transcript, nil
}

// CheckSigned checks a signature over a statement: form first, then the
// signature itself. It returns [ErrSigned].
func CheckSigned(key protocol.PublicKey, sig, statement []byte) error {
	if err := key.CheckForm(sig); err != nil {
		return fmt.Errorf("%w: %w", ErrSigned, err)
	}
	if err := key.Verify(sig, statement); err != nil {
		return fmt.Errorf("%w: %w", ErrSigned, err)
	}
	return nil
}
