package agent_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/internal/space"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
)

// shell runs commands that outlive agents: "true", "false", "sleep DURATION",
// "hang", "print TEXT DURATION", "sum" of what it reads.
type shell struct {
	mu     sync.Mutex
	runs   map[protocol.ActionID]map[int]*run
	begun  int
	lose   bool // Start succeeds but nothing begins: the supervisor never took it up
	cannot bool // cancel is unsupported
	deaf   bool // cancel is heard by nobody
	loose  bool // what is left of a command cannot be found
	space  space.Space
	full   bool // Start finds no room

	sight     runner.Sight // of all of them
	abandoned atomic.Int32
}

type run struct {
	cmd     runner.Spec
	mu      sync.Mutex
	changed chan struct{}
	done    chan struct{}
	cancel  chan struct{}
	once    sync.Once
	text    []byte
	end     commands.End
	died    bool
	lost    bool
	reboot  bool
	cannot  bool
	deaf    bool
	loose   bool
	killed  atomic.Bool  // its end is not its supervisor's doing
	keys    *keyboard    // of its terminal, if it has one
	still   atomic.Bool  // its supervisor is stopped
	safe    atomic.Int64 // how far its stdout is with those who follow
	safeErr atomic.Int64 // the same of its stderr, one beyond it: 0 is that it was never followed
}

func newCommands() *shell {
	return &shell{runs: make(map[protocol.ActionID]map[int]*run)}
}

func (c *shell) Start(_ context.Context, id protocol.ActionID, attempt int, cmd runner.Spec) (commands.Run, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs[id][attempt] != nil {
		return nil, errors.New("the attempt exists")
	}
	if c.full {
		return nil, syscall.ENOSPC
	}
	if cmd.Argv[0] == "cannot-start" {
		return nil, errors.New("no such supervisor")
	}
	r := &run{cmd: cmd, changed: make(chan struct{}), done: make(chan struct{}), cancel: make(chan struct{}), lost: c.lose, cannot: c.cannot, deaf: c.deaf, loose: c.loose}
	if cmd.Terminal != nil {
		r.keys = newKeyboard()
	}
	if c.runs[id] == nil {
		c.runs[id] = make(map[int]*run)
	}
	c.runs[id][attempt] = r
	if !c.lose {
		c.begun++
		go r.live() // ends with its command, which each test ends
	}
	return r, nil
}

func (r *run) live() {
	argv := r.cmd.Argv
	var timer <-chan time.Time
	end := commands.End{Emptied: !r.loose}
	switch argv[0] {
	case "false":
		end.Exit.Code = 1
	case "sleep":
		d, _ := time.ParseDuration(argv[1])
		timer = time.After(d)
	case "print":
		d, _ := time.ParseDuration(argv[2])
		r.write(argv[1])
		timer = time.After(d)
	case "bytes":
		n, _ := strconv.Atoi(argv[1])
		r.write(string(bytes.Repeat([]byte("0123456789abcdef"), n/16)))
	case "sum":
		b, err := os.ReadFile(r.cmd.Stdin)
		if err != nil {
			end.Exit.Code = 1
		}
		r.write(protocol.Sum(b).String())
	case "hang":
		timer = make(chan time.Time)
	}
	if timer != nil {
		select {
		case <-timer:
		case <-r.cancel:
			end.Exit = protocol.Exit{Code: 143, Signal: 15, Cancelled: true}
			if r.killed.Load() {
				end.Exit = protocol.Exit{Code: 137, Signal: 9}
			}
		}
	}
	r.mu.Lock()
	end.Output = []protocol.Output{{FD: protocol.Stdout, Bytes: int64(len(r.text))}, {FD: protocol.Stderr}}
	if tty := r.cmd.Terminal; tty != nil && tty.RecordBytes > 0 {
		end.Output = append(end.Output, protocol.Output{FD: protocol.Recording, Bytes: 7, SHA256: protocol.Sum([]byte("a cast\n"))})
	}
	r.end = end
	r.mu.Unlock()
	r.close()
}

func (r *run) write(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text = append(r.text, s...)
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *run) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.done:
	default:
		close(r.done)
		close(r.changed)
	}
}

// dies is a supervisor that is killed.
func (r *run) dies() {
	r.mu.Lock()
	r.died = true
	r.mu.Unlock()
	r.close()
	r.once.Do(func() { close(r.cancel) })
}

func (r *run) Wait(ctx context.Context) (commands.End, error) {
	select {
	case <-r.done:
	case <-ctx.Done():
		return commands.End{}, context.Cause(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.died {
		return commands.End{}, runner.ErrDied
	}
	return r.end, nil
}

func (r *run) Cancel(ctx context.Context) error {
	if r.cannot {
		return runner.ErrUnsupported
	}
	if !r.deaf {
		r.once.Do(func() { close(r.cancel) })
	}
	select {
	case <-r.done:
		_, err := r.Wait(ctx)
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *run) Credit(ctx context.Context, stdout, stderr int64) error {
	if r.still.Load() {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if stdout != rundir.NotTaken {
		r.safe.Store(stdout)
	}
	if stderr != rundir.NotTaken {
		r.safeErr.Store(stderr + 1)
	}
	return nil
}

func (r *run) Attach(context.Context) (io.ReadWriteCloser, error) {
	if r.keys == nil {
		return nil, runner.ErrNoTerminal
	}
	return r.keys, nil
}

func (r *run) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}
func (r *run) Done() <-chan struct{} { return r.done }

// Started: its commands begin at once, if they do at all.
func (r *run) Started() <-chan struct{} {
	if r.lost {
		return r.done
	}
	began := make(chan struct{})
	close(began)
	return began
}

func (c *shell) Recover(_ context.Context, id protocol.ActionID, attempt int) (commands.Found, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.runs[id][attempt]
	if r == nil || r.lost {
		return commands.Found{Verdict: runner.NeverBegan, Emptied: true}, nil
	}
	select {
	case <-r.done:
	default:
		if r.reboot {
			return commands.Found{Verdict: runner.Rebooted, Emptied: true}, nil
		}
		return commands.Found{Verdict: runner.Adopted, Run: r}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.died {
		return commands.Found{Verdict: runner.Died, Emptied: !c.loose}, nil
	}
	return commands.Found{Verdict: runner.Exited, End: r.end, Emptied: true}, nil
}

func (c *shell) Look(_ context.Context, id protocol.ActionID, attempt int) (runner.Sight, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sight, nil
}

// Abandon kills a supervisor: what it leaves behind is found dead.
func (c *shell) Abandon(id protocol.ActionID, attempt int) error {
	r := c.get(id, attempt)
	c.mu.Lock()
	c.abandoned.Add(1)
	c.sight = runner.Sight{}
	c.mu.Unlock()
	r.dies()
	return nil
}

// seen is how all of them look from now on.
func (c *shell) seen(s runner.Sight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sight = s
}

type text struct {
	*bytes.Reader
	r *run
}

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

type nothing struct{ io.ReaderAt }

func (nothing) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }
func (nothing) Size() (int64, error)              { return 0, nil }
func (nothing) Close() error                      { return nil }

func (c *shell) Output(id protocol.ActionID, attempt int, fd protocol.FD) (commands.Output, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.runs[id][attempt]
	switch {
	case r == nil:
		return nil, fs.ErrNotExist
	case fd == protocol.Stderr:
		return nothing{}, nil
	}
	return text{r: r}, nil
}

func (c *shell) List() (map[protocol.ActionID]int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[protocol.ActionID]int)
	for id, runs := range c.runs {
		for n := range runs {
			all[id] = max(all[id], n)
		}
	}
	return all, nil
}

// Note is what a pull leaves: nothing, for nothing is pulled here.
func (c *shell) Note(protocol.ActionID, int) ([]byte, error) { return nil, fs.ErrNotExist }

// Space is what the test says.
func (c *shell) Space() (space.Space, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.space, nil
}

// Sizes counts what was written alone.
func (c *shell) Sizes() (map[protocol.ActionID]int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[protocol.ActionID]int64)
	for id, runs := range c.runs {
		for _, r := range runs {
			r.mu.Lock()
			all[id] += int64(len(r.text))
			r.mu.Unlock()
		}
	}
	return all, nil
}

func (c *shell) Remove(ids ...protocol.ActionID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		delete(c.runs, id)
	}
	return nil
}

func (c *shell) get(id protocol.ActionID, attempt int) *run {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs[id][attempt]
}
