package protocol_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

// later is how many kinds came after the file was written, the first of them
// container.restart.
const later = 45

// TestSpecsKeepTheirBytes holds specs of earlier versions to their meaning and their
// digests: persons have signed them. Each line of the file is a digest and a spec,
// which were written when all kinds still shared one struct.
func TestSpecsKeepTheirBytes(t *testing.T) {
	f, err := os.Open("testdata/specs.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := map[protocol.Kind]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		digest, spec, _ := strings.Cut(lines.Text(), " ")
		s, err := protocol.DecodeSpec([]byte(spec))
		if err != nil {
			t.Errorf("%s: %s", spec, err)
			continue
		}
		seen[s.Kind] = true
		again := must(json.Marshal(s))
		if string(again) != spec || protocol.Sum(again).String() != digest {
			t.Errorf("%s became %s", spec, again)
		}
		// What a human-readable answer holds is not escaped for a web page.
		var plain bytes.Buffer
		e := json.NewEncoder(&plain)
		e.SetEscapeHTML(false)
		if err := e.Encode(s); err != nil || strings.Contains(plain.String(), `\u003c`) {
			t.Errorf("%s is encoded as %s, %v", spec, &plain, err)
		}
	}
	if want := len(protocol.Kinds()) - later; len(seen) < want {
		t.Errorf("only %d kinds are covered", len(seen))
	}
}

// TestOthersMembers: a zero value of another kind's member was let through before
// kinds had arguments of their own, and is still; any other value is refused.
func TestOthersMembers(t *testing.T) {
	for member, want := range map[string]protocol.Code{
		`"user":""`: "", `"timeout_ms":0`: "", `"daemon":false`: "", `"stdin_bytes":0,"output":"","start":false`: "",
		`"argv":[]`: protocol.ErrSpec, `"argv":["a"]`: protocol.ErrSpec, `"timeout_ms":1`: protocol.ErrSpec, `"stdin_sha256":""`: protocol.ErrSpec,
		`"files":{}`: protocol.ErrSpec, `"policy":""`: protocol.ErrSpec, `"wings":0`: protocol.ErrSpec, `"user":0`: protocol.ErrSpec,
	} {
		s, err := protocol.DecodeSpec([]byte(`{"kind":"container.start",` + ctid + `,` + member + `}`))
		if codeOf(err) != want {
			t.Errorf("%s: %v, want %q", member, err, want)
		}
		if err == nil && s.Target.IsZero() {
			t.Errorf("%s: %+v", member, s)
		}
	}
	create := `{"kind":"container.create",` + ctid + `,"name":"web","template":"busybox","argv":["a"],"timeout_ms":5}`
	if s, err := protocol.DecodeSpec([]byte(create)); err != nil || s.Args.(*protocol.CreateArgs).Template != "busybox" {
		t.Errorf("a create as it was accepted before: %+v, %v", s, err)
	}
	if _, err := protocol.DecodeRequest([]byte(create)); codeOf(err) != protocol.ErrSpec {
		t.Errorf("a new create with the members of a command: %v", err)
	}
}

func TestMarshalSpec(t *testing.T) {
	for want, s := range map[string]protocol.Spec{
		"unknown_kind":  {Kind: "host.fly"},
		"CommandArgs":   {Kind: protocol.KindPing, Args: protocol.Command("true")},
		`{"kind":"host`: {Kind: protocol.KindPing},
	} {
		b, err := json.Marshal(s)
		if got := string(b); err != nil && !strings.Contains(err.Error(), want) && codeOf(err) != protocol.Code(want) || err == nil && !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, %v", want, b, err)
		}
	}
}

// TestKinds holds the table to its form.
func TestKinds(t *testing.T) {
	word := regexp.MustCompile(`^(host|container|image|network|policy|volume)\.[a-z][a-z-]*$`)
	types := map[string]string{} // of members, which mean the same in all kinds
	for _, k := range protocol.Kinds() {
		i, ok := protocol.KindOf(k)
		switch {
		case !ok || i.Kind != k || !word.MatchString(string(k)):
			t.Errorf("%s: %+v", k, i)
		case i.Doc == "" || !strings.HasSuffix(i.Doc, "."):
			t.Errorf("%s: %q is no sentence", k, i.Doc)
		case i.Attempts < 1 || i.StartTTL <= 0 || i.RunTimeout < 0:
			t.Errorf("%s: limits %d, %s, %s", k, i.Attempts, i.StartTTL, i.RunTimeout)
		case !slices.Contains([]protocol.Lane{protocol.LaneNone, protocol.LaneHost, protocol.LaneContainer, protocol.LaneExclusive, protocol.LaneSession, protocol.LanePreempt}, i.Lane):
			t.Errorf("%s: there is no lane %q", k, i.Lane)
		case i.OnContainer() != strings.HasPrefix(string(k), "container.") || i.OnContainer() != (i.Needs == protocol.CapabilityContainers):
			t.Errorf("%s: its target is a %s, and it needs %q", k, i.Target, i.Needs)
		case (i.Creates || i.Removes || i.Preempts()) && !i.OnContainer() || i.Files() && !i.Command:
			t.Errorf("%s: %+v", k, i)
		}
		for name, p := range i.Schema()["properties"].(map[string]any) {
			doc, typ := p.(map[string]any)["description"].(string), p.(map[string]any)["type"].(string)
			if doc == "" || !strings.HasSuffix(doc, ".") {
				t.Errorf("%s: %s: %q is no sentence", k, name, doc)
			}
			if was := types[name]; was != "" && was != typ {
				t.Errorf("%s: %s is %s, and of another kind %s", k, name, typ, was)
			}
			types[name] = typ
		}
	}
}

// TestSchema holds the schema of each kind to what its decoder takes: a member
// that the schema does not have is refused, as is the lack of one that it requires,
// and a value beyond its words and bounds.
func TestSchema(t *testing.T) {
	f := must(os.ReadFile("testdata/specs.txt"))
	for line := range strings.Lines(string(f)) {
		_, spec, _ := strings.Cut(strings.TrimSpace(line), " ")
		s := must(protocol.DecodeSpec([]byte(spec)))
		info, _ := protocol.KindOf(s.Kind)
		var members map[string]any
		d := json.NewDecoder(strings.NewReader(spec))
		d.UseNumber()
		if err := d.Decode(&members); err != nil {
			t.Fatal(err)
		}
		var schema schema
		if err := json.Unmarshal(must(json.Marshal(info.Schema())), &schema); err != nil {
			t.Fatal(err)
		}
		conforms(t, spec, &schema, members)
		for _, name := range schema.Required {
			if _, ok := members[name]; !ok {
				t.Errorf("%s: %s is not there, and required", spec, name)
			}
			without := mapWithout(members, name)
			if _, err := protocol.DecodeSpec(must(json.Marshal(without))); err == nil {
				t.Errorf("%s without %s is taken", spec, name)
			}
		}
		for name, p := range schema.Properties {
			for _, bad := range beyond(p) {
				changed := mapWithout(members, name)
				changed[name] = bad
				if _, err := protocol.DecodeSpec(must(json.Marshal(changed))); err == nil {
					t.Errorf("%s with %s = %v is taken", spec, name, bad)
				}
			}
		}
	}
}

// schema is the part of JSON Schema in which specs are described.
type schema struct {
	Type, Description string
	Enum, Required    []string
	Minimum, Maximum  *int64
	Items             *schema
	Properties        map[string]*schema
}

// beyond returns values that a schema does not allow.
func beyond(s *schema) (bad []any) {
	if s.Type != "object" {
		bad = append(bad, map[string]any{"x": 1})
	} else {
		bad = append(bad, "x", map[string]any{"wings": 2})
	}
	if s.Enum != nil {
		bad = append(bad, "no-such-word")
	}
	if s.Minimum != nil {
		bad = append(bad, *s.Minimum-1)
	}
	if s.Maximum != nil {
		bad = append(bad, *s.Maximum+1)
	}
	return bad
}

// conforms holds a value to a schema.
func conforms(t *testing.T, spec string, s *schema, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			if p := s.Properties[name]; p != nil {
				conforms(t, spec, p, e)
			} else {
				t.Errorf("%s: the schema has no %s", spec, name)
			}
		}
	case []any:
		for _, e := range v {
			conforms(t, spec, s.Items, e)
		}
	case string:
		if s.Type != "string" || s.Enum != nil && !slices.Contains(s.Enum, v) {
			t.Errorf("%s: %q is not of %+v", spec, v, s)
		}
	case bool:
		if s.Type != "boolean" {
			t.Errorf("%s: %t is not of %+v", spec, v, s)
		}
	default:
		if s.Type != "integer" {
			t.Errorf("%s: %v is not of %+v", spec, v, s)
		}
	}
}

func mapWithout(m map[string]any, name string) map[string]any {
	all := map[string]any{}
	for k, v := range m {
		if k != name {
			all[k] = v
		}
	}
	return all
}

// TestExamples: what the API shows as an example of a kind is taken, and no kind is
// without.
func TestExamples(t *testing.T) {
	for _, k := range protocol.Kinds() {
		info, _ := protocol.KindOf(k)
		args, err := json.Marshal(info.ExampleArgs())
		if err != nil {
			t.Fatal(err)
		}
		var target protocol.CTID
		if info.OnContainer() {
			target = protocol.NewCTID(1, [10]byte{7})
		}
		name := protocol.ContainerName("")
		if info.OnContainer() || info.Creates {
			name = "web"
		}
		b, err := protocol.ComposeSpec(k, target, name, args)
		if err != nil {
			t.Errorf("%s with %s: %v", k, args, err)
			continue
		}
		if s, err := protocol.DecodeRequest(b); err != nil || s.Kind != k || s.Target != target || s.Name != name {
			t.Errorf("%s is %+v, %v", b, s, err)
		}
	}
}

// TestWordsHaveMeanings: no state and no reason of the table is without a sentence.
func TestWordsHaveMeanings(t *testing.T) {
	for _, s := range protocol.States() {
		if s.Meaning() == "" {
			t.Errorf("state %s has none", s)
		}
	}
	for _, from := range append(protocol.States(), protocol.StateNone) {
		for _, e := range []protocol.Event{protocol.EventSucceed, protocol.EventFail, protocol.EventExit, protocol.EventSignal, protocol.EventTimeout, protocol.EventInterrupt, protocol.EventNoStart,
			protocol.EventTargetGone, protocol.EventPreempt, protocol.EventCancelled, protocol.EventExpire, protocol.EventDeny, protocol.EventCancel, protocol.EventHalt, protocol.EventHostUnknown,
			protocol.EventHostRemoved, protocol.EventHostReplace, protocol.EventHostFenced, protocol.EventHostBack, protocol.EventRestored} {
			for _, o := range []protocol.Owner{protocol.OwnerAgent, protocol.OwnerCoordinator} {
				if _, reason, err := from.Next(e, o, ""); err == nil && reason != "" && protocol.Reasons()[reason] == "" {
					t.Errorf("reason %s has none", reason)
				}
			}
		}
	}
}
