package protocol_test

import (
	"testing"
	"unsafe"

	"github.com/hostler-io/hostler/protocol"
)

// TestChannelKeepsNoPacket parses topics that are parts of packets, as those of the broker
// are: the channel that comes out must not keep the packet in memory.
func TestChannelKeepsNoPacket(t *testing.T) {
	for _, c := range channels {
		of := protocol.HostTopic("lab", "edge-07", c)
		if c.Direction() == protocol.Fleet {
			of = protocol.FleetTopic("lab", c)
		}
		if c.PerAction() {
			of.Action = anAction
		}
		topic := of.String()
		parsed, err := protocol.ParseTopic(topic)
		if err != nil {
			t.Fatal(err)
		}
		begin := uintptr(unsafe.Pointer(unsafe.StringData(topic)))
		at := uintptr(unsafe.Pointer(unsafe.StringData(string(parsed.Channel))))
		if at >= begin && at < begin+uintptr(len(topic)) {
			t.Errorf("channel %q is a part of topic %q", parsed.Channel, topic)
		}
	}
}
