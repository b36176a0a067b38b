package protocol_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

func FuzzOpen(f *testing.F) {
	for _, v := range append(readVectors(f, validFile), readVectors(f, invalidFile)...) {
		if v.Pad == 0 && len(v.Message) < 4000 {
			f.Add(v.raw(), v.Topic)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, topic string) {
		e, err := protocol.Split(raw)
		switch {
		case err != nil && !errors.Is(err, protocol.ErrGrammar):
			t.Errorf("Split: %s", err)
		case err == nil && !bytes.Equal(protocol.AppendEnvelope(nil, e.Key, e.Sig, e.Body, e.Attachment), raw):
			t.Errorf("%q has another way to be written", raw)
		}
		for _, self := range []protocol.Party{protocol.Coordinator, "host:edge-07"} {
			v := &vector{Receiver: self, Topic: topic}
			if topic == "" {
				v.Type = protocol.TypeApproval
			}
			w := newWorld(self)
			m, err := protocol.Open(raw, w.expect(v))
			if err != nil && checkOf(codeOf(err)) == 0 {
				t.Errorf("Open returns no code of its own: %v", err)
			}
			if err == nil && (m.Principal.Revoked || m.Header.Fleet != theFleet || m.Principal.Key.Verify(e.Sig, e.Body) != nil) {
				t.Errorf("Open takes %q", raw)
			}
		}
	})
}

// FuzzCheckJSON compares with encoding/json: what CheckJSON takes has one
// meaning, whoever reads it.
func FuzzCheckJSON(f *testing.F) {
	for _, s := range []string{`{}`, `[]`, `"a"`, `0`, `-1`, `true`, ` {"a":[1,"\u00e9\ud83d\ude00",{"b":false}]} `,
		`{"a":1,"a":2}`, `{"A":1}`, "{\"\u212a\":1}", `{"a":null}`, `9007199254740991`, `9007199254740992`, `1.0`, `1e2`, `"\ud800"`, `"\u0000"`, "\"\xff\"",
		strings.Repeat("[", 16) + strings.Repeat("]", 16), strings.Repeat("[", 17) + strings.Repeat("]", 17), `{} {}`, `{"a_1":"\/\b\f\n\r\t\\\""}`} {
		f.Add([]byte(s))
	}
	name := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	f.Fuzz(func(t *testing.T, b []byte) {
		err := protocol.CheckJSON(b)
		if err != nil {
			if !errors.Is(err, protocol.ErrJSON) {
				t.Errorf("CheckJSON(%q): %s", b, err)
			}
			return
		}
		v := decodeNumbers(t, b)
		again := must(json.Marshal(v))
		if err := protocol.CheckJSON(again); err != nil {
			t.Errorf("%q is taken, and not as %q: %s", b, again, err)
		}
		if !reflect.DeepEqual(decodeNumbers(t, again), v) {
			t.Errorf("%q does not mean %q", b, again)
		}
		if countMembers(t, v, name) != membersWritten(b) {
			t.Errorf("%q: a member is lost in decoding", b)
		}
	})
}

func decodeNumbers(t *testing.T, b []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("CheckJSON takes %q, encoding/json does not: %s", b, err)
	}
	if d.More() {
		t.Fatalf("%q: something follows", b)
	}
	return v
}

// countMembers counts the members of all objects, whose names must be of the
// one alphabet, and holds numbers to be integers that a float keeps.
func countMembers(t *testing.T, v any, name *regexp.Regexp) (n int) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if !name.MatchString(k) {
				t.Errorf("a member is named %q", k)
			}
			n += 1 + countMembers(t, e, name)
		}
	case []any:
		for _, e := range v {
			n += countMembers(t, e, name)
		}
	case json.Number:
		i, err := v.Int64()
		if err != nil || int64(float64(i)) != i {
			t.Errorf("number %s", v)
		}
	case nil:
		t.Error("null")
	}
	return n
}

// membersWritten counts the colons outside of strings.
func membersWritten(b []byte) (n int) {
	inside := false
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '"':
			inside = !inside
		case inside && b[i] == '\\':
			i++
		case !inside && b[i] == ':':
			n++
		}
	}
	return n
}

func FuzzParseTopic(f *testing.F) {
	for _, c := range channels {
		t := protocol.HostTopic("lab", "edge-07", c)
		t.Action = anAction
		f.Add(t.String())
	}
	for _, v := range topicViolations() {
		m := newBuilder(sampleNamed("grant"))
		v.apply(m)
		f.Add(m.topic)
	}
	f.Fuzz(func(t *testing.T, s string) {
		topic, err := protocol.ParseTopic(s)
		switch {
		case err != nil && !errors.Is(err, protocol.ErrTopic):
			t.Errorf("ParseTopic(%q): %s", s, err)
		case err == nil && topic.String() != s:
			t.Errorf("%q is parsed as %q", s, topic)
		case err == nil && strings.ContainsAny(s, "+#\x00. "):
			t.Errorf("%q is taken", s)
		}
	})
}

// FuzzIDs holds every identifier to one text for one value.
func FuzzIDs(f *testing.F) {
	for _, s := range []string{"edge-07", "-a", "a-", "A", "", strings.Repeat("a", 63), strings.Repeat("a", 64), anAction.String(),
		strings.ToUpper(anAction.String()), "01890a5d-ac96-474b-bcce-b302099a8057", "01890a5d-ac96-774b-0cce-b302099a8057", theFleet.String(),
		nonce(1).String(), protocol.Sum(nil).String(), newFakeKey("owner").id.String(), strings.Repeat("0", 32), "host:edge-07"} {
		f.Add(s)
	}
	type id interface {
		encoding.TextUnmarshaler
		String() string
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, v := range []id{new(protocol.HostID), new(protocol.FleetName), new(protocol.ContainerName), new(protocol.KeyID), new(protocol.FleetID),
			new(protocol.StoreID), new(protocol.Nonce), new(protocol.Digest), new(protocol.ActionID), new(protocol.CTID)} {
			err := v.UnmarshalText([]byte(s))
			switch {
			case err != nil && !errors.Is(err, protocol.ErrID):
				t.Errorf("%T %q: %s", v, s, err)
			case err == nil && v.String() != s:
				t.Errorf("%T %q is written %q", v, s, v)
			}
		}
		if h, ok := protocol.Party(s).Host(); ok && protocol.HostParty(h) != protocol.Party(s) {
			t.Errorf("party %q", s)
		}
	})
}

func FuzzDecodeSpec(f *testing.F) {
	for _, test := range specTests {
		f.Add([]byte(test.spec))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := protocol.DecodeSpec(b)
		if err != nil {
			if !errors.Is(err, protocol.ErrSpec) && !errors.Is(err, protocol.ErrUnknownKind) {
				t.Errorf("DecodeSpec(%q): %s", b, err)
			}
			return
		}
		if info, ok := protocol.KindOf(s.Kind); !ok || info.Command && !info.Files() && !s.Kind.Interactive() && len(s.Process().Argv) == 0 || info.OnContainer() == s.Target.IsZero() {
			t.Errorf("DecodeSpec takes %q", b)
		}
		// Written again it is at most as long as it may be, unless white space
		// made room for longer escapes.
		again := must(json.Marshal(s))
		if len(again) > protocol.MaxSpec {
			return
		}
		if r, err := protocol.DecodeSpec(again); err != nil || !bytes.Equal(must(json.Marshal(r)), again) {
			t.Errorf("%q is taken, and not as %q: %v", b, again, err)
		}
	})
}

// FuzzDecodeItem reads bytes as the item of each type of items.
func FuzzDecodeItem(f *testing.F) {
	types := []protocol.Type{protocol.TypeOrder, protocol.TypeControl, protocol.TypeReport, protocol.TypeAlert}
	for _, s := range itemSamples() {
		if s.item != nil {
			f.Add(must(json.Marshal(s.item)))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for i, v := range []any{new(protocol.OrderItem), new(protocol.ControlItem), new(protocol.Report), new(protocol.Alert)} {
			m := protocol.Message{Header: protocol.Header{Type: types[i], Item: b}}
			if err := m.DecodeItem(v); err != nil {
				if !errors.Is(err, protocol.ErrPayload) {
					t.Errorf("%T %q: %s", v, b, err)
				}
				continue
			}
			m.Header.Item = must(json.Marshal(v))
			if err := m.DecodeItem(v); err != nil {
				t.Errorf("%T %q is taken, and not as %q: %s", v, b, m.Header.Item, err)
			}
		}
	})
}
