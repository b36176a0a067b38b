package hostlink

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// TestEachOf: each one is looked at once, and no more at a time than allowed, although all
// looks take their time.
func TestEachOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := make([]int, 100)
		var mu sync.Mutex
		under := 0
		gate := make(chan struct{})
		over := make(chan struct{})
		go func() {
			defer close(over)
			eachOf(pointers(all), 8, func(n *int) {
				mu.Lock()
				under++
				mu.Unlock()
				<-gate
				mu.Lock()
				under--
				*n++
				mu.Unlock()
			})
		}()
		for range all {
			synctest.Wait()
			if under > 8 {
				t.Fatalf("%d looks at a time", under)
			}
			gate <- struct{}{}
		}
		<-over
		for i, n := range all {
			if n != 1 {
				t.Errorf("number %d was looked at %d times", i, n)
			}
		}
		eachOf(nil, 8, func(*int) { t.Error("none is there, and one is looked at") })
	})
}

func pointers(all []int) (p []*int) {
	for i := range all {
		p = append(p, &all[i])
	}
	return p
}

// TestOutboxAtRest: a host that is sent nothing costs no maps, and is idle from when its
// items are acknowledged until there is another one.
func TestOutboxAtRest(t *testing.T) {
	var b outbox
	if n := testing.AllocsPerRun(10, b.reset); n != 0 {
		t.Errorf("an outbox without items takes %v allocations", n)
	}
	idle := func(when string, want bool) {
		t.Helper()
		if got := b.idle(); got != want {
			t.Errorf("%s: idle is %t", when, got)
		}
	}
	idle("at first", true)
	it := core.Item{N: 1, H: protocol.Sum([]byte("one"))}
	b.add(protocol.StreamControl, it)
	idle("with an item", false)
	if first, last := b.due(protocol.StreamControl, 0); first != 1 || last != 1 {
		t.Errorf("%d to %d are due", first, last)
	}
	idle("while it is under way", false)
	have := protocol.Position{Stream: protocol.StreamControl, N: 1, H: it.H}
	if foreign := b.ack([]protocol.Position{have, {Stream: protocol.StreamReport, N: 9}}, 0, 0); foreign.N != 0 {
		t.Errorf("position %d is foreign", foreign.N)
	}
	idle("after its acknowledgement", true)
	b.add(protocol.StreamOrder, core.Item{N: 1})
	idle("with another one", false)
}
