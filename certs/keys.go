package certs

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hostler-io/hostler/protocol"
)

// ErrKeyTaken tells that a key belongs to another principal already.
var ErrKeyTaken = errors.New("the key belongs to another principal")

// Keys is the book of who owns which key: the ring in force, the hosts, and
// what was revoked. It implements [protocol.Keyring] and is safe for
// concurrent use. Agents keep one without hosts: they hear no other host.
type Keys struct {
	mu      sync.RWMutex
	chain   *Chain
	roots   *x509.CertPool
	hosts   map[protocol.HostID]*PublicKey
	owners  map[protocol.KeyID]protocol.HostID
	revoked map[protocol.KeyID]struct{}
	number  uint64 // of the newest revocation list
}

var _ protocol.Keyring = (*Keys)(nil)

// NewKeys returns the book for a chain.
func NewKeys(chain *Chain) *Keys {
	k := &Keys{
		hosts:   map[protocol.HostID]*PublicKey{},
		owners:  map[protocol.KeyID]protocol.HostID{},
		revoked: map[protocol.KeyID]struct{}{},
	}
	k.chain, k.roots = chain, chain.Roots()
	return k
}

// Advance takes newer rings into force. It reports whether there were any; on
// an error of [Chain.Advance] the ring in force stays.
func (k *Keys) Advance(b []byte) (bool, error) {
	for {
		// Rings are verified without the lock, which every message needs.
		from := k.Chain()
		next, err := from.Advance(b)
		if err != nil {
			return false, err
		}
		if next.Ring().Number == from.Ring().Number {
			return false, nil
		}
		if roots := next.Roots(); k.swap(from, next, roots) {
			return true, nil
		}
	}
}

// swap puts next into force if from still is.
func (k *Keys) swap(from, next *Chain, roots *x509.CertPool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.chain != from {
		return false
	}
	k.chain, k.roots = next, roots
	maps.DeleteFunc(k.revoked, func(id protocol.KeyID, _ struct{}) bool { return next.reinstates(id) })
	return true
}

// Chain returns the chain whose last ring is in force.
func (k *Keys) Chain() *Chain {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.chain
}

// Roots returns the authorities of the ring in force. The pool is not to be
// written to.
func (k *Keys) Roots() *x509.CertPool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.roots
}

// SetHost makes key the one key of a host, after its approval. The
// key that the host had before is forgotten, not revoked: [Keys.Revoke] is a
// decision of its own. A key of the ring or of another host is [ErrKeyTaken].
func (k *Keys) SetHost(host protocol.HostID, key *PublicKey) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if other, ok := k.owners[key.id]; ok && other != host {
		return fmt.Errorf("key %s of host %q: %w: host %q has it", key.id, host, ErrKeyTaken, other)
	}
	if _, ok := k.chain.top().members.principals[key.id]; ok {
		return fmt.Errorf("key %s of host %q: %w: the ring names it", key.id, host, ErrKeyTaken)
	}
	if old, ok := k.hosts[host]; ok {
		delete(k.owners, old.id)
	}
	k.hosts[host], k.owners[key.id] = key, host
	return nil
}

// HostKey returns the key of a host.
func (k *Keys) HostKey(host protocol.HostID) (*PublicKey, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	key, ok := k.hosts[host]
	return key, ok
}

// Revoke takes the rights of keys away. The way back is another key, or a ring
// that reinstates the key; of such a key nothing is taken away here any more.
// number is that of the list they stand in; a lower one than before takes rights
// away all the same. Rings are not affected: who signs them is decided by rings
// alone, or a coordinator could lock the owners out.
func (k *Keys) Revoke(number uint64, keys ...protocol.KeyID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range keys {
		if !k.chain.reinstates(id) {
			k.revoked[id] = struct{}{}
		}
	}
	k.number = max(k.number, number)
}

// Revoked reports whether a key was revoked.
func (k *Keys) Revoked(id protocol.KeyID) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	_, ok := k.revoked[id]
	return ok
}

// RevokedNumber returns the number of the newest revocation list.
func (k *Keys) RevokedNumber() uint64 {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.number
}

// Principal implements [protocol.Keyring].
func (k *Keys) Principal(id protocol.KeyID) (protocol.Principal, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	p, ok := k.chain.top().members.principals[id]
	if host, isHost := k.owners[id]; !ok && isHost {
		p, ok = protocol.Principal{Roles: hostRoles, Host: host, Key: k.hosts[host]}, true
	}
	if _, p.Revoked = k.revoked[id]; p.Revoked {
		ok = true // also if its owner is not known any more
	}
	return p, ok
}

// Members returns the keys of the ring in force, by key.
func (k *Keys) Members() []protocol.Member {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var all []protocol.Member
	for id, p := range k.chain.top().members.principals {
		_, revoked := k.revoked[id]
		all = append(all, protocol.Member{Key: id, Roles: p.Roles, Person: p.Person, Revoked: revoked})
	}
	slices.SortFunc(all, func(a, b protocol.Member) int { return compareKeys(a.Key, b.Key) })
	return all
}

// hostRoles is shared by all hosts' principals.
var hostRoles = []protocol.Role{protocol.RoleHost}

// RevocationList returns the document that says which keys of rings were revoked,
// under the given number, sorted. The keys of hosts need no list, and would not
// fit into one for ever: the roster has the hosts that are members.
func (k *Keys) RevocationList(number uint64) Revocations {
	k.mu.RLock()
	defer k.mu.RUnlock()
	keys := slices.DeleteFunc(slices.SortedFunc(maps.Keys(k.revoked), compareKeys), func(id protocol.KeyID) bool { return !k.chain.Revocable(id) })
	return Revocations{Type: protocol.TypeRevoked, Fleet: k.chain.Ring().Fleet, Number: number, Keys: keys}
}

func compareKeys(a, b protocol.KeyID) int { return bytes.Compare(a[:], b[:]) }

// MaxRevoked is how many keys a revocation list may hold: as many as fit into
// a document.
const MaxRevoked = 5000

// Revocations is the document revoked/1. It can only take rights away, so it
// does no harm wherever it comes from: a list that is withheld is missed, because
// its number stands in every message of the coordinator.
type Revocations struct {
	Type   protocol.Type    `json:"hostler"`
	Fleet  protocol.FleetID `json:"fleet"`
	Number uint64           `json:"number"`
	Keys   []protocol.KeyID `json:"keys"` // ascending
	// By is the coordinator that has signed it, set by [Keys.OpenRevocations].
	By protocol.KeyID `json:"-"`
}

// Roster is the document roster/1: which host has which key, for programs
// that verify a host's messages without being its coordinator. It comes in parts,
// so that each stays below [protocol.MaxDocument].
type Roster struct {
	Type   protocol.Type    `json:"hostler"`
	Fleet  protocol.FleetID `json:"fleet"`
	Number uint64           `json:"number"`
	Part   int              `json:"part"`  // from 1
	Parts  int              `json:"parts"` // of this number
	Hosts  []RosterHost     `json:"hosts"` // ascending by host
}

// RosterHost is a line of a roster.
type RosterHost struct {
	Host protocol.HostID `json:"host"`
	Key  []byte          `json:"key"` // OpenPGP certificate, binary
}

// rosterPart is how many bytes of keys one part of a roster holds: base64 adds
// a third, names and the envelope have room in what is left.
const rosterPart = 128 << 10

// Roster returns the parts of the roster of all hosts, under the given number.
func (k *Keys) Roster(number uint64) []Roster {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var parts []Roster
	size := rosterPart + 1
	for _, host := range slices.Sorted(maps.Keys(k.hosts)) {
		raw := k.hosts[host].raw
		if size += len(raw) + protocol.MaxLabel; size > rosterPart {
			parts = append(parts, Roster{Type: protocol.TypeRoster, Fleet: k.chain.Ring().Fleet, Number: number, Part: len(parts) + 1})
			size = len(raw) + protocol.MaxLabel
		}
		last := &parts[len(parts)-1]
		last.Hosts = append(last.Hosts, RosterHost{Host: host, Key: raw})
	}
	if parts == nil {
		parts = []Roster{{Type: protocol.TypeRoster, Fleet: k.chain.Ring().Fleet, Number: number, Part: 1, Hosts: []RosterHost{}}}
	}
	for i := range parts {
		parts[i].Parts = len(parts)
	}
	return parts
}

// Seal signs a list.
func (r Revocations) Seal(s protocol.Signer) ([]byte, error) {
	r.Keys = nonNil(r.Keys)
	return sealDocument(s, r, r.check())
}

// Seal signs a part of a roster.
func (r Roster) Seal(s protocol.Signer) ([]byte, error) {
	r.Hosts = nonNil(r.Hosts)
	return sealDocument(s, r, r.check())
}

func sealDocument(s protocol.Signer, document any, err error) ([]byte, error) {
	body, e := json.Marshal(document)
	if err := cmp.Or(err, e); err != nil {
		return nil, err
	}
	return protocol.Seal(s, body, nil)
}

// errDocument tells that a document of a coordinator breaks its own rules.
var errDocument = errors.New("malformed document")

func (r Revocations) check() error {
	if r.Number == 0 || len(r.Keys) > MaxRevoked || !ascending(r.Keys, compareKeys) {
		return fmt.Errorf("revocation list %d: %w: want a number and at most %d keys in ascending order", r.Number, errDocument, MaxRevoked)
	}
	return nil
}

func (r Roster) check() error {
	byHost := func(a, b RosterHost) int { return cmp.Compare(a.Host, b.Host) }
	if r.Number == 0 || r.Part < 1 || r.Part > r.Parts || !ascending(r.Hosts, byHost) {
		return fmt.Errorf("roster %d: %w: want a number, a part of its parts, and hosts in ascending order", r.Number, errDocument)
	}
	return nil
}

// ascending reports whether s is sorted and holds nothing twice.
func ascending[T any](s []T, compare func(a, b T) int) bool {
	for i := 1; i < len(s); i++ {
		if compare(s[i-1], s[i]) >= 0 {
			return false
		}
	}
	return true
}

// OpenRevocations verifies a revocation list against the ring in force. What
// it says is in force after [Keys.Revoke].
func (k *Keys) OpenRevocations(raw []byte) (Revocations, error) {
	var r Revocations
	by, err := k.openDocument(raw, protocol.TypeRevoked, &r)
	if err != nil {
		return Revocations{}, err
	}
	r.By = by
	return r, r.check()
}

// OpenRoster verifies a part of a roster against the ring in force.
func (k *Keys) OpenRoster(raw []byte) (Roster, error) {
	var r Roster
	if _, err := k.openDocument(raw, protocol.TypeRoster, &r); err != nil {
		return Roster{}, err
	}
	return r, r.check()
}

// openDocument returns the key that has signed a document.
func (k *Keys) openDocument(raw []byte, t protocol.Type, v any) (protocol.KeyID, error) {
	ring := k.Chain().Ring()
	m, err := protocol.Open(raw, protocol.Expect{Fleet: ring.Fleet, FleetName: ring.Name, Keys: k, Type: t})
	if err != nil {
		return m.Key, err
	}
	return m.Key, m.Decode(v)
}

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

// Principal implements [protocol.Keyring]: everyone in the book, and every
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
