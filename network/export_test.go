package network

import "github.com/vishvananda/netlink"

// TagGroup is the group of devices that tag packets for us.
const TagGroup = tagGroup

// Holds tells whether a device would be taken for that of a connection: as marked, or as
// made and not marked yet.
func (c Tagged) Holds(l netlink.Link) (marked, begun bool) { return c.owns(l), c.begun(l) }
