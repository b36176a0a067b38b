// Package fsck finds what a crash or a person may leave of Hostler on a host: directories
// of runs without an action, control groups of commands that are over, containers that
// are half there, and what holds them. It says of each what it is, why it is taken for
// debris, and what repairing does.
//
// What may be removed bears our marks: the form of its name below a directory of ours,
// the record of a container, a label. No container that is whole is touched, and nothing
// that an operation works on. The start of the agent repairs the most of this as well: fsck
// is for users who want to know before, and for what a start leaves alone.
package fsck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/runner/supervise"
)

// Config says what belongs to the agent.
type Config struct {
	// Runs is the directory of all runs, absolute. It need not exist.
	Runs string
	// Memory is the file of the agent's queue. A copy of it is read, so that the agent
	// may use it meanwhile.
	Memory string
	// Spare is a directory on whose file system there is room for that copy.
	Spare string
	// Runtimes are the container technologies of the host.
	Runtimes map[string]container.Tidier
	// Backups finds the remains of backups. If it is nil, no backup is looked at.
	Backups container.Tidier
	// Targets find those at the places beside the host at which backups are kept, by name.
	Targets map[string]container.Tidier
	// Networks finds the remains of networks, by functions that tell the ids of all
	// containers and the names of all networks. If it is nil, no network is looked at.
	Networks func(containers, networks func(context.Context) (map[string]bool, error)) container.Tidier
}

// Report is what was found.
type Report struct {
	Findings []container.Debris `json:"findings"`
	// Unchecked are the parts that could not be looked at, and why.
	Unchecked []string `json:"unchecked,omitempty"`
}

// Left is how many findings there are that were not repaired.
func (r *Report) Left() (n int) {
	for _, d := range r.Findings {
		if !d.Repaired {
			n++
		}
	}
	return n
}

// Check looks at everything, and with repair removes what may be removed. Only who holds
// the lock of the agent's state may repair.
func Check(ctx context.Context, c Config, repair bool) Report {
	r := Report{Findings: []container.Debris{}}
	for _, part := range []struct {
		name string
		look func(context.Context, bool) ([]container.Debris, error)
	}{
		{"runs", c.runs}, {"control groups", c.leaves},
	} {
		r.add(part.name, func() ([]container.Debris, error) { return part.look(ctx, repair) })
	}
	if c.Backups != nil {
		r.add("backups", func() ([]container.Debris, error) { return c.Backups.Debris(ctx, repair) })
	}
	for _, name := range slices.Sorted(maps.Keys(c.Targets)) {
		r.add("backups at target "+name, func() ([]container.Debris, error) { return c.Targets[name].Debris(ctx, repair) })
	}
	for _, kind := range []container.Kind{container.KindLXC, container.KindPodman} {
		if t := c.Runtimes[string(kind)]; t != nil {
			r.add("containers of "+string(kind), func() ([]container.Debris, error) { return t.Debris(ctx, repair) })
		}
	}
	if c.Networks != nil {
		r.add("networks", func() ([]container.Debris, error) { return c.Networks(c.containers, c.networks).Debris(ctx, repair) })
	}
	return r
}

func (r *Report) add(part string, look func() ([]container.Debris, error)) {
	found, err := look()
	r.Findings = append(r.Findings, found...)
	if err != nil && !errors.Is(err, container.ErrUnsupported) { // of what cannot be had here, nothing is left
		r.Unchecked = append(r.Unchecked, part+": "+err.Error())
	}
}

// trash begins the names of run directories that are being removed.
const trash = ".removed-"

// runs finds directories of runs of which the agent knows nothing.
func (c Config) runs(ctx context.Context, repair bool) (all []container.Debris, err error) {
	entries, err := os.ReadDir(c.Runs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ids []protocol.ActionID
	for _, e := range entries {
		path := filepath.Join(c.Runs, e.Name())
		id, err := protocol.ParseActionID(e.Name())
		switch {
		case strings.HasPrefix(e.Name(), trash) && e.IsDir():
			d := container.Debris{Kind: "run directory", Object: path, Cause: "its removal was cut short", Repair: "remove it"}
			if repair {
				d.Mend(func() error { return os.RemoveAll(path) })
			}
			all = append(all, d)
		case err != nil || !e.IsDir():
			all = append(all, container.Debris{Kind: "run directory", Object: path, Cause: "its name is no action's: it was not made by Hostler", Advice: "move it out of " + c.Runs})
		default:
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return all, nil
	}
	known, err := c.known(ctx, ids)
	if err != nil {
		return all, err
	}
	var orphans []protocol.ActionID
	for _, id := range ids {
		if !known[id] {
			orphans = append(orphans, id)
		}
	}
	found, err := c.orphans(ctx, orphans, repair)
	return append(all, found...), err
}

// Spare begins the names of directories for copies of the agent's memory. One that is
// older than spareAge was left by a process that was killed, and is removed.
const (
	Spare    = ".fsck-"
	spareAge = time.Hour
)

// known asks a copy of the agent's memory which actions it has.
func (c Config) known(ctx context.Context, ids []protocol.ActionID) (known map[protocol.ActionID]bool, err error) {
	err = c.remembered(ctx, func(q *queue.Queue) (err error) {
		known, err = q.Has(ctx, ids)
		return err
	})
	return known, err
}

// networks asks it for the names of all networks.
func (c Config) networks(ctx context.Context) (map[string]bool, error) {
	names := make(map[string]bool)
	err := c.remembered(ctx, func(q *queue.Queue) error {
		all, err := queue.Networks(ctx, q)
		for _, n := range all {
			names[n.Name] = true
		}
		return err
	})
	return names, err
}

// containers asks it for the ids of all containers.
func (c Config) containers(ctx context.Context) (map[string]bool, error) {
	ids := make(map[string]bool)
	err := c.remembered(ctx, func(q *queue.Queue) error {
		all, err := q.Containers(ctx)
		for _, rec := range all {
			ids[rec.CTID.String()] = true
		}
		return err
	})
	return ids, err
}

// remembered asks a copy of the agent's memory.
func (c Config) remembered(ctx context.Context, ask func(*queue.Queue) error) (err error) {
	before, err := filepath.Glob(filepath.Join(c.Spare, Spare+"*"))
	for _, dir := range before { // of one that was killed
		if info, e := os.Stat(dir); e == nil && time.Since(info.ModTime()) > spareAge {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(c.Spare, Spare)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	q, err := queue.OpenCopy(ctx, queue.Config{Path: c.Memory}, filepath.Join(dir, "queue.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	return ask(q)
}

// orphans are runs of actions that the agent does not know. Its acceptance of them was
// lost with a disk, or its memory is another one.
func (c Config) orphans(ctx context.Context, ids []protocol.ActionID, repair bool) (all []container.Debris, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var runs *runner.Runner
	if repair {
		if runs, err = runner.New(runner.Config{Root: c.Runs}); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, runs.Close()) }()
	}
	for _, id := range ids {
		d := container.Debris{Kind: "run directory", Object: filepath.Join(c.Runs, id.String()), Cause: "the agent knows no action of this id", Repair: "end what is left of its command, and remove it with its output"}
		if repair {
			d.Mend(func() error { return endRun(ctx, runs, id.String()) })
		}
		all = append(all, d)
	}
	return all, nil
}

// endRun ends all attempts of an action and removes them.
func endRun(ctx context.Context, runs *runner.Runner, action string) error {
	boot, err := runner.Boot()
	if err != nil {
		return err
	}
	all, err := runs.List()
	if err != nil {
		return err
	}
	for _, run := range all {
		if run.Action != action {
			continue
		}
		found, err := runs.Recover(ctx, run.Action, run.Attempt, boot)
		if err != nil {
			return err
		}
		if found.Run != nil {
			if err := found.Run.Cancel(ctx); err != nil {
				return err
			}
		}
	}
	return runs.Remove(action)
}

// LeafAge is how old a control group without a run must be: a younger one may be about
// to get its command.
const LeafAge = 10 * time.Second

// maxGroups bounds how many control groups are looked at.
const maxGroups = 1 << 20

// leaves finds control groups of commands that are over.
func (c Config) leaves(ctx context.Context, repair bool) (all []container.Debris, err error) {
	root, err := cgroupRoot()
	if err != nil || root == "" {
		return nil, err
	}
	looked := 0
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went while we looked
		}
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if !e.IsDir() {
			return nil
		}
		if looked++; looked > maxGroups {
			return fmt.Errorf("there are more than %d control groups", maxGroups)
		}
		run, ours := leafName(e.Name())
		if !ours {
			return nil
		}
		if d, ok := c.leaf(path, run, e); ok {
			if repair && d.Repair != "" {
				d.Mend(rundir.Leaf(path).Remove)
			}
			all = append(all, d)
		}
		return filepath.SkipDir
	})
	return all, err
}

// SweepLeaves removes empty control groups that bear our name and belong to no run of
// this host: what a kill between the end of a command and the removal of its group has
// left. It looks, and once more when again comes, best [LeafAge] later, and removes what
// it found both times: so no clock decides whether a group is about to get its command.
// It returns what was removed.
func (c Config) SweepLeaves(ctx context.Context, again <-chan time.Time) (removed []string, err error) {
	before := make(map[string]bool)
	all, err := c.leaves(ctx, false)
	for _, d := range all {
		before[d.Object] = d.Repair != ""
	}
	if err != nil || len(all) == 0 {
		return nil, err
	}
	select {
	case <-again:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	all, err = c.leaves(ctx, false)
	for _, d := range all {
		if d.Repair == "" || !before[d.Object] {
			continue
		}
		if e := rundir.Leaf(d.Object).Remove(); e != nil {
			err = errors.Join(err, e)
			continue
		}
		removed = append(removed, d.Object)
	}
	return removed, err
}

// cgroupRoot is the top of the cgroup2 tree as this process sees it; empty if there is
// none.
func cgroupRoot() (string, error) {
	dir, err := supervise.FindCgroup2(os.Getpid())
	if err != nil || dir == "" {
		return "", err
	}
	for {
		up := filepath.Dir(dir)
		if _, err := os.Stat(filepath.Join(up, "cgroup.controllers")); err != nil || up == dir {
			return dir, nil
		}
		dir = up
	}
}

// prefix begins the names of our control groups, probe those with which the agent tries
// whether it may make any.
const (
	prefix = "hostler."
	probe  = "probe"
)

// leafName takes the name of a leaf apart: hostler.ACTION.ATTEMPT, or hostler.probe.PID.
func leafName(name string) (run runner.ID, ours bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	action, number, ok2 := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	if !ok || !ok2 || err != nil || n < 1 || rundir.LeafName(action, n) != name {
		return run, false
	}
	_, err = protocol.ParseActionID(action)
	return runner.ID{Action: action, Attempt: n}, err == nil || action == probe
}

// leaf judges one control group.
func (c Config) leaf(path string, run runner.ID, e fs.DirEntry) (d container.Debris, found bool) {
	info, err := e.Info()
	if err != nil || time.Since(info.ModTime()) < LeafAge {
		return d, false
	}
	d = container.Debris{Kind: "cgroup", Object: path, Cause: "its command is over, or was never known here", Repair: "remove the empty control group"}
	if run.Action == probe {
		if _, err := os.Stat("/proc/" + strconv.Itoa(run.Attempt)); err == nil {
			return d, false // its maker is there, or a namesake
		}
	} else if over, err := c.over(run); err != nil || !over {
		return d, false
	}
	pids, err := rundir.Leaf(path).Processes()
	if err != nil {
		return d, false
	}
	if len(pids) > 0 {
		if _, err := os.Stat(filepath.Join(c.Runs, run.Action)); err == nil {
			return d, false // a daemon outlives the run that has started it
		}
		d.Cause = fmt.Sprintf("no run of this host has it, and %d processes are in it, %d among them: they may be another agent's", len(pids), pids[0])
		d.Repair, d.Advice = "", "if no other agent runs here, end them: echo 1 >"+path+"/cgroup.kill"
	}
	return d, true
}

// over reports whether a run is not there, or has ended.
func (c Config) over(run runner.ID) (bool, error) {
	dir := rundir.Dir(filepath.Join(c.Runs, run.Action, strconv.Itoa(run.Attempt)))
	if _, err := os.Stat(string(dir)); errors.Is(err, fs.ErrNotExist) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	return dir.Has(rundir.ExitFile), nil
}
