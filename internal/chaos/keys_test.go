package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// key signs by a digest, which is a thousand times faster than a signature. It
// keeps out everybody here: the broker knows no key.
type key string

// sigForm starts every signature: version, type, algorithm and hash of OpenPGP.
const sigForm = "\x04\x00\x16\x08"

func (k key) Key() protocol.KeyID {
	sum := sha256.Sum256([]byte(k))
	return protocol.KeyID(sum[:20])
}

func (k key) Sign(body []byte) ([]byte, error) {
	sum := sha256.Sum256(append([]byte(k), body...))
	return append([]byte(sigForm), sum[:]...), nil
}

func (k key) CheckForm(sig []byte) error {
	if len(sig) != len(sigForm)+sha256.Size || string(sig[:len(sigForm)]) != sigForm {
		return errors.New("not a signature of the tests")
	}
	return nil
}

func (k key) Verify(sig, body []byte) error {
	if want, _ := k.Sign(body); string(want) != string(sig) {
		return errors.New("the signature is wrong")
	}
	return nil
}

// coordinatorKey signs what goes down.
const coordinatorKey key = "coordinator"

// ring is the ring of the fleet: the trust of agents, who know of a newer one at once.
type ring struct {
	keys   map[protocol.KeyID]protocol.Principal
	number *atomic.Uint64
}

func newRing(hosts ...protocol.HostID) ring {
	r := ring{map[protocol.KeyID]protocol.Principal{coordinatorKey.Key(): {Roles: []protocol.Role{protocol.RoleCoordinator}, Key: coordinatorKey}}, new(atomic.Uint64)}
	r.number.Store(1)
	for _, h := range hosts {
		r.keys[key(h).Key()] = protocol.Principal{Roles: []protocol.Role{protocol.RoleHost}, Host: h, Key: key(h)}
	}
	return r
}

func (r ring) Principal(k protocol.KeyID) (protocol.Principal, bool) {
	p, ok := r.keys[k]
	return p, ok
}
func (r ring) Keyring() protocol.Keyring           { return r }
func (r ring) Ring() uint64                        { return r.number.Load() }
func (ring) Owners() int                           { return 1 }
func (ring) Advance(context.Context, []byte) error { return nil }
func (ring) Revoke(context.Context, []byte) error  { return nil }
func (ring) Fetch(context.Context, uint64) error   { return errors.New("there is no newer ring") }

// trust is that of the coordinator. The rest of its interface is never asked
// for.
type trust struct {
	core.Keys
	core.RingStore
	core.HostKeys
	core.ViewerKeys
	ring
}

func (t trust) Principal(k protocol.KeyID) (protocol.Principal, bool) { return t.ring.Principal(k) }
func (t trust) Ring() uint64                                          { return t.ring.Ring() }
func (t trust) Former() protocol.Keyring                              { return t.ring }
func (trust) Revoked() uint64                                         { return 0 }
func (trust) AddHost(protocol.HostID, []byte) error                   { return nil }
func (t trust) RingInForce() (uint64, protocol.Digest)                { return t.ring.Ring(), protocol.Digest{1} }

// dice is a source of random bytes for several goroutines.
type dice struct {
	mu sync.Mutex
	r  *rand.ChaCha8
}

func newDice(seed uint64) *dice {
	var s [32]byte
	binary.LittleEndian.PutUint64(s[:], seed)
	return &dice{r: rand.NewChaCha8(s)}
}

func (d *dice) Read(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Read(b)
}
