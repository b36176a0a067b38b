package unique

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

// TestResolve goes through phases, copies and what is configured. The copy of the host that
// holds the workload is stopped by stop_all alone, whatever epoch another host names.
func TestResolve(t *testing.T) {
	high := protocol.Epoch{Term: protocol.Term{Ring: 9}, Counter: 9}
	for _, c := range []struct {
		name    string
		phase   Phase
		told    []Copy
		how     Copies
		stray   int
		stop    string
		blocked bool
		waits   bool
	}{
		{"one copy", Held, []Copy{{Host: "a"}}, StopAll, 0, "[]", false, false},
		{"one copy that is withheld", Withheld, []Copy{{Host: "a"}}, StopStale, 0, "[]", false, false},
		{"a second copy", Held, []Copy{{Host: "a"}, {Host: "b"}}, StopStale, 1, "[b]", false, false},
		{"a second copy names a higher epoch", Held, []Copy{{Host: "a"}, {Host: "b", Epoch: high}}, StopStale, 1, "[b]", false, false},
		{"a second copy, all are stopped", Held, []Copy{{Host: "a"}, {Host: "b"}}, StopAll, 1, "[a b]", false, true},
		{"a second copy, none is stopped", Held, []Copy{{Host: "a"}, {Host: "b"}}, Block, 1, "[]", true, true},
		{"the holder does not run it", Held, []Copy{{Host: "b"}}, StopStale, 1, "[b]", false, false},
		{"it is free, and runs where it was", Free, []Copy{{Host: "a"}}, StopStale, 1, "[a]", false, true},
		{"it is free, and none is stopped", Free, []Copy{{Host: "a"}}, Block, 1, "[]", true, true},
		{"discovery leaves the host out", Held, []Copy{{Host: "a"}, {Host: "b", Ignored: true}}, StopAll, 1, "[]", false, false},
		{"discovery leaves it out of a free one", Free, []Copy{{Host: "b", Ignored: true}}, Block, 1, "[]", false, false},
		{"one of two is left out", Held, []Copy{{Host: "b", Ignored: true}, {Host: "c"}}, StopStale, 2, "[c]", false, false},
		{"nothing is done in maintenance", Held, []Copy{{Host: "b", Maintenance: true}}, StopStale, 1, "[]", false, false},
	} {
		got := Resolve(Workload{Name: "db", Host: "a", Phase: c.phase}, c.told, c.how)
		if len(got.Stray) != c.stray || fmt.Sprint(got.Stop) != c.stop || (got.Blocked != "") != c.blocked || (got.Waits != "") != c.waits {
			t.Errorf("%s: %+v", c.name, got)
		}
		if c.waits && !strings.HasPrefix(got.Waits, "host ") {
			t.Errorf("%s: no host is named: %q", c.name, got.Waits)
		}
	}
}

// TestBlockedIsNotDecided: while a person is to decide between copies, nothing moves.
func TestBlockedIsNotDecided(t *testing.T) {
	v := View{Timing: Default(), Min: FenceGuard, NowMS: 1 << 40}
	for _, p := range []Phase{Held, Withheld, Free} {
		w := Workload{Name: "db", Host: "a", Phase: p}
		if next, changed := Decide(w, Holder{HeardMS: 1, Fence: FenceGuard, Off: true, Blocked: true}, v); changed {
			t.Errorf("%s: %+v", p, next)
		}
	}
}

// TestCopiesCheck refuses other words.
func TestCopiesCheck(t *testing.T) {
	for _, c := range []Copies{StopStale, StopAll, Block} {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
	}
	if err := Copies("stop").Check(); err == nil || !strings.Contains(err.Error(), "use stop_stale") {
		t.Error(err)
	}
}
