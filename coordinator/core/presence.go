package core

import "time"

// Connectivity is what is known of a host's presence: a state of the machine in
// coordinator/presence.
type Connectivity string

// The degrees of presence.
const (
	Online  Connectivity = "online"  // heard with the current challenge just now
	Late    Connectivity = "late"    // its connection was lost, or it has been silent for a while
	Offline Connectivity = "offline" // silent for long
	Asleep  Connectivity = "asleep"  // it has told for how long it would be silent
	Goodbye Connectivity = "goodbye" // it has ended its connection on purpose
	Unknown Connectivity = "unknown" // not heard since this coordinator started
)

// Degrees lists them, the best first.
func Degrees() []Connectivity {
	return []Connectivity{Online, Late, Offline, Asleep, Goodbye, Unknown}
}

// Presence is what is known of whether a host is there.
type Presence struct {
	Connectivity  Connectivity
	Reason        string        // for people: "socket lost 14 s ago"
	SinceMS       int64         // when it became so, Unix milliseconds
	SeenMS        int64         // when it was last heard, Unix milliseconds; 0 if not since the start
	AsleepUntilMS int64         // of an asleep host, Unix milliseconds
	Silence       time.Duration // how long it has not been heard, on the boot clock
	Heard         bool          // it was heard since the start
	Ring          uint64        // the number of the ring that it has in force; 0 if it was not heard since the start
}
