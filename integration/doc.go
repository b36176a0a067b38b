// Package integration holds the built programs to their promises, as a user
// meets them: coordinator, agents and supervisors are processes, containers are
// made by liblxc, messages are read and forged by mosquitto's clients, and
// signatures are checked by stock gpg. Everything that the demo shows is a test
// here.
//
// The tests stand behind the build tag "integration" and find the programs in
// the directory that HOSTLER_BIN names; make integration does both. They need
// root and the Debian packages of packaging/deps.
//
// A test begins with a world: a directory, a fleet, a coordinator on free ports
// and hosts with a bridge and a network of their own, so that worlds run beside
// one another and beside whatever else the machine does. When the test ends,
// the world takes everything with it: processes, containers, control groups,
// links.
//
// What networks and power do to hosts is done to a lab: a world whose nodes are
// machines of their own, made by hostler dev up.
//
// Nobody sleeps or polls here. A test waits for the end of a process, for an
// event of the fleet (hostler events), for a line of output or for a file to
// change, and each wait ends after [patience] with what everybody said last.
package integration
