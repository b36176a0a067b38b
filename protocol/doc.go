// Package protocol is the vocabulary that the agent, the coordinator and the
// operator's tools share: identifiers, topics, the signed envelope and its
// checks, the messages, and the life of an action.
//
// It builds on the standard library and package ijson alone, does no I/O, reads no clock and draws
// no randomness: time, random bytes, keys and memory of what was seen before
// are arguments. So everything in it can be tested over all inputs, and both
// ends of a conversation run the same code.
//
// # From bytes to meaning
//
// Every message is one envelope: a line of a fixed grammar that carries the
// fingerprint of a key, a detached OpenPGP signature and the BODY that was
// signed. [Seal] makes one by concatenating bytes. [Open] takes one apart and
// runs twelve checks in a fixed order; nothing of the BODY is looked at before
// its signature holds. A refusal is exactly one [Code], which tells which
// check failed and is safe to count and to show.
//
// BODY is I-JSON (see package ijson). Whatever is signed or hashed inside it (a
// spec, an approval, the item of a stream, a ring) is a JSON string of base64
// holding the very bytes: nothing that carries a digest is ever encoded again.
//
// # Four classes
//
// A message belongs to one [Class]. State messages (presence, heartbeat,
// lease, grant, receipt, ack) supersede one another and are ordered by a
// [Seq]. Items (report, alert, order, control) arrive exactly once and in
// order: see package stream. Chunks carry output by absolute offset.
// Documents (ring, roster, revoked, policy, approval, checkpoint) are named by number or
// digest and authenticate themselves.
//
// # Actions
//
// [Spec] is what runs, [State.Next] is the only judge of how an action may
// move, and [KindOf] tells what a kind of action promises (how often it may
// run, how long, in which lane).
package protocol
