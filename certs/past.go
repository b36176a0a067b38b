package certs

import (
	"slices"

	"github.com/hostler-io/hostler/protocol"
)

// Past is a book of keys that forgets no coordinator: what one signed while it
// stood in the ring stays signed when the owners have removed it. It is for
// what looks back, as the verification of an audit log does, and for nothing
// that obeys.
type Past struct {
	keys  *Keys
	chain *Chain
}

// Past returns the book for the chain that is in force.
func (k *Keys) Past() Past { return Past{k, k.Chain()} }

// Principal implements [protocol.Keyring]: whoever the book knows, and every
// coordinator of an earlier ring.
func (p Past) Principal(id protocol.KeyID) (protocol.Principal, bool) {
	if now, ok := p.keys.Principal(id); ok {
		return now, true
	}
	for _, l := range slices.Backward(p.chain.links) {
		if was, ok := l.members.principals[id]; ok && was.Can(protocol.RoleCoordinator) {
			return protocol.Principal{Roles: []protocol.Role{protocol.RoleCoordinator}, Key: was.Key}, true
		}
	}
	return protocol.Principal{}, false
}

// Ring returns the number of the ring in force.
func (p Past) Ring() uint64 { return p.chain.Ring().Number }

// WasCoordinator reports whether a key is a coordinator's in the ring of that
// number.
func (p Past) WasCoordinator(ring uint64, id protocol.KeyID) bool {
	for _, l := range p.chain.links {
		if l.ring.Number == ring {
			was, ok := l.members.principals[id]
			return ok && was.Can(protocol.RoleCoordinator)
		}
	}
	return false
}
