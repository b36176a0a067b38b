package certs

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// MaxChain is the most bytes of rings that are read, kept as one retained
// message, or served at once: 64 KiB hold about twenty rings of a small fleet.
// A holder that is further behind fetches several parts.
const MaxChain = 64 << 10

// The refusals of a chain, all of which are [ErrRing] too.
var (
	ErrFork      = fmt.Errorf("%w: there are two rings of one number", ErrRing)
	ErrThreshold = fmt.Errorf("%w: too few owners signed it", ErrRing)
	ErrPin       = fmt.Errorf("%w: not the pinned ring", ErrRing)
	ErrGap       = fmt.Errorf("%w: rings are missing before it", ErrRing)
)

// SignRing signs a ring and returns it as it travels: one envelope per
// signature, byte-identical bodies, sorted by key, joined by LF. Signatures
// that are made apart are put together by [JoinSignatures].
func SignRing(r Ring, signers ...protocol.Signer) ([]byte, error) {
	body, err := r.Body()
	if err != nil {
		return nil, err
	}
	var parts [][]byte
	for _, s := range signers {
		sealed, err := protocol.Seal(s, body, nil)
		if err != nil {
			return nil, fmt.Errorf("signing ring %d: %w", r.Number, err)
		}
		parts = append(parts, sealed)
	}
	return JoinSignatures(parts...)
}

// JoinSignatures puts the signatures of one body, made apart, into the order
// in which they travel. The same key's second signature is dropped.
func JoinSignatures(parts ...[]byte) ([]byte, error) {
	type signed struct {
		line []byte
		env  protocol.Envelope
	}
	var all []signed
	for _, line := range bytes.Split(bytes.Join(parts, []byte("\n")), []byte("\n")) {
		env, err := protocol.Split(line)
		if err != nil {
			return nil, fmt.Errorf("joining signatures: %w", err)
		}
		all = append(all, signed{line, env})
	}
	slices.SortStableFunc(all, func(a, b signed) int { return bytes.Compare(a.env.Key[:], b.env.Key[:]) })
	all = slices.CompactFunc(all, func(a, b signed) bool { return a.env.Key == b.env.Key })
	lines := make([][]byte, len(all))
	for i, s := range all {
		if !bytes.Equal(s.env.Body, all[0].env.Body) {
			return nil, errors.New("joining signatures: they are over different documents")
		}
		lines[i] = s.line
	}
	joined := bytes.Join(lines, []byte("\n"))
	if len(joined) > MaxChain {
		return nil, fmt.Errorf("joining signatures: %w: it takes %d bytes, at most %d are allowed", ErrRing, len(joined), MaxChain)
	}
	return joined, nil
}

// link is one ring of a chain that holds.
type link struct {
	ring    Ring
	digest  protocol.Digest
	raw     []byte // the envelopes
	members members
}

// Chain is a run of rings, each vouched for by the one before, from one that
// was pinned to the one in force. It never changes: [Chain.Advance] returns
// another one. So it is safe for concurrent use.
type Chain struct {
	links []link // never empty
}

// OpenChain verifies rings from the pinned one on, which come in one or more
// parts. Rings before it are passed over unread: what vouches for the first is
// the pin.
func OpenChain(pin enrol.Pin, parts ...[]byte) (*Chain, error) {
	var chain *Chain
	for _, b := range parts {
		documents, err := splitRings(b)
		if err != nil {
			return nil, err
		}
		if chain == nil {
			documents = slices.DeleteFunc(documents, func(d document) bool { return d.number < pin.Ring })
			if len(documents) == 0 {
				continue
			}
			if chain, err = documents[0].pinned(pin); err != nil {
				return nil, err
			}
		}
		if chain, err = chain.advance(documents); err != nil {
			return nil, err
		}
	}
	if chain == nil {
		return nil, fmt.Errorf("ring %d: %w: missing", pin.Ring, ErrPin)
	}
	return chain, nil
}

// pinned starts a chain. The first ring of a fleet must be signed by its own
// owners; of a later one, the ring before it would have to be here to tell.
func (d document) pinned(pin enrol.Pin) (*Chain, error) {
	if !pin.Matches(d.number, d.digest) {
		return nil, fmt.Errorf("ring %d: %w", d.number, ErrPin)
	}
	first, err := d.open()
	if err != nil {
		return nil, err
	}
	if d.number == 1 {
		if err := d.checkSigned(&first); err != nil {
			return nil, err
		}
	}
	return &Chain{links: []link{first}}, nil
}

// Advance verifies newer rings against the one in force and returns the chain
// that ends in the newest. Rings that the chain holds already may come again,
// byte for byte the same in what was signed. Whatever is wrong, nothing of b is
// taken: [ErrGap] asks for the rings between, [ErrFork] and [ErrThreshold] mean
// an attack.
func (c *Chain) Advance(b []byte) (*Chain, error) {
	documents, err := splitRings(b)
	if err != nil {
		return nil, err
	}
	return c.advance(documents)
}

func (c *Chain) advance(documents []document) (*Chain, error) {
	next := &Chain{links: slices.Clip(c.links)}
	for _, d := range documents {
		top := &next.links[len(next.links)-1]
		switch first := next.links[0].ring.Number; {
		case d.number < first:
			continue // from before the pin
		case d.number <= top.ring.Number:
			if d.digest != next.links[d.number-first].digest {
				return nil, fmt.Errorf("ring %d: %w", d.number, ErrFork)
			}
			continue
		}
		l, err := d.follow(top)
		if err != nil {
			return nil, err
		}
		next.links = append(next.links, l)
	}
	return next, nil
}

// Ring returns the ring in force. Its slices are not to be written to.
func (c *Chain) Ring() Ring { return c.top().ring }

// Pin returns the pin of the ring in force.
func (c *Chain) Pin() enrol.Pin { return enrol.PinOf(c.top().ring.Number, c.top().digest) }

// Digest returns the digest of the ring of that number, if the chain holds it.
func (c *Chain) Digest(number uint64) (protocol.Digest, bool) {
	for _, l := range c.links {
		if l.ring.Number == number {
			return l.digest, true
		}
	}
	return protocol.Digest{}, false
}

// Next returns a ring that follows the one in force and says the same, to be
// changed and signed.
func (c *Chain) Next() Ring {
	r := c.top().ring
	r.Number, r.Prev = r.Number+1, c.top().digest
	r.Reinstated = nil
	r.Owners, r.Coordinators, r.People = slices.Clone(r.Owners), slices.Clone(r.Coordinators), slices.Clone(r.People)
	r.Releases = slices.Clone(r.Releases)
	return r
}

// Code returns the fleet code for the ring in force.
func (c *Chain) Code() enrol.FleetCode {
	r := c.Ring()
	return enrol.FleetCode{Fleet: r.Fleet, Name: r.Name, Pin: c.Pin()}
}

// Rings returns every ring of the chain as it came, to be stored: together with
// the pin of the first, [OpenChain] takes them back.
func (c *Chain) Rings() [][]byte {
	rings := make([][]byte, len(c.links))
	for i, l := range c.links {
		rings[i] = l.raw
	}
	return rings
}

// From returns rings from the given number on, as many as fit into [MaxChain],
// to be served. It is empty when there are none.
func (c *Chain) From(number uint64) []byte {
	i := slices.IndexFunc(c.links, func(l link) bool { return l.ring.Number >= number })
	if i < 0 {
		return nil
	}
	end, size := i, 0
	for end < len(c.links) && size+len(c.links[end].raw)+1 <= MaxChain {
		size += len(c.links[end].raw) + 1
		end++
	}
	return bytes.Join(c.Rings()[i:end], []byte("\n"))
}

// Newest returns the newest rings that fit into [MaxChain], to be retained on
// the broker.
func (c *Chain) Newest() []byte {
	start, size := len(c.links), 0
	for start > 0 && size+len(c.links[start-1].raw)+1 <= MaxChain {
		start--
		size += len(c.links[start].raw) + 1
	}
	return bytes.Join(c.Rings()[start:], []byte("\n"))
}

// Revocable reports whether a coordinator may revoke a key: a ring of the chain
// names it, in whatever role, and none reinstates it.
func (c *Chain) Revocable(k protocol.KeyID) bool {
	return !c.reinstates(k) && slices.ContainsFunc(c.links, func(l link) bool {
		_, ok := l.members.principals[k]
		return ok
	})
}

// reinstates reports whether a ring of the chain has made the revocations of a
// key void.
func (c *Chain) reinstates(k protocol.KeyID) bool {
	return slices.ContainsFunc(c.links, func(l link) bool { return slices.Contains(l.ring.Reinstated, k) })
}

func (c *Chain) top() *link { return &c.links[len(c.links)-1] }

// Coordinator returns the key of a coordinator of the ring in force.
func (c *Chain) Coordinator(k protocol.KeyID) (*PublicKey, bool) {
	m := &c.top().members
	if p, ok := m.principals[k]; !ok || !p.Can(protocol.RoleCoordinator) {
		return nil, false
	}
	return m.keys[k], true
}

// Roots returns the authorities of the coordinators of the ring in force, for
// TLS.
func (c *Chain) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, a := range c.top().members.authorities {
		pool.AddCert(a)
	}
	return pool
}

// IsNewAuthority reports whether no ring before the newest named a coordinator with
// that authority.
func (c *Chain) IsNewAuthority(ca []byte) bool {
	return !slices.ContainsFunc(c.links[:len(c.links)-1], func(l link) bool {
		return slices.ContainsFunc(l.ring.Coordinators, func(k Coordinator) bool { return bytes.Equal(k.TLSCA, ca) })
	})
}

// document is one ring as it came, cut but not verified. Of its body nothing
// but the number has a use yet, which is to find the keys to verify with.
type document struct {
	number    uint64
	body      []byte
	digest    protocol.Digest
	envelopes [][]byte
}

// splitRings cuts a chain into documents: envelopes that follow one another
// with the same body are one. Signatures of one document are in the order of
// their keys, so that a document has one form.
func splitRings(b []byte) ([]document, error) {
	if len(b) > MaxChain {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrRing, len(b), MaxChain)
	}
	var documents []document
	var last protocol.KeyID
	for i, line := range bytes.Split(b, []byte("\n")) {
		bad := func(err error) ([]document, error) { return nil, fmt.Errorf("%w: line %d: %w", ErrRing, i+1, err) }
		env, err := protocol.Split(line)
		if err != nil {
			return bad(err)
		}
		if n := len(documents); n > 0 && bytes.Equal(env.Body, documents[n-1].body) {
			if bytes.Compare(last[:], env.Key[:]) >= 0 {
				return bad(errors.New("its signatures are not in the order of their keys"))
			}
			documents[n-1].envelopes = append(documents[n-1].envelopes, line)
			last = env.Key
			continue
		}
		var head struct {
			Number uint64 `json:"number"`
		}
		if err := protocol.DecodeJSON(env.Body, &head, true); err != nil {
			return bad(err)
		}
		if n := len(documents); n > 0 && head.Number <= documents[n-1].number {
			return bad(fmt.Errorf("ring %d comes after ring %d", head.Number, documents[n-1].number))
		}
		documents = append(documents, document{head.Number, env.Body, protocol.Sum(env.Body), [][]byte{line}})
		last = env.Key
	}
	return documents, nil
}

// open reads a ring that is known to be genuine.
func (d document) open() (link, error) {
	var r Ring
	if err := protocol.DecodeJSON(d.body, &r, false); err != nil {
		return link{}, fmt.Errorf("ring %d: %w: %w", d.number, ErrRing, err)
	}
	m, err := r.check()
	if err != nil {
		return link{}, err
	}
	return link{ring: r, digest: d.digest, raw: bytes.Join(d.envelopes, []byte("\n")), members: m}, nil
}

// follow checks a ring against the one before it: the signatures first, with
// keys of that one alone.
func (d document) follow(prev *link) (link, error) {
	if d.number != prev.ring.Number+1 {
		return link{}, fmt.Errorf("ring %d after ring %d: %w", d.number, prev.ring.Number, ErrGap)
	}
	if err := d.checkSigned(prev); err != nil {
		return link{}, err
	}
	return d.after(prev)
}

// after reads a ring whose signatures hold, and checks that it goes on where
// the one before it ends.
func (d document) after(prev *link) (link, error) {
	next, err := d.open()
	switch {
	case err != nil:
		return link{}, err
	case next.ring.Prev != prev.digest:
		return link{}, fmt.Errorf("ring %d: %w: it follows another ring %d", d.number, ErrFork, prev.ring.Number)
	case next.ring.Name != prev.ring.Name:
		return link{}, fmt.Errorf("ring %d: %w: it names fleet %q, which is %q for ever", d.number, ErrRing, next.ring.Name, prev.ring.Name)
	}
	return next, nil
}

// checkSigned counts the persons who have signed.
func (d document) checkSigned(by *link) error {
	persons, err := d.signers(by)
	if err != nil {
		return err
	}
	if len(persons) < by.ring.Threshold {
		return fmt.Errorf("ring %d: %w: %d of %d", d.number, ErrThreshold, len(persons), by.ring.Threshold)
	}
	return nil
}

// signers opens each envelope alone and returns the persons who have signed.
// One signature that does not hold is enough to refuse: its signer has
// sorted them out.
func (d document) signers(by *link) (map[string]bool, error) {
	persons := map[string]bool{}
	for _, raw := range d.envelopes {
		message, err := protocol.Open(raw, protocol.Expect{
			Fleet: by.ring.Fleet, FleetName: by.ring.Name, Keys: &by.members, Type: protocol.TypeRing,
		})
		if err != nil {
			return nil, fmt.Errorf("ring %d: %w: %w", d.number, ErrRing, err)
		}
		persons[message.Principal.Person] = true
	}
	return persons, nil
}

// Principal implements [protocol.Keyring] for the ring alone.
func (m *members) Principal(k protocol.KeyID) (protocol.Principal, bool) {
	p, ok := m.principals[k]
	return p, ok
}
