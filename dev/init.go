//go:build linux

package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/network"
)

const (
	// uplink is the interface of a node.
	uplink = "eth0"
	// ready is what process 1 says when its program runs.
	ready = "ready"
	// answerFD is where it says that.
	answerFD = 3
	// restartAfter is how long a program that ended stays away, as under a
	// service manager.
	restartAfter = time.Second
	// inside marks the second half of Init, in its arguments.
	inside = "inside"
)

// order is what process 1 of a node is to do, as JSON on its standard input.
type order struct {
	Hierarchies []hierarchy  `json:"hierarchies"`
	Address     netip.Prefix `json:"address"`
	Log         string       `json:"log"`            // of its programs
	Join        []string     `json:"join,omitempty"` // a command line that comes first, once
	Run         []string     `json:"run"`            // the command line that is kept running
}

// Init is process 1 of a node: args are the names of fleet and node. It is
// started in new namespaces by Up and Heal alone. It enters the node's cgroups,
// makes the machine look as if the node were alone on it, keeps the node's
// program running with that environment, and reaps what loses its parent. It
// ends by SIGKILL.
func Init(args, environ []string) error {
	if os.Getpid() != 1 {
		return errors.New("this is for process 1 of a node; hostler dev up starts it")
	}
	answer := os.NewFile(answerFD, "answer")
	var err error
	switch {
	case len(args) == 2:
		err = enter(args[0], args[1], environ)
	case len(args) == 3 && args[2] == inside:
		unix.CloseOnExec(answerFD)
		err = serve(args[1], environ, answer)
	default:
		err = fmt.Errorf("want the names of fleet and node, not %q", args)
	}
	fmt.Fprintln(answer, err)
	return err
}

// enter brings this process into its cgroups and makes them the roots of what
// it sees. A cgroup namespace belongs to a thread, so the program is executed
// anew by the one that has it.
func enter(fleet, node string, environ []string) error {
	runtime.LockOSThread()
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		if err := h.enter(fleet, node); err != nil {
			return err
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("making a cgroup namespace: %w", err)
	}
	argv := append(append([]string{"hostler"}, InitArgs()...), fleet, node, inside)
	return unix.Exec("/proc/self/exe", argv, environ)
}

// serve takes the order and carries it out. It returns only if it cannot.
func serve(name string, environ []string, answer *os.File) error {
	var o order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return fmt.Errorf("reading the order: %w", err)
	}
	if err := unix.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := mountAll(o.Hierarchies); err != nil {
		return err
	}
	if err := network.Configure("lo", netip.Prefix{}); err != nil {
		return err
	}
	if err := network.Configure(uplink, o.Address); err != nil {
		return err
	}
	log, err := os.OpenFile(o.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	k := &keeper{environ: environ, log: log, null: null, ended: make(chan os.Signal, 1)}
	signal.Notify(k.ended, syscall.SIGCHLD)
	return k.keep(o, answer)
}

// mountAll gives the node its own view of processes, devices and cgroups, and
// an empty /run, where liblxc keeps locks by the names of containers.
func mountAll(all []hierarchy) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("leaving the machine's mounts: %w", err)
	}
	// For a container with users of its own podman unmounts what the table of mounts has
	// below /sys/kernel, and fails at what lies under another mount.
	if err := unix.Unmount("/sys", unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) { // it may be no mount
		return fmt.Errorf("leaving the machine's /sys: %w", err)
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, m := range []struct{ kind, at, options string }{
		{"proc", "/proc", ""},
		{"sysfs", "/sys", ""},
		{"tmpfs", "/sys/fs/cgroup", "mode=755"},
		{"tmpfs", "/run", "mode=755"},
	} {
		if err := unix.Mount(m.kind, m.at, m.kind, flags, m.options); err != nil {
			return fmt.Errorf("mounting %s: %w", m.at, err)
		}
	}
	for _, h := range all {
		if err := h.mount(); err != nil {
			return err
		}
		if !h.v2() {
			continue
		}
		group := h.Mount + "/" + initGroup
		if err := os.Mkdir(group, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(group+"/cgroup.procs", []byte("0"), 0); err != nil {
			return err
		}
	}
	return nil
}

// keeper is the part of process 1 that never ends.
type keeper struct {
	environ   []string
	log, null *os.File
	ended     chan os.Signal
}

// keep runs what comes first, then keeps the other running.
func (k *keeper) keep(o order, answer *os.File) error {
	argv, out := o.Run, k.log
	if len(o.Join) > 0 {
		argv, out = o.Join, os.Stdout
	}
	pid, err := k.start(argv, out)
	if err != nil {
		return err
	}
	// A reader sees the end of what comes first, and a caller that
	// waits for the answer that there is no more to come.
	if err := errors.Join(unix.Dup2(int(k.null.Fd()), 0), unix.Dup2(int(k.null.Fd()), 1)); err != nil {
		return err
	}
	fmt.Fprintln(answer, ready)
	answer.Close()
	var again <-chan time.Time
	for {
		select {
		case <-k.ended:
			code, ended := k.reap(pid)
			switch {
			case !ended:
			case len(o.Join) > 0 && code == 0:
				o.Join, again = nil, time.After(0)
			case len(o.Join) > 0:
				fmt.Fprintf(k.log, "the node did not join: exit code %d\n", code)
				o.Join = nil
			default:
				fmt.Fprintf(k.log, "%s ended with exit code %d; it is started again\n", argv[0], code)
				again = time.After(restartAfter)
			}
		case <-again:
			argv, again = o.Run, nil
			if pid, err = k.start(argv, k.log); err != nil {
				fmt.Fprintln(k.log, err)
				again = time.After(restartAfter)
			}
		}
	}
}

func (k *keeper) start(argv []string, out *os.File) (int, error) {
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
		Dir: "/", Env: k.environ, Files: []*os.File{k.null, out, k.log}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, err
	}
	pid := p.Pid            // which Release takes away
	return pid, p.Release() // it is reaped by number, like everything here
}

// reap takes the ends of all children, and tells whether the one of that number
// was among them and with what exit code (128 and the number for a signal).
func (k *keeper) reap(pid int) (code int, ended bool) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || got <= 0 {
			return code, ended
		}
		if got == pid {
			if code, ended = status.ExitStatus(), true; status.Signaled() {
				code = 128 + int(status.Signal())
			}
		}
	}
}
