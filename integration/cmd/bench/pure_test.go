package main

import (
	"testing"

	"github.com/hostler-io/hostler/placement"
)

// TestPlacedFleet: the fleet that is placed has room for the workloads of a lost host, and
// no other workload moves.
func TestPlacedFleet(t *testing.T) {
	hosts, loads := lostHost(placedFleet())
	if len(hosts) != placedHosts || len(loads) != placedEach || hosts[1].Load != placedEach || hosts[0].Load != 0 {
		t.Fatalf("%d hosts, %d workloads, the second host has %d and the first %d", len(hosts), len(loads), hosts[1].Load, hosts[0].Load)
	}
	placed := placement.Place(hosts, loads, placement.Spread)
	if err := allPlaced(placed, placedEach, hosts[0].Name); err != nil {
		t.Error(err)
	}
	placed[3].To = hosts[0].Name
	if err := allPlaced(placed, placedEach, hosts[0].Name); err == nil {
		t.Error("a workload on the lost host counts as placed")
	}
}
