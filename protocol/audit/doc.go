// Package audit is the form of an audit log that can be believed: records that
// say who did what, from where, over which bytes; a chain of digests over them;
// and checkpoints in which the keeper of the log signs how far it goes.
//
// # The log
//
// A record is one line of JSON that starts with its number: {"n":7, … }. It is
// written once, in the transaction that does what it says, and never encoded
// again. The leaf of a record is the SHA-256 of its line, without the line end.
// Leaves are chained as items of streams are: h_0 = 32 zero bytes, h_n =
// SHA-256(h_{n-1} ‖ leaf_n). A checkpoint (see [protocol.Checkpoint]) signs one
// h_n, and the number of the checkpoint before it.
//
// # The file
//
// An exported log is lines: the newest checkpoint, which says how far the log
// goes; after a pruned beginning the checkpoint up to which it was pruned; then,
// again and again, records in the order of their numbers, the leaves of these
// records, and the checkpoint that seals them.
//
//	{"v":1,"key":…}                      the newest checkpoint
//	{"n":1,"at_ms":…}                    record 1
//	{"n":2,"at_ms":…}                    record 2
//	{"leaves":"<base64>","from":1}       the leaves of records 1 and 2
//	{"v":1,"key":…}                      the checkpoint of record 2
//
// The leaves are there to name: once they lead to a digest that was signed, they
// are as good as signed, and tell exactly which record is missing, changed or in
// another's place. [Verifier] reads such lines and returns what is wrong.
//
// The code is pure: lines and keys go in, findings come out.
package audit
