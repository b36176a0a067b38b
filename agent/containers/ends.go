package containers

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// life is that of a container's first process.
type life struct {
	pid int
	// over is closed when end is known, or will never be.
	over chan struct{}
	end  queue.End
	dead bool // the kernel has told that it ended; the loop's own
}

// Bounds of what is found out about an end.
const (
	// endPatience is how long the kernel may take to tell how a process has ended that
	// the runtime does not have any more.
	endPatience = 5 * time.Second
	// endLines is how many of its last lines are kept.
	endLines = 10
)

// ends follows the first processes of containers.
type ends struct{ *Containers }

// follow takes the first process that a container has now: the one before has ended if
// it is another.
func (c ends) follow(m *managed) {
	if m.life != nil && m.life.pid != m.info.InitPID {
		c.died(m, m.life)
		m.life = nil
	}
	if m.life == nil && m.info.InitPID != 0 {
		m.stopped = ""
		m.life = c.born(m.rec.CTID, m.info.InitPID)
		o, init := &operation{cfg: &c.cfg, rec: m.rec}, m.info.InitPID
		c.cfg.Loop.Beside(func(context.Context) func() {
			if err := o.limited(init); err != nil {
				c.cfg.Log.Warn("the limits of a container are not in force", "container", string(o.rec.Name), "error", err)
			}
			return nil
		})
	}
}

// born watches a first process. Its end is known, and has containers looked at, before the
// runtime tells of it.
func (c ends) born(id protocol.CTID, pid int) *life {
	l := &life{pid: pid, over: make(chan struct{})}
	if c.cfg.Witness == nil {
		close(l.over)
		return l
	}
	wait, err := c.cfg.Witness(pid)
	if err != nil { // it has ended just now
		close(l.over)
		return l
	}
	c.cfg.Loop.Beside(func(ctx context.Context) func() {
		defer close(l.over)
		var err error
		if l.end, err = wait(ctx, func() { c.cfg.Loop.Tell(func() { c.gone(id, l) }) }); err != nil {
			return nil
		}
		return c.Look // what it has left may be gone by now
	})
	return l
}

// gone takes that a first process has ended; how, and what its runtime says, comes later.
func (c ends) gone(id protocol.CTID, l *life) {
	l.dead = true
	if m := c.managed[id]; m != nil && m.life == l && m.halt == nil && c.cfg.Actions.Idle(id) {
		m.info = c.truly(m, m.info)
		c.cfg.Seen()
	}
}

// truly is what a runtime tells of a container, but that one whose first process has ended
// is stopping until the runtime has cleared up behind it, and only then started again.
func (c ends) truly(m *managed, info container.Info) container.Info {
	dead := m.life != nil && m.life.pid == info.InitPID && m.life.dead
	if dead && (info.State == container.StateRunning || info.State == container.StateFrozen) {
		info.State = container.StateStopping
	}
	return info
}

// died makes the end of a container durable, with what can be known of it.
func (c ends) died(m *managed, l *life) {
	id, at := m.rec.CTID, c.cfg.Loop.WallMS()
	asked := m.rec.Intended == queue.Stopped || m.halt != nil || !c.cfg.Actions.Idle(id)
	cause := m.stopped
	if cause == "" && asked {
		cause = queue.CauseOrder
	}
	m.stopped = ""
	name, r := string(m.rec.Name), c.runtime(m.rec.Runtime)
	c.cfg.Loop.Beside(func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, endPatience)
		defer cancel()
		end := queue.End{}
		select {
		case <-l.over:
			end = l.end
		case <-ctx.Done():
		}
		if cause == "" && c.cfg.Leaving != nil && c.cfg.Leaving(ctx) {
			return nil // the next start of the agent says that its host has ended it
		}
		end.AtMS, end.Asked, end.Log = at, asked, lastWords(ctx, r, name)
		end.Cause = causeOf(end, cause)
		return func() { c.remember(id, end) }
	})
}

// remember keeps an end. If the disk does not take it, it is forgotten.
func (c ends) remember(id protocol.CTID, end queue.End) {
	if m := c.managed[id]; m != nil {
		all := append(slices.Clone(m.rec.Ends), end)
		all = all[max(0, len(all)-queue.MaxEnds):]
		_ = c.cfg.Apply(queue.Change{Ended: []queue.EndsOf{{CTID: id, Ends: all}}})
	}
}

// lastWords is the end of a container's log.
func lastWords(ctx context.Context, r container.Runtime, name string) string {
	l, ok := r.(container.Logger)
	if !ok {
		return ""
	}
	var words tail
	if l.Log(ctx, name, container.LogQuery{Tail: endLines}, &words, &words) != nil {
		return ""
	}
	text := strings.ToValidUTF8(string(words.last), "\uFFFD")
	return strings.ReplaceAll(text, "\x00", "\uFFFD")
}

// tail keeps the end of what is written to it.
type tail struct{ last []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.last = append(t.last, b...)
	t.last = bytes.Clone(t.last[max(0, len(t.last)-queue.MaxEndLog):])
	return len(b), nil
}

// causeOf tells what a container ended by, where known is what the agent knows of that:
// what stops it is the cause, however the container took it.
func causeOf(end queue.End, known queue.Cause) queue.Cause {
	switch {
	case known != "":
		return known
	case end.OOM:
		return queue.CauseOOM
	case !end.Known:
		return ""
	case end.Code == 0 && end.Signal == 0:
		return queue.CauseExit
	}
	return queue.CauseCrash
}

// rebooted remembers of the containers that were to run that their host has ended them,
// at the time of its start: when it went down is not known.
func (c ends) rebooted() {
	loop, away := c.cfg.Loop, c.contact.Away()
	var ended []queue.EndsOf
	for _, m := range c.sorted() {
		if state, _ := workload(&m.rec, c.cfg.Leases, true).Wanted(away); state != queue.Running || !m.rec.Made || m.rec.Broken != "" {
			continue
		}
		all := append(slices.Clone(m.rec.Ends), queue.End{AtMS: loop.WallMS() - loop.BootMS(), Cause: queue.CauseHost})
		ended = append(ended, queue.EndsOf{CTID: m.rec.CTID, Ends: all[max(0, len(all)-queue.MaxEnds):]})
	}
	if len(ended) > 0 {
		_ = c.cfg.Apply(queue.Change{Ended: ended})
	}
}
