package chaos

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/internal/space"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner"
)

// machine is a host below its agent. Its commands go on whatever becomes of
// the agent: "true", "false", "sleep DURATION", "print BYTES DURATION", "hang".
type machine struct {
	mu   sync.Mutex
	r    *rand.Rand
	runs map[attempt]*run
	live sync.WaitGroup // of the commands
}

type attempt struct {
	action protocol.ActionID
	n      int
}

// run is one attempt: its supervisor and its command.
type run struct {
	argv    []string
	begun   bool
	cancel  chan struct{} // closed by whoever cancels first
	dies    chan struct{} // closed by what ends it without a record
	done    chan struct{}
	mu      sync.Mutex
	once    [2]sync.Once
	changed chan struct{}
	text    []byte
	end     commands.End
	verdict runner.Verdict // once done
	fate    runner.Verdict // of what dies
}

func newMachine(seed uint64) *machine {
	return &machine{r: rand.New(rand.NewPCG(seed, 7)), runs: make(map[attempt]*run)}
}

// Start implements [commands.Runner]. The supervisor takes its time; an agent
// that ends meanwhile does not know how far it came.
func (m *machine) Start(ctx context.Context, id protocol.ActionID, n int, c runner.Spec) (commands.Run, error) {
	m.mu.Lock()
	at := attempt{id, n}
	if m.runs[at] != nil {
		m.mu.Unlock()
		return nil, errors.New("the attempt exists")
	}
	r := &run{argv: c.Argv, cancel: make(chan struct{}), dies: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{})}
	m.runs[at] = r
	delay, begins := time.Duration(m.r.IntN(30))*time.Millisecond, m.r.IntN(2) == 0
	m.mu.Unlock()
	select {
	case <-past(delay):
	case <-ctx.Done():
		if !begins {
			return nil, context.Cause(ctx)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-r.dies:
		return nil, errors.New("the machine went down")
	default:
	}
	r.begun = true
	m.live.Go(r.live)
	return r, nil
}

// live is the command.
func (r *run) live() {
	end := commands.End{Emptied: true}
	steps, pause, size := 1, time.Millisecond, 0
	switch r.argv[0] {
	case "false":
		end.Exit.Code = 1
	case "sleep":
		pause, _ = time.ParseDuration(r.argv[1])
	case "print":
		size, _ = strconv.Atoi(r.argv[1])
		pause, _ = time.ParseDuration(r.argv[2])
		steps = 4
	case "hang":
		pause = 1000 * time.Hour
	}
	verdict := runner.Exited
working:
	for i := range steps {
		r.write(size*i/steps, size*(i+1)/steps)
		select {
		case <-past(pause / time.Duration(steps)):
			continue
		case <-r.cancel:
			end.Exit = protocol.Exit{Code: 143, Signal: 15, Cancelled: true}
		case <-r.dies:
			verdict = r.fate
		}
		break working
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	end.Output = []protocol.Output{{FD: protocol.Stdout, Bytes: int64(len(r.text))}, {FD: protocol.Stderr}}
	r.end, r.verdict = end, verdict
	close(r.done)
	close(r.changed)
}

// write lets the command print a part of what it prints.
func (r *run) write(from, to int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := from; i < to; i++ {
		r.text = append(r.text, byte('a'+i%23))
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// kill ends a run without a record; the verdict is what a later look finds.
func (r *run) kill(v runner.Verdict) {
	r.once[1].Do(func() { r.fate = v; close(r.dies) })
}

// reboot ends everything.
func (m *machine) reboot() {
	m.mu.Lock()
	for _, r := range m.runs {
		r.kill(runner.Rebooted)
	}
	m.mu.Unlock()
	m.live.Wait()
}

// accident kills the supervisor of one command that lives.
func (m *machine) accident() {
	m.mu.Lock()
	defer m.mu.Unlock()
	var first attempt
	var victim *run
	for at, r := range m.runs {
		if closed(r.done) || !r.begun || victim != nil && cmp.Compare(at.action.String(), first.action.String()) > 0 {
			continue
		}
		first, victim = at, r
	}
	if victim != nil {
		victim.kill(runner.Died)
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func (r *run) Wait(ctx context.Context) (commands.End, error) {
	select {
	case <-r.done:
	case <-ctx.Done():
		return commands.End{}, context.Cause(ctx)
	}
	if r.verdict != runner.Exited {
		return commands.End{}, runner.ErrDied
	}
	return r.end, nil
}

func (r *run) Cancel(ctx context.Context) error {
	r.once[0].Do(func() { close(r.cancel) })
	_, err := r.Wait(ctx)
	return err
}

func (*run) Credit(context.Context, int64, int64) error { return nil }

// Attach says that a command of this machine has no terminal.
func (r *run) Attach(context.Context) (io.ReadWriteCloser, error) { return nil, runner.ErrNoTerminal }

func (r *run) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

func (r *run) Done() <-chan struct{} { return r.done }

// Started: its commands begin at once.
func (r *run) Started() <-chan struct{} {
	began := make(chan struct{})
	close(began)
	return began
}

// Recover implements [commands.Runner].
func (m *machine) Recover(_ context.Context, id protocol.ActionID, n int) (commands.Found, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[attempt{id, n}]
	if r == nil {
		r = &run{dies: make(chan struct{})}
		m.runs[attempt{id, n}] = r
	}
	switch {
	case !r.begun:
		r.kill(runner.NeverBegan)
		return commands.Found{Verdict: runner.NeverBegan, Emptied: true}, nil
	case !closed(r.done):
		return commands.Found{Verdict: runner.Adopted, Run: r}, nil
	}
	return commands.Found{Verdict: r.verdict, End: r.end, Emptied: true}, nil
}

// Look implements [commands.Runner]. Nobody is stuck.
func (*machine) Look(context.Context, protocol.ActionID, int) (runner.Sight, error) {
	return runner.Sight{}, nil
}

// Abandon implements [commands.Runner].
func (*machine) Abandon(protocol.ActionID, int) error { return errors.New("nobody is stuck") }

// text is what a command has printed so far.
type text struct{ r *run }

func (t text) ReadAt(p []byte, off int64) (int, error) {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	return bytes.NewReader(t.r.text).ReadAt(p, off)
}

func (t text) Size() (int64, error) {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	return int64(len(t.r.text)), nil
}

func (text) Close() error { return nil }

// nothing is what nobody writes to.
type nothing struct{}

func (nothing) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }
func (nothing) Size() (int64, error)              { return 0, nil }
func (nothing) Close() error                      { return nil }

// Output implements [commands.RunDirs].
func (m *machine) Output(id protocol.ActionID, n int, fd protocol.FD) (commands.Output, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[attempt{id, n}]
	switch {
	case r == nil:
		return nil, errors.New("no such run")
	case fd == protocol.Stderr:
		return nothing{}, nil
	}
	return text{r}, nil
}

// List implements [commands.RunDirs].
func (m *machine) List() (map[protocol.ActionID]int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[protocol.ActionID]int)
	for at := range m.runs {
		all[at.action] = max(all[at.action], at.n)
	}
	return all, nil
}

// Note implements [commands.RunDirs]. No command leaves any.
func (m *machine) Note(protocol.ActionID, int) ([]byte, error) { return nil, fs.ErrNotExist }

// Sizes implements [commands.RunDirs]. There is room for all of it.
func (m *machine) Space() (space.Space, error)                 { return space.Space{}, nil }
func (m *machine) Sizes() (map[protocol.ActionID]int64, error) { return nil, nil }

// Remove implements [commands.RunDirs]. What was run stays known to the test.
func (m *machine) Remove(...protocol.ActionID) error { return nil }

// did is what a machine has done for an action.
type did struct {
	begun int  // how often its command began
	last  *run // the attempt that did
}

func (m *machine) did(id protocol.ActionID) (d did) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at, r := range m.runs {
		if at.action == id && r.begun {
			d.begun++
			d.last = r
		}
	}
	return d
}
