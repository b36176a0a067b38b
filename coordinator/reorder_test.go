package coordinator_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/protocol"
)

// A broker may deliver in any order. A report that overtakes the proof of a
// hello must not make it look as if the host's disk had gone back since.
func TestReportOvertakesTheProofOfAHello(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		f.Delay(func(topic string, payload []byte) bool {
			at, err := protocol.ParseTopic(topic)
			return err == nil && (at.Channel == protocol.ChannelLease || at.Channel == protocol.ChannelHeartbeat ||
				bytes.Contains(payload, []byte(`"online"`)))
		})
		h.Connect()
		synctest.Wait()
		h.Report(o.Started(h))
		synctest.Wait()
		f.Delay(nil)
		after(10 * time.Second)
		if why := quarantined(t, f, h); why != "" {
			t.Fatalf("an honest host is quarantined: %s", why)
		}
		want(t, f, a.ID, protocol.StateRunning, "")
		h.Report(o.Done())
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
	})
}
