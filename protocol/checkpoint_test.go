package protocol_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

// TestCheckpointIsOfItsSigner holds whoever signs a checkpoint to their own log.
func TestCheckpointIsOfItsSigner(t *testing.T) {
	w := newWorld(protocol.Coordinator)
	for _, c := range []struct {
		key  string
		log  protocol.Party
		want error
	}{
		{"coordinator", protocol.Coordinator, nil},
		{"edge-07", "host:edge-07", nil},
		{"edge-07", protocol.Coordinator, protocol.ErrFrom},
		{"edge-07", "host:edge-08", protocol.ErrFrom},
		{"coordinator", "host:edge-07", protocol.ErrFrom},
		{"owner", protocol.Coordinator, protocol.ErrRole},
	} {
		body := must(json.Marshal(sampleCheckpoint(c.log)))
		raw := must(protocol.Seal(newFakeKey(c.key), body, nil))
		got, m, err := protocol.OpenCheckpoint(raw, theFleet, w.expect(&vector{Type: protocol.TypeCheckpoint}).Keys)
		if !errors.Is(err, c.want) || err != nil && c.want == nil {
			t.Errorf("%s signs the log of %s: %v, want %v", c.key, c.log, err, c.want)
		}
		if err == nil && (got.Position().N != 21 || m.Key != newFakeKey(c.key).id) {
			t.Errorf("%s: %+v by %s", c.log, got, m.Key)
		}
	}
}
