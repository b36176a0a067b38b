package core

// Connectivity is what is known of a host's presence.
type Connectivity string

// The degrees of presence.
const (
	Online  Connectivity = "online"  // heard with the current challenge just now
	Suspect Connectivity = "suspect" // its connection broke, or it has been silent for a while
	Offline Connectivity = "offline" // said goodbye, or silent for long
	Unknown Connectivity = "unknown" // not heard since this coordinator started
)
