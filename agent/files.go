package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/files"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner/rundir"
)

// Verbs of the program that moves files, which stand behind [Config.Mover].
const (
	MovePush = "push"
	MovePull = "pull"
)

// Move tells the program that moves files what to do: it is its one argument,
// in JSON, behind the verb.
type Move struct {
	files.Place
	Files protocol.FileArgs `json:"files"`
	Temp  string            `json:"temp"` // name of what is not complete yet
}

// mover makes the command that moves files. It runs under a supervisor, as any
// command, so that it outlives the agent, ends in time, and can be cancelled.
func (c *command) mover(ctx context.Context, cmd *Command) *outcome {
	a := c.agent
	m := Move{Place: files.Place{Root: "/"}, Files: *c.spec.Files, Temp: ".hostler-" + c.id.String()}
	m.Allowed = c.within
	info, _ := protocol.KindOf(c.spec.Kind)
	if info.Target {
		if bad := c.containerFiles(ctx, &m.Place); bad != nil {
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
	cmd.Argv = append(append(cmd.Argv, a.cfg.Mover...), verb, string(b))
	cmd.Env = failpoint.Environ()
	return nil
}

func (c *command) pulls() bool {
	return c.spec.Kind == protocol.KindHostPull || c.spec.Kind == protocol.KindContainerPull
}

// noted adds what a pull has left of its archive to the end of its action. Without
// it whoever pulled takes nothing, so what cannot be read is not passed over.
func (c *command) noted(o *outcome) *outcome {
	if !c.pulls() || o.step.Exit == nil || len(o.step.Output) == 0 {
		return o
	}
	b, err := c.agent.cfg.Commands.Note(c.id, c.attempt)
	if errors.Is(err, fs.ErrNotExist) {
		return o // it has told its standard error why
	}
	var a protocol.Archive
	if err == nil {
		a, err = protocol.DecodeArchive(b)
	}
	if err != nil {
		c.agent.cfg.Log.Error("what a pull has copied cannot be told", "action", c.id.String(), "error", err)
		return o
	}
	o.step.Output = slices.Clone(o.step.Output)
	for i := range o.step.Output {
		if o.step.Output[i].FD == protocol.Stdout {
			o.step.Output[i].Archive = &a
		}
	}
	return o
}

// containerFiles finds where the files of the container are.
func (c *command) containerFiles(ctx context.Context, p *files.Place) *outcome {
	if c.runtime == nil {
		return ends(queue.Step{Event: protocol.EventTargetGone})
	}
	filer, ok := c.runtime.(container.Filer)
	if !ok {
		return noStart("the files of %s containers cannot be reached here", c.runtime.Kind())
	}
	f, err := filer.Files(ctx, c.name)
	if errors.Is(err, container.ErrNotFound) {
		return ends(queue.Step{Event: protocol.EventTargetGone})
	}
	if err == nil && f.InitPID != 0 {
		p.Ticks, err = rundir.StartTicks(f.InitPID)
	}
	if err == nil {
		p.UIDs, err = files.ParseIDMap(f.UIDs)
	}
	if err == nil {
		p.GIDs, err = files.ParseIDMap(f.GIDs)
	}
	if err != nil {
		return noStart("finding the files of container %q: %s", c.name, err)
	}
	p.Root, p.Init = f.Root, f.InitPID
	return nil
}
