// Package conn is the other end of the command line: a coordinator, or the agent of
// this host. It reads the configuration and the rings of fleets that this machine
// keeps, connects, and asks what more than one area needs.
package conn
