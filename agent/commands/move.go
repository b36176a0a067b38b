package commands

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/files"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner"
)

// Verbs of the program that moves files, which stand behind [Config.Mover].
const (
	MovePush = "push"
	MovePull = "pull"
)

// Move tells the program that moves files what to do: it is its one argument,
// in JSON, behind the verb.
type Move struct {
	files.System
	Files protocol.FileArgs `json:"files"`
	Temp  string            `json:"temp"` // name of what is not complete yet
	// Shared is what the root directory is made of, if the container shares files.
	Shared *container.SharedFiles `json:"shared,omitempty"`
	// Stored is the same of a container whose layers are those of its runtime.
	Stored *container.StoredFiles `json:"stored,omitempty"`
}

// mover makes the command that moves files. It runs under a supervisor, as any
// command, so that it outlives the agent, ends in time, and can be cancelled.
func (c *worker) mover(ctx context.Context, cmd *runner.Spec) *actions.Outcome {
	m := Move{System: files.System{Root: "/"}, Files: *c.Spec.Files(), Temp: ".hostler-" + c.ID.String()}
	m.Allowed = c.Attempt.Within
	info, _ := protocol.KindOf(c.Spec.Kind)
	if info.OnContainer() {
		if bad := c.containerFiles(ctx, &m); bad != nil {
			return bad
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		return noStart("%s", err)
	}
	verb := MovePush
	if c.pulls() {
		verb, cmd.Note = MovePull, true
	}
	cmd.Argv = append(append(cmd.Argv, c.Mover...), verb, string(b))
	cmd.Env = failpoint.Environ()
	return nil
}

func (c *worker) pulls() bool {
	_, ok := c.Spec.Args.(*protocol.PullArgs)
	return ok
}

// noted adds what a pull has left of its archive to the end of its action. Without
// it the puller takes nothing, so what cannot be read is not passed over.
func (c *worker) noted(o *actions.Outcome) *actions.Outcome {
	if !c.pulls() || o.Step.Exit == nil || len(o.Step.Output) == 0 {
		return o
	}
	b, err := c.RunDirs.Note(c.ID, c.Number)
	if errors.Is(err, fs.ErrNotExist) {
		return o // it has told its standard error why
	}
	var a protocol.Archive
	if err == nil {
		a, err = protocol.DecodeArchive(b)
	}
	if err != nil {
		c.Log.Error("what a pull has copied cannot be told", "action", c.ID.String(), "error", err)
		return o
	}
	o.Step.Output = slices.Clone(o.Step.Output)
	for i := range o.Step.Output {
		if o.Step.Output[i].FD == protocol.Stdout {
			o.Step.Output[i].Archive = &a
		}
	}
	return o
}

// containerFiles finds where the files of the container are.
func (c *worker) containerFiles(ctx context.Context, p *Move) *actions.Outcome {
	if c.Target.Runtime == nil {
		return ends(queue.Step{Event: protocol.EventTargetGone})
	}
	filer, ok := c.Target.Runtime.(container.Filer)
	if !ok {
		return noStart("the files of %s containers cannot be reached here", c.Target.Runtime.Kind())
	}
	f, err := filer.Files(ctx, c.Target.Name)
	if errors.Is(err, container.ErrNotFound) {
		return ends(queue.Step{Event: protocol.EventTargetGone})
	}
	if err == nil {
		p.UIDs, err = files.ParseIDMap(f.UIDs)
	}
	if err == nil {
		p.GIDs, err = files.ParseIDMap(f.GIDs)
	}
	if err != nil {
		return noStart("finding the files of container %q: %s", c.Target.Name, err)
	}
	p.Root, p.Init, p.Ticks, p.Shared, p.Stored = f.Root, f.InitPID, f.InitTicks, f.Shared, f.Stored
	return nil
}
