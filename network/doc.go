// Package network owns the host's links: no other package speaks netlink.
// It makes the bridge that containers are attached to, tells what interfaces
// the host has, and lays cables to other network namespaces.
//
// Each request names a wanted state, so every call may be repeated. A link that has the
// wanted name but is of another type belongs to another program, and is refused.
//
// All functions act in the network namespace of the calling thread.
package network
