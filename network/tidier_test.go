package network_test

import (
	"context"
	"net/netip"
	"testing"

	"github.com/hostler-io/hostler/network"
)

// TestTidier: a rule of a port is left over if its container is not known, and of those
// of this agent alone.
func TestTidier(t *testing.T) { inNamespace(t, testTidier) }

func testTidier(t *testing.T) {
	port := func(owner string, number uint16) network.Port {
		return network.Port{Owner: owner, Protocol: "tcp", Host: number, Container: 80, Address: netip.MustParseAddr("10.9.9.2"), Bridge: "hlt-none"}
	}
	for mark, ports := range map[string][]network.Port{"mine": {port("web", 8080), port("gone", 8081)}, "other": {port("gone", 8082)}} {
		if err := network.Apply(network.Rules{Mark: mark, Ports: ports}); err != nil {
			t.Error(err)
			return
		}
	}
	tidier := network.Tidier{Mark: "mine", Known: func(context.Context) (map[string]bool, error) { return map[string]bool{"web": true}, nil }}
	for _, want := range []struct {
		repair bool
		found  int
	}{{false, 2}, {true, 2}, {false, 0}} {
		found, err := tidier.Debris(t.Context(), want.repair)
		if err != nil || len(found) != want.found {
			t.Errorf("found %+v, %v; want %d", found, err, want.found)
		}
		for _, d := range found {
			if d.Repaired != want.repair || d.Failure != "" {
				t.Errorf("%+v", d)
			}
		}
	}
	for mark, want := range map[string]int{"mine": 2, "other": 2} {
		if rules, err := network.Marked(mark); err != nil || len(rules) != want {
			t.Errorf("%s has %+v, %v", mark, rules, err)
		}
	}
}
