package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/rights"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
	"github.com/hostler-io/hostler/protocol/fresh"
)

// realm is a fleet with real keys, and a host's trust in it. The host's own key
// is that of the world.
type realm struct {
	*ring
	keys        *certs.Keys
	owners      []*certs.Identity
	coordinator *certs.Identity
	people      map[string]*certs.Identity
	rings       [][]byte

	mu   sync.Mutex
	kept rights.Record
	fail error // of the next keeping
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// newRealm has two owners who must both sign, a coordinator, and the persons
// alice, with two keys, bob and carol.
func newRealm(t *testing.T) *realm {
	now := time.Now()
	r := &realm{ring: &ring{number: 1, offered: 1}, people: map[string]*certs.Identity{}, coordinator: must(certs.Generate("coordinator", now))}
	r.owners = []*certs.Identity{must(certs.Generate("olga", now)), must(certs.Generate("oscar", now))}
	first := must(certs.NewFleet(fleet, fleetName, "olga", r.owners[0].PublicKey()))
	first.Owners = append(first.Owners, certs.Owner{Person: "oscar", Key: r.owners[1].Public()})
	first.Threshold = 2
	for _, key := range []string{"alice", "alice 2", "bob", "carol"} {
		person, _, _ := strings.Cut(key, " ")
		r.people[key] = must(certs.Generate(key, now))
		if err := first.AddPersonKey(person, r.people[key].PublicKey()); err != nil {
			t.Fatal(err)
		}
	}
	ca := must(certs.NewAuthority(string(fleetName)))
	if err := first.AddCoordinator(enrol.CoordinatorRequest{Fleet: fleet, Key: r.coordinator.Public(), TLSCA: ca.Certificate()}); err != nil {
		t.Fatal(err)
	}
	body := must(first.Body())
	r.rings = [][]byte{must(certs.SignRing(first, r.owners[0], r.owners[1]))}
	r.keys = certs.NewKeys(must(certs.OpenChain(enrol.PinOf(1, protocol.Sum(body)), r.rings[0])))
	return r
}

func (r *realm) Principal(k protocol.KeyID) (protocol.Principal, bool) {
	if p, ok := r.keys.Principal(k); ok {
		return p, true
	}
	if k == hostKey.Key() {
		return r.ring.Principal(k)
	}
	return protocol.Principal{}, false
}
func (r *realm) Keyring() protocol.Keyring { return r }
func (r *realm) Ring() uint64              { return r.keys.Chain().Ring().Number }
func (r *realm) Owners() int               { return r.keys.Chain().Ring().Threshold }
func (r *realm) Advance(_ context.Context, b []byte) error {
	_, err := r.keys.Advance(b)
	return err
}
func (r *realm) Revoke(_ context.Context, list []byte) error {
	said, err := r.keys.OpenRevocations(list)
	if err == nil {
		r.keys.Revoke(said.Number, said.Keys...)
	}
	return err
}
func (r *realm) Fetch(_ context.Context, n uint64) error {
	_, err := r.keys.Advance(bytes.Join(r.rings, []byte("\n")))
	if err == nil && r.Ring() < n {
		err = errors.New("nobody has that ring")
	}
	return err
}

func (r *realm) keep(p rights.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	r.kept = p
	return nil
}

// tune lets an agent live in the realm, with a local policy if there is one.
func (r *realm) tune(local *policy.Policy) func(c *agent.Config) {
	return func(c *agent.Config) {
		r.mu.Lock()
		defer r.mu.Unlock()
		c.Trust = r
		c.Policies = rights.Policies{Local: local, Kept: r.kept, Keep: r.keep}
	}
}

// strict is a policy that reserves everything but pings and starts.
const strict = `version = 1
[[rule]]
kinds = ["host.ping", "container.start", "container.reset"]
[[rule]]
kinds = ["host.run"]
users = ["65534:65534"]
[[rule]]
kinds = ["*"]
approvals = 2
by = ["alice", "bob", "carol"]
`

// guarded is a host on which strict is in force, by a document.
func (r *realm) guarded(number uint64) {
	r.kept = rights.Record{Number: number, Text: []byte(strict), FloorMS: 1}
}

// inRealm runs a test on a guarded host.
func inRealm(t *testing.T, edit func(r *realm), test func(t *testing.T, w *world, r *realm), tune ...func(c *agent.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		r.guarded(4)
		if edit != nil {
			edit(r)
		}
		w := newWorld(t, func(c *agent.Config) {
			r.tune(nil)(c)
			for _, f := range tune {
				f(c)
			}
		})
		defer w.end()
		w.coord.see(func() { w.coord.key, w.coord.ring = r.coordinator, r.ring })
		w.line.breaks(false)
		w.pass(3 * time.Second)
		test(t, w, r)
	})
}

// approve signs for this host and others by the keys of persons.
func (r *realm) approve(id protocol.ActionID, spec []byte, edit func(a *protocol.Approval), keys ...string) []protocol.OrderApproval {
	return r.approveFor(must(protocol.NewTargets(protocol.Target{Host: host, Action: id}, protocol.Target{Host: "edge-08", Action: id})), id, spec, edit, keys...)
}

func (r *realm) approveFor(targets protocol.Targets, id protocol.ActionID, spec []byte, edit func(a *protocol.Approval), keys ...string) []protocol.OrderApproval {
	a := must(protocol.NewApproval(fleet, r.Ring(), spec, targets, time.Now(), time.Hour))
	if edit != nil {
		edit(&a)
	}
	var all []protocol.OrderApproval
	for _, k := range keys {
		i, _ := targets.Find(protocol.Target{Host: host, Action: id})
		all = append(all, protocol.OrderApproval{Signed: must(a.Seal(r.signer(k))), Index: i, Path: targets.Path(i)})
	}
	return all
}

func (r *realm) signer(name string) *certs.Identity {
	switch name {
	case "olga":
		return r.owners[0]
	case "oscar":
		return r.owners[1]
	case "coordinator":
		return r.coordinator
	}
	return r.people[name]
}

func specOf(s protocol.Spec) []byte { return must(json.Marshal(s)) }

// orderApproved sends an order with approvals.
func (c *peer) orderApproved(id protocol.ActionID, spec []byte, approvals []protocol.OrderApproval) {
	c.push(protocol.StreamOrder, protocol.OrderItem{Action: id, Spec: spec, Approvals: approvals, Requester: "ann"})
}

// policySpec is the spec of a policy.set, signed by some.
func (r *realm) policySpec(number uint64, text string, keys ...string) []byte {
	return r.policySpecOf(protocol.PolicyDocument{Type: protocol.TypePolicy, Fleet: fleet, Number: number, Policy: protocol.Sum([]byte(text)),
		IssuedMS: time.Now().UnixMilli(), Ring: r.Ring()}, text, keys...)
}

func (r *realm) policySpecOf(d protocol.PolicyDocument, text string, keys ...string) []byte {
	args := protocol.PolicyArgs{Policy: []byte(text)}
	for _, k := range keys {
		args.Signed = append(args.Signed, must(d.Seal(r.signer(k))))
	}
	return specOf(protocol.Spec{Kind: protocol.KindPolicySet, Args: &args})
}

// open lets everybody do everything.
const open = "version = 1\n"

// TestPolicyHoldsHere: what a host's policy reserves runs with the approvals
// that it asks for, and not otherwise.
func TestPolicyHoldsHere(t *testing.T) {
	run := specOf(command("true"))
	inRealm(t, nil, func(t *testing.T, w *world, r *realm) {
		w.coord.order(actionID(1), protocol.Spec{Kind: protocol.KindPing})
		nobody := command("true")
		nobody.SetProcess(protocol.Process{Argv: []string{"true"}, User: "65534:65534"})
		w.coord.order(actionID(2), nobody)
		w.coord.orderApproved(actionID(3), run, nil)
		w.coord.orderApproved(actionID(4), run, r.approve(actionID(4), run, nil, "alice", "bob"))
		w.coord.orderApproved(actionID(5), run, r.approve(actionID(5), run, nil, "alice", "alice 2"))
		w.pass(time.Second)
		w.expect(actionID(1), "succeed DONE ok")
		w.expect(actionID(2), "succeed DONE ok")
		w.expect(actionID(3), "refuse FAILED not_approved")
		w.expect(actionID(4), "succeed DONE ok")
		w.expect(actionID(5), "refuse FAILED not_approved")
		act := must(w.agent.Action(t.Context(), actionID(5)))
		if want := "it needs the approvals of 2 different persons of alice, bob, carol, 1 more than it has (alice)"; !strings.Contains(act.Detail, want) {
			t.Errorf("the detail is %q, want %q", act.Detail, want)
		}
		if m := w.agent.Metrics(); m.Unapproved != 2 {
			t.Errorf("%d were counted as not approved", m.Unapproved)
		}
		records := records(t, w)
		for _, want := range []string{`"verb":"action.refuse"`, `"why":"the policy of this host`, `"approved_by":["alice","bob"]`} {
			if !strings.Contains(records, want) {
				t.Errorf("the audit log has no %s:\n%s", want, records)
			}
		}
		w.coord.see(func() {
			b := w.coord.beats[len(w.coord.beats)-1]
			if b.Host == nil || b.Host.Policy == nil || b.Host.Policy.Number != 4 || b.Host.Policy.Source != "document" || b.Host.Policy.Digest != protocol.Sum([]byte(strict)) {
				t.Errorf("the heartbeat tells of policy %+v", b.Host.Policy)
			}
		})
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.kept.FloorMS < time.Now().Add(-time.Minute).UnixMilli() {
			t.Errorf("the newest date was not kept: %d", r.kept.FloorMS)
		}
	})
}

// records are the lines of the host's audit log.
func records(t *testing.T, w *world) string {
	t.Helper()
	var all []string
	_, _, err := w.queue.Audit().Export(t.Context(), func(line []byte) error {
		all = append(all, string(line))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}

// TestNoDateNoApproval: if the disk does not keep what was learnt, nothing is
// taken in, and it is when the disk works again.
func TestNoDateNoApproval(t *testing.T) {
	run := specOf(command("true"))
	inRealm(t, nil, func(t *testing.T, w *world, r *realm) {
		r.mu.Lock()
		r.fail = errors.New("the disk is full")
		r.mu.Unlock()
		w.coord.orderApproved(actionID(1), run, r.approve(actionID(1), run, nil, "alice", "bob"))
		w.pass(time.Second)
		w.expect(actionID(1))
		r.mu.Lock()
		r.fail = nil
		r.mu.Unlock()
		w.pass(2 * time.Minute)
		w.expect(actionID(1), "succeed DONE ok")
	})
}

// TestFloorOutlivesEverything: an approval that has ended by what approvers have
// signed is worth nothing on a host whose clock stands in the past, whether it
// was restarted or has begun a new memory.
func TestFloorOutlivesEverything(t *testing.T) {
	run := specOf(command("true"))
	inRealm(t, nil, func(t *testing.T, w *world, r *realm) {
		old := r.approve(actionID(1), run, nil, "alice", "bob")
		w.pass(2 * time.Hour)
		w.coord.orderApproved(actionID(2), run, r.approve(actionID(2), run, nil, "carol", "bob"))
		w.pass(time.Second)
		w.expect(actionID(2), "succeed DONE ok")
		w.down()
		w.tune = func(c *agent.Config) {
			r.tune(nil)(c)
			c.Now = func() time.Time { return time.Unix(5, 0) }
		}
		w.up()
		w.pass(5 * time.Second)
		w.coord.orderApproved(actionID(1), run, old)
		w.pass(time.Second)
		w.expect(actionID(1), "refuse FAILED not_approved")
		// A clock in the past keeps nobody from approving.
		w.coord.orderApproved(actionID(3), run, r.approve(actionID(3), run, nil, "alice", "bob"))
		w.pass(time.Second)
		w.expect(actionID(3), "succeed DONE ok")
	})
}

// TestOwnersResetTheFloor: approvals with dates of the future, by stolen keys of
// approvers, make those of honest people expire, until the owners sign a policy.
func TestOwnersResetTheFloor(t *testing.T) {
	run := specOf(command("true"))
	inRealm(t, nil, func(t *testing.T, w *world, r *realm) {
		late := func(a *protocol.Approval) {
			a.IssuedMS += (365 * 24 * time.Hour).Milliseconds()
			a.NotBeforeMS, a.ExpiresMS = a.IssuedMS, a.IssuedMS+1000
		}
		w.coord.orderApproved(actionID(1), run, r.approve(actionID(1), run, late, "alice", "bob"))
		w.pass(time.Second)
		w.expect(actionID(1), "succeed DONE ok")
		honest := r.approve(actionID(2), run, nil, "alice", "carol")
		w.coord.orderApproved(actionID(2), run, honest)
		w.pass(time.Second)
		w.expect(actionID(2), "refuse FAILED not_approved")
		r.mu.Lock()
		if ahead := r.kept.FloorMS - time.Now().UnixMilli(); ahead > protocol.MaxApprovalLife.Milliseconds() {
			t.Errorf("the floor is %s ahead", time.Duration(ahead)*time.Millisecond)
		}
		r.mu.Unlock()
		w.coord.orderApproved(actionID(3), r.policySpec(5, strict, "olga", "oscar"), nil)
		w.pass(time.Second)
		w.expect(actionID(3), "start RUNNING", "succeed DONE ok")
		w.coord.orderApproved(actionID(4), run, r.approve(actionID(4), run, nil, "alice", "carol"))
		w.pass(time.Second)
		w.expect(actionID(4), "succeed DONE ok")
	})
}

// TestForgottenActionsAreNotApprovedAgain: a host that begins a new memory takes
// no approval that its old one may have used.
func TestForgottenActionsAreNotApprovedAgain(t *testing.T) {
	run := specOf(command("true"))
	inRealm(t, nil, func(t *testing.T, w *world, r *realm) {
		used := r.approve(actionID(1), run, nil, "alice", "bob")
		w.coord.orderApproved(actionID(1), run, used)
		w.pass(time.Second)
		w.expect(actionID(1), "succeed DONE ok")
		w.down()
		w.path += ".new"
		w.coord.see(func() {
			w.coord.term.Counter++
			w.coord.store = protocol.StoreID{8}
			w.coord.reset()
			w.coord.gate, w.coord.heard = fresh.HostGate{}, protocol.Seq{}
			w.coord.reports, w.coord.have = nil, make(map[protocol.Stream]protocol.Position)
		})
		w.run(must(queue.Create(context.Background(), queue.Config{Path: w.path}, protocol.StoreID{2})))
		w.pass(5 * time.Second)
		w.coord.orderApproved(actionID(1), run, used)
		w.coord.orderApproved(actionID(2), run, r.approve(actionID(2), run, nil, "alice", "bob"))
		w.pass(time.Second)
		w.expect(actionID(1), "refuse FAILED not_approved")
		w.expect(actionID(2), "succeed DONE ok")
	})
}

// TestPolicySet: who may puts a policy into force, which stays through restarts.
func TestPolicySet(t *testing.T) {
	inRealm(t, nil, func(t *testing.T, w *world, r *realm) {
		refused := map[protocol.ActionID]struct {
			spec []byte
			code string
		}{
			actionID(1): {r.policySpec(5, open, "olga"), "not_approved"},
			actionID(2): {r.policySpec(5, open, "alice"), "not_approved"},
			actionID(3): {r.policySpec(5, open, "alice", "alice 2"), "not_approved"},
			actionID(4): {r.policySpec(5, open, "coordinator"), "not_approved"},
			actionID(5): {r.policySpec(4, open, "olga", "oscar"), "bad_policy"},
			actionID(6): {r.policySpec(3, open, "olga", "oscar"), "bad_policy"},
			actionID(7): {r.policySpec(5, "version = 1\n[[rule]]\nkinds = ['container.destroy']\nrefuse = true\n", "olga", "oscar"), "bad_policy"},
		}
		for id, c := range refused {
			w.coord.orderApproved(id, c.spec, nil)
		}
		w.pass(time.Second)
		for id, c := range refused {
			w.expect(id, "refuse FAILED "+c.code)
		}
		if s := must(w.agent.Status(t.Context())); s.Policy.Number != 4 {
			t.Fatalf("policy %+v", s.Policy)
		}
		bypass := "version = 1\nallow_bypass = true\n[[rule]]\nkinds = ['container.destroy']\nrefuse = true\n"
		// What comes before it is judged by the policy before. What comes right after it
		// may be judged by either, as a policy takes effect when its action runs.
		w.coord.orderApproved(actionID(11), specOf(command("true")), nil)
		w.coord.orderApproved(actionID(10), r.policySpec(6, bypass, "alice", "bob"), nil)
		w.pass(time.Second)
		w.expect(actionID(11), "refuse FAILED not_approved")
		w.expect(actionID(10), "start RUNNING", "succeed DONE ok")
		w.restart()
		w.pass(3 * time.Second)
		s := must(w.agent.Status(t.Context()))
		if s.Policy.Number != 6 || !s.Policy.Bypass || s.Policy.Source != "document" {
			t.Errorf("policy %+v", s.Policy)
		}
		if text := records(t, w); !strings.Contains(text, `"verb":"policy.take"`) || !strings.Contains(text, `"signed_by":["alice","bob"]`) {
			t.Errorf("the audit log does not tell: %s", text)
		}
		// The same once more is nothing new; one that was overtaken is refused.
		w.coord.orderApproved(actionID(12), r.policySpec(6, bypass, "olga", "oscar"), nil)
		w.coord.orderApproved(actionID(13), r.policySpec(5, strict, "olga", "oscar"), nil)
		w.coord.orderApproved(actionID(14), specOf(command("true")), nil)
		w.pass(time.Second)
		w.expect(actionID(12), "start RUNNING", "succeed DONE ok")
		if n := strings.Count(records(t, w), `"verb":"policy.take"`); n != 1 {
			t.Errorf("the audit log tells %d times", n)
		}
		w.expect(actionID(13), "refuse FAILED bad_policy")
		w.expect(actionID(14), "succeed DONE ok")
	})
}

// TestPolicyOverTheAgentsOwn: what opens the directories of this very agent is not
// put into force, and not left in force.
func TestPolicyOverTheAgentsOwn(t *testing.T) {
	const drops = "version = 1\n[[rule]]\nkinds = ['host.push']\npaths = ['/data']\n[[rule]]\nkinds = ['*']\napprovals = 2\nby = ['alice', 'bob', 'carol']\n"
	var own []string
	inRealm(t, nil, func(t *testing.T, w *world, r *realm) {
		w.coord.orderApproved(actionID(1), r.policySpec(5, drops, "olga", "oscar"), nil)
		w.pass(time.Second)
		w.expect(actionID(1), "start RUNNING", "succeed DONE ok")
		own = []string{"/data/hostler"}
		w.restart()
		w.pass(3 * time.Second)
		if s := must(w.agent.Status(t.Context())); !strings.Contains(s.Policy.Broken, "host.push needs no approval") {
			t.Errorf("policy %+v", s.Policy)
		}
		w.coord.orderApproved(actionID(2), r.policySpec(6, drops, "olga", "oscar"), nil)
		w.pass(time.Second)
		w.expect(actionID(2), "refuse FAILED bad_policy")
	}, func(c *agent.Config) { c.Policies.Own = own })
}

// TestPolicySetInterrupted: killed before the policy was kept it is tried again;
// after that it is found in force.
func TestPolicySetInterrupted(t *testing.T) {
	for _, kept := range []bool{false, true} {
		t.Run(fmt.Sprintf("kept %t", kept), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRealm(t)
				r.guarded(4)
				spec := r.policySpec(5, open, "olga", "oscar")
				w := newWorld(t, r.tune(nil))
				if kept { // by an attempt of which nothing else is left
					_, err := w.agent.Propose(t.Context(), actionID(1), spec, agent.LocalRoot)
					if err != nil || r.kept.Number != 5 {
						t.Fatal(err, r.kept.Number)
					}
					w.down()
					w.path += ".again"
					must(queue.Create(context.Background(), queue.Config{Path: w.path}, protocol.StoreID{1})).Close()
				} else {
					w.down()
				}
				q := must(queue.Open(context.Background(), queue.Config{Path: w.path}))
				must(q.Begin(t.Context(), queue.Now{Boot: w.boot}))
				o := queue.Order{Action: actionID(1), Spec: spec, Requester: agent.LocalRoot, BudgetMS: 60_000, Begin: &queue.Change{}}
				must(q.AcceptOrders(t.Context(), []queue.Arrival{{Order: o}}, queue.Now{Boot: w.boot}))
				w.run(q)
				defer w.end()
				w.pass(time.Second)
				act := must(w.agent.Action(t.Context(), actionID(1)))
				s := must(w.agent.Status(t.Context()))
				if act.State != protocol.StateDone || s.Policy.Number != 5 || r.kept.Number != 5 {
					t.Errorf("%s, policy %d, kept %d", act.State, s.Policy.Number, r.kept.Number)
				}
				must(w.agent.Propose(t.Context(), actionID(2), spec, agent.LocalRoot)) // nothing new
				text := records(t, w)
				if strings.Count(text, `"verb":"policy.take"`) != 1 || !strings.Contains(text, `"before":4,"bypass":false,"number":5,"signed_by":["olga","oscar"],"source_before":"document"`) {
					t.Errorf("the audit log does not tell once: %s", text)
				}
			})
		})
	}
}

// TestRootsFileIsOverEverything: no signature takes the place of root's file, and
// one that is broken lets nobody but root do anything.
func TestRootsFileIsOverEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		local := must(policy.Parse("policy.toml", []byte(strict)))
		w := newWorld(t, r.tune(local))
		defer w.end()
		w.coord.see(func() { w.coord.key, w.coord.ring = r.coordinator, r.ring })
		w.line.breaks(false)
		w.pass(3 * time.Second)
		w.coord.orderApproved(actionID(1), r.policySpec(1, open, "olga", "oscar"), nil)
		w.coord.orderApproved(actionID(2), specOf(command("true")), nil)
		w.pass(time.Second)
		w.expect(actionID(1), "refuse FAILED bad_policy")
		w.expect(actionID(2), "refuse FAILED not_approved")
		w.tune = func(c *agent.Config) {
			why := errors.New("policy.toml has a hole")
			r.tune(policy.Closed(why))(c)
			c.Policies.Broken = why
		}
		w.restart()
		w.pass(3 * time.Second)
		run := specOf(command("true"))
		w.coord.orderApproved(actionID(3), run, r.approve(actionID(3), run, nil, "alice", "bob"))
		w.coord.order(actionID(4), protocol.Spec{Kind: protocol.KindPing})
		w.pass(time.Second)
		w.expect(actionID(3), "refuse FAILED not_approved")
		w.expect(actionID(4), "refuse FAILED not_approved")
		if s := must(w.agent.Status(t.Context())); s.Policy.Broken != "policy.toml has a hole" || s.Policy.Source != "file" {
			t.Errorf("policy %+v", s.Policy)
		}
		if _, err := w.agent.Propose(t.Context(), actionID(5), run, agent.LocalRoot); err != nil {
			t.Errorf("root: %v", err)
		}
	})
}

// TestOnTheHostItself: root needs nobody, others on the host need what anybody
// needs, and have nobody's approval to show.
func TestOnTheHostItself(t *testing.T) {
	inRealm(t, nil, func(t *testing.T, w *world, r *realm) {
		run := specOf(command("true"))
		if _, err := w.agent.Propose(t.Context(), actionID(1), run, "uid:1000"); !errors.Is(err, protocol.ErrNotApproved) {
			t.Errorf("uid 1000: %v", err)
		}
		if _, err := w.agent.Action(t.Context(), actionID(1)); !errors.Is(err, agent.ErrUnknown) {
			t.Errorf("it was kept: %v", err)
		}
		if _, err := w.agent.Propose(t.Context(), actionID(2), run, agent.LocalRoot); err != nil {
			t.Errorf("root: %v", err)
		}
		if _, err := w.agent.Propose(t.Context(), actionID(3), specOf(protocol.Spec{Kind: protocol.KindPing}), "uid:1000"); err != nil {
			t.Errorf("a ping: %v", err)
		}
		if _, err := w.agent.Propose(t.Context(), actionID(4), r.policySpec(5, open, "olga"), agent.LocalRoot); !errors.Is(err, protocol.ErrNotApproved) {
			t.Errorf("a policy that one owner has signed: %v", err)
		}
		if _, err := w.agent.Propose(t.Context(), actionID(5), r.policySpec(5, open, "olga", "oscar"), "uid:1000"); err != nil {
			t.Errorf("a policy that all owners have signed: %v", err)
		}
	})
}

// TestApproverOfANewerRing: an order that names a ring waits for it, and is judged
// by it: whoever was added counts, whoever was taken out does not.
func TestApproverOfANewerRing(t *testing.T) {
	run := specOf(command("true"))
	inRealm(t, nil, func(t *testing.T, w *world, r *realm) {
		next := r.keys.Chain().Next()
		next.People = slices.DeleteFunc(next.People, func(p certs.Person) bool { return p.Person == "bob" })
		r.people["carol 2"] = must(certs.Generate("carol 2", time.Now()))
		if err := next.AddPersonKey("carol", r.people["carol 2"].PublicKey()); err != nil {
			t.Fatal(err)
		}
		signed := must(certs.SignRing(next, r.owners[0], r.owners[1]))
		later := func(a *protocol.Approval) { a.Ring = 2 }
		w.coord.see(func() { w.coord.claims = 2 })
		w.coord.orderApproved(actionID(1), run, r.approve(actionID(1), run, later, "alice", "carol 2"))
		w.coord.orderApproved(actionID(2), run, r.approve(actionID(2), run, nil, "alice", "bob"))
		w.pass(time.Second)
		w.expect(actionID(1))
		r.rings = append(r.rings, signed)
		w.line.deliver(protocol.FleetTopic(fleetName, protocol.ChannelRing).String(), bytes.Join(r.rings, []byte("\n")))
		w.pass(40 * time.Second)
		w.expect(actionID(1), "succeed DONE ok")
		w.expect(actionID(2), "refuse FAILED not_approved")
	})
}

// TestFilesStayWhereThePolicySays: what was let through because of where its
// files are is held to that wherever links lead, by the program that moves them.
func TestFilesStayWhereThePolicySays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		r.kept = rights.Record{Number: 1, Text: []byte("version = 1\n[[rule]]\nkinds = ['host.pull']\npaths = ['/srv/drop']\n"), FloorMS: 1}
		tune := r.tune(nil)
		w := newWorld(t, func(c *agent.Config) {
			tune(c)
			c.Mover = []string{"true"}
		})
		defer w.end()
		w.coord.see(func() { w.coord.key, w.coord.ring = r.coordinator, r.ring })
		w.line.breaks(false)
		w.pass(3 * time.Second)
		for i, at := range []string{"/srv/drop/a", "/etc/motd"} {
			w.coord.order(actionID(byte(i+1)), protocol.Spec{Kind: protocol.KindHostPull, Args: &protocol.PullArgs{Files: &protocol.FileArgs{Paths: []string{at}}}})
		}
		w.pass(time.Second)
		for i, want := range []bool{true, false} {
			run := w.cmds.get(actionID(byte(i+1)), 1)
			if run == nil {
				t.Fatalf("action %d did not begin", i+1)
			}
			last := run.cmd.Argv[len(run.cmd.Argv)-1]
			if got := strings.Contains(last, `"allowed":["/srv/drop"]`); got != want {
				t.Errorf("action %d is held to the directory: %v, want %v: %s", i+1, got, want, last)
			}
		}
	})
}

// TestPlacesAreThoseOfItsPolicy: what was let in because its files are below a
// directory is held to that directory, whatever comes into force before it begins.
func TestPlacesAreThoseOfItsPolicy(t *testing.T) {
	const (
		loose = "allow_bypass = true\nversion = 1\n[[rule]]\nkinds = ['host.pull']\npaths = ['/srv/drop']\n[[rule]]\nkinds = ['host.run']\n[[rule]]\nkinds = ['*']\napprovals = 2\n"
		tight = "version = 1\n[[rule]]\nkinds = ['*']\napprovals = 2\n"
	)
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		r.kept = rights.Record{Number: 1, Text: []byte(loose), FloorMS: 1}
		tune := r.tune(nil)
		w := newWorld(t, func(c *agent.Config) {
			tune(c)
			c.Mover = []string{"true"}
			c.HostRuns = 1
		})
		defer w.end()
		w.coord.see(func() { w.coord.key, w.coord.ring = r.coordinator, r.ring })
		w.line.breaks(false)
		w.pass(3 * time.Second)
		w.coord.order(actionID(1), command("sleep", "60"))
		w.coord.order(actionID(2), protocol.Spec{Kind: protocol.KindHostPull, Args: &protocol.PullArgs{Files: &protocol.FileArgs{Paths: []string{"/srv/drop/a"}}}})
		if _, err := w.agent.Propose(t.Context(), actionID(4), []byte(`{"kind":"host.pull","files":{"paths":["/srv/drop/b"]}}`), "uid:1000"); err != nil {
			t.Fatal(err)
		}
		w.coord.orderApproved(actionID(3), r.policySpec(2, tight, "olga", "oscar"), nil)
		w.pass(2 * time.Minute)
		w.expect(actionID(3), "start RUNNING", "succeed DONE ok")
		for _, id := range []protocol.ActionID{actionID(2), actionID(4)} { // ordered, and asked for on the host
			run := w.cmds.get(id, 1)
			if run == nil {
				t.Fatalf("pull %s did not begin", id)
			}
			if move := run.cmd.Argv[len(run.cmd.Argv)-1]; !strings.Contains(move, `"allowed":["/srv/drop"]`) {
				t.Errorf("pull %s is held to other places: %s", id, move)
			}
		}
	})
}
