// Package access knows with what people and tools authenticate: the tokens of the API
// and what goes on by them, and the certificates of those who only read topics.
package access

import (
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// Authority issues certificates of viewers. It is safe for concurrent use.
type Authority interface {
	// CA returns the certificate of the fleet's authority, DER.
	CA() []byte
	// IssueViewer makes a key and a certificate, PEM, that may read all topics.
	IssueViewer(name string) (certificate, key []byte, serial string, err error)
}

// Keys knows which certificates of viewers count. It is safe for concurrent use.
type Keys interface {
	// SetViewer makes the certificate of that serial number the only one of a
	// viewer; with an empty one the viewer has none. It is called for every
	// viewer at the start.
	SetViewer(name, serial string)
}

// Broker cuts connections.
type Broker interface {
	// Disconnect ends at once the connections of the holder of a certificate,
	// and of everybody whose certificate was revoked.
	Disconnect(name protocol.SAN)
}

// Room gives access to people and tools. All methods are safe for concurrent use.
type Room struct {
	base      *core.Base
	authority Authority
	keys      Keys
	broker    Broker
	bearers   bearers
}

// New returns a room without anybody in it.
func New(base *core.Base, authority Authority, keys Keys, broker Broker) *Room {
	return &Room{base: base, authority: authority, keys: keys, broker: broker}
}

// Load tells the keys which certificates of viewers count. It is called at the start.
func (r *Room) Load(tx core.Tx) error {
	all, err := tx.Access.Viewers()
	if err != nil {
		return err
	}
	for _, v := range all {
		r.setViewer(v)
	}
	return nil
}

// Expire ends what is served by tokens whose life is over. It is called each second.
func (r *Room) Expire() { r.bearers.expire(r.base.LifeMS()) }
