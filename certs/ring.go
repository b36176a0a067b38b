package certs

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// Limits of a ring.
const (
	MaxOwners       = 16
	MaxCoordinators = 16
	MaxPeople       = 64
	MaxPersonKeys   = 8
	MaxReleaseKeys  = 8
)

// ErrRing tells that a ring or a chain of rings does not hold together.
var ErrRing = errors.New("unusable ring")

// Ring is the document that says who may do what in a fleet. It is signed by
// owners of the ring before it, and the first one by its own. Keys stand in it
// in full, as binary OpenPGP certificates.
type Ring struct {
	Type         protocol.Type      `json:"hostler"` // always ring/1
	Fleet        protocol.FleetID   `json:"fleet"`   // never changes
	Name         protocol.FleetName `json:"name"`    // never changes
	Number       uint64             `json:"number"`  // 1 for the first, then one more each
	Prev         protocol.Digest    `json:"prev"`    // digest of the body of the ring before; zero in the first
	Owners       []Owner            `json:"owners"`
	Threshold    int                `json:"threshold"` // how many owners sign the next ring
	Coordinators []Coordinator      `json:"coordinators"`
	People       []Person           `json:"people"`
	// Reinstated are keys of this ring, ascending, whose revocations by
	// coordinators are void from now on: a stolen coordinator's key may have
	// signed them. Only a ring without the key takes its rights away then.
	Reinstated []protocol.KeyID `json:"reinstated,omitzero"`
	// Releases are the keys whose packages hosts install when they are asked to. They
	// sign nothing else: no message and no document is believed because of one.
	Releases []ReleaseKey `json:"releases,omitzero"`
}

// ReleaseKey may sign packages of Hostler.
type ReleaseKey struct {
	Name string `json:"name"` // for people: who makes those packages
	Key  []byte `json:"key"`
}

// Owner may sign rings.
type Owner struct {
	Person string `json:"person"` // different persons are counted, not keys
	Key    []byte `json:"key"`
}

// Coordinator may sign orders, and its authority TLS certificates.
type Coordinator struct {
	Key   []byte `json:"key"`
	TLSCA []byte `json:"tls_ca"` // X.509, DER
}

// Person may sign approvals, with any of the keys.
type Person struct {
	Person string   `json:"person"`
	Keys   [][]byte `json:"keys"`
}

// NewFleet returns the first ring of a fleet with one owner and no
// coordinator. id is 16 random bytes.
func NewFleet(id protocol.FleetID, name protocol.FleetName, person string, owner *PublicKey) (Ring, error) {
	r := Ring{
		Type: protocol.TypeRing, Fleet: id, Name: name, Number: 1, Threshold: 1,
		Owners: []Owner{{Person: person, Key: owner.Bytes()}}, Coordinators: []Coordinator{}, People: []Person{},
	}
	_, err := r.check()
	return r, err
}

// change puts a change into effect if the ring holds together with it. The slices of
// next are its own.
func (r *Ring) change(doing string, do func(next *Ring) error) error {
	next := *r
	next.Owners, next.Coordinators, next.People = slices.Clone(r.Owners), slices.Clone(r.Coordinators), slices.Clone(r.People)
	next.Releases = slices.Clone(r.Releases)
	err := do(&next)
	if err == nil {
		_, err = next.check()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	*r = next
	return nil
}

// AddCoordinator adds the coordinator that printed the request, or gives a
// coordinator whose key is there already its new authority.
func (r *Ring) AddCoordinator(q enrol.CoordinatorRequest) error {
	return r.change("adding a coordinator", func(next *Ring) error {
		if q.Fleet != r.Fleet {
			return fmt.Errorf("%w: its request is for fleet %s, this is %s", ErrRing, q.Fleet, r.Fleet)
		}
		c := Coordinator{Key: q.Key, TLSCA: q.TLSCA}
		if i := slices.IndexFunc(next.Coordinators, func(old Coordinator) bool { return bytes.Equal(old.Key, c.Key) }); i >= 0 {
			next.Coordinators[i] = c
		} else {
			next.Coordinators = append(next.Coordinators, c)
		}
		return nil
	})
}

// RemoveCoordinator takes the coordinator of that key out, and its authority with
// it.
func (r *Ring) RemoveCoordinator(key protocol.KeyID) error {
	return r.change("removing a coordinator", func(next *Ring) error {
		next.Coordinators = slices.DeleteFunc(next.Coordinators, func(c Coordinator) bool { return isKey(key)(c.Key) })
		if len(next.Coordinators) == len(r.Coordinators) {
			return fmt.Errorf("%w: ring %d has no coordinator with key %s", ErrRing, r.Number-1, key)
		}
		return nil
	})
}

// AddOwner lets the person who printed the request sign rings.
func (r *Ring) AddOwner(q enrol.OwnerRequest) error {
	return r.change("adding an owner", func(next *Ring) error {
		if q.Fleet != r.Fleet {
			return fmt.Errorf("%w: the request is for fleet %s, this is %s", ErrRing, q.Fleet, r.Fleet)
		}
		next.Owners = append(next.Owners, Owner{Person: q.Person, Key: q.Key})
		return nil
	})
}

// RemoveOwner takes all keys of an owner out. The threshold must be met by those
// who remain.
func (r *Ring) RemoveOwner(person string) error {
	return r.change("removing an owner", func(next *Ring) error {
		next.Owners = slices.DeleteFunc(next.Owners, func(o Owner) bool { return o.Person == person })
		if len(next.Owners) == len(r.Owners) {
			return fmt.Errorf("%w: ring %d has no owner %.70q", ErrRing, r.Number-1, person)
		}
		return nil
	})
}

// SetThreshold says how many owners sign the rings after this one.
func (r *Ring) SetThreshold(n int) error {
	return r.change("setting the threshold", func(next *Ring) error {
		next.Threshold = n
		return nil
	})
}

// AddPersonKey lets a person sign approvals with one more key. One that the person
// has already is replaced by its new form, with other subkeys for example.
func (r *Ring) AddPersonKey(person string, key *PublicKey) error {
	return r.change(fmt.Sprintf("adding a key of %q", person), func(next *Ring) error {
		i := slices.IndexFunc(next.People, func(p Person) bool { return p.Person == person })
		if i < 0 {
			next.People = append(next.People, Person{Person: person})
			i = len(next.People) - 1
		}
		next.People[i].Keys = append(slices.DeleteFunc(slices.Clone(next.People[i].Keys), isKey(key.id)), key.Bytes())
		return nil
	})
}

// isKey finds a certificate by the fingerprint of its primary key.
func isKey(id protocol.KeyID) func(raw []byte) bool {
	return func(raw []byte) bool {
		k, err := ParsePublicKey(raw)
		return err == nil && k.id == id
	}
}

// RemovePerson takes keys of a person out, or the person with all of them if none
// is named. A person without a key is no approver any more.
func (r *Ring) RemovePerson(person string, keys ...protocol.KeyID) error {
	return r.change("removing an approver", func(next *Ring) error {
		i := slices.IndexFunc(next.People, func(p Person) bool { return p.Person == person })
		if i < 0 {
			return fmt.Errorf("%w: ring %d has no approver %.70q", ErrRing, r.Number-1, person)
		}
		for _, id := range keys {
			left := slices.DeleteFunc(slices.Clone(next.People[i].Keys), isKey(id))
			if len(left) == len(next.People[i].Keys) {
				return fmt.Errorf("%w: %.70q has no key %s in ring %d", ErrRing, person, id, r.Number-1)
			}
			next.People[i].Keys = left
		}
		if len(keys) == 0 || len(next.People[i].Keys) == 0 {
			next.People = slices.Delete(next.People, i, i+1)
		}
		return nil
	})
}

// AddReleaseKey has hosts install packages that the key has signed. name is for
// people. A key that is there already is replaced by its new form.
func (r *Ring) AddReleaseKey(name string, key *PublicKey) error {
	return r.change("adding a release key", func(next *Ring) error {
		next.Releases = append(slices.DeleteFunc(next.Releases, func(k ReleaseKey) bool { return isKey(key.id)(k.Key) }), ReleaseKey{Name: name, Key: key.Bytes()})
		return nil
	})
}

// RemoveReleaseKey takes the right to sign packages from a key.
func (r *Ring) RemoveReleaseKey(key protocol.KeyID) error {
	return r.change("removing a release key", func(next *Ring) error {
		next.Releases = slices.DeleteFunc(next.Releases, func(k ReleaseKey) bool { return isKey(key)(k.Key) })
		if len(next.Releases) == len(r.Releases) {
			return fmt.Errorf("%w: ring %d has no release key %s", ErrRing, r.Number-1, key)
		}
		if len(next.Releases) == 0 {
			next.Releases = nil
		}
		return nil
	})
}

// Reinstate makes every revocation of a key of the ring void.
func (r *Ring) Reinstate(key protocol.KeyID) error {
	next := *r
	next.Reinstated = slices.Compact(slices.SortedFunc(slices.Values(append(slices.Clone(r.Reinstated), key)), compareKeys))
	if _, err := next.check(); err != nil {
		return fmt.Errorf("reinstating a key: %w", err)
	}
	*r = next
	return nil
}

// Body returns the bytes that are signed and hashed, on one line.
func (r Ring) Body() ([]byte, error) {
	r.Type = protocol.TypeRing
	r.Owners, r.Coordinators, r.People = nonNil(r.Owners), nonNil(r.Coordinators), nonNil(r.People)
	if _, err := r.check(); err != nil {
		return nil, err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRing, err)
	}
	return b, nil
}

// nonNil keeps null, which the protocol does not have, out of an encoding.
func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// members are the parsed parts of a ring.
type members struct {
	principals  map[protocol.KeyID]protocol.Principal
	keys        map[protocol.KeyID]*PublicKey
	authorities []*x509.Certificate
	releases    []*PublicKey
}

// check holds a ring against every rule that it alone can break, and parses
// what is in it.
func (r *Ring) check() (members, error) {
	m := members{principals: map[protocol.KeyID]protocol.Principal{}, keys: map[protocol.KeyID]*PublicKey{}}
	err := r.checkFields()
	for _, o := range r.Owners {
		err = cmp.Or(err, m.add(o.Key, protocol.RoleOwner, o.Person))
	}
	for _, p := range r.People {
		if len(p.Keys) == 0 || len(p.Keys) > MaxPersonKeys {
			err = cmp.Or(err, fmt.Errorf("%.70q has %d keys, want 1 to %d", p.Person, len(p.Keys), MaxPersonKeys))
		}
		for _, k := range p.Keys[:min(len(p.Keys), MaxPersonKeys)] {
			err = cmp.Or(err, m.add(k, protocol.RolePerson, p.Person))
		}
	}
	for _, c := range r.Coordinators {
		err = cmp.Or(err, m.add(c.Key, protocol.RoleCoordinator, ""), m.addAuthority(c.TLSCA))
	}
	err = cmp.Or(err, m.addReleases(r.Releases))
	for _, k := range r.Reinstated {
		if _, ok := m.principals[k]; !ok {
			err = cmp.Or(err, fmt.Errorf("it reinstates key %s, which it does not name", k))
		}
	}
	if !ascending(r.Reinstated, compareKeys) {
		err = cmp.Or(err, errors.New("the keys that it reinstates are not in ascending order"))
	}
	if err != nil {
		return members{}, fmt.Errorf("ring %d: %w: %w", r.Number, ErrRing, err)
	}
	return m, nil
}

func (r *Ring) checkFields() error {
	_, err := protocol.ParseFleetName(string(r.Name))
	switch {
	case err != nil:
		return err
	case r.Type != protocol.TypeRing:
		return fmt.Errorf("it is %.40q, want %q", r.Type, protocol.TypeRing)
	case r.Fleet.IsZero():
		return errors.New("its fleet has no id")
	case r.Number == 0 || r.Number > protocol.MaxInteger:
		return fmt.Errorf("number %d is out of range", r.Number)
	case r.Prev.IsZero() != (r.Number == 1):
		return errors.New("exactly the first ring has no previous ring")
	case len(r.Owners) < 1 || len(r.Owners) > MaxOwners || len(r.Coordinators) > MaxCoordinators || len(r.People) > MaxPeople:
		return fmt.Errorf("%d owners, %d coordinators and %d people are not within its limits", len(r.Owners), len(r.Coordinators), len(r.People))
	}
	var owners []string
	for _, o := range r.Owners {
		owners = append(owners, o.Person)
	}
	people := map[string]bool{}
	for _, p := range r.People {
		if people[p.Person] {
			return fmt.Errorf("%.70q is listed twice", p.Person)
		}
		people[p.Person] = true
		owners = append(owners, p.Person)
	}
	for _, name := range owners {
		if !isPerson(name) {
			return fmt.Errorf("person %.70q: want 1 to 64 of a-z, 0-9 and inner . _ @ + -", name)
		}
	}
	if n := len(r.ownersNamed()); r.Threshold < 1 || r.Threshold > n {
		return fmt.Errorf("threshold %d cannot be met by %d owners", r.Threshold, n)
	}
	return nil
}

// ownersNamed returns the different persons that own the fleet.
func (r *Ring) ownersNamed() map[string]bool {
	named := map[string]bool{}
	for _, o := range r.Owners {
		named[o.Person] = true
	}
	return named
}

func isPerson(s string) bool {
	letter := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
	ok := len(s) >= 1 && len(s) <= 64 && letter(s[0]) && letter(s[len(s)-1])
	for i := 0; ok && i < len(s); i++ {
		ok = letter(s[i]) || bytes.IndexByte([]byte("._@+-"), s[i]) >= 0
	}
	return ok
}

// add gives a key a role. A key has one owner: the same person may be owner and
// approver with one key, but no person is a coordinator.
func (m *members) add(raw []byte, role protocol.Role, person string) error {
	k, err := ParsePublicKey(raw)
	if err != nil {
		return fmt.Errorf("key of %s %q: %w", role, person, err)
	}
	p, known := m.principals[k.id]
	if known && (p.Person != person || p.Can(role)) {
		return fmt.Errorf("key %s is listed twice", k.id)
	}
	if known && !bytes.Equal(m.keys[k.id].raw, raw) {
		return fmt.Errorf("key %s is listed in two forms", k.id)
	}
	p.Person, p.Key, p.Roles = person, k, append(slices.Clone(p.Roles), role)
	m.principals[k.id], m.keys[k.id] = p, k
	return nil
}

// addReleases parses the keys that sign packages. They get no role: the owner of the
// fleet may sign packages with the same key.
func (m *members) addReleases(all []ReleaseKey) error {
	if len(all) > MaxReleaseKeys {
		return fmt.Errorf("%d release keys, at most %d are allowed", len(all), MaxReleaseKeys)
	}
	for _, r := range all {
		k, err := ParsePublicKey(r.Key)
		switch {
		case err != nil:
			return fmt.Errorf("release key %q: %w", r.Name, err)
		case !isPerson(r.Name):
			return fmt.Errorf("release key %.70q: want a name of 1 to 64 of a-z, 0-9 and inner . _ @ + -", r.Name)
		case slices.ContainsFunc(m.releases, func(o *PublicKey) bool { return o.id == k.id }):
			return fmt.Errorf("release key %s is listed twice", k.id)
		}
		m.releases = append(m.releases, k)
	}
	return nil
}

func (m *members) addAuthority(der []byte) error {
	c, err := parseAuthority(der)
	if err == nil {
		m.authorities = append(m.authorities, c)
	}
	return err
}

// parseAuthority reads the certificate of a fleet's authority.
func parseAuthority(der []byte) (*x509.Certificate, error) {
	if len(der) > maxX509 {
		return nil, fmt.Errorf("authority: %d bytes, at most %d are allowed", len(der), maxX509)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	key, ok := c.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() || !c.IsCA || !c.BasicConstraintsValid || c.KeyUsage&x509.KeyUsageCertSign == 0 {
		return nil, errors.New("authority: want a certificate authority with a key on P-256")
	}
	return c, nil
}
