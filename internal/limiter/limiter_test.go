package limiter

import (
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol/limit"
)

// TestMissingLimits: of each limit that needs a control group, a host whose kernel lacks the
// controller tells that it cannot apply the limit.
func TestMissingLimits(t *testing.T) {
	for _, c := range []struct{ has, lacks []limit.Resource }{
		{[]limit.Resource{limit.CPU, limit.CPUSet, limit.IO, limit.Memory, limit.PIDs}, nil},
		{[]limit.Resource{limit.CPU, limit.CPUSet, limit.PIDs}, []limit.Resource{limit.IO, limit.Memory}},
		{nil, []limit.Resource{limit.CPU, limit.CPUSet, limit.IO, limit.Memory, limit.PIDs}},
	} {
		var told []limit.Resource
		for _, missing := range lacking(c.has) {
			name, why, _ := strings.Cut(missing, ": ")
			r, is := strings.CutPrefix(name, "limit.")
			if !is || why == "" {
				t.Errorf("of %v it tells %q", c.has, missing)
			}
			told = append(told, limit.Resource(r))
		}
		if !slices.Equal(told, c.lacks) {
			t.Errorf("a host with %v tells that it lacks %v, want %v", c.has, told, c.lacks)
		}
	}
}
