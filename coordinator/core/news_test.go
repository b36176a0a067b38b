package core

import (
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

// TestNews holds the news of actions to what Following relies on: the newest
// waits for whoever looks late, nobody is waited for, and nobody is kept.
func TestNews(t *testing.T) {
	var n News
	id := protocol.NewActionID(1, [10]byte{1})
	first, closeFirst := n.Follow(id)
	second, closeSecond := n.Follow(id)
	n.Tell(Action{ID: id, State: protocol.StateRunning})
	n.Tell(Action{ID: id, State: protocol.StateDone})
	n.Tell(Action{ID: protocol.NewActionID(2, [10]byte{2})})
	for _, ch := range []<-chan Action{first, second} {
		if a := <-ch; a.State != protocol.StateDone {
			t.Errorf("told %s, want the newest", a.State)
		}
	}
	closeFirst()
	n.Ask(id)
	if a := <-second; !a.ID.IsZero() {
		t.Errorf("asked with %v", a.ID)
	}
	if len(first) != 0 {
		t.Error("told after it was closed")
	}
	closeSecond()
	if len(n.followers) != 0 {
		t.Errorf("%d actions are followed by nobody", len(n.followers))
	}
}
