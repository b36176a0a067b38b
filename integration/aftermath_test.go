//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// oneApproval lets one person approve commands.
const oneApproval = `version = 1
[[rule]]
kinds = ["host.ping"]
[[rule]]
kinds = ["*"]
approvals = 1
`

// flood has a thief say to a host whatever its key can sign that the host keeps: the
// highest numbers there are, and revocations of everybody's keys.
func (h *thief) flood(t *testing.T, host protocol.HostID, keys ...protocol.KeyID) {
	const most = protocol.MaxInteger
	h.met(t, host)
	list, err := certs.Revocations{Type: protocol.TypeRevoked, Fleet: h.fleet, Number: most, Keys: keys}.Seal(h.key)
	if err != nil {
		t.Fatal(err)
	}
	h.publish(protocol.FleetTopic(protocol.FleetName(h.w.fleet), protocol.ChannelRevoked), list, true)
	nobody := protocol.NewActionID(time.Now().UnixMilli(), [10]byte{0xee})
	since := uint64(0)
	stop := protocol.OrderItem{
		Action: protocol.NewActionID(time.Now().UnixMilli(), [10]byte{0xed, host[len(host)-1]}), Requester: "ann", CreatedMS: 1,
		Spec: encoded(t, protocol.Spec{Kind: protocol.KindStopNow, Target: protocol.NewCTID(1, [10]byte{1})}),
	}
	for _, c := range []protocol.ControlItem{
		{Verb: protocol.VerbCancel, Action: nobody},
		{Verb: protocol.VerbTell, IDs: []protocol.ActionID{nobody}, Since: &since},
		{Verb: protocol.VerbPolicy},
		{Verb: protocol.VerbRules, Rules: &protocol.AlertRules{Number: most, Rules: []string{"host load=0.001/15s"}}},
		{Verb: protocol.VerbPreempt, Order: &stop},
		{Verb: "no such verb"},
	} {
		h.push(host, protocol.StreamControl, c)
	}
	ping := protocol.NewActionID(time.Now().UnixMilli(), [10]byte{0xef, host[len(host)-1]})
	h.push(host, protocol.StreamOrder, protocol.OrderItem{Action: ping, Spec: encoded(t, protocol.Spec{Kind: protocol.KindPing}), Requester: "ann", CreatedMS: 1})
	h.met(t, host)

	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.marks[host]
	checkpoint, err := core.SignMessage(h.key, protocol.Checkpoint{
		Type: protocol.TypeCheckpoint, Fleet: h.fleet, Log: protocol.Coordinator, Store: m.store, N: most, H: protocol.Sum(nil), Ring: h.ring, Term: h.term, AtMS: most,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := protocol.Receipt{Header: h.header(protocol.TypeReceipt, host), Answers: m.heard, Give: m.chal, Checkpoint: checkpoint}
	r.Revoked, r.Seq = most, protocol.Seq{Inc: most, Conn: most, K: most}
	for _, p := range m.have {
		p.N, p.H = most, protocol.Sum([]byte("of a thief"))
		r.Have = append(r.Have, p)
		r.Audit = protocol.Position{Store: p.Store, Stream: protocol.StreamAudit, N: most, H: p.H}
	}
	for s := range m.sent {
		r.Sent = append(r.Sent, protocol.Position{Store: m.store, Stream: s, N: most, H: protocol.Sum([]byte("of a thief"))})
	}
	h.down(host, protocol.ChannelReceipt, r)
	g := protocol.Grant{Header: h.header(protocol.TypeGrant, host), TTLms: protocol.MaxGrant.Milliseconds()}
	g.Seq, g.Heard = r.Seq, m.heard
	h.down(host, protocol.ChannelGrant, g)
	// Nobody reaches this term: its ring is not the one that the message names.
	beyond := protocol.CoordinatorState{Header: h.header(protocol.TypeCoordinator, host), Online: true}
	beyond.To, beyond.Term, beyond.Seq = protocol.Everybody, protocol.Term{Ring: most, Counter: most}, r.Seq
	fleet := protocol.FleetTopic(protocol.FleetName(h.w.fleet), protocol.ChannelCoordinator)
	h.seal(fleet, beyond, true)
	beyond.Term = h.term
	h.seal(fleet, beyond, true)
}

// hasOwnRules waits until a host judges by the rules of its coordinator, which sets none.
// Those of a thief have the highest number; another store begins anew.
func (w *world) hasOwnRules(t *testing.T, host string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		shown := show[api.Host](t, w, "host", "show", host)
		measured := slices.ContainsFunc(shown.ActiveAlerts, func(a api.Alert) bool { return strings.HasPrefix(a.ID, "measured.") })
		if shown.AlertRules == 1 && !measured {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has the rules of change %d, and the alerts %+v", host, shown.AlertRules, shown.ActiveAlerts)
		}
		elapse(t, 200*time.Millisecond)
	}
}

// TestNothingOfAThiefStays: a thief of the coordinator's key writes into every host
// whatever a signed message can make it keep, in the highest term that there is. The
// owners recover the coordinator as the documentation says. Then every host works
// again, with every outcome that it had, and a ring brings back whom the thief has
// revoked.
func TestNothingOfAThiefStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(t, "key", "generate", "ann", "--no-passphrase")
	w.must(t, "fleet", "ring", "add-approver", "ann", "ann", "--out", w.path("ring-approver"))
	w.must(t, "fleet", "ring", "publish")
	ann := w.loadKey(t, "ann")
	hosts := []*host{w.addHost(t, "edge-01", false), w.addHost(t, "edge-02", false)}
	var done []string
	for _, h := range hosts {
		for range 3 {
			done = append(done, w.submit(t, h.name, "true"))
		}
	}
	w.ended(t, done...)
	write(t, w.path("policy.toml"), oneApproval)
	w.must(t, "policy", "sign", w.path("policy.toml"), "--number", "1", "--yes")
	w.must(t, "policy", "set", w.path("policy.toml"), "edge-01")
	lasting := w.submit(t, "edge-02", "sh", "-c", "until test -e "+w.path("go")+"; do sleep 0.1; done")
	w.state(t, lasting, "RUNNING")
	backup := field(t, w.coordinatorCommand(t, "backup", w.dir), "backup")
	w.coordinator.end(t, kill)

	h := newThief(t, w)
	h.counts = protocol.MaxInteger
	for _, name := range []protocol.HostID{"edge-01", "edge-02"} {
		h.flood(t, name, ann.Key())
	}
	write(t, w.path("go"), "") // the thief hears how it ends, and forgets it
	id, err := protocol.ParseActionID(lasting)
	if err != nil {
		t.Fatal(err)
	}
	h.told(t, "edge-02", id)
	h.stop()

	if err := os.RemoveAll(w.path("coordinator")); err != nil {
		t.Fatal(err)
	}
	w.coordinatorCommand(t, "restore", backup, "--fleet", strings.TrimSpace(w.must(t, "fleet", "show", "-o", "template={{.code}}")))
	w.recovered(t)
	from := w.events.mark()
	w.startCoordinator(t)
	for _, h := range hosts {
		h.online(t, from)
		w.hasOwnRules(t, h.name)
		w.coordinator.says(t, w.coordinator.talk, `before the recovery" host=`+h.name)
		if shown := show[api.Host](t, w, "host", "show", h.name); shown.Quarantined != "" {
			t.Errorf("%s is quarantined: %s", h.name, shown.Quarantined)
		}
	}
	for _, id := range append(done, lasting) {
		if got := w.shown(t, id); got != "DONE ok" {
			t.Errorf("action %s is %s", id, got)
		}
	}
	w.must(t, "run", "edge-02", "--", "true")
	approved := func(want string) {
		t.Helper()
		id := w.submit(t, "edge-01", "true")
		w.state(t, id, "PENDING_APPROVE")
		w.cli(t, "action", "approve", id, "--yes", "--key", "ann").exits(t, 0)
		if got := w.ended(t, id)[id]; got != want {
			t.Errorf("what ann approves is %s, want %s", got, want)
		}
	}
	approved("FAILED not_approved")
	w.must(t, "fleet", "ring", "reinstate", ann.Key().String(), "--out", w.path("ring-reinstated"))
	w.must(t, "fleet", "ring", "publish")
	approved("DONE ok")
	for _, h := range hosts { // and all of it stays so
		h.agent.end(t, kill)
		from := w.events.mark()
		h.start(t)
		h.online(t, from)
	}
	approved("DONE ok")
	w.must(t, "run", "edge-02", "--", "true")
	if b, err := os.ReadFile(filepath.Join(hosts[0].dir, "membership.json")); err == nil && strings.Contains(string(b), ann.Key().String()) {
		t.Error("the reinstated key is kept as a revoked one")
	}
}
