package networks

import (
	"errors"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// TestNamed: the parts of a bridge or a container are those that bear its name, and a name
// that none bears is not found.
func TestNamed(t *testing.T) {
	parts := func() []api.NetworkPart {
		return []api.NetworkPart{{Kind: "bridge", Name: "hostler0", Network: "hostler0"}, {Kind: "cable", Name: "veth1", Network: "hostler0", Owner: "web"}}
	}
	for name, want := range map[string]int{"hostler0": 2, "web": 1} {
		if got, err := named(parts(), "edge-01", []string{name}); err != nil || len(got) != want {
			t.Errorf("%s has the parts %+v (%v), want %d", name, got, err, want)
		}
	}
	for host, next := range map[string]string{"edge-01": "hostler net ls edge-01", "": "hostler net ls"} {
		_, err := named(parts(), protocol.HostID(host), []string{"nosuch"})
		if f, ok := errors.AsType[*term.Failure](err); !ok || f.Code != term.ExitNotFound || f.Next != next {
			t.Errorf("of %q: %+v, want exit code %d and %q", host, f, term.ExitNotFound, next)
		}
	}
}
