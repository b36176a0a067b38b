// Package dev brings up a whole fleet on one machine: a coordinator and any
// number of hosts, each a machine of its own as far as Hostler can tell.
//
//	f, err := dev.New(dev.Config{Name: "dev", Bin: "/usr/bin"})
//	status, err := f.Up(ctx, 3)
//	err = f.Kill(ctx, "edge-02") // its power fails
//	err = f.Heal(ctx, "edge-02") // it boots
//	err = f.Down(ctx)
//
// A node, which is the coordinator or a host, is a set of namespaces (PID,
// mount, network, UTS, IPC, cgroup) around a process 1 of its own, see [Init].
// So it has its own address, its own list of processes, its own boot (the agent
// tells boots apart by the start of process 1) and its own LXC containers,
// which end with it. It shares the machine's files: what a command of a host
// writes, it writes to this machine.
//
//	bridge hd-NAME 10.X.Y.1/24, in this machine's namespace: where the CLI is
//	├── hd-NAME.0 ═ eth0 10.X.Y.10   coordinator
//	├── hd-NAME.1 ═ eth0 10.X.Y.11   edge-01 ── hostler0 10.133.0.0/24, its containers
//	└── hd-NAME.2 ═ eth0 10.X.Y.12   edge-02 ── hostler0 10.133.0.0/24, its containers
//
// Hosts come in through the public API, as every host does: an invite, a join,
// and an approval after the words of both sides were compared.
//
// # Nothing is left behind
//
// There are no pid files. What belongs to a fleet follows from its name alone:
// a directory, a cgroup in each hierarchy, links by their prefix. A node is
// killed by its cgroup, also processes that have moved, forked or lost their parent in it. So
// Down works after anything, a SIGKILL in the middle of Up included.
//
// The package needs root, Linux 5.14 (cgroup.kill) and a mounted cgroup2 tree;
// hybrid machines have one.
package dev
