package policy_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
)

// key stands for an OpenPGP key; package agent runs the same with real ones.
type key struct {
	id   protocol.KeyID
	priv ed25519.PrivateKey
}

func newKey(name string) *key {
	seed := sha256.Sum256([]byte(name))
	k := &key{priv: ed25519.NewKeyFromSeed(seed[:])}
	copy(k.id[:], seed[:])
	return k
}

func (k *key) Key() protocol.KeyID              { return k.id }
func (k *key) Sign(body []byte) ([]byte, error) { return ed25519.Sign(k.priv, body), nil }
func (k *key) CheckForm([]byte) error           { return nil }
func (k *key) Verify(sig, body []byte) error {
	if !ed25519.Verify(k.priv.Public().(ed25519.PublicKey), body, sig) {
		return errors.New("wrong")
	}
	return nil
}

type ring map[protocol.KeyID]protocol.Principal

func (r ring) Principal(k protocol.KeyID) (protocol.Principal, bool) {
	p, ok := r[k]
	return p, ok
}

func (r ring) add(name, person string, roles ...protocol.Role) {
	k := newKey(name)
	r[k.id] = protocol.Principal{Roles: roles, Person: person, Key: k, Revoked: strings.HasPrefix(name, "revoked")}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var (
	fleet  = protocol.FleetID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	action = must(protocol.ParseActionID("01890a5d-ac96-774b-bcce-b302099a8057"))
	other  = must(protocol.ParseActionID("01890a5d-ac96-774b-bcce-b302099a8058"))
	target = protocol.Target{Host: "db-1", Action: action}
	spec   = []byte(`{"kind":"container.destroy","target":"01890a5d-ac96-774b-bcce-b302099a9001"}`)
	signed = time.UnixMilli(1_780_000_000_000)
	need   = policy.Need{Approvals: 2, By: []string{"alice", "bob", "carol"}}
)

func theRing() ring {
	r := ring{}
	r.add("alice", "alice", protocol.RolePerson)
	r.add("alice's other", "alice", protocol.RolePerson)
	r.add("bob", "bob", protocol.RolePerson)
	r.add("revoked carol", "carol", protocol.RolePerson)
	r.add("mallory", "mallory", protocol.RolePerson)
	r.add("olga", "olga", protocol.RoleOwner)
	r.add("olga's other", "olga", protocol.RoleOwner)
	r.add("oscar", "oscar", protocol.RoleOwner)
	r.add("owner alice", "alice", protocol.RoleOwner)
	r.add("coordinator", "", protocol.RoleCoordinator)
	return r
}

func expect() protocol.Expect {
	return protocol.Expect{Fleet: fleet, FleetName: "lab", Keys: theRing(), Ring: 7}
}

// approve is one approval of the order by a key, after edit.
func approve(name string, edit func(a *protocol.Approval)) protocol.OrderApproval {
	targets := must(protocol.NewTargets(target))
	a := must(protocol.NewApproval(fleet, 7, spec, targets, signed, time.Hour))
	if edit != nil {
		edit(&a)
	}
	return must(protocol.ForTarget(must(a.Seal(newKey(name))), targets, target))
}

func TestJudge(t *testing.T) {
	now := signed.Add(time.Minute).UnixMilli()
	alice, bob := approve("alice", nil), approve("bob", nil)
	otherHost := must(protocol.NewTargets(protocol.Target{Host: "db-2", Action: action}))
	otherAction := must(protocol.NewTargets(protocol.Target{Host: "db-1", Action: other}))
	for _, c := range []struct {
		name  string
		with  []protocol.OrderApproval
		lacks string // of the error; empty is approved
	}{
		{"two persons", []protocol.OrderApproval{alice, bob}, ""},
		{"and more that do not count", []protocol.OrderApproval{alice, {Signed: []byte("x")}, bob}, ""},
		{"nobody", nil, "2 more than it has"},
		{"one", []protocol.OrderApproval{alice}, "1 more than it has (alice)"},
		{"one twice", []protocol.OrderApproval{alice, alice}, "1 more"},
		{"two keys of one", []protocol.OrderApproval{alice, approve("alice's other", nil)}, "1 more than it has (alice)"},
		{"somebody else", []protocol.OrderApproval{alice, approve("mallory", nil)}, "mallory is not among the people who may approve it"},
		{"an owner", []protocol.OrderApproval{alice, approve("olga", nil)}, "may not send this type"},
		{"the coordinator", []protocol.OrderApproval{alice, approve("coordinator", nil)}, "may not send this type"},
		{"a revoked key", []protocol.OrderApproval{alice, approve("revoked carol", nil)}, "revoked"},
		{"nobody's key", []protocol.OrderApproval{alice, approve("eve", nil)}, "is not known here"},
		{"another spec", []protocol.OrderApproval{alice, approve("bob", func(a *protocol.Approval) { a.Spec[0] ^= 1 })}, "bob is for another spec"},
		{"another host", []protocol.OrderApproval{alice, approve("bob", func(a *protocol.Approval) { a.Targets = otherHost.Root() })}, "bob does not name"},
		{"another action", []protocol.OrderApproval{alice, approve("bob", func(a *protocol.Approval) { a.Targets = otherAction.Root() })}, "bob does not name"},
		{"a newer ring", []protocol.OrderApproval{alice, approve("bob", func(a *protocol.Approval) { a.Ring = 8 })}, "ring 8"},
		{"too early", []protocol.OrderApproval{alice, approve("bob", func(a *protocol.Approval) { a.NotBeforeMS = now + 1 })}, "bob holds only later"},
		{"too late", []protocol.OrderApproval{alice, approve("bob", func(a *protocol.Approval) { a.ExpiresMS = now })}, "bob has expired"},
		{"another fleet", []protocol.OrderApproval{alice, approve("bob", func(a *protocol.Approval) { a.Fleet[0] ^= 1 })}, "another fleet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := need.Judge(policy.Order{Spec: spec, Target: target, Approvals: c.with}, expect(), policy.Clock{WallMS: now})
			switch {
			case c.lacks == "" && (v.Err != nil || !slices.Equal(v.Persons, []string{"alice", "bob"})):
				t.Errorf("%+v", v)
			case c.lacks != "" && (!errors.Is(v.Err, protocol.ErrNotApproved) || !strings.Contains(v.Err.Error(), c.lacks)):
				t.Errorf("%v does not say %q", v.Err, c.lacks)
			}
		})
	}
	after := policy.Clock{WallMS: now, SinceMS: signed.UnixMilli()}
	if v := need.Judge(policy.Order{Spec: spec, Target: target, Approvals: []protocol.OrderApproval{alice, bob}}, expect(), after); v.Err == nil {
		t.Error("what was signed before the memory began counts")
	}
	if after.SinceMS--; need.Judge(policy.Order{Spec: spec, Target: target, Approvals: []protocol.OrderApproval{alice, bob}}, expect(), after).Err != nil {
		t.Error("what was signed after the memory began does not count")
	}
	v := policy.Need{Refused: true, Why: "no"}.Judge(policy.Order{Spec: spec, Target: target, Approvals: []protocol.OrderApproval{alice, bob}}, expect(), policy.Clock{WallMS: now})
	if !errors.Is(v.Err, protocol.ErrNotApproved) {
		t.Errorf("refused: %v", v.Err)
	}
}

// TestNoClockMakesGoodAgain: an approval that ended before the newest date that
// was verified is worth nothing, whatever a clock says; and a wall clock in the
// past keeps nobody from approving.
func TestNoClockMakesGoodAgain(t *testing.T) {
	one := policy.Need{Approvals: 1}
	rapid.Check(t, func(t *rapid.T) {
		life := rapid.Int64Range(1, protocol.MaxApprovalLife.Milliseconds()).Draw(t, "life")
		after := rapid.Int64Range(-1000, 2*life).Draw(t, "wall")
		floor := signed.UnixMilli() + rapid.Int64Range(-2*life, 2*life).Draw(t, "floor")
		wall := signed.UnixMilli() + after
		if rapid.Bool().Draw(t, "1970") {
			wall = rapid.Int64Range(0, 1000).Draw(t, "since 1970")
		}
		a := approve("bob", func(a *protocol.Approval) { a.ExpiresMS = a.IssuedMS + life })
		v := one.Judge(policy.Order{Spec: spec, Target: target, Approvals: []protocol.OrderApproval{a}}, expect(), policy.Clock{WallMS: wall, FloorMS: floor})
		ends := signed.UnixMilli() + life
		if want := floor < ends && wall < ends; (v.Err == nil) != want {
			t.Fatalf("wall %d, floor %d, ends %d: %v", wall, floor, ends, v.Err)
		}
		raised := floor
		if v.Err == nil {
			raised = max(floor, min(signed.UnixMilli(), max(wall, floor)+protocol.MaxApprovalLife.Milliseconds()))
		}
		if v.FloorMS != raised {
			t.Fatalf("the floor is %d, want %d", v.FloorMS, raised)
		}
		if (policy.Clock{WallMS: wall, FloorMS: floor}).Now() < floor {
			t.Fatal("time stands before the floor")
		}
	})
}

// TestForgedDatesRaiseNoFloor: only what an approver has signed counts.
func TestForgedDatesRaiseNoFloor(t *testing.T) {
	late := func(a *protocol.Approval) {
		a.IssuedMS += 1e12
		a.NotBeforeMS, a.ExpiresMS = a.IssuedMS, a.IssuedMS+1
	}
	v := need.Judge(policy.Order{Spec: spec, Target: target, Approvals: []protocol.OrderApproval{
		approve("coordinator", late), approve("eve", late), approve("revoked carol", late), approve("olga", late),
	}}, expect(), policy.Clock{WallMS: 1, FloorMS: 5})
	if v.FloorMS != 5 {
		t.Errorf("the floor is %d", v.FloorMS)
	}
}

// TestFloorOfWhatCounted: approvals of a stolen key for another spec, another host or
// too few raise no floor, and one that counts raises it by the life of an approval.
func TestFloorOfWhatCounted(t *testing.T) {
	one, now := policy.Need{Approvals: 1}, signed.UnixMilli()
	late := func(a *protocol.Approval) {
		a.IssuedMS += 1e12
		a.NotBeforeMS, a.ExpiresMS = a.IssuedMS, a.IssuedMS+1
	}
	other := func(a *protocol.Approval) { late(a); a.Spec = protocol.Sum([]byte("another spec")) }
	judge := func(n policy.Need, approvals ...protocol.OrderApproval) policy.Verdict {
		return n.Judge(policy.Order{Spec: spec, Target: target, Approvals: approvals}, expect(), policy.Clock{WallMS: now, FloorMS: now})
	}
	honest := approve("alice", nil)
	if v := judge(one, approve("bob", other), honest); v.Err != nil || v.FloorMS != now {
		t.Errorf("beside one for another spec: the floor is %d, %v", v.FloorMS-now, v.Err)
	}
	if v := judge(policy.Need{Approvals: 2}, approve("bob", late)); v.Err == nil || v.FloorMS != now {
		t.Errorf("too few: the floor is %d, %v", v.FloorMS-now, v.Err)
	}
	if v := judge(one, approve("bob", late)); v.Err != nil || v.FloorMS != now+protocol.MaxApprovalLife.Milliseconds() {
		t.Errorf("one that counts: the floor is %d, %v", v.FloorMS-now, v.Err)
	}
}

// TestCoverIsSound: whoever meets a need meets what it covers.
func TestCoverIsSound(t *testing.T) {
	persons := []string{"a", "b", "c", "d"}
	draw := func(t *rapid.T, name string) policy.Need {
		n := policy.Need{Refused: rapid.IntRange(0, 9).Draw(t, name+" refused") == 0, Approvals: rapid.IntRange(0, 4).Draw(t, name)}
		if rapid.Bool().Draw(t, name+" by") {
			n.By = rapid.SliceOfNDistinct(rapid.SampledFrom(persons), 1, 4, rapid.ID).Draw(t, name+" persons")
			slices.Sort(n.By)
		}
		return n
	}
	rapid.Check(t, func(t *rapid.T) {
		n, m := draw(t, "n"), draw(t, "m")
		met := func(n policy.Need, have []string) bool { return !n.Refused && n.Missing(have...) == 0 }
		way := false
		for set := range 1 << len(persons) {
			var have []string
			for i, p := range persons {
				if set>>i&1 == 1 {
					have = append(have, p)
				}
			}
			way = way || met(n, have) && !met(m, have)
		}
		if n.Covers(m) && way {
			t.Fatalf("%+v does not cover %+v", n, m)
		}
		possible := !n.Refused && (n.By == nil || n.Approvals <= len(n.By))
		if !n.Covers(m) && !way && possible && n.By != nil {
			t.Fatalf("%+v covers %+v", n, m)
		}
	})
}

const another = "version = 1\n[[rule]]\nkinds = ['*']\nrefuse = true\n"

func TestAdmit(t *testing.T) {
	text := []byte(another)
	base := policy.Standing{Policy: parse(t, strings.Replace(tight, `"container.stop", `, "", 1)), Number: 4, Owners: 2, Host: "db-1", Digest: protocol.Sum([]byte("old"))}
	document := protocol.PolicyDocument{Type: protocol.TypePolicy, Fleet: fleet, Number: 5, Policy: protocol.Sum(text), IssuedMS: 1, Ring: 7}
	for _, c := range []struct {
		name string
		edit func(s *policy.Standing, d *protocol.PolicyDocument, text *[]byte)
		by   []string
		want error
	}{
		{"two owners", nil, []string{"olga", "oscar"}, nil},
		{"an owner is also an approver", nil, []string{"olga", "owner alice"}, nil},
		{"one owner", nil, []string{"olga"}, protocol.ErrNotApproved},
		{"one owner where one signs a ring", func(s *policy.Standing, _ *protocol.PolicyDocument, _ *[]byte) { s.Owners = 1 }, []string{"olga"}, nil},
		{"one owner where one signs a ring, and nobody may", func(s *policy.Standing, _ *protocol.PolicyDocument, _ *[]byte) {
			s.Owners, s.Policy = 1, parse(t, another)
		}, []string{"olga"}, nil},
		{"two owners where three sign a ring", func(s *policy.Standing, _ *protocol.PolicyDocument, _ *[]byte) { s.Owners = 3 }, []string{"olga", "oscar"}, protocol.ErrNotApproved},
		{"an owner by two keys", nil, []string{"olga", "olga's other"}, protocol.ErrNotApproved},
		{"two approvers", nil, []string{"alice", "bob"}, nil},
		{"an approver by two keys", nil, []string{"alice", "alice's other"}, protocol.ErrNotApproved},
		{"one approver", nil, []string{"alice"}, protocol.ErrNotApproved},
		{"one approver and one owner", nil, []string{"alice", "olga"}, protocol.ErrNotApproved},
		{"an owner's key is no approver's", nil, []string{"bob", "owner alice"}, protocol.ErrNotApproved},
		{"somebody else", nil, []string{"alice", "mallory"}, protocol.ErrNotApproved},
		{"approvers where nobody is named", func(s *policy.Standing, _ *protocol.PolicyDocument, _ *[]byte) { s.Policy = policy.BuiltIn() }, []string{"alice", "bob"}, protocol.ErrNotApproved},
		{"owners where nobody is named", func(s *policy.Standing, _ *protocol.PolicyDocument, _ *[]byte) { s.Policy = policy.BuiltIn() }, []string{"olga", "oscar"}, nil},
		{"owners where it is broken", func(s *policy.Standing, _ *protocol.PolicyDocument, _ *[]byte) {
			s.Policy = policy.Closed(errors.New("broken"))
		}, []string{"olga", "oscar"}, nil},
		{"an older number", func(_ *policy.Standing, d *protocol.PolicyDocument, _ *[]byte) { d.Number = 3 }, []string{"olga", "oscar"}, protocol.ErrPolicy},
		{"the same number", func(_ *policy.Standing, d *protocol.PolicyDocument, _ *[]byte) { d.Number = 4 }, []string{"olga", "oscar"}, protocol.ErrPolicy},
		{"the same again", func(s *policy.Standing, d *protocol.PolicyDocument, _ *[]byte) { s.Number, s.Digest = 5, d.Policy }, []string{"olga", "oscar"}, policy.ErrSame},
		{"another text", func(_ *policy.Standing, _ *protocol.PolicyDocument, text *[]byte) { *text = []byte("version = 1") }, []string{"olga", "oscar"}, protocol.ErrPolicy},
		{"for another host", func(_ *policy.Standing, d *protocol.PolicyDocument, _ *[]byte) { d.Hosts = []protocol.HostID{"db-2"} }, []string{"olga", "oscar"}, protocol.ErrPolicy},
		{"with holes", func(_ *policy.Standing, d *protocol.PolicyDocument, text *[]byte) {
			*text = []byte("version = 1\n[[rule]]\nkinds = ['container.destroy']\napprovals = 1\n")
			d.Policy = protocol.Sum(*text)
		}, []string{"olga", "oscar"}, protocol.ErrPolicy},
		{"no policy", func(_ *policy.Standing, d *protocol.PolicyDocument, text *[]byte) {
			*text = []byte("a = 1")
			d.Policy = protocol.Sum(*text)
		}, []string{"olga", "oscar"}, protocol.ErrPolicy},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, d, text := base, document, text
			if c.edit != nil {
				c.edit(&s, &d, &text)
			}
			var who []protocol.Principal
			for _, name := range c.by {
				p, _ := theRing().Principal(newKey(name).id)
				who = append(who, p)
			}
			p, err := s.Admit(d, who, text)
			if !errors.Is(err, c.want) || (err == nil) != (p != nil) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}
