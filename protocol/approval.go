package protocol

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/hostler-io/hostler/protocol/ident"
	"github.com/hostler-io/hostler/protocol/merkle"
)

// Limits of approvals.
const (
	// MaxTargets is how many hosts one signature may name.
	MaxTargets = 500
	// MaxApprovalLife is the longest time between the signing of an approval and
	// its end.
	MaxApprovalLife = 7 * 24 * time.Hour
	// maxApproval bounds one approval as it travels in an order: the body takes
	// about 350 bytes, and the longest signature that an envelope holds 1400.
	maxApproval = 2 << 10
	// MaxItem is the longest item, in bytes, that fits an order whatever its
	// header is: 32 KiB hold signature and header (at most 2.5 KiB) and the item
	// in base64.
	MaxItem = (MaxMessage - 2560) / 4 * 3
)

// Target is one host on which an approved spec may run once, and the action as
// which it may.
type Target struct {
	Host   HostID
	Action ActionID
}

// String returns the form that is hashed: host/action.
func (t Target) String() string { return string(t.Host) + "/" + t.Action.String() }

func (t Target) compare(u Target) int {
	return cmp.Or(cmp.Compare(t.Host, u.Host), bytes.Compare(t.Action[:], u.Action[:]))
}

// Targets is what one approval covers: by host, then by action, nothing twice.
// A person is shown all of it and signs its root; each host gets the path from
// its own target to that root, so that one signature for 500 hosts costs each of
// them less than 300 bytes.
type Targets []Target

// NewTargets sorts targets. It refuses an empty list, more than [MaxTargets],
// and a target that stands there twice.
func NewTargets(list ...Target) (Targets, error) {
	t := Targets(slices.Clone(list))
	slices.SortFunc(t, Target.compare)
	return t, t.check()
}

func (t Targets) check() error {
	if len(t) < 1 || len(t) > MaxTargets {
		return fmt.Errorf("%d targets, want 1 to %d: split a larger request", len(t), MaxTargets)
	}
	for i, x := range t {
		switch _, err := ParseHostID(string(x.Host)); {
		case err != nil:
			return err
		case x.Action.IsZero():
			return fmt.Errorf("host %s: the action is missing", x.Host)
		case i > 0 && t[i-1].compare(x) >= 0:
			return fmt.Errorf("target %s is out of order or listed twice", x)
		}
	}
	return nil
}

// Find returns the place of a target.
func (t Targets) Find(x Target) (int, bool) { return slices.BinarySearchFunc(t, x, Target.compare) }

// Root is what is signed for the list: the root of its hash tree, see package merkle.
func (t Targets) Root() Digest { return merkle.Root(t.leaves()) }

// Path proves that target i belongs to the root.
func (t Targets) Path(i int) []byte { return merkle.Path(t.leaves(), i) }

func (t Targets) leaves() []merkle.Digest {
	all := make([]merkle.Digest, len(t))
	for i, x := range t {
		all[i] = x.leaf()
	}
	return all
}

func (t Target) leaf() merkle.Digest { return merkle.Leaf([]byte(t.String())) }

// Approval is what a person signs: this spec may run as these actions on these
// hosts, each once, in this time. It names hosts, never labels, so that nobody
// chooses later whom it is for.
type Approval struct {
	Type  Type    `json:"hostler"` // always approval/1
	Fleet FleetID `json:"fleet"`
	Spec  Digest  `json:"spec"` // of the whole spec, as its bytes travel
	Kind  Kind    `json:"kind"` // of the spec, for readers of the approval alone
	// Targets is the root of the list of targets, and Count its length.
	Targets Digest `json:"targets"`
	Count   int    `json:"count"`
	// When it was signed, and between which moments it holds, in Unix
	// milliseconds: issued ≤ not before < expires ≤ issued + 7 days.
	IssuedMS    int64 `json:"issued_ms"`
	NotBeforeMS int64 `json:"not_before_ms"`
	ExpiresMS   int64 `json:"expires_ms"`
	// Ring is the number of the ring that the person held.
	Ring uint64 `json:"ring"`
}

// NewApproval returns what is to be signed, by a person who has seen the spec
// and every target. It holds from issued for life, which is at most
// [MaxApprovalLife].
func NewApproval(fleet FleetID, ring uint64, spec []byte, targets Targets, issued time.Time, life time.Duration) (Approval, error) {
	s, err := DecodeSpec(spec)
	if err != nil {
		return Approval{}, err
	}
	if err := targets.check(); err != nil {
		return Approval{}, err
	}
	now := issued.UnixMilli()
	a := Approval{
		Type: TypeApproval, Fleet: fleet, Spec: Sum(spec), Kind: s.Kind, Targets: targets.Root(), Count: len(targets),
		IssuedMS: now, NotBeforeMS: now, ExpiresMS: now + life.Milliseconds(), Ring: ring,
	}
	return a, a.check()
}

// Body returns the bytes that are signed, on one line.
func (a Approval) Body() ([]byte, error) { return documentBody(&a, a.check()) }

// Seal signs an approval.
func (a Approval) Seal(s Signer) ([]byte, error) { return sealBody(s, &a, a.check()) }

func (a *Approval) check() error {
	switch {
	case a.Spec.IsZero() || a.Targets.IsZero() || a.Ring == 0 || !ident.IsWord(string(a.Kind), maxWord):
		return fmt.Errorf("spec, kind, targets or ring is missing")
	case a.Count < 1 || a.Count > MaxTargets:
		return fmt.Errorf("count: %d is not between 1 and %d", a.Count, MaxTargets)
	case a.IssuedMS < 1 || a.NotBeforeMS < a.IssuedMS || a.ExpiresMS <= a.NotBeforeMS:
		return fmt.Errorf("issued_ms, not_before_ms and expires_ms do not follow one another")
	case a.ExpiresMS-a.IssuedMS > MaxApprovalLife.Milliseconds():
		return fmt.Errorf("expires_ms: an approval lasts 7 days at most")
	}
	return nil
}

// OpenApproval verifies an approval and returns who has signed it. x says fleet
// and keys; the rest of it is not used.
func OpenApproval(raw []byte, x Expect) (Approval, Principal, error) {
	var a Approval
	m, err := Open(raw, Expect{Fleet: x.Fleet, FleetName: x.FleetName, Keys: x.Keys, Type: TypeApproval})
	if err != nil {
		return a, Principal{}, err
	}
	if err := m.Decode(&a); err != nil {
		return Approval{}, m.Principal, err
	}
	return a, m.Principal, nil
}

// OrderApproval is an approval as it travels in an order: what was signed, and
// the way from the order's own target to the root that it names.
type OrderApproval struct {
	Signed []byte `json:"signed"`         // the envelope
	Index  int    `json:"index,omitzero"` // place of the target in the sorted list, from 0
	Path   []byte `json:"path,omitempty"` // see [Targets.Path]; none if there is one target
}

// ForTarget returns a signed approval as it travels in the order of one target,
// which must be in the list that was signed.
func ForTarget(signed []byte, targets Targets, t Target) (OrderApproval, error) {
	i, ok := targets.Find(t)
	if !ok {
		return OrderApproval{}, fmt.Errorf("target %s is not among those of the approval", t)
	}
	return OrderApproval{Signed: signed, Index: i, Path: targets.Path(i)}, nil
}

// Covers reports whether the approval names the target: whether the path of o
// leads from it to the root that was signed. The length of the list is signed
// too, so that each place has one path.
func (a *Approval) Covers(o OrderApproval, t Target) bool {
	root, ok := merkle.Climb(t.leaf(), o.Index, a.Count, o.Path)
	return ok && a.Targets == root
}

// check bounds an approval within an order. What is wrong with it beyond that
// has an action, so it becomes a refusal that is reported.
func (o *OrderApproval) check() error {
	if len(o.Signed) < 1 || len(o.Signed) > maxApproval || o.Index < 0 || o.Index >= MaxTargets || len(o.Path)%len(Digest{}) != 0 {
		return fmt.Errorf("an approval has not the form of one")
	}
	return nil
}

// Fits reports what is wrong with an item that is too long for any order: more
// approvals, or longer signatures, than there is room for beside its spec.
func (o *OrderItem) Fits() error {
	b, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encoding an order: %w", err)
	}
	if len(b) > MaxItem {
		return fmt.Errorf("the order takes %d bytes with its %d approvals, at most %d are allowed: use a shorter spec, or approvals by keys with short signatures (Ed25519)", len(b), len(o.Approvals), MaxItem)
	}
	return nil
}

func documentBody(document any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(document)
}

func sealBody(s Signer, document any, err error) ([]byte, error) {
	body, err := documentBody(document, err)
	if err != nil {
		return nil, err
	}
	return Seal(s, body, nil)
}
