package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/data"
	"github.com/hostler-io/hostler/protocol/fresh"
	"github.com/hostler-io/hostler/protocol/hostcmd"
	"github.com/hostler-io/hostler/protocol/setting"
)

// reserved lets nobody do anything but ping without two of three persons.
const reserved = `version = 1
[[rule]]
kinds = ["host.ping"]
[[rule]]
kinds = ["*"]
approvals = 2
by = ["alice", "bob", "carol"]
`

// wishes has what a thief wants of each kind: one that is reserved.
func wishes(t *testing.T, r *realm) map[protocol.Kind]protocol.Spec {
	all := map[protocol.Kind]protocol.Spec{
		protocol.KindRun:    command("true"),
		protocol.KindExec:   {Kind: protocol.KindExec, Target: ctid(1), Args: protocol.Command("true")},
		protocol.KindCreate: creation(2, true),
		protocol.KindStart:  on(protocol.KindStart, 1),

		protocol.KindHostPush:            {Kind: protocol.KindHostPush, Args: &protocol.PushArgs{Files: &protocol.FileArgs{Paths: []string{"/etc/hostler/policy.toml"}, Mode: "0644"}}},
		protocol.KindHostPull:            {Kind: protocol.KindHostPull, Args: &protocol.PullArgs{Files: &protocol.FileArgs{Paths: []string{"/etc/shadow"}}}},
		protocol.KindContainerPush:       {Kind: protocol.KindContainerPush, Target: ctid(1), Args: &protocol.PushArgs{Files: &protocol.FileArgs{Paths: []string{"/etc/passwd"}, Mode: "0644"}}},
		protocol.KindContainerPull:       {Kind: protocol.KindContainerPull, Target: ctid(1), Args: &protocol.PullArgs{Files: &protocol.FileArgs{Paths: []string{"/etc/shadow"}}}},
		protocol.KindHostUpgrade:         {Kind: protocol.KindHostUpgrade, Args: &protocol.UpgradeArgs{Version: "9.9.9"}},
		protocol.KindHostDrill:           {Kind: protocol.KindHostDrill, Args: &protocol.DrillArgs{Fault: protocol.FaultStopAgent, ForMS: 900_000}},
		protocol.KindHostFence:           {Kind: protocol.KindHostFence, Args: &protocol.FenceArgs{Fence: data.Fence{Device: "pdu-1", Verb: "off", Host: "edge-07"}}},
		protocol.KindImageList:           {Kind: protocol.KindImageList, Args: new(protocol.ExportArgs)},
		protocol.KindImagePull:           {Kind: protocol.KindImagePull, Args: &protocol.ImagePullArgs{ImagePull: hostcmd.ImagePull{Image: "registry.example/evil:1"}}},
		protocol.KindImageRemove:         {Kind: protocol.KindImageRemove, Args: &protocol.ImageRemoveArgs{ImageRemove: hostcmd.ImageRemove{Image: "registry.example/debian:12"}}},
		protocol.KindImagePrune:          {Kind: protocol.KindImagePrune, Args: new(protocol.ImagePruneArgs)},
		protocol.KindHostMetrics:         {Kind: protocol.KindHostMetrics, Args: &protocol.MetricsArgs{Metrics: hostcmd.Metrics{SinceMS: 60_000}}},
		protocol.KindHostAudit:           {Kind: protocol.KindHostAudit, Args: new(protocol.ExportArgs)},
		protocol.KindHostCheck:           {Kind: protocol.KindHostCheck, Args: new(protocol.ExportArgs)},
		protocol.KindStop:                on(protocol.KindStop, 1),
		protocol.KindDestroy:             on(protocol.KindDestroy, 1),
		protocol.KindRestart:             on(protocol.KindRestart, 1),
		protocol.KindReset:               on(protocol.KindReset, 1),
		protocol.KindSet:                 {Kind: protocol.KindSet, Target: ctid(1), Args: &protocol.SetArgs{Change: contract.Change{Offline: "stop-after=2h"}}},
		protocol.KindLimit:               {Kind: protocol.KindLimit, Target: ctid(1), Args: &protocol.LimitArgs{Set: []string{"memory=none"}}},
		protocol.KindNetworkList:         {Kind: protocol.KindNetworkList, Args: new(protocol.ExportArgs)},
		protocol.KindNetworkCreate:       {Kind: protocol.KindNetworkCreate, Args: &protocol.NetworkArgs{Network: "evil"}},
		protocol.KindNetworkRemove:       {Kind: protocol.KindNetworkRemove, Args: &protocol.NetworkRemoveArgs{Network: "back"}},
		protocol.KindNetworkCleanup:      {Kind: protocol.KindNetworkCleanup, Args: new(protocol.ExportArgs)},
		protocol.KindExpose:              {Kind: protocol.KindExpose, Target: ctid(1), Args: &protocol.PortArgs{Ports: []string{"22:22"}}},
		protocol.KindUnexpose:            {Kind: protocol.KindUnexpose, Target: ctid(1), Args: &protocol.PortArgs{Ports: []string{"22/tcp"}}},
		protocol.KindInspect:             {Kind: protocol.KindInspect, Target: ctid(1), Args: new(protocol.ExportArgs)},
		protocol.KindLogs:                {Kind: protocol.KindLogs, Target: ctid(1), Args: &protocol.LogsArgs{Logs: hostcmd.Logs{Tail: 1}}},
		protocol.KindFreeze:              on(protocol.KindFreeze, 1),
		protocol.KindUnfreeze:            on(protocol.KindUnfreeze, 1),
		protocol.KindRename:              {Kind: protocol.KindRename, Target: ctid(1), Args: &protocol.RenameArgs{NewName: "stolen"}},
		protocol.KindClone:               {Kind: protocol.KindClone, Target: ctid(2), Name: "ct-2", Args: &protocol.CloneArgs{Clone: data.Clone{Source: ctid(1).String(), SourceName: "ct-1"}}},
		protocol.KindStopNow:             on(protocol.KindStopNow, 1),
		protocol.KindBackup:              {Kind: protocol.KindBackup, Target: ctid(1), Args: &protocol.NewBackupArgs{NewBackup: data.NewBackup{BackupName: data.BackupName{Backup: "b"}}}},
		protocol.KindRestore:             {Kind: protocol.KindRestore, Target: ctid(2), Name: "ct-2", Args: &protocol.RestoreArgs{Restore: data.Restore{BackupName: data.BackupName{Backup: "b"}}}},
		protocol.KindBackupList:          {Kind: protocol.KindBackupList, Args: new(protocol.ExportArgs)},
		protocol.KindBackupVerify:        {Kind: protocol.KindBackupVerify, Args: &protocol.BackupArgs{BackupName: data.BackupName{Backup: "b"}}},
		protocol.KindBackupRemove:        {Kind: protocol.KindBackupRemove, Args: &protocol.BackupArgs{BackupName: data.BackupName{Backup: "b"}}},
		protocol.KindBackupExport:        {Kind: protocol.KindBackupExport, Args: &protocol.BackupExportArgs{BackupExport: data.BackupExport{BackupName: data.BackupName{Backup: "b"}}}},
		protocol.KindBackupImport:        {Kind: protocol.KindBackupImport, Args: &protocol.BackupImportArgs{BackupName: data.BackupName{Backup: "b"}}},
		protocol.KindPromote:             {Kind: protocol.KindPromote, Target: ctid(1), Args: &protocol.PromoteArgs{NewImage: data.NewImage{Image: "web:1"}}},
		protocol.KindDemote:              {Kind: protocol.KindDemote, Target: ctid(2), Name: "ct-2", Args: &protocol.DemoteArgs{Demotion: data.Demotion{Image: "localhost/web:1"}}},
		protocol.KindSnapshot:            {Kind: protocol.KindSnapshot, Target: ctid(1), Args: &protocol.SnapshotArgs{NewSnapshot: data.NewSnapshot{SnapshotName: data.SnapshotName{Snapshot: "s"}, Pause: true}}},
		protocol.KindRollback:            {Kind: protocol.KindRollback, Target: ctid(1), Args: &protocol.RollbackArgs{Rollback: data.Rollback{SnapshotName: data.SnapshotName{Snapshot: "s"}, Restart: true}}},
		protocol.KindSnapshotRemove:      {Kind: protocol.KindSnapshotRemove, Target: ctid(1), Args: &protocol.SnapshotRemoveArgs{SnapshotName: data.SnapshotName{Snapshot: "s"}}},
		protocol.KindSnapshotPrune:       {Kind: protocol.KindSnapshotPrune, Target: ctid(1), Args: &protocol.SnapshotPruneArgs{Retention: data.Retention{KeepDaily: 1}}},
		protocol.KindContainerUpgrade:    {Kind: protocol.KindContainerUpgrade, Target: ctid(1), Args: &protocol.ContainerUpgradeArgs{Upgrade: setting.Upgrade{Image: "registry.example/evil:1"}}},
		protocol.KindConfig:              {Kind: protocol.KindConfig, Target: ctid(1), Args: &protocol.ConfigArgs{Set: []string{"limit.memory"}}},
		protocol.KindImageExport:         {Kind: protocol.KindImageExport, Args: &protocol.ImageExportArgs{ImageRemove: hostcmd.ImageRemove{Image: "localhost/web:1"}}},
		protocol.KindImageImport:         {Kind: protocol.KindImageImport, Args: &protocol.ImageImportArgs{}},
		protocol.KindImageImportUnsigned: {Kind: protocol.KindImageImportUnsigned, Args: &protocol.ImageImportUnsignedArgs{ImageImportUnsigned: hostcmd.ImageImportUnsigned{NewImage: data.NewImage{Image: "evil:1"}}}},
		protocol.KindVolumeList:          {Kind: protocol.KindVolumeList, Args: new(protocol.ExportArgs)},
		protocol.KindVolumeRemove:        {Kind: protocol.KindVolumeRemove, Args: &protocol.VolumeArgs{Volume: "data"}},
		protocol.KindAdopt:               {Kind: protocol.KindAdopt, Target: ctid(2), Name: "ct-2"},

		protocol.KindAttach:          {Kind: protocol.KindAttach, Args: &protocol.SessionArgs{TTY: &protocol.TTY{Rows: 24, Cols: 80}}},
		protocol.KindContainerAttach: {Kind: protocol.KindContainerAttach, Target: ctid(1), Args: &protocol.SessionArgs{TTY: &protocol.TTY{Rows: 24, Cols: 80}}},
	}
	if err := json.Unmarshal(r.policySpec(9, open, "coordinator"), new(protocol.Spec)); err != nil {
		t.Fatal(err)
	}
	for _, k := range protocol.Kinds() {
		s, ok := all[k]
		if !ok && k != protocol.KindPing && k != protocol.KindPolicySet {
			t.Errorf("a thief would want %s too: say what of it", k)
		}
		if ok {
			if _, err := protocol.DecodeSpec(specOf(s)); err != nil {
				t.Errorf("%s: %s", k, err)
			}
		}
	}
	return all
}

// thief has whatever a coordinator has: its key, so every message downwards; its
// database, so every approval that was ever given to it; and its clock.
type thief struct {
	t *testing.T
	w *world
	r *realm
	n int
	// tried are the actions that must not begin, and how they were asked for.
	tried map[protocol.ActionID]string
}

func (h *thief) id() protocol.ActionID {
	h.n++
	return protocol.NewActionID(int64(h.n), [10]byte{0xbb, byte(h.n), byte(h.n >> 8)})
}

// order sends one and remembers it.
func (h *thief) order(how string, id protocol.ActionID, spec []byte, approvals []protocol.OrderApproval) {
	h.tried[id] = how
	h.w.coord.orderApproved(id, spec, approvals)
}

// TestStolenCoordinator: whoever has the coordinator's keys, database and clock
// runs nothing that a host's policy reserves, and gets no other policy into
// force: by no kind, no control, no ring and no new beginning.
func TestStolenCoordinator(t *testing.T) {
	for _, clock := range []string{"right", "1970", "2106"} {
		t.Run("clock "+clock, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { steal(t, clock) })
		})
	}
}

func steal(t *testing.T, clock string) {
	r := newRealm(t)
	w := newWorld(t, r.tune(nil))
	defer w.end()
	w.coord.see(func() { w.coord.key, w.coord.ring = r.coordinator, r.ring })
	w.line.breaks(false)
	w.pass(3 * time.Second)
	// A good life: a container, then the owners' policy, then one approved command.
	must(w.agent.Propose(t.Context(), actionID(1), specOf(creation(1, true)), agent.LocalRoot))
	w.coord.orderApproved(actionID(2), r.policySpec(4, reserved, "olga", "oscar"), nil)
	w.pass(10 * time.Second)
	run := specOf(command("true"))
	used := r.approve(actionID(3), run, nil, "alice", "bob")
	expired := r.approve(actionID(4), run, nil, "alice", "bob")
	early := r.approve(actionID(5), run, func(a *protocol.Approval) { a.NotBeforeMS += 1000; a.ExpiresMS += 1000 }, "alice", "bob")
	w.coord.orderApproved(actionID(3), run, used)
	w.pass(2 * time.Hour)
	w.coord.orderApproved(actionID(6), run, r.approve(actionID(6), run, nil, "carol", "bob"))
	w.pass(time.Second)
	w.expect(actionID(3), "succeed DONE ok")
	w.expect(actionID(6), "succeed DONE ok")
	if w.state(1) != container.StateRunning {
		t.Fatalf("the container is %s", w.state(1))
	}

	h := &thief{t: t, w: w, r: r, tried: map[protocol.ActionID]string{}}
	w.down()
	w.tune = func(c *agent.Config) {
		r.tune(nil)(c)
		switch clock {
		case "1970":
			c.Now = func() time.Time { return time.Unix(60, 0) }
		case "2106":
			c.Now = func() time.Time { return time.Unix(1<<32, 0) }
		}
	}
	w.up()
	w.pass(5 * time.Second)
	begun := w.commandsBegun()

	h.forgeApprovals(run, expired, early)
	h.askEveryKind()
	h.forgePolicies()
	h.forgeRings(run)
	h.spell(run)
	w.restart()
	w.pass(5 * time.Second)
	h.askEveryKind()
	h.beginAnew(run, used)

	h.judge(1)
	for id, how := range h.tried {
		act, err := w.agent.Action(t.Context(), id)
		if err == nil && (act.State != protocol.StateFailed || act.Attempt != 0) && act.State != protocol.StateCancelled {
			t.Errorf("%s: it is %s (%s)", how, act.State, act.Detail)
		}
	}
	if n := w.commandsBegun(); n != begun {
		t.Errorf("%d commands were begun", n-begun)
	}
	s := must(w.agent.Status(t.Context()))
	if s.Policy.Number != 4 || s.Policy.Digest != protocol.Sum([]byte(reserved)) || s.Policy.Broken != "" {
		t.Errorf("the policy is %+v", s.Policy)
	}
	infos := must(w.lxc.List(context.Background()))
	if len(infos) != 1 || infos[0].Name != "ct-1" || infos[0].State != container.StateRunning {
		t.Errorf("the containers are %+v", infos)
	}
}

// judge looks at what the host has told of what was tried.
func (h *thief) judge(least int) {
	heard := 0
	for id, how := range h.tried {
		told := strings.Join(h.w.coord.told(id), ", ")
		if strings.Contains(told, "RUNNING") || strings.Contains(told, "DONE") {
			h.t.Errorf("%s: the host tells %s", how, told)
		}
		if told != "" {
			heard++
		}
	}
	if heard < least {
		h.t.Errorf("the host tells of %d of %d attempts only", heard, len(h.tried))
	}
}

func (w *world) commandsBegun() int {
	w.cmds.mu.Lock()
	defer w.cmds.mu.Unlock()
	return w.cmds.begun
}

// forgeApprovals tries what is in the database, and what the coordinator's key
// can sign.
func (h *thief) forgeApprovals(run []byte, expired, early []protocol.OrderApproval) {
	r := h.r
	h.order("expired", actionID(4), run, expired)
	h.order("not before it was signed, and expired", actionID(5), run, early)
	alone := h.id()
	h.order("one person by two keys", alone, run, r.approve(alone, run, nil, "alice", "alice 2"))
	once := h.id()
	h.order("one person twice", once, run, append(r.approve(once, run, nil, "alice"), r.approve(once, run, nil, "alice")...))
	own := h.id()
	h.order("its own key", own, run, r.approve(own, run, nil, "alice", "coordinator"))
	owners := h.id()
	h.order("owners who approve nothing", owners, run, r.approve(owners, run, nil, "olga", "oscar"))
	another := h.id()
	h.order("for another action", another, run, r.approve(h.id(), run, nil, "alice", "bob"))
	elsewhere := h.id()
	targets := must(protocol.NewTargets(protocol.Target{Host: "edge-08", Action: elsewhere}, protocol.Target{Host: "edge-09", Action: elsewhere}))
	given := r.approveFor(targets, elsewhere, run, nil, "alice", "bob")
	h.order("for other hosts", elsewhere, run, given)
	for i := range given {
		given[i].Index, given[i].Path = 1, targets.Path(1)
	}
	spec := specOf(command("true"))
	other := h.id()
	h.order("for another user", other, spec, r.approve(other, []byte(strings.Replace(string(spec), `"kind"`, `"user":"65534","kind"`, 1)), nil, "alice", "bob"))
	stdin := h.id()
	h.order("for the same without a payload", stdin, []byte(strings.Replace(string(spec), `}`, `,"stdin_sha256":"`+protocol.Sum(spec).String()+`","stdin_bytes":5}`, 1)), r.approve(stdin, spec, nil, "alice", "bob"))
	target := h.id()
	a, b := on(protocol.KindDestroy, 9), on(protocol.KindDestroy, 1)
	h.order("for another container", target, specOf(b), r.approve(target, specOf(a), nil, "alice", "bob"))
	later := h.id()
	h.order("for later", later, run, r.approve(later, run, func(a *protocol.Approval) {
		a.NotBeforeMS = 1 << 45
		a.IssuedMS = a.NotBeforeMS
		a.ExpiresMS = a.IssuedMS + 1
	}, "coordinator", "olga"))
	many := h.id()
	h.order("a crowd of forgeries", many, run, r.approve(many, run, nil, "coordinator", "alice", "coordinator", "alice 2", "olga", "oscar"))
	h.w.pass(2 * time.Second)
}

// askEveryKind asks for each kind by order and by control, and for the end and
// the story of everything.
func (h *thief) askEveryKind() {
	for kind, s := range wishes(h.t, h.r) {
		id := h.id()
		h.order("order "+string(kind), id, specOf(s), nil)
		preempt := h.id()
		h.tried[preempt] = "preempt " + string(kind)
		item := protocol.OrderItem{Action: preempt, Spec: specOf(s), Requester: "root"}
		h.w.coord.push(protocol.StreamControl, protocol.ControlItem{Verb: protocol.VerbPreempt, Order: &item})
		h.w.coord.push(protocol.StreamControl, protocol.ControlItem{Verb: protocol.VerbTell, IDs: []protocol.ActionID{id, preempt}})
	}
	for _, requester := range []string{agent.LocalRoot, "admin", "alice"} {
		id := h.id()
		h.tried[id] = "in the name of " + requester
		h.w.coord.push(protocol.StreamOrder, protocol.OrderItem{Action: id, Spec: specOf(command("true")), Requester: requester})
	}
	h.w.coord.cancel(actionID(2))
	h.w.coord.cancel(actionID(1))
	h.w.pass(2 * time.Second)
}

// forgePolicies tries to loosen the policy.
func (h *thief) forgePolicies() {
	r := h.r
	forHost := func(number uint64, hosts ...protocol.HostID) protocol.PolicyDocument {
		return protocol.PolicyDocument{Type: protocol.TypePolicy, Fleet: fleet, Number: number, Policy: protocol.Sum([]byte(open)), Hosts: hosts, IssuedMS: 1, Ring: 1}
	}
	otherText := r.policySpec(9, reserved, "olga", "oscar")
	for how, spec := range map[string][]byte{
		"its own signature":          r.policySpec(9, open, "coordinator"),
		"one owner":                  r.policySpec(9, open, "olga"),
		"one owner and itself":       r.policySpec(9, open, "olga", "coordinator"),
		"one approver":               r.policySpec(9, open, "alice", "alice 2"),
		"an older one of the owners": r.policySpec(3, open, "olga", "oscar"),
		"another of that number":     r.policySpec(4, open, "olga", "oscar"),
		"that of other hosts":        r.policySpecOf(forHost(9, "edge-08"), open, "olga", "oscar"),
		"signatures for another":     bytes.Replace(otherText, must(json.Marshal([]byte(reserved))), must(json.Marshal([]byte(open))), 1),
		"approvals for signatures":   must(json.Marshal(protocol.Spec{Kind: protocol.KindPolicySet, Args: &protocol.PolicyArgs{Policy: []byte(open), Signed: [][]byte{r.approve(actionID(3), specOf(command("true")), nil, "alice")[0].Signed}}})),
	} {
		id := h.id()
		h.order("policy by "+how, id, spec, r.approve(id, spec, nil, "alice"))
	}
	h.w.pass(2 * time.Second)
}

// forgeRings tries to become an approver, and to take rights away from those who
// could stop it.
func (h *thief) forgeRings(run []byte) {
	r := h.r
	r.people["mallory"] = must(certs.Generate("mallory", time.Now()))
	r.people["mallory 2"] = must(certs.Generate("mallory 2", time.Now()))
	next := r.keys.Chain().Next()
	for _, name := range []string{"mallory", "mallory 2"} {
		if err := next.AddPersonKey("alice", r.people[name].PublicKey()); err != nil {
			h.t.Fatal(err)
		}
	}
	next.Threshold = 1
	for _, by := range [][]protocol.Signer{{r.coordinator}, {r.people["mallory"], r.coordinator}, {r.owners[0]}, {r.owners[0], r.coordinator}} {
		forged := must(certs.SignRing(next, by...))
		h.w.line.deliver(protocol.FleetTopic(fleetName, protocol.ChannelRing).String(), bytes.Join([][]byte{r.rings[0], forged}, []byte("\n")))
		h.w.pass(2 * time.Second)
	}
	own := must(certs.NewFleet(fleet, fleetName, "mallory", r.people["mallory"].PublicKey()))
	h.w.line.deliver(protocol.FleetTopic(fleetName, protocol.ChannelRing).String(), must(certs.SignRing(own, r.people["mallory"])))
	h.w.pass(2 * time.Second)
	if r.Ring() != 1 {
		h.t.Errorf("ring %d is in force", r.Ring())
	}
	id := h.id()
	h.order("approvers of a forged ring", id, run, r.approve(id, run, nil, "mallory", "mallory 2"))
	h.w.coord.see(func() { h.w.coord.claims = 2 })
	ahead := h.id()
	h.order("a ring that nobody has", ahead, run, r.approve(ahead, run, func(a *protocol.Approval) { a.Ring = 2 }, "mallory", "mallory 2"))
	h.w.pass(2 * time.Minute)
	h.w.coord.see(func() { h.w.coord.claims = 0 })
	carol := h.id()
	list := certs.Revocations{Type: protocol.TypeRevoked, Fleet: fleet, Number: 7, Keys: []protocol.KeyID{r.people["carol"].Key()}}
	h.w.line.deliver(protocol.FleetTopic(fleetName, protocol.ChannelRevoked).String(), must(list.Seal(r.coordinator)))
	h.w.pass(2 * time.Second)
	h.order("an approver whose right was taken", carol, run, r.approve(carol, run, nil, "alice", "carol"))
	h.w.pass(2 * time.Second)
}

// spell says the same in other words: names in another case, members twice,
// fingerprints in small letters.
func (h *thief) spell(run []byte) {
	r := h.r
	for how, spec := range map[string]string{
		"two kinds":               `{"kind":"host.ping","kind":"host.run","argv":["true"]}`,
		"a kind in another case":  `{"kind":"host.ping","Kind":"host.run","argv":["true"]}`,
		"a kind in another case ": `{"KIND":"host.run","kind":"host.ping","argv":["true"]}`,
		"a word in another case":  `{"kind":"Host.Run","argv":["true"]}`,
		"a member unknown":        `{"kind":"host.ping","argv2":["true"]}`,
		"a ping with a command":   `{"kind":"host.ping","argv":["true"]}`,
	} {
		h.order("spec with "+how, h.id(), []byte(spec), nil)
	}
	good := r.approve(actionID(60), run, nil, "alice", "bob")
	for how, edit := range map[string]func(b []byte) []byte{
		"the key in small letters": func(b []byte) []byte { return append(append(b[:14:14], bytes.ToLower(b[14:54])...), b[54:]...) },
		"a digest changed":         func(b []byte) []byte { return bytes.Replace(b, []byte(`"spec":"`), []byte(`"spec":"0`), 1) },
		"a member in another case": func(b []byte) []byte { return bytes.Replace(b, []byte(`"spec"`), []byte(`"Spec"`), 1) },
		"a second member": func(b []byte) []byte {
			return bytes.Replace(b, []byte(`,"ring"`), []byte(`,"expires_ms":9999999999999,"ring"`), 1)
		},
		"a later end": func(b []byte) []byte { return bytes.Replace(b, []byte(`"expires_ms":9`), []byte(`"expires_ms":99`), 1) },
		"the names exchanged": func(b []byte) []byte {
			return bytes.Replace(b, []byte(r.people["bob"].Key().String()), []byte(r.people["carol"].Key().String()), 1)
		},
	} {
		h.order("approval with "+how, h.id(), run, []protocol.OrderApproval{good[0], {Signed: edit(bytes.Clone(good[1].Signed)), Index: good[1].Index, Path: good[1].Path}})
	}
	id := h.id()
	h.order("a path of another place", id, run, []protocol.OrderApproval{{Signed: good[0].Signed, Index: 1, Path: good[0].Path}, {Signed: good[1].Signed, Index: 1, Path: bytes.Repeat([]byte{1}, 32)}})
	h.w.pass(2 * time.Second)
}

// beginAnew makes the host forget: a new term and store, and a new memory as after
// a new enrolment, which root was talked into.
func (h *thief) beginAnew(run []byte, used []protocol.OrderApproval) {
	renew := func(store byte, memory bool) {
		h.w.coord.see(func() {
			h.w.coord.term.Counter++
			h.w.coord.store = protocol.StoreID{store}
			h.w.coord.reset()
			if memory {
				h.w.coord.gate, h.w.coord.heard = fresh.HostGate{}, protocol.Seq{}
				h.w.coord.have = make(map[protocol.Stream]protocol.Position)
			}
		})
	}
	h.w.down()
	renew(8, false)
	h.w.up()
	h.w.pass(5 * time.Second)
	h.askEveryKind()
	h.w.coord.orderApproved(actionID(3), run, used) // the record of it is told again
	h.w.pass(2 * time.Second)
	h.w.down()
	q := must(queue.Create(context.Background(), queue.Config{Path: h.w.path + ".anew"}, protocol.StoreID{2}))
	renew(7, true)
	h.w.run(q)
	h.w.pass(5 * time.Second)
	h.used(run, used)
}

// used tries an approval that was used by an action that is forgotten.
func (h *thief) used(run []byte, used []protocol.OrderApproval) {
	h.judge(len(h.tried) - 3) // items that nobody can read have no action
	h.w.coord.see(func() { h.w.coord.reports = nil })
	h.order("used before the memory began", actionID(3), run, used)
	h.askEveryKind()
	h.forgePolicies()
	if len(h.w.coord.told(actionID(3))) == 0 {
		h.t.Error("the host hears nothing any more")
	}
}
