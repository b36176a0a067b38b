// Package podman is container.Runtime on podman's REST service, by its socket.
//
// It speaks the libpod API of version 4.0.0 with net/http alone. The answers are
// bounded, and of each only what is needed is read. A service that is away is
// container.ErrUnavailable: podman's own containers go on without it, and nothing
// else of the agent needs it.
//
// # What is ours
//
// Labels make a container ours and carry what Hostler knows of it: its CTID, what it
// was made from, its interface, and the ids of the host that are its own. Podman keeps
// them in the same transaction as the container, so one that is there is whole.
//
// # Networks
//
// A container has a network namespace of its own, without an interface of podman's.
// At each start the container is brought up to where its namespace exists and nothing
// of it runs; then package network lays a cable to it, as LXC does for its containers,
// and only then does its first process begin. The cable ends with the namespace, so
// nothing is left to clean up. Who starts the container by podman's own means gets it
// without its interface.
//
// # Commands
//
// A command in a container is not podman's: its service would be the owner of its
// output, and a command would be lost with it. Supervise runs it by the runtime below
// podman (runc, crun), which detaches: so the command is a child of its supervisor, in
// a control group of its own below the container's, and is confined as podman has
// written down for the container.
package podman
