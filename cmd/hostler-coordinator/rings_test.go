package main

import (
	"errors"
	"testing"

	"github.com/hostler-io/hostler/certs"
)

// TestTakenRingsStay: what a running coordinator took is there at the next start,
// and what it could not keep is not in force.
func TestTakenRingsStay(t *testing.T) {
	p := newProgram(t, 1)
	s := p.server()
	chain := s.trust.Chain()
	next := chain.Next()
	ring, err := certs.SignRing(next, p.owner)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("the disk is full")
	keep := s.trust.keep
	s.trust.keep = func(*certs.Chain) error { return full }
	if newer, err := s.trust.TakeRings(ring); newer || !errors.Is(err, full) || s.trust.Ring() != chain.Ring().Number {
		t.Errorf("without a disk: %v, %v, ring %d", newer, err, s.trust.Ring())
	}
	s.trust.keep = keep
	if newer, err := s.trust.TakeRings(ring); !newer || err != nil || s.trust.Ring() != next.Number {
		t.Fatalf("%v, %v, ring %d", newer, err, s.trust.Ring())
	}
	if newer, err := s.trust.TakeRings(ring); newer || err != nil {
		t.Errorf("once more: %v, %v", newer, err)
	}
	kept, err := s.state.chain()
	if err != nil || kept.Ring().Number != next.Number {
		t.Errorf("kept is ring %d, %v", kept.Ring().Number, err)
	}
}
