package core

import (
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
	"github.com/hostler-io/hostler/protocol/san"
)

// Broker carries messages. Delivery is proven by receipts alone, so an error
// only means that trying again later is as good. It is safe for concurrent use.
type Broker interface {
	// Publish hands a message over and returns without waiting for receivers.
	Publish(topic string, payload []byte, retained bool) error
	// Disconnect ends at once the connections of the holder of a certificate,
	// and of all whose certificate was revoked.
	Disconnect(name san.Name)
}

// Keys knows the keys: those of the ring in force, of the hosts that this
// coordinator approved, and what was revoked. It is safe for concurrent use.
type Keys interface {
	protocol.Keyring
	// Ring returns the number of the ring in force, and Revoked that of the
	// revocation list.
	Ring() uint64
	Revoked() uint64
	// RingInForce returns number and digest of the newest ring.
	RingInForce() (number uint64, digest protocol.Digest)
	// Members returns the keys of the ring in force, by key.
	Members() []protocol.Member
	// Own returns the coordinator's own OpenPGP certificate and the digest of
	// its primary key.
	Own() (certificate []byte, primary protocol.Digest)
	// Former also knows the coordinators of earlier rings.
	Former() protocol.Keyring
}

// RingStore keeps the chain of rings. It is safe for concurrent use.
type RingStore interface {
	// Rings returns rings from a number on, or the newest for 0, as many as are
	// served at once. Roster returns the signed list of hosts.
	Rings(from uint64) []byte
	Roster() ([]byte, error)
	// TakeRings makes newer rings durable and puts them into force. It reports
	// false when there are none that are newer. Rings that do not follow the one
	// in force, or that too few have signed, are an error that changes nothing.
	TakeRings(rings []byte) (newer bool, err error)
	// RemovedCoordinator is the number of the newest ring that took a coordinator out; 0
	// if none did.
	RemovedCoordinator() uint64
}

// HostKeys holds the keys of hosts. It is safe for concurrent use.
type HostKeys interface {
	// ParseHostKey reads the OpenPGP certificate of a host that asks to join.
	ParseHostKey(certificate []byte) (enrol.HostKey, error)
	// AddHost makes the key of an approved host known; RevokeHost marks a key of it and
	// all certificates of the host as revoked; PinHost makes the certificates of one key
	// good again, that of a certificate request: of a machine that took the place of
	// another, whose key was revoked.
	AddHost(id protocol.HostID, certificate []byte) error
	RevokeHost(id protocol.HostID, key protocol.KeyID)
	PinHost(id protocol.HostID, csr []byte) error
}

// ViewerKeys knows which certificates of viewers count. It is safe for concurrent use.
type ViewerKeys interface {
	// SetViewer makes the certificate of that serial number the only one of a
	// viewer; with an empty one the viewer has none. It is called for every
	// viewer at the start.
	SetViewer(name, serial string)
}

// Authority issues TLS certificates. It is safe for concurrent use.
type Authority interface {
	// CA returns the certificate of the fleet's authority, DER.
	CA() []byte
	// IssueHost signs the request of a host; both are DER. Nothing of the
	// request but its key is used.
	IssueHost(id protocol.HostID, csr []byte) (certificate []byte, err error)
	// Current reports whether a certificate is of this authority and has most
	// of its life before it.
	Current(certificate []byte) bool
	// IssueViewer makes a key and a certificate, PEM, that may read all topics.
	IssueViewer(name string) (certificate, key []byte, serial string, err error)
}
