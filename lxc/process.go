package lxc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/lxc/internal/wire"
	"github.com/hostler-io/hostler/runner"
)

// process is the helper as it is in production: one process per call, but for starts. One
// that has started a container is kept for the next start for a while, since executing it and
// loading liblxc takes longer than what it does. It does one start at a time, so that none
// is held up, or ended, with another.
type process struct {
	program runner.Sealed

	mu   sync.Mutex
	ops  map[int]container.Operation // by the number of their process
	idle []*child                    // which have started a container, and wait
}

// begin notes an operation that is under way; the function ends that.
func (p *process) begin(o container.Operation) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ops == nil {
		p.ops = make(map[int]container.Operation)
	}
	p.ops[o.PID] = o
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.ops, o.PID)
	}
}

func (p *process) operations() []container.Operation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.ops))
}

// loaderFailed is what ld.so says, with exit status 127, when a shared library
// is missing.
const loaderFailed = "error while loading shared libraries: "

// keepIdle is for how long a helper waits for another start.
const keepIdle = time.Second

func (p *process) call(ctx context.Context, op string, req wire.Request) (wire.Answer, error) {
	input, err := json.Marshal(req)
	if err != nil {
		return wire.Answer{}, fmt.Errorf("encoding request: %w", err)
	}
	file, err := p.file()
	if err != nil {
		return wire.Answer{}, err
	}
	for {
		if ctx.Err() != nil { // nothing has begun yet
			return wire.Answer{}, context.Cause(ctx)
		}
		c := p.waiting(file, op)
		if c == nil {
			if c, err = p.launch(file, op); err != nil {
				return wire.Answer{}, err
			}
		}
		a, err := p.ask(ctx, c, input, req)
		if errors.Is(err, errUnread) {
			continue // it has ended while it waited
		}
		if err == nil && a.More {
			p.keep(c)
		}
		return a, err
	}
}

// ask asks a helper, which can be looked at meanwhile if it changes a container.
func (p *process) ask(ctx context.Context, c *child, input []byte, req wire.Request) (wire.Answer, error) {
	if name := req.Subject(); name != "" && c.op != wire.OpInspect {
		now := time.Now()
		defer p.begin(container.Operation{Verb: c.op, Name: name, PID: c.cmd.Process.Pid, Since: now, Until: now.Add(req.Timeout)})()
	}
	return c.ask(ctx, input)
}

// waiting returns a helper that waits for a request; nil if there is none.
func (p *process) waiting(file, op string) *child {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 && op == wire.OpStart {
		c := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if c.late.Stop() && c.file == file && !c.over() {
			return c
		}
		c.dismiss()
	}
	return nil
}

// keep has a helper wait for another request.
func (p *process) keep(c *child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
	c.kept = true
	c.late = time.AfterFunc(keepIdle, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.idle = slices.DeleteFunc(p.idle, func(o *child) bool { return o == c })
		c.dismiss()
	})
}

// close ends the helpers that wait.
func (p *process) close() {
	p.mu.Lock()
	all := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range all {
		c.dismiss()
		<-c.ended
	}
}

// file is what is executed.
func (p *process) file() (string, error) {
	file, err := p.program.File()
	if e := unusable(p.program.Path, err, ""); e != nil {
		return "", e
	}
	return file, err
}

// unusable tells a host where LXC cannot be used from one where it failed.
func unusable(path string, runErr error, stderr string) error {
	if errors.Is(runErr, fs.ErrNotExist) {
		return fmt.Errorf("%w: helper %s is not installed", container.ErrUnsupported, path)
	}
	exit, ok := errors.AsType[*exec.ExitError](runErr)
	if !ok || exit.ExitCode() != 127 {
		return nil
	}
	if _, missing, found := strings.Cut(stderr, loaderFailed); found {
		library, _, _ := strings.Cut(missing, ":")
		return fmt.Errorf("%w: %s is not installed", container.ErrUnsupported, library)
	}
	return nil
}
