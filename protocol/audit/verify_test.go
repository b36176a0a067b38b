package audit_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// key stands for an OpenPGP key.
type key struct{ secret ed25519.PrivateKey }

func newKey(name string) *key {
	seed := sha256.Sum256([]byte(name))
	return &key{ed25519.NewKeyFromSeed(seed[:])}
}

func (k *key) Key() protocol.KeyID {
	sum := sha256.Sum256(k.secret.Public().(ed25519.PublicKey))
	return protocol.KeyID(sum[:20])
}

func (k *key) Sign(body []byte) ([]byte, error) { return ed25519.Sign(k.secret, body), nil }

func (k *key) CheckForm(sig []byte) error {
	if len(sig) != ed25519.SignatureSize {
		return errors.New("no signature")
	}
	return nil
}

func (k *key) Verify(sig, body []byte) error {
	if !ed25519.Verify(k.secret.Public().(ed25519.PublicKey), body, sig) {
		return errors.New("wrong signature")
	}
	return nil
}

// book is a fleet whose ring 2 has one coordinator, "old" being of ring 1 alone.
type book struct {
	keys map[protocol.KeyID]protocol.Principal
}

func newBook() book {
	b := book{make(map[protocol.KeyID]protocol.Principal)}
	for name, p := range map[string]protocol.Principal{
		"coordinator": {Roles: []protocol.Role{protocol.RoleCoordinator}},
		"old":         {Roles: []protocol.Role{protocol.RoleCoordinator}},
		"edge-07":     {Roles: []protocol.Role{protocol.RoleHost}, Host: "edge-07"},
	} {
		p.Key = newKey(name)
		b.keys[newKey(name).Key()] = p
	}
	return b
}

func (b book) Principal(k protocol.KeyID) (protocol.Principal, bool) {
	p, ok := b.keys[k]
	return p, ok
}

func (book) Ring() uint64 { return 2 }

func (book) WasCoordinator(ring uint64, k protocol.KeyID) bool {
	switch ring {
	case 1:
		return k == newKey("old").Key()
	case 2:
		return k == newKey("coordinator").Key()
	}
	return false
}

var (
	fleet = protocol.FleetID{1}
	store = protocol.StoreID{2}
)

// log is an audit log that grows.
type log struct {
	signer  string
	ring    uint64
	store   protocol.StoreID
	term    protocol.Term
	n       uint64
	h       protocol.Digest
	sealed  uint64
	leaves  []byte
	lines   [][]byte
	numbers []uint64 // of each line: the record that it is, or ends with
	checks  [][]byte
}

func newLog() *log {
	return &log{signer: "coordinator", ring: 2, store: store, term: protocol.Term{Ring: 2, Counter: 1}}
}

func (l *log) record(verb string) {
	stored, err := audit.Record{AtMS: int64(l.n), Actor: "alice", Verb: verb}.Encode()
	if err != nil {
		panic(err)
	}
	l.n++
	line := audit.Line(l.n, stored)
	leaf := audit.Leaf(line)
	l.h, l.leaves = audit.Fold(l.h, leaf), append(l.leaves, leaf[:]...)
	l.lines, l.numbers = append(l.lines, line), append(l.numbers, l.n)
}

func (l *log) body(after uint64) protocol.Checkpoint {
	return protocol.Checkpoint{Type: protocol.TypeCheckpoint, Fleet: fleet, Log: protocol.Coordinator, Store: l.store,
		After: after, N: l.n, H: l.h, Ring: l.ring, Term: l.term, AtMS: 5}
}

func sealBy(signer string, c protocol.Checkpoint) []byte {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	raw, err := protocol.Seal(newKey(signer), b, nil)
	if err != nil {
		panic(err)
	}
	return raw
}

func (l *log) seal() protocol.Checkpoint {
	c := l.body(l.sealed)
	raw := sealBy(l.signer, c)
	l.lines = append(l.lines, audit.LeavesLine(l.n, l.leaves), raw)
	l.numbers = append(l.numbers, l.n, l.n)
	l.checks, l.sealed, l.leaves = append(l.checks, raw), l.n, nil
	return c
}

// file is the exported log: the newest checkpoint, then everything.
func (l *log) file() [][]byte {
	return append([][]byte{l.checks[len(l.checks)-1]}, l.lines...)
}

// build makes a log with so many records under each checkpoint.
func build(sizes ...int) *log {
	l := newLog()
	for _, size := range sizes {
		for range size {
			l.record("host.approve")
		}
		l.seal()
	}
	return l
}

func verify(lines [][]byte, known ...protocol.Checkpoint) audit.Result {
	r, err := audit.Verify(bytes.NewReader(append(bytes.Join(lines, []byte("\n")), '\n')), audit.Config{Fleet: fleet, Keys: newBook(), Known: known})
	if err != nil {
		panic(err)
	}
	return r
}

func names(r audit.Result, n uint64, kinds ...audit.Kind) bool {
	return slices.ContainsFunc(r.Faults, func(f audit.Fault) bool {
		return (len(kinds) == 0 || slices.Contains(kinds, f.Kind)) && f.From <= n && n <= f.To
	})
}

func TestWholeLog(t *testing.T) {
	l := build(3, 1, 4)
	r := verify(l.file(), l.body(0))
	if len(r.Faults) != 0 || r.Records != 8 || r.Checkpoints != 3 || r.Newest.N != 8 || r.Known != 1 || r.Key != newKey("coordinator").Key() {
		t.Errorf("%+v", r)
	}
	// What was pruned is vouched for by the checkpoint that stays.
	pruned := append([][]byte{l.file()[0], l.checks[0]}, l.lines[5:]...)
	if r := verify(pruned); len(r.Faults) != 0 || r.After != 3 || r.Records != 5 {
		t.Errorf("pruned: %+v", r)
	}
	if r := verify(nil); len(r.Faults) == 0 {
		t.Error("an empty file passes")
	}
}

// TestNamed holds what is said about each kind of tampering.
func TestNamed(t *testing.T) {
	l := build(3, 4, 2)
	base := l.file()
	// Line i of l.lines is line i+1 of the file, counted from 0.
	at := func(n uint64) int { return 1 + slices.Index(l.numbers, n) }
	other := build(3, 4, 3)
	rewritten := newLog()
	for range 9 {
		rewritten.record("host.deny")
	}
	rewritten.seal()
	removed := build(3)
	removed.signer, removed.ring, removed.term = "old", 1, protocol.Term{Ring: 1, Counter: 1}
	removed.record("x")
	removed.seal()
	stolen := build(3)
	stolen.signer = "old" // names ring 2, in which it is nobody
	stolen.record("x")
	stolen.seal()
	edit := func(change func(f [][]byte) [][]byte) [][]byte { return change(slices.Clone(base)) }
	replace := func(i int, old, new string) func([][]byte) [][]byte {
		return func(f [][]byte) [][]byte {
			f[i] = bytes.Replace(f[i], []byte(old), []byte(new), 1)
			return f
		}
	}
	for _, c := range []struct {
		name  string
		lines [][]byte
		known []protocol.Checkpoint
		kind  audit.Kind
		n     uint64
	}{
		{name: "removed", lines: edit(func(f [][]byte) [][]byte { return slices.Delete(f, at(5), at(5)+1) }), kind: audit.Missing, n: 5},
		{name: "the first removed", lines: edit(func(f [][]byte) [][]byte { return slices.Delete(f, at(1), at(1)+1) }), kind: audit.Missing, n: 1},
		{name: "changed", lines: edit(replace(at(6), "alice", "mallory")), kind: audit.Changed, n: 6},
		{name: "reordered", lines: edit(func(f [][]byte) [][]byte { f[at(4)], f[at(5)] = f[at(5)], f[at(4)]; return f }), kind: audit.Displaced, n: 4},
		{name: "moved", lines: edit(func(f [][]byte) [][]byte { f[at(2)], f[at(7)] = f[at(7)], f[at(2)]; return f }), kind: audit.Displaced, n: 7},
		{name: "inserted", lines: edit(func(f [][]byte) [][]byte { return slices.Insert(f, at(5), f[at(2)]) }), kind: audit.Inserted, n: 2},
		{name: "cut", lines: base[:at(8)], kind: audit.Cut, n: 9},
		{name: "cut, and its first line too", lines: build(3, 4).file(), known: []protocol.Checkpoint{l.body(7)}, kind: audit.Cut, n: 9},
		{name: "rolled back", lines: rewritten.file(), known: []protocol.Checkpoint{l.body(7)}, kind: audit.RolledBack, n: 9},
		{name: "rolled back further", lines: other.file(), known: []protocol.Checkpoint{l.body(7)}, kind: audit.RolledBack, n: 9},
		{name: "forged checkpoint", lines: edit(replace(at(3)+2, `"at_ms":5`, `"at_ms":6`)), kind: audit.Forged, n: 3},
		{name: "checkpoint of another key", lines: stolen.file(), kind: audit.Forged, n: 4},
		{name: "removed coordinator", lines: removed.file(), kind: audit.RemovedKey, n: 4},
		{name: "checkpoint left out", lines: edit(func(f [][]byte) [][]byte { return slices.Delete(f, at(3)+2, at(3)+3) }), kind: audit.Missing, n: 3},
		{name: "leaves changed, record too", lines: edit(func(f [][]byte) [][]byte {
			return replace(at(7)+1, `"leaves":"`, `"leaves":"AAAA`)(replace(at(5), "alice", "bob")(f))
		}), kind: audit.Changed, n: 5},
		{name: "pruned without a checkpoint", lines: append([][]byte{base[0]}, base[at(4):]...), kind: audit.Missing, n: 2},
	} {
		r := verify(c.lines, c.known...)
		if !names(r, c.n, c.kind) {
			t.Errorf("%s: want %s of %d, found %v", c.name, c.kind, c.n, r.Faults)
		}
	}
}

// TestPresentCoordinatorVouchesForThePast: a key that was replaced is no fault of
// the records that a later coordinator has sealed again.
func TestPresentCoordinatorVouchesForThePast(t *testing.T) {
	l := newLog()
	l.signer, l.ring, l.term = "old", 1, protocol.Term{Ring: 1, Counter: 4}
	l.record("x")
	l.seal()
	l.signer, l.ring, l.term, l.store = "coordinator", 2, protocol.Term{Ring: 2, Counter: 5}, protocol.StoreID{3}
	l.record("x")
	l.seal()
	if r := verify(l.file()); len(r.Faults) != 0 {
		t.Errorf("%v", r.Faults)
	}
}

// TestLostByRecovery: a log that goes on behind a backup is whole, and tells what it
// cannot have as soon as a checkpoint of before shows it: however far it has come since,
// and also at the very number of a checkpoint of its own.
func TestLostByRecovery(t *testing.T) {
	before := build(3, 2) // records 4 and 5 came after the backup
	former := before.body(3)
	l := build(3)
	l.store, l.term = protocol.StoreID{3}, protocol.Term{Ring: 2, Counter: 2}
	for range 4 {
		l.record("host.deny")
		l.seal()
		if r := verify(l.file()); len(r.Faults) > 0 {
			t.Fatalf("up to %d, without anything from elsewhere: %v", l.n, r.Faults)
		}
		r := verify(l.file(), former)
		if len(r.Faults) != 1 || r.Faults[0].Kind != audit.Lost || r.Faults[0].From != 4 || r.Faults[0].To != 5 {
			t.Errorf("up to %d: %v", l.n, r.Faults)
		}
	}
	// Another coordinator of the fleet has a log of its own.
	former.Store = protocol.StoreID{9}
	if r := verify(l.file(), former); len(r.Faults) > 0 {
		t.Errorf("a log of another coordinator: %v", r.Faults)
	}
}

// TestHostLog has no checkpoint but the last, and many leaves.
func TestHostLog(t *testing.T) {
	l := newLog()
	for range 2500 {
		l.record("action.start")
	}
	c := l.body(0)
	c.Log, c.Term = "host:edge-07", protocol.Term{}
	raw := sealBy("edge-07", c)
	lines := append([][]byte{raw}, l.lines...)
	lines = append(lines, audit.LeavesLine(1000, l.leaves[:32000]), audit.LeavesLine(2000, l.leaves[32000:64000]), audit.LeavesLine(2500, l.leaves[64000:]), raw)
	if r := verify(lines); len(r.Faults) != 0 || r.Records != 2500 || r.Log != "host:edge-07" {
		t.Errorf("%+v", r)
	}
	lines[1700] = bytes.Replace(lines[1700], []byte("alice"), []byte("bob"), 1)
	if r := verify(lines); !names(r, 1700, audit.Changed) {
		t.Errorf("%+v", r.Faults)
	}
	// A host vouches for nobody's log but its own.
	lines[len(lines)-1] = sealBy("edge-07", l.body(0))
	if r := verify(lines); len(r.Faults) == 0 {
		t.Error("a host's checkpoint of the coordinator's log passes")
	}
}

// TestAnyTampering changes one thing anywhere: it is found, and the record that
// it is about, or that it stands beside, is named.
func TestAnyTampering(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := build(rapid.SliceOfN(rapid.IntRange(1, 6), 1, 5).Draw(rt, "sizes")...)
		lines := slices.Clone(l.file())
		i := rapid.IntRange(0, len(lines)-1).Draw(rt, "line")
		j := rapid.IntRange(0, len(lines)-1).Draw(rt, "other")
		what := rapid.SampledFrom([]string{"remove", "change", "swap", "truncate", "cut inside", "repeat", "insert"}).Draw(rt, "what")
		switch what {
		case "remove":
			lines = slices.Delete(lines, i, i+1)
		case "change":
			b := bytes.Clone(lines[i])
			b[rapid.IntRange(0, len(b)-1).Draw(rt, "byte")] ^= 1 << rapid.IntRange(0, 6).Draw(rt, "bit")
			if slices.Contains(b, '\n') {
				rt.Skip("two lines")
			}
			lines[i] = b
		case "swap":
			if bytes.Equal(lines[i], lines[j]) {
				rt.Skip("the same")
			}
			lines[i], lines[j] = lines[j], lines[i]
		case "truncate":
			lines = lines[:i]
		case "cut inside":
			lines = append(lines[:i:i], lines[i][:rapid.IntRange(0, len(lines[i])-1).Draw(rt, "bytes")])
		case "repeat":
			lines = slices.Insert(lines, i, lines[j])
		case "insert":
			stored, _ := audit.Record{Actor: "mallory", Verb: "host.approve"}.Encode()
			lines = slices.Insert(lines, i, audit.Line(rapid.Uint64Range(1, l.n+2).Draw(rt, "n"), stored))
		}
		r := verify(lines)
		if len(r.Faults) == 0 {
			rt.Fatalf("%s of line %d: nothing was found", what, i+1)
		}
		for _, f := range r.Faults {
			if f.Detail == "" || f.From > f.To || f.String() == "" {
				rt.Fatalf("%s of line %d: %+v", what, i+1, f)
			}
		}
		// Line 0 is the newest checkpoint, of which the last line is a copy.
		if n := number(l, i); what != "truncate" && what != "cut inside" && !names(r, n) && !namesLine(r, i, j) {
			rt.Fatalf("%s of line %d, about record %d: %v", what, i+1, n, r.Faults)
		}
	})
}

func number(l *log, i int) uint64 {
	if i == 0 {
		return l.n
	}
	return l.numbers[i-1]
}

// namesLine reports whether a fault names one of the lines, or the one behind.
func namesLine(r audit.Result, lines ...int) bool {
	return slices.ContainsFunc(r.Faults, func(f audit.Fault) bool {
		return slices.ContainsFunc(lines, func(i int) bool { return f.Line == i+1 || f.Line == i+2 })
	})
}

// TestDocumentedRecipe runs the commands of doc/protocol.md, as they stand there.
func TestDocumentedRecipe(t *testing.T) {
	text, err := os.ReadFile("../../doc/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "<!-- recipe -->\n```sh\n")
	script, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("there are no commands")
	}
	dir := t.TempDir()
	run := func(lines [][]byte) (string, error) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "audit.jsonl"), append(bytes.Join(lines, []byte("\n")), '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		c := exec.Command("bash", "-o", "pipefail", "-c", script)
		c.Dir = dir
		out, err := c.CombinedOutput()
		return string(out), err
	}
	l := build(3, 2)
	if out, err := run(l.file()); err != nil || out != "" {
		t.Errorf("an honest log: %v: %s", err, out)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "message")); err != nil || string(got) != string(l.checks[1])+"\n" {
		t.Errorf("left as message: %s, %v", got, err)
	}
	for i := range l.file() {
		if lines := slices.Delete(slices.Clone(l.file()), i, i+1); bytes.HasPrefix(l.file()[i], []byte(`{"n":`)) {
			if out, err := run(lines); err == nil || !strings.Contains(out, "NOT as it was sealed") {
				t.Errorf("without line %d: %v: %s", i+1, err, out)
			}
		}
	}
}

// TestTamperedDatabase changes a record and its leaf: the checkpoint holds.
func TestTamperedDatabase(t *testing.T) {
	l := build(3, 4)
	forged := newLog()
	for n := range 7 {
		verb := "host.approve"
		if n == 4 {
			verb = "host.deny"
		}
		forged.record(verb)
		if n == 2 || n == 6 {
			forged.seal()
		}
	}
	lines := forged.file()
	for i, line := range lines {
		if bytes.HasPrefix(line, []byte(`{"v":`)) {
			lines[i] = l.file()[i] // the attacker has no key
		}
	}
	if r := verify(lines); !names(r, 5, audit.Changed) {
		t.Errorf("%v", r.Faults)
	}
}

func TestLongLines(t *testing.T) {
	l := build(2)
	lines := slices.Insert(l.file(), 2, []byte(strings.Repeat("x", 3*audit.MaxLine)))
	if r := verify(lines); len(r.Faults) != 1 || r.Faults[0].Kind != audit.Broken || r.Faults[0].Line != 3 {
		t.Errorf("%v", r.Faults)
	}
}

func FuzzVerify(f *testing.F) {
	join := func(l [][]byte) []byte { return append(bytes.Join(l, []byte("\n")), '\n') }
	l := build(2, 3)
	f.Add(join(l.file()))
	f.Add(join(l.file()[1:]))
	f.Add(join(append([][]byte{l.checks[1], l.checks[0]}, l.lines[4:]...)))
	f.Add([]byte("{\"n\":1,\"verb\":\"x\"}\n{\"leaves\":\"\",\"from\":1}\n{\"v\":1}"))
	f.Add([]byte(`{"leaves":"` + strings.Repeat("AAAA", 32) + `","from":18446744073709551615}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := audit.Verify(bytes.NewReader(b), audit.Config{Fleet: fleet, Keys: newBook(), Known: []protocol.Checkpoint{l.body(2)}})
		if err != nil {
			t.Fatal(err)
		}
		// What passes is the log that was sealed, from some checkpoint on.
		if len(r.Faults) == 0 {
			for line := range bytes.SplitSeq(bytes.TrimSuffix(b, []byte("\n")), []byte("\n")) {
				if !slices.ContainsFunc(l.file(), func(sealed []byte) bool { return bytes.Equal(sealed, line) }) {
					t.Errorf("%q passes", line)
				}
			}
		}
		for _, x := range r.Faults {
			if x.From > x.To || fmt.Sprint(x) == "" {
				t.Errorf("%+v", x)
			}
		}
	})
}
