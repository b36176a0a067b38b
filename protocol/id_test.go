package protocol_test

import (
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

// TestBatchAction: the id of a part follows from the batch and the part alone,
// and parts of different batches or names have different ids.
func TestBatchAction(t *testing.T) {
	batch := protocol.NewBatchID(1_780_000_000_000, [10]byte{1, 2, 3})
	a := batch.Action("edge-07")
	if got, want := a.String(), "019e7044-8800-7190-8ccd-2523df5663cd"; got != want {
		t.Errorf("the part edge-07 of %s is %s, want %s: whoever asks again would ask for something else", batch, got, want)
	}
	seen := map[protocol.ActionID]string{}
	for _, b := range []protocol.BatchID{batch, protocol.NewBatchID(1_780_000_000_000, [10]byte{1, 2, 4}), protocol.NewBatchID(1_780_000_000_001, [10]byte{1, 2, 3})} {
		for _, part := range []string{"edge-07", "edge-08", "", "edge-07 "} {
			id := b.Action(part)
			if other, ok := seen[id]; ok {
				t.Errorf("%s/%q has the id of %s", b, part, other)
			}
			seen[id] = b.String() + "/" + part
			if parsed, err := protocol.ParseActionID(id.String()); err != nil || parsed != id {
				t.Errorf("%s is no action id: %v", id, err)
			}
		}
	}
	if parsed, err := protocol.ParseBatchID(batch.String()); err != nil || parsed != batch {
		t.Errorf("%s, %v", parsed, err)
	}
	if _, err := (protocol.BatchID{}).MarshalText(); err == nil {
		t.Error("a batch without an id is written")
	}
}
