package influx_test

import (
	"testing"

	"github.com/hostler-io/hostler/metrics/influx"
	packing "github.com/hostler-io/hostler/protocol/samples"
)

// TestPacked: whatever is measured may go by the coordinator, and gets there the names that
// a host that writes by itself gives it.
func TestPacked(t *testing.T) {
	tags := map[string]string{"host": "edge-07", "fleet": "lab"}
	for _, s := range samples(2) {
		plain, n := influx.Lines(nil, s, nil)
		b, taken, err := packing.Pack(plain, packing.MaxPacked)
		if err != nil || taken != len(plain) {
			t.Fatal(taken, err)
		}
		got, count, err := packing.Unpack(b, tags)
		if want, _ := influx.Lines(nil, s, tags); err != nil || count != n || string(got) != string(want) {
			t.Errorf("%d lines, want %d: %v\n%s\nwant\n%s", count, n, err, got, want)
		}
	}
}
