package protocol_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/protocol"
)

// manyTargets are n hosts with an action each.
func manyTargets(n int) protocol.Targets {
	list := make([]protocol.Target, n)
	for i := range list {
		name := fmt.Sprintf("edge-%s-%03d", strings.Repeat("a-very-long-name", 3), n-i)
		list[i] = protocol.Target{Host: protocol.HostID(name), Action: protocol.NewActionID(1780000000000+int64(i), [10]byte{byte(i), byte(i >> 8)})}
	}
	return must(protocol.NewTargets(list...))
}

// TestOneSignatureForManyHosts takes an approval from its signing to the order
// of each host: with 500 hosts, the longest spec and several persons it still
// fits, and each host sees that it is meant, and for which action.
func TestOneSignatureForManyHosts(t *testing.T) {
	spec := []byte(`{"kind":"host.run","argv":["/bin/echo","` + strings.Repeat("x", protocol.MaxSpec-44) + `"]}`)
	must(protocol.DecodeSpec(spec))
	targets := manyTargets(protocol.MaxTargets)
	keys := newRing()
	keys.add("quentin", protocol.Principal{Roles: []protocol.Role{protocol.RolePerson}, Person: "quentin"})
	approval := must(protocol.NewApproval(theFleet, theRing, spec, targets, time.UnixMilli(1780000000000), time.Hour))
	var signed [][]byte
	for _, person := range []string{"owner", "person", "quentin"} {
		signed = append(signed, must(approval.Seal(newFakeKey(person))))
	}
	w := newWorld("host:edge-07")
	for _, target := range targets {
		order := protocol.OrderItem{Action: target.Action, Spec: spec, Requester: strings.Repeat("r", 255), CreatedMS: 1780000000000}
		for _, s := range signed {
			order.Approvals = append(order.Approvals, must(protocol.ForTarget(s, targets, target)))
		}
		if err := order.Fits(); err != nil {
			t.Fatal(err)
		}
		header := itemOf(down(protocol.TypeOrder, 0), coStore, protocol.StreamOrder, 5, must(json.Marshal(order)))
		header.Heard, header.LeftMS = heard, 3600000
		raw := must(protocol.Seal(newFakeKey("coordinator"), must(json.Marshal(header)), nil))
		x := w.expect(&vector{Receiver: "host:edge-07", Topic: protocol.HostTopic("lab", "edge-07", protocol.ChannelOrder).String()})
		m, err := protocol.Open(raw, x)
		if err != nil {
			t.Fatalf("%d bytes: %s", len(raw), err)
		}
		var got protocol.OrderItem
		if err := m.DecodeItem(&got); err != nil {
			t.Fatal(err)
		}
		x.Keys = keys
		for _, o := range got.Approvals {
			a, _, err := protocol.OpenApproval(o.Signed, x)
			if err != nil {
				t.Fatal(err)
			}
			if !a.Covers(o, target) || a.Spec != protocol.Sum(got.Spec) {
				t.Fatalf("%s is not covered", target)
			}
		}
	}
}

// TestApprovalTravels opens each that was signed, and nothing else.
func TestApprovalTravels(t *testing.T) {
	w := newWorld("host:edge-07")
	x := w.expect(&vector{Type: protocol.TypeApproval})
	good := must(sampleApproval().Seal(newFakeKey("person")))
	a, who, err := protocol.OpenApproval(good, x)
	if err != nil || a != *sampleApproval() || who.Person != "pia" {
		t.Fatalf("%+v, %+v, %v", a, who, err)
	}
	for _, c := range []struct {
		name   string
		signer string
		edit   func(a *protocol.Approval)
		want   protocol.Code
	}{
		{"by a coordinator", "coordinator", nil, protocol.ErrRole},
		{"by a host", "edge-07", nil, protocol.ErrRole},
		{"by nobody", "mallory", nil, protocol.ErrUnknownKey},
		{"other fleet", "person", func(a *protocol.Approval) { a.Fleet = otherFleet }, protocol.ErrFleet},
		{"other type", "person", func(a *protocol.Approval) { a.Type = protocol.TypePolicy }, protocol.ErrType},
		{"without a spec", "person", func(a *protocol.Approval) { a.Spec = protocol.Digest{} }, protocol.ErrPayload},
		{"without targets", "person", func(a *protocol.Approval) { a.Targets = protocol.Digest{} }, protocol.ErrPayload},
		{"without a ring", "person", func(a *protocol.Approval) { a.Ring = 0 }, protocol.ErrPayload},
		{"no kind", "person", func(a *protocol.Approval) { a.Kind = "A" }, protocol.ErrPayload},
		{"for nobody", "person", func(a *protocol.Approval) { a.Count = 0 }, protocol.ErrPayload},
		{"for too many", "person", func(a *protocol.Approval) { a.Count = protocol.MaxTargets + 1 }, protocol.ErrPayload},
		{"undated", "person", func(a *protocol.Approval) { a.IssuedMS = 0 }, protocol.ErrPayload},
		{"too early", "person", func(a *protocol.Approval) { a.NotBeforeMS-- }, protocol.ErrPayload},
		{"over at once", "person", func(a *protocol.Approval) { a.ExpiresMS = a.NotBeforeMS }, protocol.ErrPayload},
		{"over 7 days", "person", func(a *protocol.Approval) { a.ExpiresMS = a.IssuedMS + protocol.MaxApprovalLife.Milliseconds() + 1 }, protocol.ErrPayload},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := *sampleApproval()
			if c.edit != nil {
				c.edit(&a)
			}
			raw := must(protocol.Seal(newFakeKey(c.signer), must(json.Marshal(&a)), nil))
			if _, _, err := protocol.OpenApproval(raw, x); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// TestApprovalIsSealedOnlyIfGood: what no host would take is not signed.
func TestApprovalIsSealedOnlyIfGood(t *testing.T) {
	now := time.UnixMilli(1780000000000)
	one := sampleTargets()
	for name, err := range map[string]error{
		"no spec":    second(protocol.NewApproval(theFleet, 1, []byte(`{}`), one, now, time.Hour)),
		"no targets": second(protocol.NewApproval(theFleet, 1, sampleSpec, nil, now, time.Hour)),
		"unsorted":   second(protocol.NewApproval(theFleet, 1, sampleSpec, protocol.Targets{one[1], one[0]}, now, time.Hour)),
		"twice":      second(protocol.NewTargets(one[0], one[0])),
		"no host":    second(protocol.NewTargets(protocol.Target{Host: "A", Action: anAction})),
		"no action":  second(protocol.NewTargets(protocol.Target{Host: "a"})),
		"501":        second(protocol.NewTargets(slices.Concat(manyTargets(500), one)...)),
		"8 days":     second(protocol.NewApproval(theFleet, 1, sampleSpec, one, now, 8*24*time.Hour)),
		"no time":    second(protocol.NewApproval(theFleet, 1, sampleSpec, one, now, 0)),
		"no ring":    second(protocol.NewApproval(theFleet, 0, sampleSpec, one, now, time.Hour)),
		"not among":  second(protocol.ForTarget(nil, one, protocol.Target{Host: "edge-09", Action: anAction})),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestTargetsProve holds the tree of targets to what makes it safe: each target
// has exactly one path, and nothing else has one.
func TestTargetsProve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		targets := manyTargets(n)
		a := protocol.Approval{Targets: targets.Root(), Count: n}
		i, j := rapid.IntRange(0, n-1).Draw(t, "i"), rapid.IntRange(-1, n).Draw(t, "j")
		o := must(protocol.ForTarget([]byte("s"), targets, targets[i]))
		if !a.Covers(o, targets[i]) {
			t.Fatalf("target %d of %d is not covered", i, n)
		}
		other := targets[i]
		switch rapid.IntRange(0, 6).Draw(t, "change") {
		case 0:
			other.Host = "edge-other"
		case 1:
			other.Action[15] ^= 1
		case 2:
			if o.Index = j; i == j {
				return
			}
		case 3:
			o.Path = append(slices.Clone(o.Path), make([]byte, 32)...)
		case 4:
			if len(o.Path) == 0 {
				return
			}
			o.Path = slices.Clone(o.Path)
			o.Path[rapid.IntRange(0, len(o.Path)-1).Draw(t, "byte")] ^= 1
		case 5:
			if len(o.Path) == 0 {
				return
			}
			o.Path = o.Path[:len(o.Path)-rapid.IntRange(1, len(o.Path)).Draw(t, "cut")]
		case 6:
			// A node of the tree is no leaf, so a list cannot pass for a shorter one.
			if n == 1 {
				return
			}
			a.Count = 1
			o.Index, o.Path = 0, nil
		}
		if a.Covers(o, other) {
			t.Fatalf("target %d of %d is covered after the change", i, n)
		}
	})
}

// TestPolicyTravels opens what several have signed as one document.
func TestPolicyTravels(t *testing.T) {
	w := newWorld("host:edge-07")
	x := w.expect(&vector{Type: protocol.TypePolicy})
	by := func(names ...string) (all [][]byte) {
		for _, n := range names {
			all = append(all, must(samplePolicy().Seal(newFakeKey(n))))
		}
		return all
	}
	d, who, err := protocol.OpenPolicy(by("owner", "person"), x)
	if err != nil || d.Number != 3 || len(who) != 2 || who[0].Person != "olga" || who[1].Person != "pia" {
		t.Fatalf("%+v, %+v, %v", d, who, err)
	}
	if !d.For("edge-08") || d.For("edge-09") || !(&protocol.PolicyDocument{}).For("edge-09") {
		t.Error("it is not for those that it names")
	}
	another := *samplePolicy()
	another.Number++
	for name, c := range map[string]struct {
		signed [][]byte
		want   protocol.Code
	}{
		"by nobody":       {nil, protocol.ErrPayload},
		"by one twice":    {by("owner", "owner"), protocol.ErrPayload},
		"one is a host":   {by("owner", "edge-07"), protocol.ErrRole},
		"one is unknown":  {by("owner", "mallory"), protocol.ErrUnknownKey},
		"two documents":   {append(by("owner"), must(another.Seal(newFakeKey("person")))), protocol.ErrPayload},
		"by a thousand":   {slices.Repeat(by("owner"), 1000), protocol.ErrPayload},
		"of another type": {[][]byte{must(sampleApproval().Seal(newFakeKey("person")))}, protocol.ErrType},
	} {
		if _, _, err := protocol.OpenPolicy(c.signed, x); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	for name, edit := range map[string]func(d *protocol.PolicyDocument){
		"no number": func(d *protocol.PolicyDocument) { d.Number = 0 },
		"no policy": func(d *protocol.PolicyDocument) { d.Policy = protocol.Digest{} },
		"unsorted":  func(d *protocol.PolicyDocument) { slices.Reverse(d.Hosts) },
		"no hosts":  func(d *protocol.PolicyDocument) { d.Hosts = []protocol.HostID{"A"} },
		"too many":  func(d *protocol.PolicyDocument) { d.Hosts = make([]protocol.HostID, protocol.MaxPolicyHosts+1) },
		"undated":   func(d *protocol.PolicyDocument) { d.IssuedMS = 0 },
	} {
		d := *samplePolicy()
		edit(&d)
		if _, err := d.Body(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestOrderHasRoom: an order says so itself if nothing could carry it.
func TestOrderHasRoom(t *testing.T) {
	o := protocol.OrderItem{Action: anAction, Spec: sampleSpec, Requester: "pia"}
	for range 16 {
		o.Approvals = append(o.Approvals, protocol.OrderApproval{Signed: make([]byte, 2048), Path: make([]byte, 288)})
	}
	if o.Fits() == nil {
		t.Error("it fits")
	}
}

func FuzzApproval(f *testing.F) {
	f.Add(must(sampleApproval().Body()), 0, []byte{})
	f.Add(must(sampleApproval().Body()), 1, sampleTargets().Path(1))
	f.Add(bytes.Replace(must(sampleApproval().Body()), []byte(`"count":2`), []byte(`"count":500`), 1), 499, make([]byte, 9*32))
	w := newWorld("host:edge-07")
	x := w.expect(&vector{Type: protocol.TypeApproval})
	f.Fuzz(func(t *testing.T, body []byte, index int, path []byte) {
		raw, err := protocol.Seal(newFakeKey("person"), body, nil)
		if err != nil {
			return
		}
		a, _, err := protocol.OpenApproval(raw, x)
		if err != nil {
			return
		}
		if a.ExpiresMS-a.IssuedMS > protocol.MaxApprovalLife.Milliseconds() || a.NotBeforeMS < a.IssuedMS || a.Count > protocol.MaxTargets {
			t.Errorf("%s is taken", body)
		}
		o := protocol.OrderApproval{Signed: raw, Index: index, Path: path}
		if a.Covers(o, sampleTargets()[0]) && a.Covers(o, sampleTargets()[1]) {
			t.Errorf("one path leads from two targets")
		}
	})
}

func FuzzFenced(f *testing.F) {
	f.Add(must(sampleFenced().Body()))
	f.Add(bytes.Replace(must(sampleFenced().Body()), []byte(`"edge-07"`), []byte(`"Edge 07"`), 1))
	f.Add(bytes.Replace(must(sampleFenced().Body()), []byte(`unplugged`), bytes.Repeat([]byte("x"), protocol.MaxFencedReason), 1))
	w := newWorld("host:edge-07")
	x := w.expect(&vector{Type: protocol.TypeFenced})
	f.Fuzz(func(t *testing.T, body []byte) {
		raw, err := protocol.Seal(newFakeKey("person"), body, nil)
		if err != nil {
			return
		}
		got, who, err := protocol.OpenFenced(raw, x)
		if err != nil {
			return
		}
		if _, err := protocol.ParseHostID(string(got.Host)); err != nil || got.Case.IsZero() || got.Reason == "" || len(got.Reason) > protocol.MaxFencedReason || who.Person == "" {
			t.Errorf("%s is taken", body)
		}
	})
}

// TestFencedByPersons: no other key says that a host is off.
func TestFencedByPersons(t *testing.T) {
	w := newWorld("host:edge-07")
	for from, want := range map[string]error{"person": nil, "edge-07": protocol.ErrRole, "coordinator": protocol.ErrRole} {
		raw := must(sampleFenced().Seal(newFakeKey(from)))
		if _, _, err := protocol.OpenFenced(raw, w.expect(&vector{Type: protocol.TypeFenced})); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", from, err, want)
		}
	}
}

func FuzzPolicyDocument(f *testing.F) {
	f.Add(must(samplePolicy().Body()))
	w := newWorld("host:edge-07")
	x := w.expect(&vector{Type: protocol.TypePolicy})
	f.Fuzz(func(t *testing.T, body []byte) {
		raw, err := protocol.Seal(newFakeKey("owner"), body, nil)
		if err != nil {
			return
		}
		d, who, err := protocol.OpenPolicy([][]byte{raw}, x)
		if err != nil {
			return
		}
		if d.Number == 0 || d.Policy.IsZero() || len(who) != 1 || d.Fleet != theFleet {
			t.Errorf("%s is taken", body)
		}
		if again, err := d.Body(); err != nil {
			t.Errorf("%s is taken, and not as %s: %v", body, again, err)
		}
	})
}
