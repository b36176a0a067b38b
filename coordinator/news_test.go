package coordinator

import (
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// TestNews holds the news of actions to what Following relies on: the newest
// waits for whoever looks late, nobody is waited for, and nobody is kept.
func TestNews(t *testing.T) {
	var n news
	id := protocol.NewActionID(1, [10]byte{1})
	first, closeFirst := n.follow(id)
	second, closeSecond := n.follow(id)
	n.tell(core.Action{ID: id, State: protocol.StateRunning})
	n.tell(core.Action{ID: id, State: protocol.StateDone})
	n.tell(core.Action{ID: protocol.NewActionID(2, [10]byte{2})})
	for _, ch := range []<-chan core.Action{first, second} {
		if a := <-ch; a.State != protocol.StateDone {
			t.Errorf("told %s, want the newest", a.State)
		}
	}
	closeFirst()
	n.ask(id)
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
