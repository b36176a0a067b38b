package api

import "time"

// Volume is a directory of a host with a name, which containers mount.
type Volume struct {
	Name       string    `json:"name"`
	Made       time.Time `json:"made,omitzero"` // by the clock of the host
	Containers []string  `json:"containers"`    // that have it, by name
	Path       string    `json:"path"`          // on the host
	// Filled tells that its files came with a backup, and no container has had it since.
	Filled bool `json:"filled,omitzero"`
}
