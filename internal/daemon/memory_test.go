package daemon

import "testing"

// TestMemoryIsGivenBack: after the start, after work, and now and then when work never
// ends; not while nothing was needed, nor while all of it is.
func TestMemoryIsGivenBack(t *testing.T) {
	const mb = 1 << 20
	for name, c := range map[string]struct {
		looks []memory
		want  int // times, that after the start included
	}{
		"quiet from the start": {looks(30, memory{}, memory{allocated: mb / 10}), 1},
		"after work":           {append(looks(10, memory{}, memory{allocated: 50 * mb}), looks(10, memory{allocated: 450 * mb}, memory{allocated: mb / 10})...), 2},
		"little work":          {looks(10, memory{}, memory{allocated: mb / 4}), 1},
		"leases without end":   {looks(81, memory{free: 100 * mb, live: 60 * mb}, memory{allocated: 40 * mb}), 5},
		"all of it in use":     {looks(81, memory{free: 40 * mb, live: 60 * mb}, memory{allocated: 40 * mb}), 1},
	} {
		var d tidying
		n := 0
		for _, m := range c.looks {
			if d.due(m) {
				n++
			}
		}
		if n != c.want {
			t.Errorf("%s: %d times, want %d", name, n, c.want)
		}
	}
}

// looks are so many looks, each of which finds more allocated than that before it.
func looks(n int, first, each memory) []memory {
	all := make([]memory, n)
	for i := range all {
		all[i] = first
		first.allocated += each.allocated
	}
	return all
}
