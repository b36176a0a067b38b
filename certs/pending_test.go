package certs_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol/enrol"
)

func TestPending(t *testing.T) {
	f := newFleet(t, 3, 2)
	next := f.chain.Next()
	if err := next.RemoveOwner(ownerName(2)); err != nil {
		t.Fatal(err)
	}
	raw := f.sign(next, f.owners[0])
	p, err := f.chain.Pending(raw)
	if err != nil {
		t.Fatal(err)
	}
	if p.Complete() || !slices.Equal(p.Signed, []string{ownerName(0)}) || !slices.Equal(p.Missing, []string{ownerName(1), ownerName(2)}) || p.Needed != 2 {
		t.Errorf("signed by one of three: %+v", p)
	}
	if _, err := f.chain.Advance(raw); !errors.Is(err, certs.ErrThreshold) {
		t.Errorf("it is in force by one signature: %v", err)
	}
	// The same owner once more is no second owner.
	if again, err := certs.AddSignature(raw, f.owners[0]); err != nil {
		t.Fatal(err)
	} else if p, err := f.chain.Pending(again); err != nil || p.Complete() {
		t.Errorf("signed twice by one owner: %+v, %v", p, err)
	}
	stranger := newFleet(t, 1, 1).owners[0]
	forged, err := certs.AddSignature(raw, stranger)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.chain.Pending(forged); !errors.Is(err, certs.ErrRing) {
		t.Errorf("with a stranger's signature: %v", err)
	}
	both, err := certs.AddSignature(raw, f.owners[1])
	if err != nil {
		t.Fatal(err)
	}
	if p, err := f.chain.Pending(both); err != nil || !p.Complete() {
		t.Errorf("signed by two: %+v, %v", p, err)
	}
	f.advance(both)
	if _, err := f.chain.Pending(both); !errors.Is(err, certs.ErrGap) {
		t.Errorf("a ring that is in force is not pending: %v", err)
	}
	// Whose key was signed out signs nothing that follows.
	after := f.chain.Next()
	if err := after.SetThreshold(1); err != nil {
		t.Fatal(err)
	}
	if _, err := f.chain.Pending(f.sign(after, f.owners[2])); !errors.Is(err, certs.ErrRing) {
		t.Errorf("signed by a former owner: %v", err)
	}
}

func TestRingChanges(t *testing.T) {
	f := newFleet(t, 2, 2)
	coordinator, _ := f.withCoordinator()
	next := f.chain.Next()
	for what, err := range map[string]error{
		"an owner too few":           next.RemoveOwner(ownerName(1)),
		"an owner that is none":      next.RemoveOwner("nobody"),
		"a threshold of three":       next.SetThreshold(3),
		"a threshold of none":        next.SetThreshold(0),
		"an owner who is there":      next.AddOwner(enrol.OwnerRequest{Fleet: next.Fleet, Person: "other", Key: f.owners[0].Public()}),
		"an owner elsewhere":         next.AddOwner(enrol.OwnerRequest{Person: "other", Key: f.owners[0].Public()}),
		"a coordinator that is none": next.RemoveCoordinator(f.owners[0].Key()),
	} {
		if !errors.Is(err, certs.ErrRing) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := next.RemoveCoordinator(coordinator.Key()); err != nil {
		t.Fatal(err)
	}
	f.advance(f.sign(next, f.owners...))
	if _, ok := f.chain.Coordinator(coordinator.Key()); ok {
		t.Error("the coordinator is there still")
	}
}

// A file holds more rings than travel at once, and is read back.
func TestFileOfManyRings(t *testing.T) {
	f := newFleet(t, 1, 1)
	pin := f.chain.Pin()
	for size := 0; size <= certs.MaxChain; {
		raw := f.sign(f.chain.Next(), f.owners[0])
		f.advance(raw)
		size += len(raw)
	}
	parts, err := certs.DecodeFile(certs.EncodeFile(f.chain.Rings()))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := certs.OpenChain(pin, parts...)
	if err != nil || whole.Pin() != f.chain.Pin() {
		t.Fatalf("read back: %v", err)
	}
	began, err := certs.OpenChain(pin, parts[0])
	if err != nil {
		t.Fatal(err)
	}
	if began, err = began.AdvanceAll(parts); err != nil || began.Pin() != f.chain.Pin() {
		t.Errorf("walked forward: %v", err)
	}
	if _, err := certs.DecodeFile(nil); !errors.Is(err, certs.ErrRing) {
		t.Errorf("an empty file: %v", err)
	}
}
