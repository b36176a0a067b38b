// Package relay carries the bytes of actions: output of commands up to the
// coordinator (output.go) and to readers on the host itself (reader.go), what is
// typed in sessions down to their terminals (terminals.go), and payloads down to
// the disk before the commands that read them begin (payload.go). input.go is the
// one way by which streams come down.
//
// The loop tells the relay which commands run and what the coordinator asks for;
// each command, stream and session has goroutines of its own, so that a slow
// connection delays that alone. The relay keeps nothing: what is lost is asked for
// again.
package relay
