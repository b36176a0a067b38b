package fsck_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent/fsck"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/runner/supervise"
)

// Ids of actions; the first is known.
const (
	known   = "01890a5d-ac96-774b-bcce-b302099a8001"
	unknown = "01890a5d-ac96-774b-bcce-b302099a8002"
	ended   = "01890a5d-ac96-774b-bcce-b302099a8003"
	nobody  = "01890a5d-ac96-774b-bcce-b302099a8004"
	alive   = "01890a5d-ac96-774b-bcce-b302099a8005"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site makes a state directory whose memory knows one action.
func site(t *testing.T) fsck.Config {
	t.Helper()
	dir := t.TempDir()
	c := fsck.Config{Runs: filepath.Join(dir, "runs"), Memory: filepath.Join(dir, "queue.db"), Spare: dir}
	must(t, os.Mkdir(c.Runs, 0o700))
	q, err := queue.Create(t.Context(), queue.Config{Path: c.Memory}, protocol.StoreID{1})
	must(t, err)
	id, err := protocol.ParseActionID(known)
	must(t, err)
	spec, err := json.Marshal(protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command("true")})
	must(t, err)
	_, err = q.AcceptOrders(t.Context(), []queue.Arrival{{Order: queue.Order{Action: id, Spec: spec, Requester: "ann", BudgetMS: 60_000}}}, queue.Now{WallMS: 1, BootMS: 1, Boot: "b"})
	must(t, err)
	must(t, q.Close())
	return c
}

// run makes the directory of a run; with over, of one that has ended.
func run(t *testing.T, c fsck.Config, action string, over bool) {
	t.Helper()
	dir := rundir.Dir(filepath.Join(c.Runs, action, "1"))
	must(t, os.MkdirAll(string(dir), 0o700))
	if over {
		must(t, dir.PublishExit(&rundir.Exit{Code: 0, Emptied: true, StartedMS: 1, EndedMS: 2}))
	}
}

// group makes a control group of this test's own that is old enough.
func group(t *testing.T, name string) string {
	t.Helper()
	at, err := supervise.FindCgroup2(os.Getpid())
	if err != nil || at == "" {
		t.Fatalf("a cgroup2 tree is needed: %q, %v", at, err)
	}
	dir := filepath.Join(at, name)
	must(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() { _ = rundir.Leaf(dir).Remove() }) // it may be gone
	old := time.Now().Add(-time.Minute)
	must(t, os.Chtimes(dir, old, old))
	return dir
}

// TestFindings plants each kind among what is in use and what is somebody else's: what
// is debris is found, and what bears our marks is removed.
func TestFindings(t *testing.T) {
	c := site(t)
	run(t, c, known, false)
	run(t, c, unknown, false)
	run(t, c, ended, true)
	must(t, os.Mkdir(filepath.Join(c.Runs, ".removed-"+nobody), 0o700))
	must(t, os.WriteFile(filepath.Join(c.Runs, "notes.txt"), nil, 0o600))

	stale := group(t, rundir.LeafName(nobody, 1))
	over := group(t, rundir.LeafName(ended, 1))
	tried := group(t, "hostler.probe.4194305") // above every process id
	populated := group(t, rundir.LeafName(alive, 1))
	inUse := group(t, rundir.LeafName(known, 1))
	foreign := []string{group(t, "hostler.slice"), group(t, "hostler."+nobody+".01"), group(t, "hostler.web.1")}
	young := group(t, rundir.LeafName(nobody, 2))
	must(t, os.Chtimes(young, time.Now(), time.Now()))
	sleeper := exec.Command("sleep", "1000000")
	f, err := os.Open(populated)
	must(t, err)
	defer f.Close()
	sleeper.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd()), Pdeathsig: syscall.SIGKILL}
	must(t, sleeper.Start())
	t.Cleanup(func() {
		_ = sleeper.Process.Kill() // it goes on for ever
		_ = sleeper.Wait()         // killed
	})

	look := func(repair bool) map[string]container.Debris {
		t.Helper()
		r := fsck.Check(t.Context(), c, repair)
		if len(r.Unchecked) > 0 {
			t.Fatalf("not checked: %q", r.Unchecked)
		}
		all := make(map[string]container.Debris)
		for _, d := range r.Findings {
			if d.Kind == "" || d.Cause == "" || (d.Repair == "") == (d.Advice == "") || d.Failure != "" || d.Repaired != (repair && d.Repair != "") {
				t.Errorf("%+v", d)
			}
			if !strings.HasPrefix(d.Object, "/sys/") || slices.Contains(append(foreign, stale, over, tried, populated, inUse, young), d.Object) {
				all[d.Object] = d // and no group of another test
			}
		}
		return all
	}
	wanted := []string{
		filepath.Join(c.Runs, unknown), filepath.Join(c.Runs, ended), filepath.Join(c.Runs, ".removed-"+nobody), filepath.Join(c.Runs, "notes.txt"),
		stale, over, tried, populated,
	}
	for _, repair := range []bool{false, true} {
		found := look(repair)
		if len(found) != len(wanted) {
			t.Errorf("found %d: %+v", len(found), found)
		}
		for _, object := range wanted {
			if _, ok := found[object]; !ok {
				t.Errorf("%s is not found", object)
			}
		}
	}
	left := look(true)
	if len(left) != 2 || left[populated].Advice == "" || left[filepath.Join(c.Runs, "notes.txt")].Advice == "" {
		t.Errorf("left are %+v", left)
	}
	for _, dir := range append(foreign, inUse, young, populated, filepath.Join(c.Runs, known)) {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("in use: %v", err)
		}
	}
	if pids, err := rundir.Leaf(populated).Processes(); err != nil || !slices.Contains(pids, sleeper.Process.Pid) {
		t.Errorf("the process of somebody else: %v, %v", pids, err)
	}
	if copies, err := filepath.Glob(filepath.Join(c.Spare, ".fsck-*")); err != nil || len(copies) > 0 {
		t.Errorf("copies of the memory are left: %q, %v", copies, err)
	}
}

// TestSweepLeaves: an empty group of ours without a run goes if it is there at two looks,
// and nothing else does.
func TestSweepLeaves(t *testing.T) {
	c := site(t)
	run(t, c, known, false)
	run(t, c, ended, true)
	stale, over := group(t, rundir.LeafName(nobody, 1)), group(t, rundir.LeafName(ended, 1))
	inUse, foreign := group(t, rundir.LeafName(known, 1)), group(t, "hostler.web.1")
	again := make(chan time.Time)
	go func() { // ends with the second look
		again <- time.Time{}
	}()
	removed, err := c.SweepLeaves(t.Context(), again)
	if err != nil || !slices.Contains(removed, stale) || !slices.Contains(removed, over) {
		t.Errorf("removed %q, %v", removed, err)
	}
	for dir, left := range map[string]bool{stale: false, over: false, inUse: true, foreign: true} {
		if _, err := os.Stat(dir); (err == nil) != left {
			t.Errorf("%s: %v", dir, err)
		}
	}
	late := group(t, rundir.LeafName(nobody, 3))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if removed, err := c.SweepLeaves(ctx, nil); !errors.Is(err, context.Canceled) || len(removed) > 0 {
		t.Errorf("at the end it removed %q, %v", removed, err)
	}
	if _, err := os.Stat(late); err != nil {
		t.Errorf("what was seen once: %v", err)
	}
}

// broken is a container technology that cannot be asked.
type broken struct{ err error }

func (b broken) Debris(context.Context, bool) ([]container.Debris, error) { return nil, b.err }

// TestUnchecked: what cannot be looked at is told, and the rest is looked at.
func TestUnchecked(t *testing.T) {
	c := site(t)
	run(t, c, unknown, false)
	must(t, os.Truncate(c.Memory, 8192))
	c.Runtimes = map[string]container.Tidier{"lxc": broken{container.ErrUnsupported}, "podman": broken{errors.New("no answer")}}
	r := fsck.Check(t.Context(), c, true)
	if len(r.Unchecked) != 2 || !strings.HasPrefix(r.Unchecked[0], "runs: copying the agent's queue: ") || r.Unchecked[1] != "containers of podman: no answer" {
		t.Errorf("not checked: %q", r.Unchecked)
	}
	if _, err := os.Stat(filepath.Join(c.Runs, unknown)); err != nil {
		t.Errorf("without the memory nobody knows whose it is: %v", err)
	}
}
