// Package storetest holds what tests need around [coordinator.Store]: the suite
// that every implementation must pass, and [Mem], a store in memory that can be
// told to fail.
//
// What the suite asks for beyond the words of the interface: lists are in one
// stable order, so that paging with the last record of a page meets every record
// once; a negative limit is no permission to return everything; nil and empty
// lists are the same; numbers of 64 bits that no database holds are
// [coordinator.ErrInvalid] instead of something else; a closed store, as one whose
// disk is full, answers [coordinator.ErrUnavailable].
package storetest
