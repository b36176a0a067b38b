package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// askedSoon is how long after a connection was made the coordinator has asked for
// all output that it misses.
const askedSoon = 2 * time.Minute

// keptRun is what the runs of one ended action take.
type keptRun struct {
	id    protocol.ActionID
	bytes int64 // on the disk
	ended int64 // Unix milliseconds
	owed  bool  // the coordinator may have to fetch it still
}

// outdated returns whose runs are to be removed, of those that have ended, in the
// order in which they did: what is older than is kept, and then the oldest until
// the sum of all is no more than is kept, total being what others take. What the
// coordinator has still to fetch goes only if that is not enough, and never for
// its age.
func outdated(all []keptRun, total, most, oldest int64) (gone []protocol.ActionID) {
	for _, k := range all {
		total += k.bytes
	}
	for _, owed := range []bool{false, true} {
		for _, k := range all {
			if k.owed == owed && (total > most || !owed && k.ended < oldest) {
				gone = append(gone, k.id)
				total -= k.bytes
			}
		}
	}
	return gone
}

// keepRuns removes what is too old or too much of what ended commands have left.
// What such an action came to stays known, and whoever asks for its output is told
// that it is gone.
func (a *Agent) keepRuns() {
	ended, err := a.cfg.Queue.Ended(a.loop.Steps())
	if !a.loop.Disk(err) || len(ended) == 0 {
		return
	}
	asked := a.link.answered && a.cfg.BootMS()-a.link.since >= askedSoon.Milliseconds()
	owed := func(e queue.Ended) bool {
		return a.cfg.Link != nil && (!e.Reported || !asked || a.outputs.senders[e.ID] != nil)
	}
	kept := make([]keptRun, 0, len(ended))
	for _, e := range ended {
		kept = append(kept, keptRun{id: e.ID, ended: e.EndedMS, owed: owed(e)})
	}
	oldest := a.cfg.Now().UnixMilli() - a.cfg.OutputAge.Milliseconds()
	a.loop.Worker(func() func() {
		sizes, err := a.cfg.Commands.Sizes()
		if err != nil {
			a.cfg.Log.Warn("what runs take cannot be seen; nothing of it is removed", "error", err)
			return nil
		}
		left := kept[:0]
		for _, k := range kept {
			if size, ok := sizes[k.id]; ok {
				k.bytes = size
				left = append(left, k)
				delete(sizes, k.id)
			}
		}
		var others int64
		for _, size := range sizes {
			others += size
		}
		a.remove(outdated(left, others, a.cfg.OutputTotal, oldest))
		return nil
	})
}

// remove removes the runs of actions that have ended.
func (a *Agent) remove(gone []protocol.ActionID) {
	for _, id := range gone {
		if err := a.cfg.Commands.Remove(id); err != nil {
			a.cfg.Log.Warn("the output of an old action stays", "action", id.String(), "error", err)
		}
	}
}

// openEnded opens the output of an attempt of an action that has ended. It is
// [ErrGone] if there was some and it was removed, and [io.EOF] if there never was.
func (a *Agent) openEnded(act *Action, fd protocol.FD) (CommandOutput, error) {
	f, err := a.cfg.Commands.Output(act.ID, act.Attempt, fd)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	for _, o := range act.Output {
		if o.FD == fd && o.Bytes > 0 {
			return nil, fmt.Errorf("%w: the output of action %s was removed, because it was old or there was too much; how long output is kept is a setting of the agent (commands.output_days, commands.output_mib)",
				ErrGone, act.ID)
		}
	}
	return nil, io.EOF
}
