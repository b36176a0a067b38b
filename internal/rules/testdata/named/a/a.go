// Package a is explained in b.go, in b/b.go and in doc/page.md. Tests are in files
// *_test.go, and migrations in <number>_<name>.sql.
package a

type A /* of the kind of b/none.go */ int // want

type B int /* as in c.go */ // want
