package core

import "slices"

// Need is one thing that must be there before an action is sent: approvals of so
// many different persons.
type Need struct {
	Persons int      `json:"persons"`
	From    []string `json:"from,omitempty"` // people; none means every person of the ring
	Not     string   `json:"not,omitempty"`  // the person whose approval does not count, the requester
	Why     string   `json:"why"`            // what asks for it
}

// Missing returns how many persons are still missing, given those who have
// approved.
func (n *Need) Missing(people []string) int {
	count := 0
	for _, p := range people {
		if n.Counts(p) {
			count++
		}
	}
	return max(0, n.Persons-count)
}

// Counts reports whether a person's approval counts.
func (n *Need) Counts(person string) bool {
	return person != n.Not && (len(n.From) == 0 || slices.Contains(n.From, person))
}
