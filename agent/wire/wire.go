// Package wire is how a host speaks and listens, whatever it has to say: what it
// signs, how it numbers what it says, and against what it holds a message before
// it believes it. The lease, the conversation with the coordinator, and the
// streams of bytes share it.
package wire

import (
	"encoding/json"

	"github.com/hostler-io/hostler/protocol"
)

// Trust is the ring that this host holds. It is safe for concurrent use.
type Trust interface {
	// Keyring knows the keys of the ring in force, Ring is its number, and Owners
	// how many of its owners it takes to sign.
	Keyring() protocol.Keyring
	Ring() uint64
	Owners() int
}

// Host is this host as its messages name it. It does not change, and is safe for
// concurrent use.
type Host struct {
	ID        protocol.HostID
	Fleet     protocol.FleetID
	FleetName protocol.FleetName
	Signer    protocol.Signer
	Trust     Trust
}

// Message is a message as it came.
type Message struct {
	Topic   string
	Payload []byte
}

// Topic is a topic of this host.
func (h *Host) Topic(c protocol.Channel) string {
	return protocol.HostTopic(h.FleetName, h.ID, c).String()
}

// Header starts a message of this host.
func (h *Host) Header(t protocol.Type) protocol.Header {
	return protocol.Header{Type: t, Fleet: h.Fleet, From: protocol.HostParty(h.ID), To: protocol.Coordinator, Ring: h.Trust.Ring()}
}

// Seal signs a message.
func (h *Host) Seal(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return protocol.Seal(h.Signer, body, nil)
}

// Open opens a message as if a ring were held; fresh judges whether it is new and
// by the coordinator in office.
func (h *Host) Open(m Message, ring uint64, fresh protocol.Freshness) (protocol.Message, error) {
	return protocol.Open(m.Payload, protocol.Expect{
		Fleet: h.Fleet, FleetName: h.FleetName, Self: protocol.HostParty(h.ID),
		Keys: h.Trust.Keyring(), Ring: ring, Topic: m.Topic, Fresh: fresh,
	})
}
