package protocol

import (
	"fmt"
	"slices"
)

// Limits of policies that travel.
const (
	// MaxPolicy is the longest text of a policy, in bytes, that an order can
	// carry with its signatures. A file on the host may be longer.
	MaxPolicy = 6 << 10
	// MaxToldPolicy is the longest text that a host tells of, in bytes. Heartbeats
	// carry the digest of any.
	MaxToldPolicy = MaxSpec
	// MaxPolicySigners is how many may sign one policy.
	MaxPolicySigners = 8
	// MaxPolicyHosts is how many hosts a policy that is not for all may name.
	MaxPolicyHosts = 64
	// maxPolicyDocument bounds one envelope: its hosts take 4.3 KiB, the longest
	// signature 1400 bytes.
	maxPolicyDocument = 8 << 10
)

// PolicyDocument is what is signed to put a policy into force: the digest of
// its text, which package policy reads, and the number that lets no older one
// follow it. It is signed by owners, or by those whom the policy in force
// demands for [KindPolicySet]; each signature is an envelope of its own over the
// same bytes.
type PolicyDocument struct {
	Type   Type    `json:"hostler"` // always policy/1
	Fleet  FleetID `json:"fleet"`
	Number uint64  `json:"number"` // a host takes higher ones only
	Policy Digest  `json:"policy"` // of the text
	// Hosts are those that it is for, sorted; none means every host of the
	// fleet.
	Hosts    []HostID `json:"hosts,omitempty"`
	IssuedMS int64    `json:"issued_ms"` // Unix milliseconds
	Ring     uint64   `json:"ring"`      // that the signers held
}

// Body returns the bytes that are signed, on one line.
func (d PolicyDocument) Body() ([]byte, error) { return documentBody(&d, d.check()) }

// Seal signs a policy.
func (d PolicyDocument) Seal(s Signer) ([]byte, error) { return sealBody(s, &d, d.check()) }

func (d *PolicyDocument) check() error {
	switch {
	case d.Number < 1 || d.Number > MaxInteger:
		return fmt.Errorf("number %d is out of range", d.Number)
	case d.Policy.IsZero() || d.Ring == 0 || d.IssuedMS < 1:
		return fmt.Errorf("policy, ring or issued_ms is missing")
	case len(d.Hosts) > MaxPolicyHosts:
		return fmt.Errorf("hosts: %d, at most %d are allowed; for more hosts, name none and select them by labels in the rules", len(d.Hosts), MaxPolicyHosts)
	}
	for i, h := range d.Hosts {
		if _, err := ParseHostID(string(h)); err != nil || i > 0 && d.Hosts[i-1] >= h {
			return fmt.Errorf("hosts: want host ids in ascending order")
		}
	}
	return nil
}

// For reports whether the policy is for a host.
func (d *PolicyDocument) For(h HostID) bool { return len(d.Hosts) == 0 || slices.Contains(d.Hosts, h) }

// OpenPolicy verifies a policy document, which comes as one envelope for each
// signature, and returns who has signed it; x says fleet and keys. One signature
// that does not hold is enough to refuse, as are bodies that differ and a key
// that signed twice. Whether the signers are enough is for the caller: persons
// count, not keys.
func OpenPolicy(signed [][]byte, x Expect) (PolicyDocument, []Principal, error) {
	var d PolicyDocument
	if len(signed) < 1 || len(signed) > MaxPolicySigners {
		return d, nil, refuse(ErrPayload, "%d signatures, want 1 to %d", len(signed), MaxPolicySigners)
	}
	var first Message
	var signers []Principal
	seen := map[KeyID]bool{}
	for i, raw := range signed {
		m, err := Open(raw, Expect{Fleet: x.Fleet, FleetName: x.FleetName, Keys: x.Keys, Type: TypePolicy})
		switch {
		case err != nil:
			return d, nil, err
		case i == 0:
			first = m
		case string(m.Body) != string(first.Body):
			return d, nil, refuse(ErrPayload, "its signatures are over different documents")
		}
		if seen[m.Key] {
			return d, nil, refuse(ErrPayload, "key %s has signed it twice", m.Key)
		}
		seen[m.Key] = true
		signers = append(signers, m.Principal)
	}
	return d, signers, first.Decode(&d)
}
