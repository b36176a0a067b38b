// Package container is the vocabulary of workloads: what a container is, what
// one can ask of it, and how the answers read. It holds no runtime: package lxc
// implements [Runtime] on the real thing, and package container/containertest
// holds the suite that every runtime must pass, together with a stateful fake
// that passes it too.
//
// Everything here is idempotent on purpose. The agent repeats what it is not
// sure of (after a crash, a lost answer, a deadline), so starting what runs,
// stopping what is stopped and creating what was created under the same [CTID]
// are successes, and an error always means that the wanted state was not seen.
//
// A container has two identities. Its name is what people type and what the
// runtime stores; its [CTID] is given at creation, never changes and never
// comes back, so that work meant for a container that is gone cannot reach its
// namesake. A container without a CTID was not made by Hostler: it is
// foreign, it is listed, and nothing here destroys it.
//
// Abilities that not every runtime has are optional interfaces, found by
// assertion: [Creator], [Watcher].
package container
