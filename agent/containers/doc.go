// Package containers keeps the containers of a host as their users want them: it
// remembers what each is meant to be, sees what it is, and corrects the difference.
//
// [Containers] belongs to the agent's loop. Each kind of action on a container is
// one file with one handler (create.go, start.go, …): what its start makes durable,
// and its steps, which a worker makes ([actions.Saga]). The lane of the container is
// held throughout, by actions and corrections alike.
//
// A container that should run is started, and one that should not is stopped
// (correct.go), after pauses that pure code decides (package retry). Every path that
// starts a container asks mayRun (start.go).
package containers
