package coordtest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// Key stands for an OpenPGP key: a plain Ed25519 key whose certificate is a
// magic word and the public key, and whose signatures have a form to check.
type Key struct{ secret ed25519.PrivateKey }

var (
	_ protocol.Signer    = (*Key)(nil)
	_ protocol.PublicKey = (*Key)(nil)
	_ enrol.HostKey      = publicKey{}
)

// sigForm starts every signature: version, type, algorithm and hash of
// OpenPGP.
const sigForm = "\x04\x00\x16\x08"

// certMagic starts every certificate.
const certMagic = "coordtest key "

// NewKey returns the key of a name, always the same one.
func NewKey(name string) *Key {
	seed := sha256.Sum256([]byte(name))
	return &Key{ed25519.NewKeyFromSeed(seed[:])}
}

func (k *Key) public() publicKey { return publicKey(k.secret.Public().(ed25519.PublicKey)) }

// Key implements [protocol.Signer].
func (k *Key) Key() protocol.KeyID { return k.public().Key() }

// Sign implements [protocol.Signer].
func (k *Key) Sign(body []byte) ([]byte, error) {
	return append([]byte(sigForm), ed25519.Sign(k.secret, body)...), nil
}

// CheckForm implements [protocol.PublicKey].
func (k *Key) CheckForm(sig []byte) error { return k.public().CheckForm(sig) }

// Verify implements [protocol.PublicKey].
func (k *Key) Verify(sig, body []byte) error { return k.public().Verify(sig, body) }

// Certificate returns the public part, as a host offers it.
func (k *Key) Certificate() []byte { return append([]byte(certMagic), k.public()...) }

// PrimaryDigest returns the digest that pins and words are made of.
func (k *Key) PrimaryDigest() protocol.Digest { return k.public().PrimaryDigest() }

// publicKey is the public part of a Key.
type publicKey ed25519.PublicKey

func (p publicKey) PrimaryDigest() protocol.Digest { return protocol.Sum(p) }

func (p publicKey) Key() protocol.KeyID {
	sum := p.PrimaryDigest()
	return protocol.KeyID(sum[:20])
}

func (p publicKey) CheckForm(sig []byte) error {
	if len(sig) != len(sigForm)+ed25519.SignatureSize || string(sig[:len(sigForm)]) != sigForm {
		return errors.New("not a signature of the tests")
	}
	return nil
}

func (p publicKey) Verify(sig, body []byte) error {
	if !ed25519.Verify(ed25519.PublicKey(p), body, sig[len(sigForm):]) {
		return errors.New("the signature is wrong")
	}
	return nil
}

// Trust is all keys of a coordinator, with one ring and keys of this package.
type Trust struct {
	fleet protocol.FleetID
	self  *Key
	rings []byte

	mu      sync.Mutex
	keys    map[protocol.KeyID]protocol.Principal
	revoked uint64
	ring    uint64
	pinned  uint64 // the ring whose digest a test has set
	digest  protocol.Digest
}

func newTrust(fleet protocol.FleetID) (*Trust, error) {
	t := &Trust{fleet: fleet, self: NewKey("coordinator"), ring: 1, keys: make(map[protocol.KeyID]protocol.Principal)}
	t.keys[t.self.Key()] = protocol.Principal{Roles: []protocol.Role{protocol.RoleCoordinator}, Key: t.self}
	ring, err := protocol.Seal(NewKey("owner"), fmt.Appendf(nil, `{"hostler":"ring/1","fleet":"%s","number":1}`, fleet), nil)
	t.rings = ring
	return t, err
}

// Principal implements [protocol.Keyring].
func (t *Trust) Principal(k protocol.KeyID) (protocol.Principal, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.keys[k]
	return p, ok
}

// Ring implements [core.Keys].
func (t *Trust) Ring() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ring
}

// SetRing makes the ring of that number the one in force. It says what the one
// before said.
func (t *Trust) SetRing(number uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ring = number
}

// SetPin is SetRing for a ring of the caller's, which has a digest of its own.
func (t *Trust) SetPin(number uint64, digest protocol.Digest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ring, t.pinned, t.digest = number, number, digest
}

// WasCoordinator reports whether a key is the coordinator's, of the rings so far. With
// it a Trust has what the verification of an audit log asks for.
func (t *Trust) WasCoordinator(ring uint64, k protocol.KeyID) bool {
	return ring <= t.Ring() && k == t.self.Key()
}

// Former implements [core.Keys]: there is one coordinator.
func (t *Trust) Former() protocol.Keyring { return t }

// Revoked implements [core.Keys].
func (t *Trust) Revoked() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.revoked
}

// Rings implements [core.RingStore].
func (t *Trust) Rings(uint64) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rings
}

// RemovedCoordinator implements [core.RingStore]: there was one coordinator only.
func (t *Trust) RemovedCoordinator() uint64 { return 0 }

// Signer is the coordinator's key, for tests in which it was stolen.
func (t *Trust) Signer() protocol.Signer { return t.self }

// TakeRings implements [core.RingStore]: a ring of the tests is the word of an
// owner with its number, which names the coordinator or does not.
func (t *Trust) TakeRings(b []byte) (bool, error) {
	env, err := protocol.Split(b)
	if err != nil {
		return false, err
	}
	owner := NewKey("owner")
	if env.Key != owner.Key() || owner.CheckForm(env.Sig) != nil || owner.Verify(env.Sig, env.Body) != nil {
		return false, errors.New("no owner has signed the ring")
	}
	var r struct {
		Number  uint64 `json:"number"`
		Without bool   `json:"without"`
	}
	if err := protocol.DecodeJSON(env.Body, &r, true); err != nil {
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.Number <= t.ring {
		return false, nil
	}
	t.ring, t.rings = r.Number, b
	if r.Without {
		delete(t.keys, t.self.Key())
	}
	return true, nil
}

// NextRing returns the ring after the one in force, signed by the owner, with or
// without the coordinator in it.
func (t *Trust) NextRing(with bool) []byte {
	ring, err := protocol.Seal(NewKey("owner"), fmt.Appendf(nil, `{"hostler":"ring/1","fleet":"%s","number":%d,"without":%t}`, t.fleet, t.Ring()+1, !with), nil)
	if err != nil {
		panic(err) // its body is an object on one line
	}
	return ring
}

// RingInForce implements [core.Keys].
func (t *Trust) RingInForce() (uint64, protocol.Digest) {
	t.mu.Lock()
	ring, pinned, digest := t.ring, t.pinned, t.digest
	t.mu.Unlock()
	if ring == pinned {
		return ring, digest
	}
	return ring, protocol.Sum(t.Rings(0))
}

// Own implements [core.Keys].
func (t *Trust) Own() ([]byte, protocol.Digest) { return t.self.Certificate(), t.self.PrimaryDigest() }

// Roster implements [core.RingStore].
func (t *Trust) Roster() ([]byte, error) {
	t.mu.Lock()
	keys := maps.Clone(t.keys)
	t.mu.Unlock()
	return protocol.Seal(t.self, fmt.Appendf(nil, `{"hostler":"roster/1","fleet":"%s","number":%d}`, t.fleet, len(keys)), nil)
}

// ParseHostKey implements [core.Keys].
func (t *Trust) ParseHostKey(certificate []byte) (enrol.HostKey, error) {
	if len(certificate) != len(certMagic)+ed25519.PublicKeySize || string(certificate[:len(certMagic)]) != certMagic {
		return nil, errors.New("not a certificate of the tests")
	}
	return publicKey(certificate[len(certMagic):]), nil
}

// AddHost implements [core.Keys].
func (t *Trust) AddHost(id protocol.HostID, certificate []byte) error {
	key, err := t.ParseHostKey(certificate)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keys[key.Key()] = protocol.Principal{Roles: []protocol.Role{protocol.RoleHost}, Host: id, Key: key}
	return nil
}

// AddPerson lets a person approve with the key of a name, which may be another.
func (t *Trust) AddPerson(person, name string) *Key {
	k := NewKey(name)
	t.AddKey(person, k.Key(), k)
	return k
}

// AddKey makes a key known, of any kind, as that of a person.
func (t *Trust) AddKey(person string, id protocol.KeyID, k protocol.PublicKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keys[id] = protocol.Principal{Roles: []protocol.Role{protocol.RolePerson}, Person: person, Key: k}
}

// DropKey takes a key out of the ring.
func (t *Trust) DropKey(k protocol.KeyID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.keys, k)
}

// Members implements [core.Keys].
func (t *Trust) Members() []protocol.Member {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []protocol.Member
	for id, p := range t.keys {
		if p.Host == "" {
			all = append(all, protocol.Member{Key: id, Roles: p.Roles, Person: p.Person, Revoked: p.Revoked})
		}
	}
	slices.SortFunc(all, func(a, b protocol.Member) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	return all
}

// RevokeHost implements [core.Keys].
func (t *Trust) RevokeHost(_ protocol.HostID, key protocol.KeyID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.keys[key]
	p.Revoked = true
	t.keys[key] = p
	t.revoked++
}

// PinHost implements [core.Keys]: there is no TLS to refuse anybody.
func (t *Trust) PinHost(protocol.HostID, []byte) error { return nil }

// SetViewer implements [core.Keys]: there is no TLS to refuse anybody.
func (t *Trust) SetViewer(_, _ string) {}

// authority is a [coordinator.Authority] whose certificates are plain words.
type authority struct{}

func (authority) CA() []byte { return []byte("certificate of the authority") }

func (authority) IssueHost(id protocol.HostID, csr []byte) ([]byte, error) {
	if len(csr) == 0 {
		return nil, errors.New("the request is empty")
	}
	return []byte("certificate of host " + string(id)), nil
}

func (authority) Current([]byte) bool { return true }

func (authority) IssueViewer(name string) (certificate, key []byte, serial string, err error) {
	return []byte("certificate of viewer " + name), []byte("key of viewer " + name), "0a" + fmt.Sprintf("%x", name), nil
}
