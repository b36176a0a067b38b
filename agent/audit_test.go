package agent_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// checkpoint is one of the coordinator's audit log.
func checkpoint(t *testing.T, by key, store protocol.StoreID, counter, n uint64, what string) []byte {
	t.Helper()
	body, err := json.Marshal(protocol.Checkpoint{
		Type: protocol.TypeCheckpoint, Fleet: fleet, Log: protocol.Coordinator, Store: store, After: n - 1, N: n,
		H: protocol.Sum([]byte(what)), Ring: 1, Term: protocol.Term{Ring: 1, Counter: counter}, AtMS: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := protocol.Seal(by, body, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestCheckpointsAreBroughtBack: the newest one that was signed is in each hello,
// of this process and of the next, and an older one does not push it out.
func TestCheckpointsAreBroughtBack(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		store, other := protocol.StoreID{9}, protocol.StoreID{8}
		n := byte(10)
		give := func(raw []byte) {
			t.Helper()
			w.coord.see(func() { w.coord.seal = raw })
			w.coord.order(actionID(n), protocol.Spec{Kind: protocol.KindPing}) // what it reports is receipted
			n++
			w.pass(3 * time.Second)
		}
		brings := func(want []byte) {
			t.Helper()
			w.restart()
			w.pass(3 * time.Second)
			w.coord.see(func() {
				if got := w.coord.hello.Checkpoint; string(got) != string(want) {
					t.Errorf("the hello brings %s, want %s", got, want)
				}
			})
		}
		five := checkpoint(t, coordinatorKey, store, 1, 5, "a")
		give(five)
		brings(five)
		give(checkpoint(t, coordinatorKey, store, 1, 4, "b")) // it went back
		give(checkpoint(t, coordinatorKey, store, 2, 5, "c")) // it wrote another history
		give(checkpoint(t, hostKey, store, 1, 9, "d"))        // nobody signed it who may
		give([]byte("x"))
		give(checkpoint(t, coordinatorKey, other, 1, 9, "e")) // of another database, without a newer term
		brings(five)
		seven := checkpoint(t, coordinatorKey, store, 1, 7, "f")
		give(seven)
		brings(seven)
		recovered := checkpoint(t, coordinatorKey, other, 3, 2, "g")
		give(recovered)
		brings(recovered)
	})
}

// TestHeartbeatsTellTheHead: the coordinator is told how far the host's own
// audit log goes, and a host that stands before what was told says so.
func TestHeartbeatsTellTheHead(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		head := func() (p protocol.Position) {
			w.coord.see(func() { p = w.coord.beats[len(w.coord.beats)-1].Audit })
			return p
		}
		w.pass(10 * time.Second)
		first := head()
		w.coord.order(actionID(1), command("true"))
		w.pass(time.Minute)
		second := head()
		if first.N == 0 || second.N != first.N+2 || second.H == first.H || second.Store != first.Store {
			t.Fatalf("heads %+v, then %+v: want the start and the end of an action more", first, second)
		}
		alerts := func(told protocol.Position) []protocol.AlertInfo {
			t.Helper()
			w.coord.see(func() { w.coord.knows = told })
			w.restart()
			w.pass(time.Minute)
			var all []protocol.AlertInfo
			w.coord.see(func() { all = w.coord.beats[len(w.coord.beats)-1].Alerts })
			return all
		}
		if all := alerts(second); len(all) != 0 {
			t.Errorf("alerts about what is true: %+v", all)
		}
		if all := alerts(protocol.Position{Store: second.Store, Stream: second.Stream, N: second.N + 100, H: second.H}); len(all) != 1 || !strings.Contains(all[0].Text, "was told of") {
			t.Errorf("alerts of a log that went back: %+v", all)
		}
		if all := alerts(first); len(all) != 0 {
			t.Errorf("alerts after all is well: %+v", all)
		}
		other := protocol.Position{Store: first.Store, Stream: first.Stream, N: first.N, H: protocol.Sum([]byte("other"))}
		if all := alerts(other); len(all) != 1 || !strings.Contains(all[0].Text, "is not the one") {
			t.Errorf("alerts of another history: %+v", all)
		}
		if all := alerts(protocol.Position{Store: protocol.StoreID{77}, Stream: first.Stream, N: 1, H: other.H}); len(all) != 1 {
			t.Errorf("another database clears it: %+v", all)
		}
	})
}

// TestTakenRingIsRecorded looks for it in the host's own log.
func TestTakenRingIsRecorded(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.ring.mu.Lock()
		w.ring.offered = 2
		w.ring.mu.Unlock()
		w.coord.see(func() { w.coord.claims = 2 })
		w.coord.order(actionID(1), protocol.Spec{Kind: protocol.KindPing})
		w.pass(5 * time.Second)
		found := 0
		_, _, err := w.queue.Audit().Export(t.Context(), func(line []byte) error {
			if strings.Contains(string(line), `"verb":"ring.take"`) && strings.Contains(string(line), `"ring":2`) {
				found++
			}
			return nil
		})
		if err != nil || found != 1 {
			t.Errorf("it was recorded %d times, %v", found, err)
		}
	})
}
