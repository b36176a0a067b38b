//go:build integration

package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// guard reserves everything for two persons, but for pings, files into one
// directory, and one command as nobody.
const guard = `version = 1
[[rule]]
kinds = ["host.ping"]
[[rule]]
kinds = ["host.push", "container.push"]
paths = [%q]
[[rule]]
kinds = ["host.run"]
users = ["65534:65534"]
commands = ["/usr/bin/id"]
[[rule]]
kinds = ["*"]
approvals = 2
`

// vault is a fleet whose hosts have policies, of root's own file and signed by an
// owner, with a coordinator that can be stolen.
type vault struct {
	*world
	file, signed, moved *host
	ann, bob, carol     *certs.Identity
	drop                string // where anybody may put files
	tried               int
}

func newVault(t *testing.T, prepare ...func(*world)) *vault {
	t.Helper()
	v := &vault{world: newWorld(t, prepare...)}
	v.drop = v.path("drop")
	mkdir(t, v.drop)
	write(t, v.path("policy.toml"), fmt.Sprintf(guard, v.drop))
	for i, name := range []string{"ann", "bob", "carol"} {
		v.must(t, "key", "generate", name, "--no-passphrase")
		v.must(t, "fleet", "ring", "add-approver", name, name, "--out", v.path(fmt.Sprint("ring-approver-", i)))
	}
	v.must(t, "fleet", "ring", "publish")
	v.ann, v.bob, v.carol = v.loadKey(t, "ann"), v.loadKey(t, "bob"), v.loadKey(t, "carol")
	v.file = v.newHost(t, "edge-01", false)
	write(t, v.file.config(), "policy = \""+v.path("policy.toml")+"\"\n"+read(t, v.file.config()))
	p, words := v.file.join(t, v.invite(t))
	v.must(t, "host", "approve", "edge-01", "--words", words)
	p.finish(t).exits(t, 0)
	v.file.start(t)
	v.signed, v.moved = v.addHost(t, "edge-02", true), v.addHost(t, "edge-03", false)
	v.must(t, "ct", "create", "edge-02/web", "--template", "busybox", "--start")
	v.must(t, "policy", "sign", v.path("policy.toml"), "--number", "1", "--yes")
	v.must(t, "policy", "set", v.path("policy.toml"), "edge-02", "edge-03")
	return v
}

// witness is a file that nobody may make, and a command that makes it.
func (v *vault) witness() (file string, argv []string) {
	v.tried++
	file = v.path("witness-" + strconv.Itoa(v.tried))
	return file, []string{"/usr/bin/touch", file}
}

// untouched checks that no command of a witness has run.
func (v *vault) untouched(t testing.TB) {
	t.Helper()
	made, err := filepath.Glob(v.path("witness-*"))
	if err != nil || len(made) > 0 {
		t.Errorf("what is reserved has run: %v, %v", made, err)
	}
	if left := entries(t, v.drop); len(left) != 0 {
		t.Errorf("there is %v in the directory", left)
	}
	if made, _ := filepath.Glob(v.path("escaped*")); len(made) > 0 {
		t.Errorf("files have left the directory: %v", made)
	}
}

// byHand does with the built programs and the coordinator's database what a thief
// of its machine can do without knowing anything of the protocol: ask for what is
// reserved, and write into the database that nothing has to be approved.
func (v *vault) byHand(t *testing.T) {
	from := v.events.mark()
	tries := 0
	var pulls []*process // they stay: files come to who waits
	try := func(verb []string, more ...string) {
		v.must(t, append(append(verb, "--no-wait"), more...)...)
		tries++
	}
	for _, host := range []string{"edge-01", "edge-02"} {
		_, argv := v.witness()
		try([]string{"run", host}, append([]string{"--"}, argv...)...)
		_, argv = v.witness()
		try([]string{"run", host, "--as", "65534:65534"}, append([]string{"--"}, argv...)...)
		try([]string{"push", v.path("policy.toml"), host + ":" + v.path("escaped")})
		try([]string{"push", v.path("policy.toml"), host + ":" + v.drop + "/tool", "--mode", "4755"})
		pulls = append(pulls, v.start(t, "hostler", "pull", host+":/etc/shadow", v.path("operator")))
	}
	try([]string{"exec", "edge-02/web"}, "--", "true")
	try([]string{"push", v.path("policy.toml"), "edge-02/web:/etc/passwd"})
	try([]string{"ct", "stop", "edge-02/web"})
	try([]string{"ct", "rm", "edge-02/web", "--yes"})
	v.forced(t, from, tries+len(pulls))
	for _, p := range pulls {
		if r := p.finish(t); r.code == 0 {
			t.Errorf("%s\nsays that it was done:\n%.600s%.600s", r.line, r.stderr, r.stdout)
		}
	}
	v.must(t, "run", "edge-01", "--as", "65534:65534", "--", "/usr/bin/id") // what nobody has reserved
	v.untouched(t)
}

// forced has the coordinator send what waits for approval: n actions that were
// asked for since. Their hosts must refuse.
func (v *vault) forced(t testing.TB, from, n int) {
	t.Helper()
	var ids []string
	until(t, &v.events.change, "everything waits for approval", func() bool {
		ids = nil
		for _, e := range v.events.since(from) {
			if e.Type == "action.state" && e.Data["state"] == "PENDING_APPROVE" {
				ids = append(ids, e.Object)
			}
		}
		return len(ids) == n
	})
	v.coordinator.end(t, kill)
	v.forgeNeeds(t)
	from = v.events.mark()
	v.startCoordinator(t)
	v.file.online(t, from)
	v.signed.online(t, from)
	for id, got := range v.ended(t, ids...) {
		if got != "FAILED not_approved" {
			t.Errorf("%s %s is %s", v.action(t, id).Kind, id, got)
		}
	}
}

// forgeNeeds writes into the database of a coordinator that does not run that
// nothing waits for approval.
func (v *vault) forgeNeeds(t testing.TB) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), sqldb.Config{Path: filepath.Join(v.path("coordinator"), "store.db"), ApplicationID: 0x486f7343, Migrations: os.DirFS("../coordinator/sqlstore/schema")})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(`UPDATE action SET state = 'PENDING_SCHEDULE', needs = x'6e756c6c' WHERE state = 'PENDING_APPROVE'`)
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// again has a host leave the fleet and join it anew, by an invite of the thief:
// its policy is the one that it had.
func (v *vault) again(t *testing.T, name string) {
	r := v.moved.spawn(t, "join-twice", "join", v.invite(t)).finish(t)
	if r.code == 0 {
		t.Error("a host that is in the fleet joins as another")
	}
	v.moved.agent.end(t, term)
	v.moved.spawn(t, "leave", "leave", "--yes").finish(t).exits(t, 0)
	config := strings.Replace(read(t, v.moved.config()), fmt.Sprintf("host = %q", v.moved.name), fmt.Sprintf("host = %q", name), 1)
	v.moved.name = name
	write(t, v.moved.config(), config)
	from := v.events.mark()
	p := v.moved.spawn(t, name+"-join", "join", v.invite(t))
	v.event(t, from, name+" waits for approval", func(e api.Event) bool { return e.Type == "host.pending" && e.Host == name })
	v.must(t, "host", "approve", name, "--yes")
	p.finish(t).exits(t, 0)
	v.moved.start(t)
	v.event(t, from, "the policy of "+name+" is known", func(e api.Event) bool { return e.Type == "host.policy" && e.Host == name && e.Data["known"] == true })
	from = v.events.mark()
	_, argv := v.witness()
	v.submit(t, name, argv...)
	v.forced(t, from, 1)
	v.untouched(t)
}

// heist is what a thief tries at one host.
type heist struct {
	*thief
	v     *vault
	host  *host
	id    protocol.HostID
	spent map[protocol.ActionID]string // what was tried
	serve int
}

func (x *heist) fresh() protocol.ActionID {
	x.serve++
	return protocol.NewActionID(time.Now().UnixMilli(), [10]byte{0xcc, byte(x.serve), byte(x.serve >> 8), x.id[len(x.id)-1]})
}

func encoded(t testing.TB, s protocol.Spec) []byte {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// approve has persons sign, as they have signed other things before.
func (x *heist) approve(t testing.TB, target protocol.Target, spec []byte, edit func(*protocol.Approval), by ...protocol.Signer) []protocol.OrderApproval {
	t.Helper()
	targets, err := protocol.NewTargets(target)
	if err != nil {
		t.Fatal(err)
	}
	a, err := protocol.NewApproval(x.fleet, x.ring, spec, targets, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(&a)
	}
	var all []protocol.OrderApproval
	for _, s := range by {
		signed, err := a.Seal(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, protocol.OrderApproval{Signed: signed})
	}
	return all
}

// refused orders something and wants it refused under a code.
func (x *heist) refused(t testing.TB, how string, code string, id protocol.ActionID, spec []byte, approvals []protocol.OrderApproval) {
	t.Helper()
	x.spent[id] = how
	x.push(x.id, protocol.StreamOrder, protocol.OrderItem{Action: id, Spec: spec, Approvals: approvals, Requester: "ann", CreatedMS: 1})
	if r := x.told(t, x.id, id); r.State != protocol.StateFailed || string(r.Reason) != code {
		t.Errorf("%s on %s: it is %s %s: %s", how, x.id, r.State, r.Reason, r.Detail)
	}
}

func (x *heist) self(id protocol.ActionID) protocol.Target {
	return protocol.Target{Host: x.id, Action: id}
}

// forge tries approvals that are worth nothing for what is asked.
func (x *heist) forge(t *testing.T) {
	v := x.v
	run := func(argv ...string) []byte {
		return encoded(t, protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command(argv...)})
	}
	_, argv := v.witness()
	spec := run(argv...)
	try := func(how string, approvals func(id protocol.ActionID) []protocol.OrderApproval) {
		t.Helper()
		id := x.fresh()
		x.refused(t, how, "not_approved", id, spec, approvals(id))
	}
	for _, requester := range []string{"uid:0", "admin"} {
		id := x.fresh()
		x.spent[id] = "in the name of " + requester
		x.push(x.id, protocol.StreamOrder, protocol.OrderItem{Action: id, Spec: spec, Requester: requester})
		if r := x.told(t, x.id, id); string(r.Reason) != "not_approved" {
			t.Errorf("in the name of %s: %s %s", requester, r.State, r.Reason)
		}
	}
	try("by its own key", func(id protocol.ActionID) []protocol.OrderApproval {
		return x.approve(t, x.self(id), spec, nil, x.key, v.ann)
	})
	try("one person twice", func(id protocol.ActionID) []protocol.OrderApproval {
		return x.approve(t, x.self(id), spec, nil, v.ann, v.ann)
	})
	try("for another action", func(protocol.ActionID) []protocol.OrderApproval {
		return x.approve(t, x.self(x.fresh()), spec, nil, v.ann, v.bob)
	})
	try("for another host", func(id protocol.ActionID) []protocol.OrderApproval {
		return x.approve(t, protocol.Target{Host: "edge-99", Action: id}, spec, nil, v.ann, v.bob)
	})
	try("expired", func(id protocol.ActionID) []protocol.OrderApproval {
		return x.approve(t, x.self(id), spec, func(a *protocol.Approval) {
			a.IssuedMS -= 7200_000
			a.NotBeforeMS, a.ExpiresMS = a.IssuedMS, a.IssuedMS+3600_000
		}, v.ann, v.bob)
	})
	try("for another command", func(id protocol.ActionID) []protocol.OrderApproval {
		return x.approve(t, x.self(id), run("/usr/bin/true"), nil, v.ann, v.bob)
	})
	try("for another user", func(id protocol.ActionID) []protocol.OrderApproval {
		return x.approve(t, x.self(id), encoded(t, protocol.Spec{Kind: protocol.KindRun, Args: &protocol.CommandArgs{Process: protocol.Process{Argv: argv, User: "65534:65534"}}}), nil, v.ann, v.bob)
	})
	try("changed after it was signed", func(id protocol.ActionID) []protocol.OrderApproval {
		all := x.approve(t, x.self(x.fresh()), spec, nil, v.ann, v.bob)
		for i := range all {
			all[i].Signed = bytes.Replace(all[i].Signed, []byte(`"expires_ms":1`), []byte(`"expires_ms":2`), 1)
		}
		return all
	})
	// It can shut people out: that brings it no approval.
	list := certs.Revocations{Type: protocol.TypeRevoked, Fleet: x.fleet, Number: 1000, Keys: []protocol.KeyID{v.carol.Key()}}
	raw, err := list.Seal(x.key)
	if err != nil {
		t.Fatal(err)
	}
	x.publish(protocol.FleetTopic(protocol.FleetName(v.fleet), protocol.ChannelRevoked), raw, false)
}

// everyKind asks for what the policy reserves, kind by kind, by order and by
// control.
func (x *heist) everyKind(t *testing.T, ct protocol.CTID) {
	v := x.v
	payload := []byte("a payload")
	with := func(s protocol.Spec) protocol.Spec {
		s.SetInput(protocol.Sum(payload), int64(len(payload)))
		return s
	}
	push := func(path, name, mode string) protocol.Spec {
		return with(protocol.Spec{Kind: protocol.KindHostPush, Args: &protocol.PushArgs{Files: &protocol.FileArgs{Paths: []string{path}, Name: name, Mode: mode}}})
	}
	file, argv := v.witness()
	for how, c := range map[string]struct {
		code string
		spec protocol.Spec
	}{
		"a command as root":         {"not_approved", protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command(argv...)}},
		"a command as another":      {"not_approved", protocol.Spec{Kind: protocol.KindRun, Args: &protocol.CommandArgs{Process: protocol.Process{Argv: argv, User: "65534:65534"}}}},
		"the command as root":       {"not_approved", protocol.Spec{Kind: protocol.KindRun, Args: &protocol.CommandArgs{Process: protocol.Process{Argv: []string{"/usr/bin/id"}, User: "0"}}}},
		"the command as nobody":     {"not_approved", protocol.Spec{Kind: protocol.KindRun, Args: &protocol.CommandArgs{Process: protocol.Process{Argv: []string{"/usr/bin/id"}, User: "nobody"}}}},
		"a container's command":     {"not_approved", protocol.Spec{Kind: protocol.KindExec, Target: ct, Args: protocol.Command("true")}},
		"a terminal":                {"not_approved", protocol.Spec{Kind: protocol.KindAttach, Args: &protocol.SessionArgs{Process: protocol.Process{Argv: argv}, TTY: &protocol.TTY{Rows: 24, Cols: 80}}}},
		"a terminal in a container": {"not_approved", protocol.Spec{Kind: protocol.KindContainerAttach, Target: ct, Args: &protocol.SessionArgs{TTY: &protocol.TTY{Rows: 24, Cols: 80}}}},
		"a file elsewhere":          {"not_approved", push(v.path("escaped"), "", "0644")},
		"a file beside":             {"not_approved", push(v.drop+"-beside", "", "0644")},
		"a file upwards":            {"bad_spec", push(v.drop+"/../escaped", "", "0644")},
		"a name that leads upwards": {"bad_spec", push(v.drop, "../escaped", "0644")},
		"a file with more rights":   {"not_approved", push(v.drop+"/tool", "", "4755")},
		"an archive":                {"not_approved", with(protocol.Spec{Kind: protocol.KindHostPush, Args: &protocol.PushArgs{Files: &protocol.FileArgs{Paths: []string{v.drop}, Archive: true}}})},
		"files of the host":         {"not_approved", protocol.Spec{Kind: protocol.KindHostPull, Args: &protocol.PullArgs{Files: &protocol.FileArgs{Paths: []string{"/etc/shadow"}}}}},
		"files of a container":      {"not_approved", protocol.Spec{Kind: protocol.KindContainerPull, Target: ct, Args: &protocol.PullArgs{Files: &protocol.FileArgs{Paths: []string{"/etc/shadow"}}}}},
		"a stop":                    {"not_approved", protocol.Spec{Kind: protocol.KindStop, Target: ct}},
		"an end":                    {"not_approved", protocol.Spec{Kind: protocol.KindDestroy, Target: ct}},
		"another name":              {"not_approved", protocol.Spec{Kind: protocol.KindRename, Target: ct, Args: &protocol.RenameArgs{NewName: "stolen"}}},
		"another container":         {"not_approved", protocol.Spec{Kind: protocol.KindCreate, Target: protocol.NewCTID(1, [10]byte{1}), Name: "trojan", Args: &protocol.CreateArgs{Template: "busybox"}}},
	} {
		x.refused(t, how, c.code, x.fresh(), encoded(t, c.spec), nil)
		id := x.fresh()
		x.spent[id] = how + " past all that waits"
		x.push(x.id, protocol.StreamControl, protocol.ControlItem{Verb: protocol.VerbPreempt, Order: &protocol.OrderItem{Action: id, Spec: encoded(t, c.spec), Requester: "uid:0"}})
	}
	stop := x.fresh()
	x.spent[stop] = "a stop at once"
	x.push(x.id, protocol.StreamControl, protocol.ControlItem{Verb: protocol.VerbPreempt, Order: &protocol.OrderItem{Action: stop, Spec: encoded(t, protocol.Spec{Kind: protocol.KindStopNow, Target: ct}), Requester: "ann"}})
	if r := x.told(t, x.id, stop); string(r.Reason) != "not_approved" {
		t.Errorf("a stop at once: %s %s: %s", r.State, r.Reason, r.Detail)
	}
	var ids []protocol.ActionID
	for id := range x.spent {
		ids = append(ids, id)
	}
	since := uint64(0)
	x.push(x.id, protocol.StreamControl, protocol.ControlItem{Verb: protocol.VerbTell, IDs: ids[:min(len(ids), protocol.MaxTell)], Since: &since})
	x.met(t, x.id)
	if exists(file) {
		t.Errorf("%s was made", file)
	}
}

// spend uses an approval that persons have given, more than once: for the same
// action, before and after the agent was killed, and for others.
func (x *heist) spend(t *testing.T) {
	v := x.v
	file := v.path("spent-" + string(x.id))
	spec, id := encoded(t, protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command("/bin/sh", "-c", "echo done >>"+file)}), x.fresh()
	approvals := x.approve(t, x.self(id), spec, nil, v.ann, v.bob)
	again := func() {
		t.Helper()
		x.push(x.id, protocol.StreamOrder, protocol.OrderItem{Action: id, Spec: spec, Approvals: approvals, Requester: "ann", CreatedMS: 1})
		x.refused(t, "an approval of another action that was used", "not_approved", x.fresh(), spec, approvals)
		if r := x.told(t, x.id, id); r.State != protocol.StateDone {
			t.Errorf("what two persons approve is %s %s: %s", r.State, r.Reason, r.Detail)
		}
		if got := read(t, file); got != "done\n" {
			t.Errorf("by one approval it has left %q", got)
		}
	}
	again()
	again()
	x.host.agent.end(t, kill)
	x.host.startAlone(t)
	again()
}

// swap gives what was approved another thing to read.
func (x *heist) swap(t *testing.T) {
	v := x.v
	file, _ := v.witness()
	bad := []byte("touch " + file + "\n")
	good := []byte(": " + strings.Repeat("x", len(bad)-3) + "\n") // of the same length
	lie := func(s protocol.Spec, approved bool) {
		t.Helper()
		s.SetInput(protocol.Sum(good), int64(len(good)))
		spec, id := encoded(t, s), x.fresh()
		var approvals []protocol.OrderApproval
		if approved {
			approvals = x.approve(t, x.self(id), spec, nil, v.ann, v.bob)
		}
		x.mu.Lock()
		x.marks[x.id].inputs[id] = bad
		x.mu.Unlock()
		x.push(x.id, protocol.StreamOrder, protocol.OrderItem{Action: id, Spec: spec, Approvals: approvals, Requester: "ann"})
		if r := x.told(t, x.id, id); r.State != protocol.StateFailed || !strings.Contains(r.Detail, "input") {
			t.Errorf("with another payload it is %s %s: %s", r.State, r.Reason, r.Detail)
		}
		if x.began(x.id, id) {
			t.Error("with another payload it has begun")
		}
	}
	lie(protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command("/bin/sh")}, true)
	lie(protocol.Spec{Kind: protocol.KindHostPush, Args: &protocol.PushArgs{Files: &protocol.FileArgs{Paths: []string{v.drop + "/swapped"}, Mode: "0644"}}}, false)
	for id := range x.spent {
		x.chunk(x.id, id, 1, 0, bad) // nobody reads what comes unasked
	}
	if exists(file) {
		t.Error("the payload has run")
	}
}

// policies tries to bring another policy into force.
func (x *heist) policies(t *testing.T, code string) {
	const loose = "version = 1\n"
	forged := protocol.PolicyDocument{Type: protocol.TypePolicy, Fleet: x.fleet, Number: 9, Policy: protocol.Sum([]byte(loose)), IssuedMS: time.Now().UnixMilli(), Ring: x.ring}
	for how, by := range map[string][]protocol.Signer{"itself": {x.key}, "one approver": {x.v.ann}, "an approver and itself": {x.v.ann, x.key}} {
		args := protocol.PolicyArgs{Policy: []byte(loose)}
		for _, k := range by {
			signed, err := forged.Seal(k)
			if err != nil {
				t.Fatal(err)
			}
			args.Signed = append(args.Signed, signed)
		}
		x.refused(t, "a policy by "+how, code, x.fresh(), encoded(t, protocol.Spec{Kind: protocol.KindPolicySet, Args: &args}), nil)
	}
}

// rings tries to make somebody of its own an approver.
func (x *heist) rings(t *testing.T) {
	v := x.v
	var parts [][]byte
	for n := 1; ; n++ {
		b, err := os.ReadFile(filepath.Join(v.path("booty/rings"), strconv.Itoa(n)))
		if err != nil {
			break
		}
		parts = append(parts, bytes.TrimSpace(b))
	}
	env, err := protocol.Split(bytes.SplitN(parts[0], []byte("\n"), 2)[0])
	if err != nil {
		t.Fatal(err)
	}
	chain, err := certs.OpenChain(enrol.PinOf(1, protocol.Sum(env.Body)), parts...)
	if err != nil {
		t.Fatal(err)
	}
	mallory, eve := stranger(t), stranger(t)
	next := chain.Next()
	for who, k := range map[string]*certs.Identity{"ann": mallory, "bob": eve} {
		if err := next.AddPersonKey(who, k.PublicKey()); err != nil {
			t.Fatal(err)
		}
	}
	held := x.host.ring(t)
	for _, by := range [][]protocol.Signer{{x.key}, {mallory}, {v.ann, v.bob}} {
		ring, err := certs.SignRing(next, by...)
		if err != nil {
			t.Fatal(err)
		}
		x.publish(protocol.FleetTopic(protocol.FleetName(v.fleet), protocol.ChannelRing), bytes.Join(append(parts, ring), []byte("\n")), true)
	}
	_, argv := v.witness()
	spec, id := encoded(t, protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command(argv...)}), x.fresh()
	x.refused(t, "by approvers of its own", "not_approved", id, spec, x.approve(t, x.self(id), spec, nil, mallory, eve))
	if n := x.host.ring(t); n != held {
		t.Errorf("%s holds ring %d, %d before", x.id, n, held)
	}
}

// audited checks that the host has written down what it refused, and why.
func (x *heist) audited(t *testing.T) {
	x.host.agent.end(t, term)
	db, err := sqldb.Open(t.Context(), sqldb.Config{Path: x.host.path("queue.db"), ApplicationID: 0x48737441, Migrations: os.DirFS("../agent/queue/schema")})
	if err != nil {
		t.Fatal(err)
	}
	log := make(map[string]bool)
	err = db.View(t.Context(), func(tx *sqldb.Tx) error {
		for row, err := range tx.Query(`SELECT record FROM audit`) {
			if err != nil {
				return err
			}
			var raw []byte
			if err := row.Scan(&raw); err != nil {
				return err
			}
			var r struct {
				Verb, Object string
				Detail       map[string]any
			}
			if err := json.Unmarshal(raw, &r); err != nil {
				return err
			}
			if r.Verb == "action.refuse" && r.Detail["why"] != "" && r.Detail["requester"] != "" {
				log[r.Object] = true
			}
			if id, err := protocol.ParseActionID(r.Object); err == nil && x.spent[id] != "" && (r.Verb == "action.start" || r.Verb == "action.accept") {
				t.Errorf("%s: on record is %s", x.spent[id], r.Verb)
			}
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for id, how := range x.spent {
		if x.began(x.id, id) {
			t.Errorf("%s has begun", how)
		}
		if !log[id.String()] && !strings.Contains(how, "past all that waits") {
			t.Errorf("%s: its refusal is not on record", how)
		}
	}
	x.host.startAlone(t)
}

// TestStolenCoordinatorKeys gives a copy of the coordinator's whole state to a
// thief, first to use with the built programs, then by whatever its keys can say.
// Of what the hosts' policies reserve nothing runs; each attempt is refused under
// its code and is on record on the host. When the owners have put the coordinator
// back, what two persons approve runs once.
func TestStolenCoordinatorKeys(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	id := show[api.Container](t, v.world, "ct", "show", "edge-02/web").CTID
	target, err := protocol.ParseCTID(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("with the built programs", v.byHand)
	t.Run("joined anew", func(t *testing.T) { v.again(t, "edge-13") })

	v.coordinator.end(t, kill)
	h := newThief(t, v.world)
	for _, host := range []*host{v.file, v.signed} {
		t.Run(host.name, func(t *testing.T) {
			x := &heist{thief: h, v: v, host: host, id: protocol.HostID(host.name), spent: make(map[protocol.ActionID]string)}
			h.met(t, x.id)
			ping := x.fresh()
			h.push(x.id, protocol.StreamOrder, protocol.OrderItem{Action: ping, Spec: encoded(t, protocol.Spec{Kind: protocol.KindPing}), Requester: "ann"})
			if r := h.told(t, x.id, ping); r.State != protocol.StateDone {
				t.Fatalf("the thief is not heard: %s %s", r.State, r.Detail) // so nothing below would mean anything
			}
			code := "not_approved"
			if host == v.file {
				code = "bad_policy"
			}
			x.everyKind(t, target)
			x.forge(t)
			x.policies(t, code)
			x.rings(t)
			x.spend(t)
			x.swap(t)
			x.audited(t)
		})
	}
	v.untouched(t)
	h.stop()

	// The owners give the coordinator another key.
	request := field(t, v.coordinatorCommand(t, "recover", "--force"), "request")
	v.must(t, "fleet", "ring", "replace-coordinator", request, "--out", v.path("ring-next"))
	v.coordinatorCommand(t, "recover", "--ring", v.path("ring-next"))
	from := v.events.mark()
	v.startCoordinator(t)
	v.file.online(t, from)
	v.signed.online(t, from)
	if c := show[api.Container](t, v.world, "ct", "show", "edge-02/web"); c.State != "running" {
		t.Errorf("the container is %s", c.State)
	}
	for _, host := range []string{"edge-01", "edge-02"} {
		right := v.path("right-" + host)
		id := v.submit(t, host, "sh", "-c", "echo done >>"+right)
		v.state(t, id, "PENDING_APPROVE")
		for _, person := range []string{"ann", "bob"} {
			v.cli(t, "action", "approve", id, "--yes", "--key", person).exits(t, 0)
		}
		v.done(t, id)
		if got := read(t, right); got != "done\n" {
			t.Errorf("what is right has left %q", got)
		}
	}
	v.untouched(t)
}
