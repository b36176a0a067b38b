package core

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/protocol"
)

// termValue names the value that counts the starts of the coordinator: the number
// of a ring and how many starts there were under it, 8 bytes each.
const termValue = "term"

// loadTerm reads the newest term, zero if nothing was started yet. A coordinator of
// before has counted all its starts together, in 8 bytes: they are taken for starts
// under the present ring.
func loadTerm(tx Tx, ring uint64) (protocol.Term, error) {
	v, err := tx.Values.Get(termValue)
	switch {
	case errors.Is(err, ErrNotFound):
		return protocol.Term{}, nil
	case err != nil:
		return protocol.Term{}, err
	case len(v) == 8:
		return protocol.Term{Ring: ring, Counter: binary.BigEndian.Uint64(v)}, nil
	case len(v) != 16:
		return protocol.Term{}, fmt.Errorf("the term has %d bytes, want 16", len(v))
	}
	return protocol.Term{Ring: binary.BigEndian.Uint64(v), Counter: binary.BigEndian.Uint64(v[8:])}, nil
}

// PutTerm makes a term the newest one.
func PutTerm(tx Tx, t protocol.Term) error {
	return tx.Values.Put(termValue, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, t.Ring), t.Counter))
}

// CountStart returns the term of a start under the ring in force. The counter
// begins anew with every ring: so no invented counter is above the
// first one under the owners' next ring.
func CountStart(tx Tx, ring uint64) (protocol.Term, error) {
	t, err := loadTerm(tx, ring)
	if err != nil {
		return t, err
	}
	if t.Ring != ring {
		t = protocol.Term{Ring: ring}
	}
	t.Counter++
	return t, PutTerm(tx, t)
}

// Started reports whether a coordinator was ever started on this store.
func Started(tx Tx) (bool, error) {
	t, err := loadTerm(tx, 1)
	return t != protocol.Term{}, err
}
