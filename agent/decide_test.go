package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// TestCredit: what is on its way is not sent again, what was lost is.
func TestCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := outStream{limit: protocol.OutputKept}
		const patience = 10 * time.Second
		allow := func(what string, offset, next int64) {
			t.Helper()
			if o.allow(offset, protocol.ChunkWindow, patience); o.next != next || o.limit != offset+protocol.ChunkWindow {
				t.Fatalf("%s: goes on at %d up to %d, want %d", what, o.next, o.limit, next)
			}
		}
		o.sent(1, 1000)
		allow("asked while it is on its way", 0, 1000)
		time.Sleep(9 * time.Second)
		allow("asked again", 0, 1000)
		o.sent(1, 1000)
		allow("half has arrived", 1000, 2000)
		time.Sleep(9 * time.Second)
		allow("the other half is still on its way", 1000, 2000)
		time.Sleep(2 * time.Second)
		allow("it should have arrived", 1000, 1000)
		o.sent(1, 1000)
		allow("all has arrived", 2000, 2000)
		time.Sleep(time.Minute)
		o.sent(1, 1000)
		allow("what was just sent is on its way", 2000, 3000)
		o.sent(2, 1000)
		allow("an earlier connection took it along", 2000, 2000)
		o.sent(2, 1000)
		allow("the tail", 9000, 9000)
		o.sent(2, 1000)
		allow("the middle", 3000, 3000)
		o.sent(2, 1000)
		time.Sleep(time.Minute)
		if o.allow(3000, 0, patience); o.next != 4000 || o.limit != 3000 {
			t.Errorf("nothing is asked for: goes on at %d up to %d", o.next, o.limit)
		}
	})
}

// TestMaxOpen: what stops a container at once has room beyond all others, and no more
// than a host has containers.
func TestMaxOpen(t *testing.T) {
	a := &Agent{cfg: Config{MaxOpen: 3}}
	for _, k := range protocol.Kinds() {
		info, _ := protocol.KindOf(k)
		want := 3
		if info.Lane == protocol.LanePreempt {
			want = 1003
		}
		if got := a.maxOpen(&protocol.Spec{Kind: k}); got != want {
			t.Errorf("%s is taken while there are less than %d, want %d", k, got, want)
		}
	}
}

// TestArrivedIsBounded: a broker that repeats large chunks fills no more of the memory
// than twice what was asked for; that much finds room.
func TestArrivedIsBounded(t *testing.T) {
	in := newInputs(&Agent{counters: newCounters()})
	const size = protocol.ChunkSize + 1000
	chunk := make([]byte, size)
	for range 1000 {
		in.handle("", chunk)
	}
	took := len(in.arrived)
	if n := took * size; n > maxArrived || n < protocol.MaxInputWindow {
		t.Errorf("%d bytes wait, want %d to %d", n, protocol.MaxInputWindow, maxArrived)
	}
	if dropped := in.agent.counters.traffic.Counts().Dropped; dropped != uint64(1000-took) {
		t.Errorf("%d were dropped, %d wait", dropped, took)
	}
}

func TestJudge(t *testing.T) {
	const now = time.Hour
	states := []container.State{container.StateStopped, container.StateStarting, container.StateRunning,
		container.StateStopping, container.StateFrozen, container.StateUnknown}
	for _, c := range []struct {
		name  string
		spoil func(rec *queue.Container, seen *bool, tries *attempts)
		want  map[string]map[container.State]correction // by intended
	}{
		{"as it is", nil, map[string]map[container.State]correction{
			queue.Running: {container.StateStopped: correctStart},
			queue.Stopped: {container.StateRunning: correctStop, container.StateFrozen: correctStop},
		}},
		{"too early", func(_ *queue.Container, _ *bool, tries *attempts) { tries.notBefore = now + 1 }, map[string]map[container.State]correction{
			queue.Running: {container.StateStopped: correctLater},
			queue.Stopped: {container.StateRunning: correctLater, container.StateFrozen: correctLater},
		}},
		{"broken", func(rec *queue.Container, _ *bool, _ *attempts) { rec.Broken = "why" }, nil},
		{"half made", func(rec *queue.Container, _ *bool, _ *attempts) { rec.Made = false }, nil},
		{"not seen yet", func(_ *queue.Container, seen *bool, _ *attempts) { *seen = false }, nil},
	} {
		for _, intended := range []string{queue.Running, queue.Stopped} {
			for _, s := range states {
				rec, seen, tries := queue.Container{Made: true, Intended: intended}, true, attempts{}
				if c.spoil != nil {
					c.spoil(&rec, &seen, &tries)
				}
				if got, want := judge(&rec, seen, s, tries, now), c.want[intended][s]; got != want {
					t.Errorf("%s, intended %s, %v: %v, want %v", c.name, intended, s, got, want)
				}
			}
		}
	}
}

func TestMayRun(t *testing.T) {
	e := protocol.Epoch{Term: protocol.Term{Ring: 1, Counter: 2}, Counter: 3}
	for class, may := range map[string]bool{"pinned": true, "cloned": true, "unique": false} {
		got, why := mayRun(&queue.Container{Class: class, Epoch: e})
		if (why == "") != may || may && got != e {
			t.Errorf("%s: epoch %v, %q", class, got, why)
		}
	}
}

func TestPages(t *testing.T) {
	var all []protocol.Container
	for range 500 {
		all = append(all, protocol.Container{CTID: ct(1), Name: "a-name", Runtime: "lxc", State: "running", Labels: []string{"site=lab", "tier=db"}})
	}
	pages := paginate(make([]byte, 10<<10), all)
	total := 0
	for _, p := range pages {
		total += len(p)
	}
	if total != 500 || len(pages) < 4 {
		t.Errorf("%d containers in %d pages", total, len(pages))
	}
	if pages := paginate(nil, nil); len(pages) != 1 {
		t.Errorf("%d pages of nothing, want 1: the host is told in it", len(pages))
	}
}
