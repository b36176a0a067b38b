//go:build integration && heavy

package integration

import (
	"testing"
	"time"
)

// TestSessionsOutliveLongOutages is TestSessionsOutliveOutages with outages as long as
// a broker's restart, and longer than a session lasts that its people have left.
func TestSessionsOutliveLongOutages(t *testing.T) {
	outages(t, 15*time.Second, 25*time.Second, 45*time.Second)
}

// TestSessionsOutliveLongPartitions is TestSessionsOutlivePartitions for longer.
func TestSessionsOutliveLongPartitions(t *testing.T) {
	partitions(t, 15*time.Second, 25*time.Second)
}
