// Package network owns the host's links: it is the only one that speaks netlink.
// It makes the bridge that containers are attached to, tells what interfaces
// the host has, and lays cables to other network namespaces.
//
// What it is asked for is a wanted state, so everything may be repeated. A link
// of the wanted name that is something else is somebody else's, and refused.
//
// All functions act in the network namespace of the calling thread.
package network
