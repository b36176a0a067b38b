package protocol_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/fresh"
)

//go:generate go test -count=1 -run ^(TestVectors|TestLifecycle|TestDocument)$DOLLAR -update .

var update = flag.Bool("update", false, "write the files of testdata, and the tables of doc/protocol.md, anew")

// vector is one message, who takes it when, and what becomes of it. The file
// testdata/vectors/README.md explains the members to writers of other implementations.
type vector struct {
	Name     string         `json:"name"`
	Receiver protocol.Party `json:"receiver"`
	Topic    string         `json:"topic,omitempty"`
	Type     protocol.Type  `json:"type,omitempty"`
	After    []string       `json:"after,omitempty"`
	Message  string         `json:"message,omitempty"`
	Base64   []byte         `json:"base64,omitempty"`
	Pad      int            `json:"pad,omitempty"`
	Want     protocol.Code  `json:"want"`
}

// raw is the message as the receiver gets it.
func (v *vector) raw() []byte {
	raw := slices.Concat([]byte(v.Message), v.Base64)
	return append(raw, bytes.Repeat([]byte("."), v.Pad)...)
}

// world is one receiver with its memory.
type world struct {
	keys   ring
	self   protocol.Party
	gate   fresh.HostGate
	down   fresh.CoordinatorGate
	sent   fresh.SentWindow
	offers byte
}

func newWorld(self protocol.Party) *world {
	w := &world{keys: newRing(), self: self}
	w.sent.Sent(heard, 1000)
	return w
}

// Fresh is what both sides do at check 11.
func (w *world) Fresh(t protocol.Topic, h *protocol.Header) error {
	if h.Heard != (protocol.Seq{}) {
		if _, ok := w.sent.At(h.Heard); !ok {
			return protocol.ErrHeard
		}
	}
	switch {
	case h.Seq == protocol.Seq{} || h.IsHello():
		return nil
	case w.self == protocol.Coordinator:
		return w.gate.State(t.Channel, h.Seq, h.Chal)
	}
	return w.down.Fresh(t.Channel, h)
}

// Term is what hosts do at check 12.
func (w *world) Term(h *protocol.Header) error {
	if w.self == protocol.Coordinator {
		return nil
	}
	return w.down.Term(h)
}

func (w *world) expect(v *vector) protocol.Expect {
	return protocol.Expect{Fleet: theFleet, FleetName: "lab", Self: w.self, Keys: w.keys, Ring: theRing, Topic: v.Topic, Type: v.Type, Fresh: w}
}

// open does everything that a receiver does with a message.
func (w *world) open(v *vector) (protocol.Message, any, error) {
	m, err := protocol.Open(v.raw(), w.expect(v))
	if err != nil {
		return m, nil, err
	}
	var payload any
	for _, s := range samples() {
		if s.typ == m.Header.Type && s.decode != nil {
			payload = s.decode()
		}
	}
	switch {
	case protocol.ClassOf(m.Header.Type) == protocol.ClassItem:
		err = m.DecodeItem(payload)
	case payload != nil:
		err = m.Decode(payload)
	}
	if err != nil {
		return m, nil, err
	}
	switch p, _ := payload.(*protocol.Presence); {
	case w.self != protocol.Coordinator:
		w.down.Accept(m.Topic.Channel, &m.Header)
	case p != nil && p.Kind == protocol.PresenceHello:
		w.offers++
		w.gate.Hello(m.Header.Seq, p.Hello.Inst, nonce(w.offers))
	}
	return m, payload, nil
}

// replay opens a vector in a new world, after what came before it.
func replay(t *testing.T, all map[string]*vector, v *vector) (protocol.Message, any, error) {
	t.Helper()
	w := newWorld(v.Receiver)
	for _, name := range v.After {
		before, ok := all[name]
		if !ok {
			t.Fatalf("%s comes after %q, which does not exist", v.Name, name)
		}
		if _, _, err := w.open(before); err != nil {
			t.Fatalf("%s comes after %s: %s", v.Name, name, err)
		}
	}
	return w.open(v)
}

// codeOf returns the one code that an error wraps.
func codeOf(err error) protocol.Code {
	c, _ := errors.AsType[protocol.Code](err)
	return c
}

func writeVectors(t *testing.T, file string, list []*vector) {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	b.WriteString("[\n")
	for i, v := range list {
		if i > 0 {
			b.Truncate(b.Len() - 1)
			b.WriteString(",\n")
		}
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	b.WriteString("]\n")
	compareFile(t, file, b.Bytes())
}

// compareFile holds a file against what it is made from, or writes it.
func compareFile(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, want, 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); d != "" {
		t.Errorf("%s is not what this code makes (−code +file; `make vectors` writes it anew):\n%.2000s", file, d)
	}
}

func readVectors(t testing.TB, file string) []*vector {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []*vector
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatalf("%s: %s", file, err)
	}
	return list
}

const (
	validFile   = "testdata/vectors/valid.json"
	invalidFile = "testdata/vectors/invalid.json"
)

// TestVectors opens every committed message.
func TestVectors(t *testing.T) {
	writeVectors(t, validFile, validVectors())
	writeVectors(t, invalidFile, invalidVectors())

	all := map[string]*vector{}
	valid, invalid := readVectors(t, validFile), readVectors(t, invalidFile)
	for _, v := range valid {
		all[v.Name] = v
	}
	types := map[protocol.Type]bool{}
	for _, v := range valid {
		t.Run(v.Name, func(t *testing.T) {
			m, _, err := replay(t, all, v)
			if err != nil {
				t.Errorf("Open: %s", err)
			}
			types[m.Header.Type] = true
		})
	}
	for _, s := range samples() {
		if !types[s.typ] {
			t.Errorf("no good message of type %s", s.typ)
		}
	}
	names, seen := map[string]bool{}, map[protocol.Code]bool{}
	for _, v := range invalid {
		t.Run(v.Name, func(t *testing.T) {
			if names[v.Name] {
				t.Error("the name is used twice")
			}
			names[v.Name] = true
			m, _, err := replay(t, all, v)
			if codeOf(err) != v.Want {
				t.Errorf("Open: %v, want %s", err, v.Want)
			}
			if v.Want != protocol.ErrPayload && v.Want != protocol.ErrRing && m.Body != nil {
				t.Error("a refused message has a body")
			}
			seen[v.Want] = true
		})
	}
	if len(invalid) < 100 {
		t.Errorf("%d bad messages", len(invalid))
	}
	checks := map[int]bool{}
	for _, c := range protocol.Codes() {
		checks[checkOf(c)] = true
		if !seen[c] {
			t.Errorf("no message is refused as %q", c)
		}
	}
	for n := range 14 {
		if n > 0 && !checks[n] {
			t.Errorf("no code for check %d", n)
		}
	}
	for _, v := range append(valid, invalid...) {
		if !utf8.ValidString(v.Message) || len(v.Base64) > 0 && utf8.Valid(v.Base64) {
			t.Errorf("%s: bytes that are text are written as text", v.Name)
		}
	}
}

// TestFirstViolation combines everything that can be wrong with a message in
// pairs: the check that comes first is the one that refuses.
func TestFirstViolation(t *testing.T) {
	base := sampleNamed("grant")
	all := map[string]*vector{}
	for _, v := range validVectors() {
		all[v.Name] = v
	}
	list := orderedViolations()
	for i, a := range list {
		for _, b := range list[i+1:] {
			if checkOf(a.want) == checkOf(b.want) {
				continue
			}
			m := newBuilder(base)
			// Both orders of construction must say the same; signing comes last
			// whatever the order.
			b.apply(m)
			a.apply(m)
			v := m.vector(a.name+"+"+b.name, a.want)
			if _, _, err := replay(t, all, v); codeOf(err) != a.want {
				t.Errorf("%s and %s: %v, want %s", a.name, b.name, err, a.want)
			}
		}
	}
}

// TestRoundTrip holds every type to one form: what is decoded encodes to the
// bytes that were signed, which start with type and fleet.
func TestRoundTrip(t *testing.T) {
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			m := newBuilder(s)
			w := newWorld(m.receiver)
			opened, payload, err := replay(t, byName(validVectors()), m.vector(s.name, ""))
			if err != nil {
				t.Fatal(err)
			}
			body, want := opened.Body, any(&opened.Header)
			if protocol.ClassOf(s.typ) == protocol.ClassItem {
				item := must(json.Marshal(payload))
				if !bytes.Equal(item, opened.Header.Item) {
					t.Errorf("item\n got %s\nwant %s", item, opened.Header.Item)
				}
				if d := cmp.Diff(s.item, payload); d != "" {
					t.Errorf("item (−sent +got):\n%s", d)
				}
			} else if payload != nil {
				want = payload
			}
			if got := must(json.Marshal(want)); !bytes.Equal(got, body) {
				t.Errorf("body\n got %s\nwant %s", got, body)
			}
			if !bytes.HasPrefix(body, []byte(`{"hostler":"`+string(s.typ)+`","fleet":"`+theFleet.String()+`"`)) {
				t.Errorf("body starts %.70s", body)
			}
			if !bytes.Equal(opened.Attachment, s.attach) {
				t.Errorf("attachment %q, want %q", opened.Attachment, s.attach)
			}
			if opened.Key != newFakeKey(s.from).id || len(w.keys) == 0 {
				t.Errorf("key %s", opened.Key)
			}
		})
	}
}

func byName(list []*vector) map[string]*vector {
	all := map[string]*vector{}
	for _, v := range list {
		all[v.Name] = v
	}
	return all
}
