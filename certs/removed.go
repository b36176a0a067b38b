package certs

import "slices"

// RemovedCoordinator returns the number of the newest ring of the chain that does not name a
// coordinator's key of the ring before; 0 if there is none. A host that holds an older ring
// may still obey that key.
func (c *Chain) RemovedCoordinator() uint64 {
	for i := len(c.links) - 1; i > 0; i-- {
		now := c.links[i].ring.Coordinators
		for _, was := range c.links[i-1].ring.Coordinators {
			if !slices.ContainsFunc(now, func(k Coordinator) bool { return string(k.Key) == string(was.Key) }) {
				return c.links[i].ring.Number
			}
		}
	}
	return 0
}
