package agent_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// TestAuditIsExported holds the host's log, signed by the host, to what anybody who
// verifies it wants.
func TestAuditIsExported(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		for i := range 5 {
			w.coord.order(actionID(byte(i+1)), protocol.Spec{Kind: protocol.KindPing})
		}
		w.pass(5 * time.Second)
		var log bytes.Buffer
		write := func(line []byte) error {
			log.Write(line)
			log.WriteByte('\n')
			return nil
		}
		if err := w.agent.ExportAudit(t.Context(), write); err != nil {
			t.Fatal(err)
		}
		keys := pastKeys{w.ring.Keyring()}
		whole := log.Bytes()
		r, err := audit.Verify(bytes.NewReader(whole), audit.Config{Fleet: fleet, Keys: keys})
		if err != nil || len(r.Faults) > 0 || r.Records < 5 || r.Log != protocol.HostParty(host) {
			t.Errorf("%+v, %v", r, err)
		}
		changed := bytes.Replace(whole, []byte(`"verb":"action.`), []byte(`"verb":"xction.`), 1)
		if r, err := audit.Verify(bytes.NewReader(changed), audit.Config{Fleet: fleet, Keys: keys}); err != nil || len(r.Faults) == 0 || bytes.Equal(whole, changed) {
			t.Errorf("a changed record: %+v, %v", r, err)
		}
		full := errors.New("full")
		if err := w.agent.ExportAudit(t.Context(), func([]byte) error { return full }); !errors.Is(err, full) {
			t.Errorf("writing fails: %v", err)
		}
	})
}

// pastKeys are keys of a fleet that never had another coordinator.
type pastKeys struct{ protocol.Keyring }

func (pastKeys) Ring() uint64                               { return 1 }
func (pastKeys) WasCoordinator(uint64, protocol.KeyID) bool { return true }
