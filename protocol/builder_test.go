package protocol_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hostler-io/hostler/protocol"
)

// member is one member of a JSON object in its place.
type member struct {
	name string
	raw  json.RawMessage
}

// object is a JSON object that keeps the order of its members.
type object []member

func parseObject(b []byte) object {
	d := json.NewDecoder(bytes.NewReader(b))
	must(d.Token())
	var o object
	for d.More() {
		name := must(d.Token()).(string)
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			panic(err)
		}
		o = append(o, member{name, raw})
	}
	return o
}

func (o object) bytes() []byte {
	var parts []string
	for _, m := range o {
		parts = append(parts, `"`+m.name+`":`+string(m.raw))
	}
	return []byte("{" + strings.Join(parts, ",") + "}")
}

// set gives a member a value, or appends one; the empty value removes it.
func (o *object) set(name, raw string) {
	i := slices.IndexFunc(*o, func(m member) bool { return m.name == name })
	switch {
	case raw == "" && i >= 0:
		*o = slices.Delete(*o, i, i+1)
	case raw == "":
		panic("there is no member " + name)
	case i >= 0:
		(*o)[i].raw = json.RawMessage(raw)
	default:
		*o = append(*o, member{name, json.RawMessage(raw)})
	}
}

// builder makes a message step by step, so that each step can be made wrong.
type builder struct {
	receiver protocol.Party
	topic    string
	typ      protocol.Type // without a topic
	key      *fakeKey
	body     object
	item     object
	attach   []byte
	after    []string
	pad      int
	edit     []func(body string) string // before it is signed
	sig      []func(sig []byte) []byte
	swap     []func(body string) string // after it was signed
	raw      []func(raw string) string
}

func sampleNamed(name string) sample {
	for _, s := range samples() {
		if s.name == name {
			return s
		}
	}
	panic("there is no sample " + name)
}

func newBuilder(s sample) *builder {
	m := &builder{receiver: "host:edge-07", key: newFakeKey(s.from), attach: s.attach, after: s.after}
	m.body = parseObject(must(json.Marshal(s.body)))
	if s.item != nil {
		m.item = parseObject(must(json.Marshal(s.item)))
		m.putItem(m.item.bytes())
	}
	switch s.channel.Direction() {
	case protocol.Up:
		m.receiver = protocol.Coordinator
		fallthrough
	case protocol.Down:
		t := protocol.HostTopic("lab", "edge-07", s.channel)
		if s.channel.PerAction() {
			t.Action = anAction
		}
		m.topic = t.String()
	case protocol.Fleet:
		m.topic = protocol.FleetTopic("lab", s.channel).String()
	default:
		m.typ = s.typ
	}
	return m
}

// putItem puts the bytes of an item into the body.
func (m *builder) putItem(b []byte) {
	// The member keeps its place: between n and what follows.
	raw := string(must(json.Marshal(b)))
	if i := slices.IndexFunc(m.body, func(e member) bool { return e.name == "item" }); i >= 0 {
		m.body[i].raw = json.RawMessage(raw)
		return
	}
	i := slices.IndexFunc(m.body, func(e member) bool { return e.name == "n" })
	m.body = slices.Insert(m.body, i+1, member{"item", json.RawMessage(raw)})
}

func (m *builder) bytes() []byte {
	body := string(m.body.bytes())
	for _, f := range m.edit {
		body = f(body)
	}
	sig := must(m.key.Sign([]byte(body)))
	for _, f := range m.sig {
		sig = f(sig)
	}
	for _, f := range m.swap {
		body = f(body)
	}
	raw := string(protocol.AppendEnvelope(nil, m.key.id, sig, []byte(body), m.attach))
	for _, f := range m.raw {
		raw = f(raw)
	}
	return []byte(raw)
}

func (m *builder) vector(name string, want protocol.Code) *vector {
	v := &vector{Name: name, Receiver: m.receiver, Topic: m.topic, Type: m.typ, After: m.after, Pad: m.pad, Want: want}
	if raw := m.bytes(); utf8.Valid(raw) {
		v.Message = string(raw)
	} else {
		v.Base64 = raw
	}
	return v
}

// violation is one way to break a message.
type violation struct {
	name  string
	want  protocol.Code
	apply func(m *builder)
}

// Steps of violations.

func set(name, raw string) func(m *builder) { return func(m *builder) { m.body.set(name, raw) } }

func setItem(name, raw string) func(m *builder) {
	return func(m *builder) {
		m.item.set(name, raw)
		m.putItem(m.item.bytes())
	}
}

func itemBytes(s string) func(m *builder) { return func(m *builder) { m.putItem([]byte(s)) } }

func topic(s string) func(m *builder) { return func(m *builder) { m.topic = s } }

func signedBy(name string) func(m *builder) { return func(m *builder) { m.key = newFakeKey(name) } }

func edit(old, new string) func(m *builder) {
	return func(m *builder) { m.edit = append(m.edit, replacing(old, new)) }
}

func swap(old, new string) func(m *builder) {
	return func(m *builder) { m.swap = append(m.swap, replacing(old, new)) }
}

func envelope(old, new string) func(m *builder) {
	return func(m *builder) { m.raw = append(m.raw, replacing(old, new)) }
}

// replacing replaces the first old, which must be there; an old of "" stands
// for the end.
func replacing(old, new string) func(string) string {
	return func(s string) string {
		if old == "" {
			return s + new
		}
		if !strings.Contains(s, old) {
			panic("there is no " + old + " in " + s)
		}
		return strings.Replace(s, old, new, 1)
	}
}

func editSig(f func(sig []byte) []byte) func(m *builder) {
	return func(m *builder) { m.sig = append(m.sig, f) }
}

func attach(s string) func(m *builder) { return func(m *builder) { m.attach = []byte(s) } }

func after(names ...string) func(m *builder) { return func(m *builder) { m.after = names } }
