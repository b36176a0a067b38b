package protocol_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/protocol"
)

// fakeKey stands for an OpenPGP certificate, whose library this package may not
// import. Its signatures have a form to get wrong, as real ones do: version,
// type, algorithm and hash, each one byte, and 64 bytes of Ed25519. Package
// certs runs the same checks with real keys.
type fakeKey struct {
	id   protocol.KeyID
	priv ed25519.PrivateKey
}

const (
	sigVersion = iota
	sigType
	sigAlgorithm
	sigHash
	sigHead
)

// newFakeKey makes the same key for the same name.
func newFakeKey(name string) *fakeKey {
	seed := sha256.Sum256([]byte(name))
	k := &fakeKey{priv: ed25519.NewKeyFromSeed(seed[:])}
	copy(k.id[:], seed[:])
	return k
}

func (k *fakeKey) Key() protocol.KeyID { return k.id }

func (k *fakeKey) Sign(body []byte) ([]byte, error) {
	return append([]byte{4, 0, 22, 8}, ed25519.Sign(k.priv, body)...), nil
}

func (k *fakeKey) CheckForm(sig []byte) error {
	switch {
	case len(sig) != sigHead+ed25519.SignatureSize:
		return fmt.Errorf("%d bytes", len(sig))
	case sig[sigVersion] != 4 || sig[sigType] != 0 || sig[sigAlgorithm] != 22:
		return fmt.Errorf("version %d, type %d, algorithm %d", sig[sigVersion], sig[sigType], sig[sigAlgorithm])
	case sig[sigHash] < 8 || sig[sigHash] > 10:
		return fmt.Errorf("hash %d", sig[sigHash])
	}
	return nil
}

func (k *fakeKey) Verify(sig, body []byte) error {
	if !ed25519.Verify(k.priv.Public().(ed25519.PublicKey), body, sig[sigHead:]) {
		return errors.New("the signature is wrong")
	}
	return nil
}

// ring maps fingerprints to principals.
type ring map[protocol.KeyID]protocol.Principal

func (r ring) Principal(k protocol.KeyID) (protocol.Principal, bool) {
	p, ok := r[k]
	return p, ok
}

func (r ring) add(name string, p protocol.Principal) {
	k := newFakeKey(name)
	p.Key = k
	r[k.id] = p
}

// newRing is the small fleet of the tests.
func newRing() ring {
	r := ring{}
	host, person := []protocol.Role{protocol.RoleHost}, []protocol.Role{protocol.RolePerson}
	r.add("edge-07", protocol.Principal{Roles: host, Host: "edge-07"})
	r.add("edge-08", protocol.Principal{Roles: host, Host: "edge-08"})
	r.add("stolen", protocol.Principal{Roles: host, Host: "edge-07", Revoked: true})
	r.add("coordinator", protocol.Principal{Roles: []protocol.Role{protocol.RoleCoordinator}})
	r.add("old coordinator", protocol.Principal{Roles: []protocol.Role{protocol.RoleCoordinator}, Revoked: true})
	r.add("owner", protocol.Principal{Roles: []protocol.Role{protocol.RoleOwner, protocol.RolePerson}, Person: "olga"})
	r.add("person", protocol.Principal{Roles: person, Person: "pia"})
	return r
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The names of the small fleet.
var (
	theFleet   = protocol.FleetID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	otherFleet = protocol.FleetID{0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00}
	hostStore  = must(protocol.ParseStoreID("0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"))
	coStore    = must(protocol.ParseStoreID("0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c"))
	anAction   = must(protocol.ParseActionID("01890a5d-ac96-774b-bcce-b302099a8057"))
	twoAction  = must(protocol.ParseActionID("01890a5d-ac96-774b-bcce-b302099a8058"))
	aCTID      = must(protocol.ParseCTID("01890a5d-ac96-774b-bcce-b302099a9001"))
)

// nonce is a challenge or instance with a small number.
func nonce(n byte) protocol.Nonce { return protocol.Nonce{0xc0, 7: n} }
