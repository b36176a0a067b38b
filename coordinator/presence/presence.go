// Package presence judges whether a host is there, by what was heard of it and when. It
// is pure: what is remembered, an event and the time go in, what is to be remembered
// comes out.
//
//	                             silent 45 s, or               silent 90 s, or
//	unknown ──heard──▶ online ──socket lost for 5 s──▶ late ──socket lost for 60 s──▶ offline
//	                     ▲  │                            │                              │
//	                     │  └──goodbye──▶ goodbye        │                              │
//	                     └──────heard (after 3 losses within 10 minutes: for 30 s)──────┘
//
// A host that has told how long it will sleep is asleep instead of late, offline or gone
// until that is over. The times of a lost socket count from the end of the reconnect window that the
// host was told. A message that is not newer than the newest one changes nothing, so
// a late one of an earlier connection brings no host back. Times are milliseconds of a
// monotonic clock.
package presence

import (
	"fmt"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// State is what is known of a host's presence.
type State string

// The states.
const (
	Unknown State = "unknown" // not heard yet
	Online  State = "online"  // heard just now
	Late    State = "late"    // its connection was lost, or it has been silent for a while
	Offline State = "offline" // silent for long
	Asleep  State = "asleep"  // it has told that it would be silent, and for how long
	Goodbye State = "goodbye" // it has ended its connection on purpose
)

// The times of the machine. A host sends a lease every 30 s, and one that is overdue is
// asked for. The broker tells at once of a socket that is closed, and after 45 s of one
// that says nothing.
const (
	// Grace is how long a silent host counts as online.
	Grace = 45 * time.Second
	// Settle is how long a lost connection is not told of: a host connects again
	// within a second or two.
	Settle = 5 * time.Second
	// Away is the silence after which a host is offline, and Gone how long its connection
	// is lost until then.
	Away = 90 * time.Second
	Gone = time.Minute
	// A host that was lost Losses times within Window is online again only when it
	// was heard without a break for Hold.
	Losses = 3
	Window = 10 * time.Minute
	Hold   = 30 * time.Second
)

// MaxSleep bounds how long a host may say that it sleeps.
const MaxSleep = 31 * 24 * time.Hour

// Kind is what happened.
type Kind int

// The kinds of events. The zero value is invalid.
const (
	Tick Kind = iota + 1 // time has passed
	Said                 // a hello: a connection has begun, and proves nothing yet
	Heard
	Lost // the broker has lost the connection
	Left // a goodbye
)

// Event is something that happened to a host.
type Event struct {
	Kind Kind
	Seq  protocol.Seq // of the message; none for a tick
	// Sleep is for how long the host will be silent, in what was heard; negative if that
	// says nothing of it.
	Sleep time.Duration
	// Returns is over which time the host was told to come back when its connection was
	// lost: until then, nothing is told of it.
	Returns time.Duration
}

// Host is what is remembered of a host. The zero value is a host that was never heard.
type Host struct {
	State   State
	SinceMS int64 // when it came into that state

	seq       protocol.Seq // newest message
	heardMS   int64        // when it was last heard
	steadyMS  int64        // since when without a break; 0 is not now
	brokeMS   int64        // when its connection was lost; 0 if it was not
	returnsMS int64        // until when it was told to come back then
	asleepMS  int64        // until when it sleeps
	left      bool         // it said goodbye
	everHeard bool
	losses    [Losses]int64 // when it was last lost, the newest first
}

// Decide returns what is remembered after an event.
func Decide(h Host, e Event, nowMS int64) Host {
	if e.Kind == Tick || h.seq.Compare(e.Seq) < 0 {
		h.take(e, nowMS)
	}
	next := h.judge(nowMS)
	if next == h.State {
		return h
	}
	if h.State == Online && (next == Late || next == Offline) {
		copy(h.losses[1:], h.losses[:])
		h.losses[0] = nowMS
	}
	h.State, h.SinceMS = next, nowMS
	return h
}

func (h *Host) take(e Event, nowMS int64) {
	if e.Kind != Tick {
		h.seq = e.Seq
	}
	switch e.Kind {
	case Heard:
		if h.steadyMS == 0 || nowMS-h.heardMS > Grace.Milliseconds() {
			h.steadyMS = nowMS
		}
		h.heardMS, h.brokeMS, h.left, h.everHeard = nowMS, 0, false, true
		if e.Sleep >= 0 {
			h.asleepMS = nowMS + min(e.Sleep, MaxSleep).Milliseconds()
		}
	case Lost:
		h.brokeMS, h.steadyMS, h.returnsMS = nowMS, 0, nowMS+e.Returns.Milliseconds()
	case Left:
		h.left, h.steadyMS = true, 0
	}
}

// judge returns the state at a time.
func (h Host) judge(nowMS int64) State {
	silence := nowMS - h.heardMS
	gone := silence > Grace.Milliseconds() || h.brokeMS != 0 && nowMS-h.returnsMS > Settle.Milliseconds()
	switch {
	case !h.everHeard && !h.left:
		return Unknown
	case (h.left || gone) && nowMS < h.asleepMS:
		return Asleep
	case h.left:
		return Goodbye
	case silence > Away.Milliseconds(), h.brokeMS != 0 && nowMS-h.returnsMS > Gone.Milliseconds():
		return Offline
	case gone:
		return Late
	case (h.State == Late || h.State == Offline) && h.held(nowMS):
		return Late
	}
	return Online
}

// held reports whether a host that is heard has still to prove that its connection lasts.
func (h Host) held(nowMS int64) bool {
	oldest := h.losses[Losses-1]
	if oldest == 0 || nowMS-oldest > Window.Milliseconds() {
		return h.steadyMS == 0
	}
	return h.steadyMS == 0 || nowMS-h.steadyMS < Hold.Milliseconds()
}

// UntilMS is until when an asleep host sleeps.
func (h Host) UntilMS() int64 { return h.asleepMS }

// Silence is how long nothing was heard of the host; false if it never was.
func (h Host) Silence(nowMS int64) (time.Duration, bool) {
	return time.Duration(nowMS-h.heardMS) * time.Millisecond, h.everHeard
}

// Reason says, for people, why the host is in its state; nothing of one that is online.
func (h Host) Reason(nowMS int64) string {
	ago := func(ms int64) string { return roughly(nowMS - ms) }
	switch h.State {
	case Asleep:
		return "asleep for another " + roughly(h.asleepMS-nowMS)
	case Goodbye:
		return "said goodbye " + ago(h.SinceMS) + " ago"
	case Online, Late, Offline:
		switch {
		case h.brokeMS != 0:
			return "socket lost " + ago(h.brokeMS) + " ago"
		case h.State == Late && nowMS-h.heardMS <= Grace.Milliseconds():
			return fmt.Sprintf("back for %s, after %d losses within %s", ago(h.steadyMS), Losses, roughly(Window.Milliseconds()))
		case h.State != Online:
			return "silent for " + ago(h.heardMS)
		}
		return ""
	}
	return "not heard since the coordinator started"
}

// roughly is a time in milliseconds in its largest unit.
func roughly(ms int64) string {
	d := time.Duration(max(ms, 0)) * time.Millisecond
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}
