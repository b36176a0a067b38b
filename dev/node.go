//go:build linux

package dev

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/network"
	"github.com/hostler-io/hostler/runner/rundir"
)

// look tells how the node is.
func (n node) look() (Node, error) {
	seen := Node{Name: n.name, State: Dead, Address: n.addr.Addr().String(), Cable: n.cable(), Log: n.log()}
	if n.index > 0 {
		seen.Socket = n.socket()
	}
	all, err := hierarchies()
	if err != nil {
		return seen, err
	}
	if seen.PID, err = n.pid(all); err != nil || seen.PID == 0 {
		return seen, err
	}
	plugged, err := network.Plugged(n.cable())
	if seen.State = Partitioned; plugged {
		seen.State = Running
	}
	return seen, err
}

// leaf is the node's cgroup in the cgroup2 tree, which holds all of it.
func (n node) leaf(all []hierarchy) rundir.Leaf {
	i := slices.IndexFunc(all, hierarchy.v2)
	return all[i].group(n.fleet.cfg.Name, n.name)
}

// initGroup is the cgroup of the node's init below the node's own: cgroup2
// wants processes at the leaves, and LXC's are beside this one.
const initGroup = "init.scope"

// pid finds the node's process 1, 0 if it is dead.
func (n node) pid(all []hierarchy) (int, error) {
	b, err := os.ReadFile(filepath.Join(string(n.leaf(all)), initGroup, "cgroup.procs"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return 0, nil
	}
	for line := range strings.Lines(string(b)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err == nil && isInit(pid) {
			return pid, nil
		}
	}
	return 0, err
}

// isInit reports whether the process is number 1 of a PID namespace right
// below this one.
func isInit(pid int) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may be gone
	for line := range strings.Lines(string(b)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			f := strings.Fields(ids)
			return len(f) == 2 && f[1] == "1"
		}
	}
	return false
}

// kill ends everything on the node, and returns when it is gone.
func (n node) kill(ctx context.Context) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("its processes do not end"))
	defer cancel()
	// Otherwise the kernel would take leave of the peers of its connections.
	if plugged, err := network.Plugged(n.cable()); err != nil {
		return err
	} else if plugged {
		if err := network.Unplug(n.cable()); err != nil {
			return err
		}
	}
	if err := n.leaf(all).End(ctx); err != nil {
		return fmt.Errorf("killing %s: %w", n.name, err)
	}
	if err := network.RemoveCable(n.cable()); err != nil {
		return err
	}
	return n.sweep(all)
}

// sweep removes the cgroups of a node that is dead.
func (n node) sweep(all []hierarchy) error {
	for _, h := range all {
		if err := h.group(n.fleet.cfg.Name, n.name).Remove(); err != nil {
			return fmt.Errorf("the cgroup of %s: %w", n.name, err)
		}
	}
	return nil
}

// errDead: there is nothing to plug in or out.
var errDead = errors.New("the host is dead; heal it first")

func (n node) unplug() error {
	seen, err := n.look()
	if err != nil {
		return err
	}
	if seen.State == Dead {
		return fmt.Errorf("%s: %w", n.name, errDead)
	}
	return network.Unplug(n.cable())
}

func (n node) plug() error { return network.Plug(n.cable(), n.fleet.bridge()) }

// InitArgs are the arguments by which hostler is started as process 1 of a
// node, before the names of fleet and node.
func InitArgs() []string { return []string{"dev", "init"} }

// boot starts the node and returns when its program does, or when the node
// says why not. With join, that is run first, and what it prints can be read
// from the reader.
func (n node) boot(ctx context.Context, join []string) (io.ReadCloser, error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	if err := n.sweep(all); err != nil { // what an earlier boot has left
		return nil, err
	}
	for _, h := range all {
		if err := h.makeGroup(n.fleet.cfg.Name, n.name); err != nil {
			return nil, fmt.Errorf("making the cgroup of %s: %w", n.name, err)
		}
	}
	out, err := n.start(ctx, order{
		Hierarchies: all, Address: n.addr, Log: n.log(), Join: join,
		Run: []string{n.fleet.program(n.daemon()), "--config", n.config(), "run"},
	})
	if err != nil {
		return nil, fmt.Errorf("booting %s: %w", n.name, err)
	}
	return out, nil
}

// lay connects a child of this process. When that executes itself anew from another thread
// than its first one, the kernel finds no namespaces under its number for a moment, and says
// that there is no such process.
func lay(c network.Cable) error {
	for {
		err := network.Lay(c)
		if !errors.Is(err, unix.ESRCH) || ended(c.PID) {
			return err
		}
	}
}

// ended reports whether a child has ended. It is still to be waited for.
func ended(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err != nil || info.Signo != 0
}

// start forks process 1, connects it, and hands it the order.
func (n node) start(ctx context.Context, o order) (out io.ReadCloser, err error) {
	cmd := exec.Command(n.fleet.program("hostler"), append(InitArgs(), n.fleet.cfg.Name, n.name)...)
	cmd.Env = programEnv(n.fleet.cfg.Bin)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	answer, said, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	printed, prints, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, answer.Close(), said.Close())
	}
	cmd.Stdout = prints
	cmd.ExtraFiles = []*os.File{said}
	// What the runtime of Go says when it ends a process stands beside what its programs say.
	log, err := os.OpenFile(n.log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		cmd.Stderr = log
		err = cmd.Start()
		_ = log.Close() // the process has its own
	}
	said.Close()
	prints.Close()
	defer answer.Close()
	if err != nil {
		printed.Close()
		return nil, err
	}
	defer func() {
		if err != nil {
			printed.Close()
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()
		} else {
			err = cmd.Process.Release() // it is the machine's from now on
		}
	}()
	if err := lay(network.Cable{Name: n.cable(), Bridge: n.fleet.bridge(), Peer: uplink, PID: cmd.Process.Pid}); err != nil {
		// Without its process there is nothing to connect, and it has said why it ended, or what
		// has ended it tells.
		if errors.Is(err, unix.ESRCH) {
			err = errors.Join(err, cmd.Wait())
		}
		_ = cmd.Process.Kill() // it may have ended
		if line, _ := bufio.NewReader(answer).ReadString('\n'); line != "" {
			return nil, fmt.Errorf("%s (%w)", strings.TrimSpace(line), errNotReady)
		}
		return nil, err
	}
	if err := json.NewEncoder(in).Encode(o); err != nil {
		return nil, err
	}
	in.Close()
	stop := context.AfterFunc(ctx, func() { answer.Close() })
	defer stop()
	line, err := bufio.NewReader(answer).ReadString('\n')
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if line = strings.TrimSpace(line); line != ready {
		return nil, fmt.Errorf("%s (%w)", line, errors.Join(err, errNotReady))
	}
	return printed, nil
}

var errNotReady = errors.New("its process 1 did not begin")

// programEnv is the environment of the programs: nothing of the operator's.
func programEnv(bin string) []string {
	return []string{"PATH=" + bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
}
