package contract

import "slices"

// Bounds of the order in which containers are started.
const (
	MaxOrder = 1000
	MaxAfter = 16
)

// None takes away what containers are started after.
const None = "none"

// Start is when a container is started, should several be started at a time.
type Start struct {
	// Order is from 1 to MaxOrder: those of a lower one are started first. 0 is after all
	// of them.
	Order int64 `json:"order,omitzero"`
	// After are the ids of containers that are to run before.
	After []string `json:"after,omitempty"`
}

// Place is the order as a number that can be compared.
func (s Start) Place() int64 {
	if s.Order == 0 {
		return MaxOrder + 1
	}
	return s.Order
}

// Cycle returns a way from one container back to itself, if it were started after those
// of a list; nil if there is none. after tells it of the others.
func Cycle(id string, list []string, after func(string) []string) []string {
	seen := make(map[string]bool)
	var walk func(at string, way []string) []string
	walk = func(at string, way []string) []string {
		way = append(slices.Clone(way), at)
		if at == id {
			return way
		}
		if seen[at] {
			return nil
		}
		seen[at] = true
		for _, next := range after(at) {
			if found := walk(next, way); found != nil {
				return found
			}
		}
		return nil
	}
	for _, next := range list {
		if found := walk(next, []string{id}); found != nil {
			return found
		}
	}
	return nil
}
