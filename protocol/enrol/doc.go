// Package enrol is how a host becomes a member of a fleet: the codes that
// people carry between machines, the exchange between the agent and the
// coordinator, and the four words by which a person sees that the
// connection is not intercepted.
//
// Like package protocol it does no I/O, reads no clock and draws no
// randomness. The agent's client and the coordinator's handlers are both
// written on top of it.
//
// # Codes
//
// A code is one line of text that survives a terminal, a chat and a telephone:
// [JoinCode] (printed by "hostler host invite"), [FleetCode] ("hostler fleet
// init") and [CoordinatorRequest] ("hostler-coordinator init"). It starts with
// what it is, has no letters that look alike, and ends in a checksum.
//
// # The exchange
//
// It is JSON over HTTPS under [Path]. A body has at most [MaxBody] bytes and is
// read by [Decode].
//
//	GET  rings   the chain of rings, as bytes; public, it authenticates itself.
//	             With ?from=N it starts at ring N, and as many follow as fit
//	POST begin   [BeginRequest]  → [BeginResponse]
//	POST offer   [OfferRequest]  → [StateResponse]
//	POST state   [StateRequest]  → [StateResponse]
//
// The agent knows the number and the digest of one ring from its code. It
// fetches the chain, checks that ring against the code, and walks forward to
// the newest. The TLS certificate of the server must chain to the tls_ca of a
// coordinator in that ring. Then:
//
//  1. The agent chooses 32 random bytes nonce_a, fixes the bytes of its
//     [Offer], and sends [Commit] of both, with its key.
//  2. The coordinator answers with 32 random bytes nonce_c, its key, and the
//     number of its ring, which must not be below the code's.
//  3. The agent reveals nonce_a and the offer, signs the [Transcript] with the
//     host's key ([OfferStatement]), and proves that it knows the secret of
//     the code ([Proof]). The secret itself is never sent.
//  4. Both sides show [Words] of the transcript. A person compares them, or a
//     rule that the operator wrote decides.
//
// # Why there is a commitment
//
// Four words are 44 bits. Without the commitment an attacker in the middle who
// may vary a key or a nonce after having seen those of both sides needs about
// 2^22 tries to make both screens show the same words, which takes seconds.
// With it, each side has fixed its own part before it learns the other's, so
// that an attacker in the middle has one try in 2^44, and a failed try is
// seen.
//
// # The secret
//
// [Invite.Judge] decides about a proof. The secret of an invite is bound to
// the first host key that proves it: a repetition by the same key (after a
// crash, say) is welcome for ever, another key never. [MaxWrong] wrong proofs
// burn an unused invite.
package enrol
