// Package probe looks at containers for the agent: by a command in them, a connection, or
// a request by HTTP.
//
// A command is run by the supervisor of the container's runtime, as any other is, but for
// no action: its run directory is in memory, and is removed when it has ended.
package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
)

const (
	// maxSaid is how much is kept of what a command says, in bytes.
	maxSaid = 1 << 10
	// endPatience is how long the end of a command may take that has to end.
	endPatience = 5 * time.Second
)

// Prober looks at containers. Its methods may be called from any goroutine.
type Prober struct {
	runs   *runner.Runner
	number atomic.Uint64
	http   *http.Client
}

// New returns a prober with its run directories below dir, which are best kept in memory.
// What an earlier process has left there is removed. Close must be called.
func New(dir string, log *slog.Logger) (*Prober, error) {
	dir, err := filepath.Abs(dir)
	if err == nil { // others are to find what else is beside it
		err = os.MkdirAll(filepath.Dir(dir), 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("preparing checks of containers: %w", err)
	}
	runs, err := runner.New(runner.Config{Root: dir, Log: log})
	if err != nil {
		return nil, fmt.Errorf("preparing checks of containers: %w", err)
	}
	left, err := runs.List()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing checks of containers: %w", err), runs.Close())
	}
	for _, run := range left {
		if err := runs.Remove(run.Action); err != nil && !errors.Is(err, runner.ErrRunning) {
			log.Warn("what a check of a container has left cannot be removed", "error", err)
		}
	}
	p := &Prober{runs: runs}
	// Numbers of an earlier process may live yet, by what it has started.
	p.number.Store(uint64(time.Now().UnixNano()))
	p.http = &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, Proxy: nil, MaxResponseHeaderBytes: 16 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p, nil
}

// Close ends the watching of commands.
func (p *Prober) Close() error { return p.runs.Close() }

// Probe looks at a container once, and returns why it is not well.
func (p *Prober) Probe(ctx context.Context, at containers.Probed, check contract.Check) error {
	switch {
	case len(check.Cmd) > 0:
		return p.exec(ctx, at, check)
	case check.TCP != 0:
		return p.tcp(ctx, at, check.TCP)
	}
	return p.get(ctx, at, check)
}

// address is where a port of a container is reached from its host.
func address(at containers.Probed, port int64) (string, error) {
	if len(at.Addresses) == 0 {
		return "", errors.New("the container has no address")
	}
	return netip.AddrPortFrom(at.Addresses[0], uint16(port)).String(), nil
}

func (p *Prober) tcp(ctx context.Context, at containers.Probed, port int64) error {
	where, err := address(at, port)
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", where)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (p *Prober) get(ctx context.Context, at containers.Probed, check contract.Check) error {
	port, path, err := check.Where()
	if err != nil {
		return err
	}
	where, err := address(at, port)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+where+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "hostler")
	resp, err := p.http.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("the answer is %d", resp.StatusCode)
	}
	return nil
}

func (p *Prober) exec(ctx context.Context, at containers.Probed, check contract.Check) error {
	if at.Runtime == nil {
		return errors.New("its runtime is gone")
	}
	s, err := at.Runtime.Exec(ctx, at.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", containers.ErrNotMade, err)
	}
	name := "check-" + at.CTID.String() + "-" + strconv.FormatUint(p.number.Add(1), 36)
	run, err := p.runs.Start(runner.Spec{Supervisor: s.Argv, Spec: rundir.Spec{
		Action: name, Attempt: 1, Argv: check.Cmd, TimeoutMS: max(1, check.Timeout().Milliseconds()), CapBytes: rundir.MinCap, Target: s.Target,
	}})
	if err != nil {
		return errors.Join(containers.ErrNotMade, err, p.remove(ctx, name))
	}
	exit, err := run.Wait(ctx)
	if err != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
		defer cancel()
		if ended := run.Cancel(late); ended == nil {
			_, _ = run.Wait(late) // it is over, or is found when the next process begins
		}
		return errors.Join(fmt.Errorf("it has not ended: %w", err), p.remove(ctx, name))
	}
	said := p.said(name)
	err = p.remove(ctx, name)
	switch {
	case exit.TimedOut:
		return errors.Join(errors.New("it has not ended in time"), err)
	case exit.Reason != "":
		return errors.Join(fmt.Errorf("it could not be run: %s", cmp.Or(exit.Detail, exit.Reason)), err)
	case exit.Code != 0 && said != "":
		return errors.Join(fmt.Errorf("it ended with %d: %s", exit.Code, said), err)
	case exit.Code != 0:
		return errors.Join(fmt.Errorf("it ended with %d", exit.Code), err)
	}
	return err
}

// said is the last line of a command.
func (p *Prober) said(name string) string {
	for _, fd := range []int{rundir.Stderr, rundir.Stdout} {
		out, err := p.runs.Output(name, 1, fd)
		if err != nil {
			continue
		}
		b := make([]byte, maxSaid)
		n, err := out.ReadAt(b, 0)
		_ = out.Close() // it was only read
		if err != nil && err != io.EOF {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(b[:n])), "\n")
		if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
			return last
		}
	}
	return ""
}

// remove removes the directory of a command. Its supervisor may take a moment to end
// after it has told the end.
func (p *Prober) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	for {
		err := p.runs.Remove(name)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, runner.ErrRunning) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // the next process removes it
		case <-time.After(20 * time.Millisecond):
		}
	}
}
