package placement

import (
	"slices"
	"strings"
)

// WaitsFor says for which others a workload waits that starts after them; empty if it may
// start. runs tells of each workload that there is whether it runs: one that is not there
// any more holds nothing up.
func WaitsFor(after []string, runs map[string]bool) string {
	var open []string
	for _, name := range after {
		if is, there := runs[name]; there && !is && !slices.Contains(open, name) {
			open = append(open, name)
		}
	}
	if len(open) == 0 {
		return ""
	}
	return "it waits for " + list(open) + ", after which it starts"
}

// list joins names as a sentence does.
func list(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Circle is a way from a workload over those after which each starts back to itself; nil if
// there is none. after tells after which others each workload starts.
func Circle(name string, after map[string][]string) []string {
	seen := make(map[string]bool)
	var walk func(way []string) []string
	walk = func(way []string) []string {
		for _, next := range after[way[len(way)-1]] {
			if next == name {
				return append(way, next)
			}
			if seen[next] {
				continue
			}
			seen[next] = true
			if found := walk(append(way, next)); found != nil {
				return found
			}
		}
		return nil
	}
	return walk([]string{name})
}
