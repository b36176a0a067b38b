package agent

import (
	"testing"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/protocol"
)

// TestEachKindHasAHandler: an action of a kind that nothing carries out would wait for
// ever.
func TestEachKindHasAHandler(t *testing.T) {
	all := (&Agent{loop: loop.New(loop.Config{})}).handlers()
	for _, k := range protocol.Kinds() {
		if all[k] == nil {
			t.Errorf("%s has no handler", k)
		}
	}
}
