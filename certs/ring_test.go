package certs_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// tb is what tests, benchmarks, fuzzers and properties have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
}

// fleet is a fleet with its owners' keys.
type fleet struct {
	tb
	owners []*certs.Identity
	chain  *certs.Chain
}

func ownerName(i int) string { return fmt.Sprintf("owner%d", i) }

// newFleet makes a fleet whose ring 1 is signed by its one owner, and if there
// are more owners a ring 2 that adds them.
func newFleet(t tb, owners, threshold int) *fleet {
	t.Helper()
	f := &fleet{tb: t}
	for i := range owners {
		id, err := certs.Generate(ownerName(i), time.Unix(1e9, 0))
		if err != nil {
			t.Fatal(err)
		}
		f.owners = append(f.owners, id)
	}
	ring, err := certs.NewFleet(protocol.FleetID{1, 2, 3}, "lab", ownerName(0), f.owners[0].PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	first := f.sign(ring, f.owners[0])
	f.chain = f.open(enrol.PinOf(1, digestOf(t, first)), first)
	if owners > 1 {
		next := f.chain.Next()
		for i, o := range f.owners[1:] {
			next.Owners = append(next.Owners, certs.Owner{Person: ownerName(i + 1), Key: o.Public()})
		}
		next.Threshold = threshold
		f.advance(f.sign(next, f.owners[0]))
	}
	return f
}

func digestOf(t tb, signed []byte) protocol.Digest {
	t.Helper()
	line, _, _ := bytes.Cut(signed, []byte("\n"))
	e, err := protocol.Split(line)
	if err != nil {
		t.Fatal(err)
	}
	return protocol.Sum(e.Body)
}

func (f *fleet) sign(r certs.Ring, by ...*certs.Identity) []byte {
	f.Helper()
	signers := make([]protocol.Signer, len(by))
	for i, id := range by {
		signers[i] = id
	}
	b, err := certs.SignRing(r, signers...)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

func (f *fleet) open(pin enrol.Pin, parts ...[]byte) *certs.Chain {
	f.Helper()
	c, err := certs.OpenChain(pin, parts...)
	if err != nil {
		f.Fatal(err)
	}
	return c
}

func (f *fleet) advance(b []byte) {
	f.Helper()
	c, err := f.chain.Advance(b)
	if err != nil {
		f.Fatal(err)
	}
	f.chain = c
}

// request is what a new coordinator would print.
func (f *fleet) request() (enrol.CoordinatorRequest, *certs.Identity, *certs.Authority) {
	f.Helper()
	id, err := certs.Generate("hostler coordinator", time.Unix(1e9, 0))
	if err != nil {
		f.Fatal(err)
	}
	ca, err := certs.NewAuthority("lab")
	if err != nil {
		f.Fatal(err)
	}
	return enrol.CoordinatorRequest{Fleet: f.chain.Ring().Fleet, Key: id.Public(), TLSCA: ca.Certificate()}, id, ca
}

// withCoordinator adds one by a ring of its own.
func (f *fleet) withCoordinator() (*certs.Identity, *certs.Authority) {
	f.Helper()
	q, id, ca := f.request()
	next := f.chain.Next()
	if err := next.AddCoordinator(q); err != nil {
		f.Fatal(err)
	}
	f.advance(f.sign(next, f.owners...))
	return id, ca
}

func TestFirstSteps(t *testing.T) {
	f := newFleet(t, 1, 1)
	code, err := enrol.ParseFleetCode(f.chain.Code().Encode())
	if err != nil {
		t.Fatal(err)
	}
	coordinator, _ := f.withCoordinator()
	// The coordinator knows the code alone, and is handed both rings.
	got := f.open(code.Pin, bytes.Join(f.chain.Rings(), []byte("\n")))
	if got.Ring().Number != 2 || got.Ring().Name != "lab" || got.Pin() != f.chain.Pin() {
		t.Errorf("ring %d of fleet %q", got.Ring().Number, got.Ring().Name)
	}
	if k, ok := got.Coordinator(coordinator.Key()); !ok || k.Key() != coordinator.Key() {
		t.Error("the coordinator is not in the ring")
	}
	if _, ok := got.Coordinator(f.owners[0].Key()); ok {
		t.Error("the owner is taken for a coordinator")
	}
	// Once more, with another authority: it is still one coordinator.
	q, _, _ := f.request()
	q.Key = coordinator.Public()
	next := f.chain.Next()
	if err := next.AddCoordinator(q); err != nil || len(next.Coordinators) != 1 || !bytes.Equal(next.Coordinators[0].TLSCA, q.TLSCA) {
		t.Errorf("%d coordinators, %v", len(next.Coordinators), err)
	}
	q.Fleet[0]++
	if err := next.AddCoordinator(q); !errors.Is(err, certs.ErrRing) {
		t.Errorf("a request for another fleet: %v", err)
	}
}

func TestAnyNumberOfRingsMayBeMissed(t *testing.T) {
	f := newFleet(t, 1, 1)
	start := f.chain
	for i := range 30 {
		next := f.chain.Next()
		if err := next.AddPersonKey(fmt.Sprintf("p%d", i), newIdentity(t, "p").PublicKey()); err != nil {
			t.Fatal(err)
		}
		f.advance(f.sign(next, f.owners[0]))
	}
	// It takes several parts, each within the limit.
	c, fetches := start, 0
	for c.Ring().Number < 31 {
		part := f.chain.From(c.Ring().Number + 1)
		if len(part) > certs.MaxChain {
			t.Fatalf("a part has %d bytes", len(part))
		}
		var err error
		if c, err = c.Advance(part); err != nil {
			t.Fatal(err)
		}
		fetches++
	}
	if fetches < 2 || c.Pin() != f.chain.Pin() || f.chain.From(32) != nil {
		t.Errorf("%d fetches, pins %v and %v", fetches, c.Pin(), f.chain.Pin())
	}
	newest := f.chain.Newest()
	if len(newest) > certs.MaxChain {
		t.Errorf("the newest rings have %d bytes", len(newest))
	}
	if _, err := start.Advance(newest); !errors.Is(err, certs.ErrGap) {
		t.Errorf("the newest rings after the first: %v, want ErrGap", err)
	}
	// What was stored is taken back.
	first, _ := f.chain.Digest(1)
	if again := f.open(enrol.PinOf(1, first), f.chain.Rings()...); again.Pin() != f.chain.Pin() {
		t.Error("the stored chain ends elsewhere")
	}
	// And a host that was told the newest ring needs no other.
	if c := f.open(f.chain.Pin(), newest); c.Ring().Number != 31 {
		t.Errorf("ring %d", c.Ring().Number)
	}
}

// TestThreshold draws who signs: enough different persons, or it is refused.
func TestThreshold(t *testing.T) {
	f := newFleet(t, 4, 3)
	// One person has two keys, and is one person.
	second := newIdentity(t, "second key of owner0")
	next := f.chain.Next()
	next.Owners = append(next.Owners, certs.Owner{Person: ownerName(0), Key: second.Public()})
	f.advance(f.sign(next, f.owners[0], f.owners[1], f.owners[2]))
	signers := append(slices.Clone(f.owners), second)
	rapid.Check(t, func(t *rapid.T) {
		picked := rapid.SliceOfNDistinct(rapid.IntRange(0, 4), 1, 5, rapid.ID).Draw(t, "signers")
		f := &fleet{tb: t, owners: f.owners, chain: f.chain}
		persons := map[int]bool{}
		var by []*certs.Identity
		for _, i := range picked {
			by = append(by, signers[i])
			persons[i%4] = true
		}
		signed := f.sign(f.chain.Next(), by...)
		c, err := f.chain.Advance(signed)
		if len(persons) >= 3 {
			if err != nil || c.Ring().Number != 4 {
				t.Fatalf("signed by %v: %v", picked, err)
			}
		} else if !errors.Is(err, certs.ErrThreshold) {
			t.Fatalf("signed by %v: %v, want ErrThreshold", picked, err)
		}
		if len(picked) > 1 {
			lines := bytes.Split(signed, []byte("\n"))
			slices.Reverse(lines)
			if _, err := f.chain.Advance(bytes.Join(lines, []byte("\n"))); !errors.Is(err, certs.ErrRing) {
				t.Fatalf("signatures in another order: %v", err)
			}
		}
		doubled := append(slices.Repeat([][]byte{bytes.Split(signed, []byte("\n"))[0]}, 3), nil)[:3]
		if _, err := f.chain.Advance(bytes.Join(doubled, []byte("\n"))); !errors.Is(err, certs.ErrRing) {
			t.Fatalf("one signature three times: %v", err)
		}
	})
}

func TestRingsRefused(t *testing.T) {
	f := newFleet(t, 2, 2)
	stranger := newIdentity(t, "stranger")
	person := newIdentity(t, "person")
	next := f.chain.Next()
	if err := next.AddPersonKey("alice", person.PublicKey()); err != nil {
		t.Fatal(err)
	}
	old := f.chain
	f.advance(f.sign(next, f.owners...))
	otherThird := f.sign(old.Next(), f.owners...) // says less than the third that is held
	change := func(change func(*certs.Ring)) []byte {
		r := f.chain.Next()
		change(&r)
		return f.sign(r, f.owners...)
	}
	good := change(func(*certs.Ring) {})
	fifth := func() []byte {
		c, err := f.chain.Advance(good)
		if err != nil {
			t.Fatal(err)
		}
		return f.sign(c.Next(), f.owners...)
	}()
	mine := f.chain.Next() // an attacker's ring: it would vouch for itself
	mine.Owners, mine.Threshold = []certs.Owner{{Person: "mallory", Key: stranger.Public()}}, 1
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"by one owner of two":       {f.sign(f.chain.Next(), f.owners[0]), certs.ErrThreshold},
		"by a stranger":             {f.sign(f.chain.Next(), stranger), protocol.ErrUnknownKey},
		"by owners and a stranger":  {f.sign(f.chain.Next(), f.owners[0], f.owners[1], stranger), protocol.ErrUnknownKey},
		"by a person who approves":  {f.sign(f.chain.Next(), f.owners[0], f.owners[1], person), protocol.ErrRole},
		"by its own new owners":     {f.sign(mine, stranger), protocol.ErrUnknownKey},
		"number skipped":            {change(func(r *certs.Ring) { r.Number++ }), certs.ErrGap},
		"the one after, alone":      {fifth, certs.ErrGap},
		"another prev":              {change(func(r *certs.Ring) { r.Prev[0]++ }), certs.ErrFork},
		"on the ring before":        {change(func(r *certs.Ring) { r.Prev, _ = f.chain.Digest(2) }), certs.ErrFork},
		"forked":                    {otherThird, certs.ErrFork},
		"another name":              {change(func(r *certs.Ring) { r.Name = "lab2" }), certs.ErrRing},
		"another fleet":             {change(func(r *certs.Ring) { r.Fleet[0]++ }), protocol.ErrFleet},
		"in reverse order":          {slices.Concat(fifth, []byte("\n"), good), certs.ErrRing},
		"with another document":     {slices.Concat(good, []byte("\n"), f.sign(mine, stranger)), certs.ErrRing},
		"the same twice":            {slices.Concat(good, []byte("\n"), good), certs.ErrRing},
		"a body changed":            {bytes.Replace(good, []byte(`"threshold":2`), []byte(`"threshold":1`), -1), protocol.ErrSignature},
		"one of the bodies changed": {bytes.Replace(good, []byte(`"threshold":2`), []byte(`"threshold":1`), 1), certs.ErrRing},
		"an empty line":             {slices.Concat(good, []byte("\n")), protocol.ErrGrammar},
		"nothing":                   {nil, protocol.ErrGrammar},
		"too much":                  {bytes.Repeat([]byte("x"), certs.MaxChain+1), certs.ErrRing},
	} {
		got, err := f.chain.Advance(c.b)
		if !errors.Is(err, c.want) || !errors.Is(err, certs.ErrRing) || got != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if c, err := f.chain.Advance(slices.Concat(f.chain.From(1), []byte("\n"), good, []byte("\n"), fifth)); err != nil || c.Ring().Number != 5 {
		t.Errorf("the genuine ones, with what is held already: %v", err)
	}
}

// TestRingsMeanOneThing signs bodies of which two readers would each make
// something else, with all that it takes for a ring.
func TestRingsMeanOneThing(t *testing.T) {
	f := newFleet(t, 1, 1)
	body, err := f.chain.Next().Body()
	if err != nil {
		t.Fatal(err)
	}
	with := func(members string) string { return string(body[:len(body)-1]) + "," + members + "}" }
	for name, b := range map[string]string{
		"as it was made":         string(body),
		"a member twice":         with(`"threshold":2`),
		"a member in upper case": with(`"THRESHOLD":2`),
		"the long s":             with(`"thre\u017fhold":2`),
		"nothing as a value":     strings.Replace(string(body), `"people":[]`, `"people":null`, 1),
		"an unknown member":      with(`"quorum":2`),
	} {
		sealed, err := protocol.Seal(f.owners[0], []byte(b), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.chain.Advance(sealed)
		if taken := err == nil; taken != (name == "as it was made") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPin(t *testing.T) {
	f := newFleet(t, 2, 2)
	all := f.chain.From(1)
	for name, pin := range map[string]enrol.Pin{
		"another digest":  enrol.PinOf(2, protocol.Digest{1}),
		"another number":  {Ring: 1, Digest: f.chain.Pin().Digest},
		"not there":       {Ring: 3, Digest: f.chain.Pin().Digest},
		"the zero number": {},
	} {
		if _, err := certs.OpenChain(pin, all); !errors.Is(err, certs.ErrPin) {
			t.Errorf("%s: %v, want ErrPin", name, err)
		}
	}
	if _, err := certs.OpenChain(f.chain.Pin()); !errors.Is(err, certs.ErrPin) {
		t.Errorf("no rings at all: %v", err)
	}
	// A first ring that nobody of its own signed is no ring, pinned or not.
	stranger := newIdentity(t, "stranger")
	r, err := certs.NewFleet(protocol.FleetID{1}, "lab", "a", f.owners[0].PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	signed := f.sign(r, stranger)
	if _, err := certs.OpenChain(enrol.PinOf(1, digestOf(t, signed)), signed); !errors.Is(err, protocol.ErrUnknownKey) {
		t.Errorf("a first ring signed by a stranger: %v", err)
	}
}

func TestRingRules(t *testing.T) {
	f := newFleet(t, 1, 1)
	q, coordinator, ca := f.request()
	other := newIdentity(t, "other")
	for name, change := range map[string]func(*certs.Ring){
		"no owner":               func(r *certs.Ring) { r.Owners = nil },
		"threshold zero":         func(r *certs.Ring) { r.Threshold = 0 },
		"threshold out of reach": func(r *certs.Ring) { r.Threshold = 2 },
		"threshold by keys": func(r *certs.Ring) {
			r.Owners = append(r.Owners, certs.Owner{Person: "owner0", Key: other.Public()})
			r.Threshold = 2
		},
		"an owner's key twice":    func(r *certs.Ring) { r.Owners = append(r.Owners, r.Owners[0]) },
		"one key, two owners":     func(r *certs.Ring) { r.Owners = append(r.Owners, certs.Owner{Person: "b", Key: r.Owners[0].Key}) },
		"an owner as coordinator": func(r *certs.Ring) { r.Coordinators = []certs.Coordinator{{Key: r.Owners[0].Key, TLSCA: q.TLSCA}} },
		"a person as coordinator": func(r *certs.Ring) {
			r.Coordinators = []certs.Coordinator{{Key: q.Key, TLSCA: q.TLSCA}}
			r.People = []certs.Person{{Person: "a", Keys: [][]byte{q.Key}}}
		},
		"one key, owner and another": func(r *certs.Ring) { r.People = []certs.Person{{Person: "a", Keys: [][]byte{r.Owners[0].Key}}} },
		"a person twice": func(r *certs.Ring) {
			r.People = []certs.Person{{Person: "a", Keys: [][]byte{q.Key}}, {Person: "a", Keys: [][]byte{other.Public()}}}
		},
		"a person without keys": func(r *certs.Ring) { r.People = []certs.Person{{Person: "a"}} },
		"a nameless person":     func(r *certs.Ring) { r.People = []certs.Person{{Keys: [][]byte{q.Key}}} },
		"a name to mislead":     func(r *certs.Ring) { r.People = []certs.Person{{Person: "owner0\u00a0", Keys: [][]byte{q.Key}}} },
		"no authority":          func(r *certs.Ring) { r.Coordinators = []certs.Coordinator{{Key: q.Key}} },
		"a key as authority":    func(r *certs.Ring) { r.Coordinators = []certs.Coordinator{{Key: q.Key, TLSCA: q.Key}} },
		"a leaf as authority":   func(r *certs.Ring) { r.Coordinators = []certs.Coordinator{{Key: q.Key, TLSCA: leaf(t, ca).Raw}} },
		"a broken key":          func(r *certs.Ring) { r.Owners = append(r.Owners, certs.Owner{Person: "b", Key: q.Key[1:]}) },
		"no fleet":              func(r *certs.Ring) { r.Fleet = protocol.FleetID{} },
		"no name":               func(r *certs.Ring) { r.Name = "" },
		"no number":             func(r *certs.Ring) { r.Number = 0 },
		"no prev":               func(r *certs.Ring) { r.Prev = protocol.Digest{} },
		"many owners":           func(r *certs.Ring) { r.Owners = slices.Repeat(r.Owners, 17) },
	} {
		r := f.chain.Next()
		change(&r)
		if _, err := r.Body(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	// An owner may approve with the same key.
	r := f.chain.Next()
	if err := r.AddPersonKey("owner0", f.owners[0].PublicKey()); err != nil {
		t.Errorf("an owner who approves: %v", err)
	}
	if err := r.AddPersonKey("mallory", coordinator.PublicKey()); err != nil {
		t.Errorf("a key that is nobody's yet: %v", err)
	}
	twice := r
	twice.People = slices.Clone(r.People)
	last := &twice.People[len(twice.People)-1]
	last.Keys = [][]byte{last.Keys[0], last.Keys[0]}
	if _, err := twice.Body(); err == nil {
		t.Error("the same key twice is taken")
	}
	before := len(r.Coordinators)
	if err := r.AddCoordinator(q); err == nil || len(r.Coordinators) != before {
		t.Error("a person's key becomes a coordinator's")
	}
}

func TestJoinSignatures(t *testing.T) {
	f := newFleet(t, 3, 3)
	r := f.chain.Next()
	var parts [][]byte
	for _, o := range f.owners {
		parts = append(parts, f.sign(r, o))
	}
	whole := f.sign(r, f.owners...)
	slices.Reverse(parts)
	if got, err := certs.JoinSignatures(append(parts, parts[0])...); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("joined they differ from what was signed at once: %v", err)
	}
	other := f.chain.Next()
	other.Threshold = 1
	if _, err := certs.JoinSignatures(parts[0], f.sign(other, f.owners[0])); err == nil {
		t.Error("signatures of two documents are joined")
	}
	if _, err := certs.JoinSignatures([]byte("x")); !errors.Is(err, protocol.ErrGrammar) {
		t.Errorf("no signature: %v", err)
	}
}

func TestRingIsLegible(t *testing.T) {
	f := newFleet(t, 1, 1)
	body, err := f.chain.Ring().Body()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"hostler":"ring/1","fleet":"01020300000000000000000000000000","name":"lab","number":1,"prev":"` + strings.Repeat("0", 64) + `","owners":[{"person":"owner0","key":"`
	if !strings.HasPrefix(string(body), want) || !strings.HasSuffix(string(body), `"}],"threshold":1,"coordinators":[],"people":[]}`) {
		t.Errorf("the first ring reads %s", body)
	}
}

func FuzzChain(f *testing.F) {
	small := newFleet(f, 1, 1)
	f.Add(small.chain.From(1))
	next := small.chain.Next()
	next.Threshold = 1
	f.Add(small.sign(next, small.owners[0]))
	two := newFleet(f, 2, 2)
	f.Add(two.chain.From(1))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := small.chain.Advance(b)
		if err != nil {
			if !errors.Is(err, certs.ErrRing) || c != nil {
				t.Errorf("%v is no ErrRing", err)
			}
			return
		}
		if c.Ring().Fleet != small.chain.Ring().Fleet || c.Ring().Number > 2 {
			t.Errorf("ring %d of fleet %v was forged", c.Ring().Number, c.Ring().Fleet)
		}
	})
}
