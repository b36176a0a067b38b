// Package term is how the command line speaks with its user: streams and the
// terminal, questions, progress, errors with exit codes and hints, and the manners
// that all commands share.
//
// Data goes to standard output, everything else to standard error.
package term
