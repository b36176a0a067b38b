package broker

import (
	"net"
	"slices"
	"testing"
	"testing/synctest"
)

// TestHandshakesTakeTurns: one handshake computes at a time, and one that waits for its other end delays none.
// After the handshake there are no turns.
func TestHandshakesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{free: 1}
		begin := func() (ours *handshaker, theirs net.Conn) {
			plain, theirs := net.Pipe()
			t.Cleanup(func() { plain.Close(); theirs.Close() })
			return &handshaker{Conn: plain, turns: turns}, theirs
		}
		said := func(theirs net.Conn) {
			t.Helper()
			if _, err := theirs.Write([]byte{1}); err != nil {
				t.Error(err)
			}
		}
		// reads counts what a handshake has read and may compute with.
		reads := func(ours *handshaker, n *int) {
			if _, err := ours.Read(make([]byte, 1)); err == nil {
				*n++
			}
		}
		a, toA := begin()
		b, toB := begin()
		late, toLate := begin()
		var ofA, ofB, ofLate int
		go reads(a, &ofA)
		go reads(b, &ofB)
		said(toA)
		synctest.Wait()
		said(toB)
		synctest.Wait()
		if ofA != 1 || ofB != 0 {
			t.Errorf("%d and %d compute at the same time, want 1 and 0", ofA, ofB)
		}
		go reads(a, &ofA) // it waits for its other end
		synctest.Wait()
		if ofB != 1 {
			t.Error("a handshake that waits for its other end holds another one up")
		}
		said(toA)
		b.over()
		synctest.Wait()
		if ofA != 2 {
			t.Error("a handshake that is over holds another one up")
		}
		go reads(b, &ofB)
		said(toB)
		synctest.Wait()
		if ofB != 2 {
			t.Error("after the handshake a connection waits for a turn")
		}
		go reads(late, &ofLate)
		said(toLate)
		synctest.Wait()
		late.Close() // while it waits for its turn
		a.over()
		synctest.Wait()
		if ofLate != 0 {
			t.Error("a handshake goes on whose connection is closed")
		}
		late.over()
		if turns.free != 1 {
			t.Errorf("%d turns are free at the end, want 1", turns.free)
		}
	})
}

// TestTurns: who has begun goes before who has not, and else who came first.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{}
		var order []int
		for i, begun := range []bool{false, true, false, true} {
			go func() {
				turns.take(begun)
				order = append(order, i)
				turns.give()
			}()
			synctest.Wait()
		}
		turns.give()
		synctest.Wait()
		if want := []int{1, 3, 0, 2}; !slices.Equal(order, want) || turns.free != 1 {
			t.Errorf("the turns went to %v, and %d are free, want %v and 1", order, turns.free, want)
		}
	})
}
