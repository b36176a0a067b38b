// Package agents runs the programs of fence-agents, which speak to fence devices. What one
// is told goes over its standard input as key=value lines, and never over its command
// line, where every user of the machine could read it.
//
// The programs are dangerous in three ways, against which this package holds: one without
// an action reboots the host; a line end in a value begins another parameter; and an
// exit code of 0 may be told although nothing was switched off, so what an off says is
// worth nothing before a status says the same (package fence).
package agents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/fence"
)

// Dir is where Debian and others install the programs.
const Dir = "/usr/sbin"

const (
	maxOutput   = 4 << 10   // bytes that are kept of what a program prints
	maxMetadata = 512 << 10 // of its description; the longest one of Debian 12 has 60 KiB
	// late is how long a pipe that a child of the program holds is waited for.
	late = 2 * time.Second
	// spare is how much earlier than we the program is to give up, so that it can say why.
	spare = 5 * time.Second
)

// Runner runs programs of one directory. It is safe for concurrent use.
type Runner struct {
	// Dir holds the programs. Nothing else is ever run.
	Dir string
	// Known keeps what programs have said of themselves; nil for none.
	Known *Descriptions
}

// Call is one question to a device.
type Call struct {
	Agent string
	Verb  string // on, off, status, monitor
	Host  string
	// Params are what the device is told, secrets included.
	Params map[string]string
	// PlugKey is the parameter that names the plug, and Plug its value; either may be
	// empty.
	PlugKey, Plug string
	// Limit is how long the program may take.
	Limit time.Duration
	// Hide are values that must not be in what is returned.
	Hide []string
}

// Result is what came of it.
type Result struct {
	Outcome fence.Outcome
	Text    string // the last line that the program printed, for people
	Took    time.Duration
}

// Run asks a device. It returns when the program has ended, or was killed with all of its
// children. An error of the call itself is a failure too: nothing was sent then.
func (r Runner) Run(ctx context.Context, c Call) Result {
	began := time.Now()
	in, err := c.stdin()
	if err != nil {
		return Result{Outcome: fence.OutcomeFailed, Text: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, c.Limit)
	defer cancel()
	out, code, err := r.exec(ctx, c.Agent, in, maxOutput)
	res := Result{Outcome: outcome(c.Verb, code, err), Text: c.text(out), Took: time.Since(began)}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		res.Outcome, res.Text = fence.OutcomeTimeout, "it was killed, because the program that has asked it ends"
	case ctx.Err() != nil:
		res.Outcome, res.Text = fence.OutcomeTimeout, fmt.Sprintf("it was killed after %s", c.Limit)
	case err != nil:
		res.Text = err.Error()
	}
	return res
}

// outcome reads an exit code. 2 says of a status that the host is off, and of nothing else
// anything good.
func outcome(verb string, code int, err error) fence.Outcome {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fence.OutcomeMissing
	case err != nil || code != 0 && code != 2:
		return fence.OutcomeFailed
	case code == 0:
		return fence.OutcomeOK
	case verb == string(fence.Status):
		return fence.OutcomeOff
	case verb == "monitor":
		return fence.OutcomeOK // it answers, and the host is off
	}
	return fence.OutcomeFailed
}

// stdin is what the program reads. The action is the last line: of two, the last one wins.
func (c *Call) stdin() ([]byte, error) {
	switch c.Verb {
	case "on", "off", "status", "monitor":
	default:
		return nil, fmt.Errorf("devices are not asked for %q", c.Verb)
	}
	if err := fence.CheckPlug(c.Plug); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(c.Params)) {
		if err := fence.CheckParam(key, c.Params[key]); err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s=%s\n", key, c.Params[key])
	}
	if _, told := c.Params["power_timeout"]; !told {
		fmt.Fprintf(&b, "power_timeout=%d\n", max(1, int((c.Limit-spare)/time.Second)))
	}
	fmt.Fprintf(&b, "nodename=%s\n", c.Host)
	if c.PlugKey != "" && c.Plug != "" {
		fmt.Fprintf(&b, "%s=%s\n", c.PlugKey, c.Plug)
	}
	fmt.Fprintf(&b, "action=%s\n", c.Verb)
	return b.Bytes(), nil
}

// text is the last line of an output, without secrets and without what a terminal would
// act on.
func (c *Call) text(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(bytes.ToValidUTF8(out, []byte("?")))), "\n")
	text := lines[len(lines)-1]
	for _, h := range c.Hide {
		if h != "" {
			text = strings.ReplaceAll(text, h, "…")
		}
	}
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, text)
	return fmt.Sprintf("%.200s", text)
}

// path finds a program, and refuses one that others than root can change.
func (r Runner) path(agent string) (string, error) {
	if err := fence.CheckAgent(agent); err != nil {
		return "", err
	}
	p := filepath.Join(r.Dir, agent)
	i, err := os.Stat(p)
	if err != nil {
		return "", fmt.Errorf("%s is not in %s: install the package fence-agents: %w", agent, r.Dir, fs.ErrNotExist)
	}
	if !Owned(i) {
		return "", fmt.Errorf("%s can be changed by others than root, and is not run", p)
	}
	return p, nil
}

// Owned reports whether a file is a regular one that only root, or the user of this process,
// can change.
func Owned(i fs.FileInfo) bool {
	st, ok := i.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid()) && i.Mode().Perm()&0o022 == 0 && i.Mode().IsRegular()
}

// exec runs a program to its end. code is −1 if a signal ended it.
func (r Runner) exec(ctx context.Context, agent string, in []byte, limit int, args ...string) (out []byte, code int, err error) {
	p, err := r.path(agent)
	if err != nil {
		return nil, -1, err
	}
	cmd := exec.CommandContext(ctx, p, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(in)
	keep := &tail{limit: limit}
	cmd.Stdout, cmd.Stderr = keep, keep
	cmd.WaitDelay = late
	// What is on its way must not outlive us: the kernel kills the program when the thread
	// that has started it ends, so that is kept.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // children that it has left
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		err = nil
		if code = exit.ExitCode(); code < 0 {
			err = fmt.Errorf("%s was ended by a signal", agent)
		}
	case errors.Is(err, exec.ErrWaitDelay):
		err = nil // it has ended; a child of it held the pipe
	}
	return keep.b, code, err
}

// tail keeps the end of what is written to it, and never refuses more.
type tail struct {
	b     []byte
	limit int
}

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p[max(0, len(p)-t.limit):]...)
	t.b = t.b[max(0, len(t.b)-t.limit):]
	return len(p), nil
}

var _ io.Writer = (*tail)(nil)
