// Package terminal is what the two ends of an interactive session say to each
// other: a person's terminal (a peer), and the supervisor that owns the
// pseudoterminal. Whatever lies between them passes on bytes that it need not
// understand.
//
// # What is typed
//
// Each peer has a stream of its own, a sequence of frames (what was typed, the size
// of its window), of which every byte has an offset from 0. The
// stream travels in packets, each of which names the peer and the offset of its
// first byte. So packets may be lost, repeated, reordered, and sent once more after
// any of the programs on the way was started anew: the supervisor takes every byte
// once and in order ([Inbox]), and tells how far it has come ([Ack]). What was not
// acknowledged is sent again by the peer alone ([Outbox]).
//
// A peer may be at most [Window] bytes ahead of what was acknowledged, and bytes
// are acknowledged when the terminal has taken them. That bounds what the programs
// on the way have to keep, and it is how a terminal that takes nothing holds back the
// typing.
//
// # Presence
//
// A session whose last peer has left is hung up after [HangUpAfter], and so is one to
// which none came. The carrier of the packets says that a peer has left. Where
// it does not say so, the peers may be cut off, by an outage of their host, of its line or
// of the coordinator: a session lasts for [SilentAfter] without a sign of any of them. A peer numbers its packets, those
// too that it sends again, and only a higher number proves that it is there: a packet
// that was kept on the way and is replayed proves nothing. A peer that types
// nothing, or may not for now, sends a packet without data every [AliveEvery].
//
// # What is printed
//
// The terminal's output is an output stream of the command as any other, with
// offsets of its own; it is not described here.
//
// The package links no fmt: supervisors use it.
package terminal

import "time"

// Numbers that both ends agree on.
const (
	// Window is how far a peer may be ahead of what was acknowledged, in bytes.
	Window = 128 << 10
	// MaxData is the most that one packet carries, in bytes.
	MaxData = 16 << 10
	// AliveEvery is how often a peer that types nothing says that it is there.
	AliveEvery = 5 * time.Second
	// HangUpAfter is how long a session lasts after its last peer has left, and
	// SilentAfter without a sign of a peer that has not.
	HangUpAfter = 30 * time.Second
	SilentAfter = 5 * time.Minute
	// MaxPeers is how many peers a session may have had. A peer that comes back
	// is the same one.
	MaxPeers = 1024
)
