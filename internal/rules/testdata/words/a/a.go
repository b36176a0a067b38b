// Package a has names that say nothing.
package a

type place struct{} // want

// Taken says not what.
type Taken struct{} // want

type part int // want

type partNames struct{}

// Seat is a place, with its name.
type Seat struct{}
