// Package terminal is what the two ends of an interactive session say to each
// other: somebody at a keyboard (a peer), and the supervisor that owns the
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
// acknowledged is sent again by the peer, and by nobody else ([Outbox]).
//
// A peer may be at most [Window] bytes ahead of what was acknowledged, and bytes
// are acknowledged when the terminal has taken them. That bounds what anybody on
// the way has to keep, and it is how a terminal that takes nothing holds back who
// types.
//
// # Presence
//
// A session whose last peer has left is hung up. A peer numbers its packets, those
// too that it sends again, and only a higher number proves that it is there: a packet
// that somebody on the way has kept and plays again proves nothing. A peer that types
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
	// HangUpAfter is how long a session lasts without a sign of any peer.
	HangUpAfter = 30 * time.Second
	// MaxPeers is how many peers a session may have had. A peer that comes back
	// is the same one.
	MaxPeers = 1024
)
