//go:build integration && hostlertest

package integration

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/podmantest"
	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/data"
)

// strike is how a step is passed: whose point is armed, and what is done then.
type strike struct {
	step failpoint.Step
	at   *victim
	// pass does what passes the step, and goes on until it is done although
	// somebody dies on the way. It is called twice: for the points before and
	// after the step.
	pass func(t *testing.T)
}

// group is a world of its own, in which some of the steps are passed.
type group struct {
	name  string
	steps []failpoint.Step
	run   func(t *testing.T)
}

// groups are all of them.
func groups() []group {
	return []group{
		{"commands", []failpoint.Step{"A1", "A2", "A3", "A4", "A5", "A6", "A9", "A10", "A15", "A18", "S1", "S2", "S3", "S4", "S6", "S7"}, commandPoints},
		{"containers", []failpoint.Step{"A7", "S5", "S8", "S9", "S10", "S11", "S12", "S14", "S15", "S16", "S18", "S19", "S41", "S42", "S43", "S51", "S52", "S54", "S55", "S56"}, containerPoints},
		{"shared containers", []failpoint.Step{"S5", "S8", "S9", "S10", "S11", "S12", "S14", "S15", "S16", "S41", "S42", "S43", "S51"}, sharedPoints},
		{"transfers", []failpoint.Step{"A14", "C19", "S17"}, transferPoints},
		{"workloads", []failpoint.Step{"C45"}, workloadPoints},
		{"fences", []failpoint.Step{"C46", "C47"}, fencePoints},
		{"ports", []failpoint.Step{"A33", "A34", "A35"}, portPoints},
		{"upgrades", []failpoint.Step{"A21", "A22", "A23"}, upgradePoints},
		{"burials", []failpoint.Step{"A11", "S13"}, burialPoints},
		{"coordinator", []failpoint.Step{"C1", "C2", "C3", "C4", "C5", "C9", "C10", "C11", "C12", "C13", "C15", "C16", "C17", "F3"}, coordinatorPoints},
		{"approvals", []failpoint.Step{"C20"}, approvalPoints},
		{"pruning", []failpoint.Step{"C18"}, pruningPoints},
		{"removing", []failpoint.Step{"C21", "C23"}, removingPoints},
		{"enrolment", []failpoint.Step{"A8", "A12", "A13", "C6", "C7", "F1", "F2"}, enrolmentPoints},
		{"replacement", []failpoint.Step{"C24"}, replacementPoints},
		{"backups", []failpoint.Step{"S44", "S61"}, backupPoints},
		{"podman", []failpoint.Step{"A7", "S41", "S42", "S43", "S51", "S52", "S54"}, podmanPoints},
		{"exchanges", []failpoint.Step{"A7", "S57", "S58", "S59"}, exchangePoints},
		{"exchanges of podman", []failpoint.Step{"A7", "S57", "S58", "S59", "S60"}, podmanExchangePoints},
		{"rules", []failpoint.Step{"A16", "C14", "C25", "C26", "C29", "C30"}, rulePoints},
		{"notifications", []failpoint.Step{"C27", "C28"}, noticePoints},
		{"first steps", []failpoint.Step{"C8"}, initPoints},
		{"recovery", []failpoint.Step{"C31", "C32", "C33", "C34", "C35", "C36"}, recoveryPoints},
	}
}

// TestEveryPoint kills the built programs at each point of the crash table.
func TestEveryPoint(t *testing.T) {
	var passed []failpoint.Step
	for _, g := range groups() {
		passed = append(passed, g.steps...)
	}
	for _, s := range failpoint.Steps() {
		if !slices.Contains(passed, s) {
			t.Errorf("no group passes step %s", s)
		}
	}
	for _, g := range groups() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			g.run(t)
		})
	}
}

// strikes kills at both points of each step, in turn, and then judges.
func (c *wreck) strikes(t *testing.T, all ...strike) {
	t.Helper()
	for _, s := range all {
		for _, point := range []string{s.step.Before(), s.step.After()} {
			t.Run(point, func(t *testing.T) { c.strike(t, s.at, point, 1, func() { s.pass(t) }) })
		}
	}
	c.judge(t)
}

// strike arms a point for its nth hit, lets it be passed and starts again who has
// died there.
func (c *wreck) strike(t *testing.T, at *victim, point string, nth int, pass func()) {
	t.Helper()
	at.arm(t, point, nth)
	struck, done := make(chan struct{}), make(chan struct{})
	go func() { // waited for below
		defer close(done)
		for {
			pass()
			select {
			case <-struck:
				return
			default: // some steps are not taken each time
			}
		}
	}()
	pid := at.hit(t, point, patience)
	if pid == 0 {
		t.Errorf("nobody came to %s", point)
	}
	at.revive(t)
	close(struck)
	<-done
}

func commandPoints(t *testing.T) {
	c := newWreck(t)
	l := c.newLimb(t, "edge-01", false)
	write(t, l.config(), read(t, l.config())+"[commands]\nparallel = 2\n")
	p, words := l.join(t, c.invite(t))
	c.must(t, "host", "approve", "edge-01", "--words", words)
	p.finish(t).exits(t, 0)
	l.revive(t)

	run := func(t *testing.T) { c.end(t, l, c.runs(t, l, "0")) }
	queued := func(t *testing.T) {
		ids := []protocol.ActionID{c.runs(t, l, "0.3"), c.runs(t, l, "0.3"), c.runs(t, l, "0"), c.runs(t, l, "0")}
		for _, id := range ids {
			c.end(t, l, id)
		}
	}
	strikes := []strike{
		{"A1", l.victim, func(t *testing.T) { c.comeBack(t, l) }},
		{"A3", l.victim, queued},
		{"A6", l.victim, func(t *testing.T) { c.cancelled(t, l) }},
		{"A9", l.victim, func(t *testing.T) { c.asked(t, l, l.victim) }},
		{"A10", l.victim, func(t *testing.T) { c.head.restart(t); run(t) }},
		{"A15", l.victim, func(t *testing.T) { c.newPolicy(t, l) }},
		{"A18", l.victim, func(t *testing.T) { c.comeBack(t, l) }}, // the coordinator is heard
	}
	for _, s := range []failpoint.Step{"A2", "A4", "A5", "S1", "S2", "S3", "S4", "S6", "S7", "F3"} {
		strikes = append(strikes, strike{s, l.victim, run})
	}
	for _, point := range []string{failpoint.PolicyKept.Before(), failpoint.PolicyKept.After()} {
		t.Run(point+", second", func(t *testing.T) { // its date is kept before
			c.strike(t, l.victim, point, 2, func() { c.newPolicy(t, l) })
		})
	}
	c.strikes(t, strikes...)
	c.policiesAudited(t, l)
}

// policiesAudited checks that the host has written down who signed each of the
// policies that came into force, and once.
func (c *wreck) policiesAudited(t *testing.T, l *limb) {
	t.Helper()
	l.process().end(t, kill)
	db, err := sqldb.Open(t.Context(), sqldb.Config{Path: l.path("queue.db"), ApplicationID: 0x48737441, Migrations: os.DirFS("../agent/queue/schema")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	told := make(map[int]int)
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
				Verb   string
				Detail struct {
					Number   int
					SignedBy []string `json:"signed_by"`
				}
			}
			if err := json.Unmarshal(raw, &r); err != nil {
				return err
			}
			if r.Verb == "policy.take" && len(r.Detail.SignedBy) > 0 {
				told[r.Detail.Number]++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= c.policies; n++ {
		if told[n] != 1 {
			t.Errorf("who signed policy %d of %d is written down %d times", n, c.policies, told[n])
		}
	}
}

// newPolicy puts another policy into force, and sees that it is.
func (c *wreck) newPolicy(t *testing.T, l *limb) {
	t.Helper()
	c.policies++
	file := filepath.Join(t.TempDir(), "policy.toml")
	write(t, file, fmt.Sprintf("version = 1 # policy %d\n", c.policies))
	c.must(t, "policy", "sign", file, "--number", strconv.Itoa(c.policies), "--yes")
	c.must(t, "policy", "set", file, "edge-01")
	kept, err := filepath.Glob(l.host.dir + "/policy-*.json")
	if err != nil || len(kept) != 1 || !strings.Contains(read(t, kept[0]), fmt.Sprintf(`"number":%d,`, c.policies)) {
		t.Errorf("policy %d is not in force: %q, %v", c.policies, kept, err)
	}
}

// running waits until a command is known to run.
func (c *wreck) running(t *testing.T, l *limb, id protocol.ActionID) {
	t.Helper()
	c.insist(t, "the begin of "+id.String(), func(ctx context.Context) error {
		seen, err := c.see(ctx, id, "")
		if err == nil && seen.State != protocol.StateRunning && !seen.State.Final() {
			err = fmt.Errorf("%w: it is %s", errUnfinished, seen)
		}
		return err
	})
}

// cancelled asks for a long command and for its end.
func (c *wreck) cancelled(t *testing.T, l *limb) {
	t.Helper()
	id := c.runs(t, l, "30")
	c.running(t, l, id)
	c.cancel(t, id)
	if got := c.end(t, l, id); got.State != protocol.StateCancelled {
		t.Errorf("it was cancelled and is %s", got)
	}
}

// asked restarts the agent under a command that was acknowledged, so that the
// coordinator asks what became of it.
func (c *wreck) asked(t *testing.T, l *limb, at *victim) {
	t.Helper()
	id := c.runs(t, l, "3")
	c.running(t, l, id)
	c.comeBack(t, l)
	if got := c.end(t, l, id); got.State != protocol.StateDone {
		t.Errorf("the agent was killed under it and it is %s", got)
	}
}

func containerPoints(t *testing.T) {
	c := newWreck(t)
	l := c.addLimb(t, "edge-01", true)
	adopted := c.adopted(l, func(t *testing.T, name string) {
		c.strangerOf(t, l.host, name)
		c.tool(t, "lxc-start", "-P", l.path("lxc"), "-n", name)
	})
	c.lives(t, l, []strike{adopted, c.arrival(t, l, "busybox")}, "busybox", "A7", "S5", "S8", "S9", "S10", "S11", "S12", "S14", "S15", "S16", "S18", "S19", "S41", "S42", "S43", "S51", "S52", "S55", "S56")
}

// sharedPoints are those of containers that share the files of their image.
func sharedPoints(t *testing.T) {
	c := newWreck(t)
	l := c.addLimb(t, "edge-01", true)
	id, img := newCTID(), data.NewImage{Image: "base:1"}
	for _, s := range []protocol.Spec{
		{Kind: protocol.KindCreate, Target: id, Name: protocol.ContainerName(filepath.Base(c.dir) + "-base"), Args: &protocol.CreateArgs{Template: "busybox"}},
		{Kind: protocol.KindPromote, Target: id, Args: &protocol.PromoteArgs{NewImage: img}},
		{Kind: protocol.KindDestroy, Target: id, Args: &protocol.StopArgs{GraceMS: 100}},
	} {
		if got := c.end(t, l, c.step(t, l, s)); got.State != protocol.StateDone {
			t.Fatalf("%s is %s", s.Kind, got)
		}
	}
	number := 0
	cycle := func(t *testing.T) {
		number++
		c.cycle(t, l, img.Reference(), fmt.Sprintf("%s-h%d", filepath.Base(c.dir), number))
	}
	strikes := []strike{c.arrival(t, l, img.Reference())}
	for _, s := range []failpoint.Step{"S5", "S8", "S9", "S10", "S11", "S12", "S14", "S15", "S16", "S41", "S42", "S43", "S51"} {
		strikes = append(strikes, strike{s, l.victim, cycle})
	}
	c.strikes(t, strikes...)
}

// podmanPoints are those of an agent that changes files of containers itself.
func podmanPoints(t *testing.T) {
	c := newWreck(t)
	s := podmantest.Start(t)
	l := c.addLimb(t, "edge-01", true, "[podman]\nuse = \"on\"\nsocket = \""+s.Socket+"\"\n")
	adopted := c.adopted(l, func(t *testing.T, name string) {
		s.Podman(t, "run", "--detach", "--name", name, "--network", "none", "--interactive", podmantest.Image)
	})
	c.lives(t, l, []strike{adopted, c.arrival(t, l, podmantest.Image)}, podmantest.Image, "A7", "S41", "S42", "S43", "S51", "S52")
}

// adopted takes over containers that stranger makes.
func (c *wreck) adopted(l *limb, stranger func(t *testing.T, name string)) strike {
	number := 0
	return strike{failpoint.ContainerAdopted, l.victim, func(t *testing.T) {
		number++
		name := fmt.Sprintf("%s-o%d", filepath.Base(c.dir), number)
		stranger(t, name)
		c.sees(t, "edge-01", name, "running")
		id := newCTID()
		for _, s := range []protocol.Spec{
			{Kind: protocol.KindAdopt, Target: id, Name: protocol.ContainerName(name), Args: &protocol.AdoptArgs{Privileged: true}},
			{Kind: protocol.KindDestroy, Target: id, Args: &protocol.StopArgs{GraceMS: 100}},
		} {
			if got := c.end(t, l, c.step(t, l, s)); got.State != protocol.StateDone {
				t.Errorf("%s of %s is %s", s.Kind, name, got)
			}
		}
	}}
}

// arrival has a container come with its two snapshots. They are there when it is, and no other.
func (c *wreck) arrival(t *testing.T, l *limb, template string) strike {
	t.Helper()
	id, name := newCTID(), protocol.ContainerName(filepath.Base(c.dir)+"-a")
	backup := data.BackupName{Backup: data.MoveBackup(id.String())}
	ask := func(t *testing.T, all ...protocol.Spec) {
		t.Helper()
		for _, s := range all {
			s.Target, s.Name = id, name
			if got := c.end(t, l, c.step(t, l, s)); got.State != protocol.StateDone {
				t.Errorf("%s of %s is %s", s.Kind, name, got.State)
			}
		}
	}
	var make, use []protocol.Spec
	for _, one := range []string{"s1", "s2"} {
		snap := data.SnapshotName{Snapshot: one}
		make = append(make, protocol.Spec{Kind: protocol.KindSnapshot, Args: &protocol.SnapshotArgs{NewSnapshot: data.NewSnapshot{SnapshotName: snap}}})
		use = append(use, protocol.Spec{Kind: protocol.KindRollback, Args: &protocol.RollbackArgs{Rollback: data.Rollback{SnapshotName: snap}}},
			protocol.Spec{Kind: protocol.KindSnapshotRemove, Args: &protocol.SnapshotRemoveArgs{SnapshotName: snap}})
	}
	gone := protocol.Spec{Kind: protocol.KindDestroy, Args: &protocol.StopArgs{GraceMS: 100}}
	ask(t, protocol.Spec{Kind: protocol.KindCreate, Args: &protocol.CreateArgs{Template: template}})
	ask(t, make...)
	ask(t, protocol.Spec{Kind: protocol.KindBackup, Args: &protocol.NewBackupArgs{NewBackup: data.NewBackup{BackupName: backup, WithSnapshots: true}}}, gone)
	return strike{failpoint.SnapshotMade, l.victim, func(t *testing.T) {
		ask(t, protocol.Spec{Kind: protocol.KindRestore, Args: &protocol.RestoreArgs{Restore: data.Restore{BackupName: backup, Arrival: data.Arrival{KeepIdentity: true}}}})
		ask(t, use...)
		ask(t, gone)
	}}
}

// lives kills at each step while containers of a template are led through their lives.
func (c *wreck) lives(t *testing.T, l *limb, strikes []strike, template string, steps ...failpoint.Step) {
	t.Helper()
	number := 0
	cycle := func(t *testing.T) {
		number++
		c.cycle(t, l, template, fmt.Sprintf("%s-%d", filepath.Base(c.dir), number))
	}
	for _, s := range steps {
		strikes = append(strikes, strike{s, l.victim, cycle})
	}
	c.strikes(t, strikes...)
}

// cycle leads a container through its life. What it asks for may be done again,
// so all of it has to be done in the end.
func (c *wreck) cycle(t testing.TB, l *limb, template, name string) {
	t.Helper()
	for _, s := range life(newCTID(), template, name) {
		if got := c.end(t, l, c.step(t, l, s)); got.State != protocol.StateDone {
			t.Errorf("%s of %s is %s", s.Kind, name, got)
		}
	}
}

// life is that of a container.
func life(id protocol.CTID, template, name string) []protocol.Spec {
	snap, twin, made := data.SnapshotName{Snapshot: "s1"}, newCTID(), newCTID()
	img := data.NewImage{Image: strings.ToLower(name) + ":1"}
	return []protocol.Spec{
		{Kind: protocol.KindCreate, Target: id, Name: protocol.ContainerName(name), Args: &protocol.CreateArgs{Template: template, Start: true, Volumes: []string{name + ":/srv"}}},
		{Kind: protocol.KindExec, Target: id, Args: protocol.Command("true")},
		{Kind: protocol.KindLimit, Target: id, Args: &protocol.LimitArgs{Set: []string{"pids=500"}}},
		{Kind: protocol.KindConfig, Target: id, Args: &protocol.ConfigArgs{Set: []string{"label.app=web", "limit.pids=400"}}},
		{Kind: protocol.KindSet, Target: id, Args: &protocol.SetArgs{Change: contract.Change{StartOrder: 7}}},
		{Kind: protocol.KindRestart, Target: id, Args: &protocol.StopArgs{GraceMS: 100}},
		{Kind: protocol.KindReset, Target: id},
		{Kind: protocol.KindFreeze, Target: id},
		{Kind: protocol.KindUnfreeze, Target: id},
		{Kind: protocol.KindStop, Target: id, Args: &protocol.StopArgs{GraceMS: 100}},
		{Kind: protocol.KindSnapshot, Target: id, Args: &protocol.SnapshotArgs{NewSnapshot: data.NewSnapshot{SnapshotName: snap}}},
		{Kind: protocol.KindRollback, Target: id, Args: &protocol.RollbackArgs{Rollback: data.Rollback{SnapshotName: snap, Restart: true}}},
		{Kind: protocol.KindSnapshotRemove, Target: id, Args: &protocol.SnapshotRemoveArgs{SnapshotName: snap}},
		{Kind: protocol.KindClone, Target: twin, Name: protocol.ContainerName(name + "-c"), Args: &protocol.CloneArgs{Clone: data.Clone{Source: id.String(), SourceName: name}}},
		{Kind: protocol.KindDestroy, Target: twin, Args: &protocol.StopArgs{GraceMS: 100}},
		{Kind: protocol.KindPromote, Target: id, Args: &protocol.PromoteArgs{NewImage: img}},
		{Kind: protocol.KindDemote, Target: made, Name: protocol.ContainerName(name + "-d"), Args: &protocol.DemoteArgs{Demotion: data.Demotion{Image: img.Reference(), Runtime: runtimeOf(template)}}},
		{Kind: protocol.KindDestroy, Target: made, Args: &protocol.StopArgs{GraceMS: 100}},
		{Kind: protocol.KindRename, Target: id, Args: &protocol.RenameArgs{NewName: protocol.ContainerName(name + "-b")}},
		{Kind: protocol.KindStart, Target: id},
		{Kind: protocol.KindStopNow, Target: id},
		{Kind: protocol.KindDestroy, Target: id, Args: &protocol.StopArgs{GraceMS: 100}},
		{Kind: protocol.KindVolumeRemove, Args: &protocol.VolumeArgs{Volume: name}},
	}
}

// runtimeOf is what makes containers of a template.
func runtimeOf(template string) string {
	if container.IsOCI(template) && (!container.IsLocalImage(template) || template == podmantest.Image) {
		return string(container.KindPodman)
	}
	return string(container.KindLXC)
}

func newCTID() protocol.CTID {
	var random [10]byte
	_, _ = rand.Read(random[:])
	return protocol.NewCTID(time.Now().UnixMilli(), random)
}

// step asks for one step of a container's life.
func (c *wreck) step(t testing.TB, l *limb, s protocol.Spec) protocol.ActionID {
	t.Helper()
	id := c.newAction(t, l, s.Kind, false)
	c.order(t, l, id, s)
	return id
}

// burialPoints needs more actions than a host keeps, or more output, and its
// patience. Each point has a host of its own, so that they wait at the same time.
func burialPoints(t *testing.T) {
	c := newWreck(t)
	points := []string{failpoint.ActionsBuried.Before(), failpoint.ActionsBuried.After(), failpoint.RunsRemoved.Before(), failpoint.RunsRemoved.After()}
	t.Run("hosts", func(t *testing.T) {
		budgetPoints(t, c)
		for i, point := range points {
			l := c.addLimb(t, fmt.Sprintf("edge-0%d", i+1), false)
			t.Run(point, func(t *testing.T) {
				t.Parallel()
				c.end(t, l, c.runs(t, l, "0"))
				ids := make([]protocol.ActionID, 0, 100)
				for range cap(ids) {
					ids = append(ids, c.pings(t, l))
				}
				for _, id := range ids {
					c.end(t, l, id)
				}
				l.arm(t, point, 1)
				if l.hit(t, point, 2*patience) == 0 {
					t.Fatalf("nobody came to %s", point)
				}
				l.died(t)
				l.revive(t)
				c.end(t, l, c.runs(t, l, "0"))
			})
		}
	})
	c.judge(t)
}

// budgetPoints kills agents that remove the output of actions which stay known,
// for there is too much of it. What runs meanwhile loses nothing.
func budgetPoints(t *testing.T, c *wreck) {
	t.Helper()
	for i, point := range []string{failpoint.RunsRemoved.Before(), failpoint.RunsRemoved.After()} {
		l := c.newLimb(t, fmt.Sprintf("full-0%d", i+1), false)
		write(t, l.config(), read(t, l.config())+"[commands]\noutput_mib = 1\n")
		p, words := l.join(t, c.invite(t))
		c.must(t, "host", "approve", l.host.name, "--words", words)
		p.finish(t).exits(t, 0)
		l.revive(t)
		t.Run("budget "+point, func(t *testing.T) {
			t.Parallel()
			writes := func(script string) protocol.ActionID {
				id := c.newAction(t, l, protocol.KindRun, false)
				c.order(t, l, id, protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command("sh", "-c", script)})
				return id
			}
			runs := writes("head -c 2000000 /dev/zero; sleep 600")
			ended := writes("head -c 2000000 /dev/zero")
			c.end(t, l, ended)
			l.arm(t, point, 1)
			if l.hit(t, point, 2*patience) == 0 {
				t.Fatalf("nobody came to %s", point)
			}
			l.died(t)
			l.revive(t)
			if info, err := os.Stat(l.path("runs/" + runs.String() + "/1/stdout")); err != nil || info.Size() != 2_000_000 {
				t.Errorf("the output of what runs: %v, %v", info, err)
			}
			c.cancel(t, runs)
			c.end(t, l, runs)
			if got := c.end(t, l, ended); got.State != protocol.StateDone {
				t.Errorf("its output is gone, and it is %s", got)
			}
			c.end(t, l, c.runs(t, l, "0"))
		})
	}
}

func coordinatorPoints(t *testing.T) {
	c := newWreck(t)
	l := c.addLimb(t, "edge-01", false)
	run := func(t *testing.T) { c.end(t, l, c.runs(t, l, "0")) }
	// An agent whose connections keep breaking waits longer each time before
	// the next one: each kill meets one that has just begun.
	fresh := func(pass func(t *testing.T)) func(t *testing.T) {
		return func(t *testing.T) {
			c.comeBack(t, l)
			pass(t)
		}
	}
	comeBack := func(t *testing.T) { c.comeBack(t, l); run(t) }
	strikes := []strike{
		{"C1", c.head, func(t *testing.T) { c.head.restart(t) }},
		{"C5", c.head, fresh(func(t *testing.T) { c.cancelled(t, l) })},
		{"C9", c.head, func(t *testing.T) { c.access(t) }},
		{"C10", c.head, func(t *testing.T) { c.post(t, "/v1/invites", api.NewInvite{TTL: "1h"}, nil) }},
		{"C11", c.head, comeBack},
		{"C12", c.head, func(t *testing.T) { c.asked(t, l, c.head) }},
		{"C13", c.head, func(t *testing.T) { c.expired(t, l) }},
		{"C15", c.head, comeBack},
		{"C16", c.head, func(t *testing.T) { c.rolledBack(t, l) }},
	}
	for _, s := range []failpoint.Step{"C2", "C3", "C4", "C17", "F3"} {
		strikes = append(strikes, strike{s, c.head, fresh(run)})
	}
	c.strikes(t, strikes...)
}

// approvalPoints lets a person approve commands, and deny others.
func approvalPoints(t *testing.T) {
	c := newWreck(t)
	write(t, c.path("policy.toml"), "version = 1\n[[rule]]\nkinds = [\"*\"]\napprovals = 1\n")
	write(t, c.path("coordinator.toml"), read(t, c.path("coordinator.toml"))+"[policy]\nfile = \""+c.path("policy.toml")+"\"\n")
	c.must(t, "key", "generate", "--no-passphrase")
	c.must(t, "fleet", "ring", "add-approver", "ann", "default", "--out", c.path("ring-3"))
	c.must(t, "fleet", "ring", "publish")
	c.head.restart(t)
	l := c.addLimb(t, "edge-01", false)
	number := 0
	c.strikes(t, strike{"C20", c.head, func(t *testing.T) {
		id := c.waits(t, l)
		verb, want := []string{"approve", "--yes", "-o", "name"}, protocol.StateDone
		if number++; number%2 == 0 {
			verb, want = []string{"deny"}, protocol.StateCancelled
		}
		c.insist(t, verb[0], func(context.Context) error {
			x := c.cli(t, append(append([]string{"action"}, verb...), id.String())...)
			if x.code == 0 || strings.Contains(x.stderr, "needs no approval") {
				return nil // it has gone on since the answer that was lost
			}
			return fmt.Errorf("%s of %s: %s", verb[0], id, x.stderr)
		})
		if got := c.end(t, l, id); got.State != want {
			t.Errorf("%s, and it is %s", verb[0], got)
		}
	}})
}

// pruningPoints needs the coordinator's patience: each point has its own.
func pruningPoints(t *testing.T) {
	for _, point := range []string{failpoint.AuditPruned.Before(), failpoint.AuditPruned.After()} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := newWreck(t)
			l := c.addLimb(t, "edge-01", false)
			c.end(t, l, c.runs(t, l, "0"))
			c.head.arm(t, point, 1)
			if c.head.hit(t, point, 2*patience) == 0 {
				t.Fatalf("nobody came to %s", point)
			}
			c.head.revive(t)
			c.end(t, l, c.runs(t, l, "0"))
			c.judge(t)
		})
	}
}

// removingPoints lets months pass on the coordinator's date: output of what has
// ended is removed at its next look, and then all of it.
func removingPoints(t *testing.T) {
	for _, point := range []string{failpoint.OutputRemoved.Before(), failpoint.OutputRemoved.After(), failpoint.PastForgotten.Before(), failpoint.PastForgotten.After()} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := newWreck(t)
			l := c.addLimb(t, "edge-01", false)
			id := c.runs(t, l, "0")
			c.end(t, l, id)
			c.head.arm(t, point, 1)
			write(t, c.clock, "3000h")
			if c.head.hit(t, point, 2*patience) == 0 {
				t.Fatalf("nobody came to %s", point)
			}
			write(t, c.clock, "0s")
			c.head.revive(t)
			c.end(t, l, c.runs(t, l, "0"))
			if point == failpoint.PastForgotten.After() {
				// There is nothing left to judge, and whoever asks is told why.
				if r := c.cli(t, "action", "show", id.String()).exits(t, 3); !strings.Contains(r.stderr, "kept for 90 days") {
					t.Errorf("who asks for what is forgotten is told %s", r.stderr)
				}
				return
			}
			c.judge(t)
		})
	}
}

// expired asks for an action on a host that is away, and lets the coordinator's
// date pass on until it is too late for it.
func (c *wreck) expired(t *testing.T, l *limb) {
	t.Helper()
	from := c.events.mark()
	l.process().end(t, kill)
	c.event(t, from, "the host is away", func(e api.Event) bool {
		return e.Host == l.host.name && (e.Type == "host.late" || e.Type == "host.offline")
	})
	id := c.runs(t, l, "0")
	write(t, c.clock, "30h")
	if got := c.end(t, l, id); got.Reason != protocol.ReasonExpired {
		t.Errorf("it is %s a day later", got)
	}
	write(t, c.clock, "0s")
	c.head.restart(t) // while it lives, its time does not go back
	from = c.events.mark()
	l.revive(t)
	l.online(t, from)
}

// comeBack kills the agent and waits until the coordinator has it back.
func (c *wreck) comeBack(t *testing.T, l *limb) {
	t.Helper()
	from := c.events.mark()
	l.victim.restart(t)
	l.online(t, from)
}

// post asks until that is answered; what is done already is done.
func (c *wreck) post(t testing.TB, path string, body, answer any) {
	t.Helper()
	c.insist(t, path, func(ctx context.Context) error {
		err := c.api.Post(ctx, path, nil, body, answer)
		if p, ok := errors.AsType[*api.Problem](err); ok && p.Status == http.StatusConflict {
			return nil
		}
		return err
	})
}

// access makes and revokes a token and a viewer.
func (c *wreck) access(t *testing.T) {
	t.Helper()
	name := strings.ToLower(rand.Text()[:8])
	var token api.Token
	c.post(t, "/v1/tokens", api.NewToken{Name: name, Role: "viewer", Secret: "hst_" + rand.Text()[:26] + "AAAAAA"}, &token)
	c.post(t, "/v1/viewers", api.NewViewer{Name: name}, nil)
	for _, path := range []string{"/v1/tokens/" + token.ID, "/v1/viewers/" + name} {
		c.insist(t, path, func(ctx context.Context) error { return c.api.Delete(ctx, path, nil) })
	}
}

// rolledBack lets a host come back with an old memory: it is quarantined until
// a person readmits it.
func (c *wreck) rolledBack(t *testing.T, l *limb) {
	t.Helper()
	c.end(t, l, c.runs(t, l, "0"))
	l.process().end(t, kill)
	files, err := filepath.Glob(l.path("queue.db*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the host's memory: %v, %v", files, err)
	}
	old := make(map[string]string)
	for _, f := range files {
		old[f] = read(t, f)
	}
	l.revive(t)
	id := c.runs(t, l, "0")
	c.end(t, l, id)
	l.process().end(t, kill)
	for _, f := range files {
		write(t, f, old[f])
	}
	from := c.events.mark()
	l.revive(t)
	c.event(t, from, "the quarantine", func(e api.Event) bool { return e.Type == "host.quarantined" })
	c.post(t, "/v1/hosts/"+l.host.name+"/readmit", nil, nil)
	c.end(t, l, c.runs(t, l, "0"))
}
