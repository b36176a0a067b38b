// Package lxc is container.Runtime on LXC, without linking liblxc.
//
// Each operation is one short-lived process, the program hostler-lxc, which
// alone is bound to the C library. There are four reasons, all of them seen:
//
//   - liblxc's start moves its caller into the container's monitor cgroup and
//     fails at the 1,001st start of one name; an agent that called it would
//     leave its own cgroup at the first start;
//   - some calls of the library can hang for ever, and no context ends a C call,
//     while a process can be killed;
//   - a binary linked to liblxc does not even start where the library is
//     missing, and the agent must;
//   - a crash of the library must not be a crash of the agent.
//
// So every operation has a deadline, at which the helper and all that it
// started are killed as one process group and waited for, and answers with
// container.ErrTimeout. The lock of a container is held by the helper and not
// here: an agent that dies in the middle of an operation does not let a second
// one begin before the first has ended.
//
// A helper that has started a container waits a moment for another start, which it then
// does as if it had begun anew: after a reboot, all containers of a host are started, and
// to execute a helper for each would take half as long as all that liblxc does.
//
// Commands inside containers are supervised by another mode of the same
// program, see Runtime.Exec.
//
// Changes are told by liblxc's own monitor (see Runtime.Watch), so nothing is
// polled.
package lxc
