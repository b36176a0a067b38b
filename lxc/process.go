package lxc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/lxc/internal/wire"
	"github.com/hostler-io/hostler/runner"
)

// process is the helper as it is in production: one process per call.
type process struct {
	program runner.Sealed

	mu  sync.Mutex
	ops map[int]container.Operation // by the number of their process
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

// Bounds of one helper process.
const (
	// maxStderr is how much of its last words are kept for an error message.
	maxStderr = 4 << 10
	// pipeGrace is how long, after its end, something that it left behind may
	// keep its pipes open before they are closed.
	pipeGrace = 2 * time.Second
)

// loaderFailed is what ld.so says, with exit status 127, when a shared library
// is missing.
const loaderFailed = "error while loading shared libraries: "

func (p *process) call(ctx context.Context, op string, req wire.Request) (wire.Answer, error) {
	input, err := json.Marshal(req)
	if err != nil {
		return wire.Answer{}, fmt.Errorf("encoding request: %w", err)
	}
	var stdout = capped{limit: wire.MaxSize}
	var stderr = tail{limit: maxStderr}
	file, err := p.file()
	if err != nil {
		return wire.Answer{}, err
	}
	cmd := exec.CommandContext(ctx, file, op)
	cmd.Args[0] = p.program.Path
	cmd.Env = []string{"LC_ALL=C"}
	if op != wire.OpStart {
		// Templates are shell scripts: they need a PATH and must inherit nothing else.
		// At a start, liblxc would look there for newuidmap, which knows the ids of
		// /etc/subuid alone; the shell of a hook has a PATH of its own.
		cmd.Env = append(cmd.Env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
	cmd.Env = append(append(cmd.Env, failpoint.Environ()...), clock.Environ()...)
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(input)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return killGroup(cmd.Process) }
	cmd.WaitDelay = pipeGrace

	runErr := p.run(cmd, op, req)
	if err := unusable(p.program.Path, runErr, stderr.String()); err != nil {
		return wire.Answer{}, err
	}
	if stdout.full {
		return wire.Answer{}, fmt.Errorf("running %s: its answer exceeds %d bytes", p.program.Path, wire.MaxSize)
	}
	if killed(runErr) {
		return wire.Answer{}, fmt.Errorf("%w: running %s: %w%s", container.ErrInterrupted, p.program.Path, runErr, said(stderr.String()))
	}
	if runErr != nil {
		return wire.Answer{}, fmt.Errorf("running %s: %w%s", p.program.Path, runErr, said(stderr.String()))
	}
	a, err := wire.DecodeAnswer(stdout.buf.Bytes())
	if err != nil {
		return wire.Answer{}, fmt.Errorf("%w%s", err, said(stderr.String()))
	}
	if a.Code != "" && op == wire.OpCreate {
		a.Reason += said(stderr.String()) // the last words of a template say why
	}
	return a, nil
}

// file is what is executed.
func (p *process) file() (string, error) {
	file, err := p.program.File()
	if e := unusable(p.program.Path, err, ""); e != nil {
		return "", e
	}
	return file, err
}

// run runs a helper, which can be looked at meanwhile if it changes a container.
func (p *process) run(cmd *exec.Cmd, op string, req wire.Request) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	if name := req.Subject(); name != "" && op != wire.OpInspect {
		now := time.Now()
		defer p.begin(container.Operation{Verb: op, Name: name, PID: cmd.Process.Pid, Since: now, Until: now.Add(req.Timeout)})()
	}
	return cmd.Wait()
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

// killed reports whether a signal ended the helper.
func killed(runErr error) bool {
	exit, ok := errors.AsType[*exec.ExitError](runErr)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// killGroup ends the helper and all it started. The helper leads its group, and
// the number cannot belong to another one while any member lives.
func killGroup(leader *os.Process) error {
	if err := leader.Kill(); err != nil { // os.ErrProcessDone once it was waited for
		return err
	}
	if err := syscall.Kill(-leader.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// said appends what the helper wrote to its standard error, if anything.
func said(stderr string) string {
	if s := strings.TrimSpace(stderr); s != "" {
		return fmt.Sprintf(" (it said %q)", s)
	}
	return ""
}

// capped keeps what is written up to its limit and fails beyond, which ends the
// writer by a broken pipe.
type capped struct {
	limit int
	buf   bytes.Buffer
	full  bool
}

func (c *capped) Write(p []byte) (int, error) {
	if c.buf.Len()+len(p) > c.limit {
		c.full = true
		return 0, io.ErrShortWrite
	}
	return c.buf.Write(p)
}

// tail keeps the end of what is written.
type tail struct {
	limit int
	buf   []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.limit; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.ToValidUTF8(string(t.buf), "�") }
