// Package rules keeps the shape of the tree: which package may import which,
// which package owns which library, and the few habits that a reviewer should
// never have to look for. It holds tests only; `make check` runs them.
//
// Every rule has a name, a reason, and a folder testdata/<name> of small
// packages that break it on the lines marked "// want". A rule that stops
// seeing its marks fails, so that no rule can rot into one that never fires.
//
//	imports      a package imports only what its line in imports_test.go allows
//	libraries    a third-party library is imported by its owner alone
//	comment      every package says what it is for
//	doc          every exported identifier is documented
//	init         nothing runs at import time
//	variables    a package variable is written by its declaration alone
//	programs     only programs read flags and the environment, or exit
//	testing      test support stays out of shipped code
//	skip         a test that cannot run fails
//	sleep        nothing waits by sleeping, and no test by a timer
//	shell        a command is an argument list, never a string for a shell
//	clock        the pure packages are told the time
//	interface    an interface has at most 7 methods
//	struct       a struct has at most 40 methods and, unless it is a record, 25 fields
//	package      a package has at most 5,000 lines of shipped code
//	size         a file has at most 600 lines, and one of tests 900
//	named        a file that a comment names exists
//	alerts       an alert is made by internal/warnings, of a warning that is declared
//	written      a file is written with the limit that it is read with
//
// The limits of shape have a table of what is larger for now, pending. It may only
// shrink: an entry that nothing needs fails.
//
// Beside the rules, tests and commits that the documents name must exist, what a
// program is made of in the end is looked at (a supervisor without fmt, an agent
// without a broker), the tables are held to go.mod and to the packages that exist,
// and the decision records to their own first page.
//
// # Package variables
//
// A variable declared at package level in shipped code may be read by all code
// and written by nobody. These count as writing, in every file of the tree,
// tests included: assigning to it, to a field or an element of it, or through
// it; ++ and --; a range clause that assigns; delete, clear, and copy into it;
// taking its address, or that of a part of it; and calling a method with a
// pointer receiver on it, when the variable is not a pointer or the method is
// ours. Channels and the types of sync and sync/atomic exist to be changed and
// are refused where they are declared. So error sentinels, assertions of
// interfaces, embedded files, compiled regular expressions and tables that are
// only read are fine. Variables of other modules may not be written either.
// Variables declared in test files are not looked at.
package rules
