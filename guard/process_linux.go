package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Kill ends every process of the control groups whose path has a component of this name,
// in whatever hierarchy, and returns nil only when none is left.
func Kill(ctx context.Context, group string) error {
	for {
		all, err := members(group)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return nil
		}
		for _, pid := range all {
			killMember(pid, group)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes of %s are not dead: %w", len(all), group, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// killMember kills a process if it is of the group: a pidfd is of one process, whatever
// becomes of its number.
func killMember(pid int, group string) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it is gone
	}
	defer unix.Close(fd)
	if in(pid, group) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// members are the processes of a group that live. A zombie is none: it runs nothing, and
// whether its parent takes note of it is not ours.
func members(group string) (all []int, err error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && in(pid, group) && !zombie(pid) {
			all = append(all, pid)
		}
	}
	return all, nil
}

// in reports whether a process is in a control group with such a component.
func in(pid int, group string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil || !strings.Contains(string(b), group) {
		return false
	}
	own := groupsOf(os.Getpid())
	for hierarchy, path := range groupsOf(pid) {
		if below(path, own[hierarchy], group) {
			return true
		}
	}
	return false
}

// groupsOf are the control groups of a process, by the numbers of their hierarchies.
func groupsOf(pid int) map[string]string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return nil
	}
	all := make(map[string]string)
	for line := range strings.Lines(string(b)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			all[f[0]] = f[2]
		}
	}
	return all
}

// below reports whether a path of control groups has such a component, which the host has made:
// the root of a container may make groups of any name below the group of that container. What
// the path has in common with the one of this process, own, was made around both.
func below(path, own, group string) bool {
	ours := strings.Split(own, "/")
	for i, part := range strings.Split(path, "/") {
		if i < len(ours) && ours[i] != part {
			ours = nil
		}
		switch {
		case part == group:
			return true
		case i < len(ours): // of both
		case strings.HasPrefix(part, "lxc.payload"), strings.HasPrefix(part, podmans) && !strings.HasPrefix(part, podmans+monitorName):
			return false
		}
	}
	return false
}

func zombie(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')'):]), " ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}

// Listen makes the socket of a guard. Of two guards at one path, the second fails.
func Listen(path string) (net.Listener, error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("another guard is there: %w", err)
	}
	_ = os.Remove(path) // of one that is dead
	l, err := net.Listen("unix", path)
	if err != nil {
		lock.Close()
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close(), lock.Close())
	}
	return locked{l, lock}, nil
}

// locked holds the lock for as long as it listens.
type locked struct {
	net.Listener
	lock *os.File
}

func (l locked) Close() error { return errors.Join(l.Listener.Close(), l.lock.Close()) }

// Settle makes the process hard to kill and never wait for memory: what it needs stays in
// memory, and the kernel looks for others when there is none left. What a host does not
// allow is returned, and costs no more than that.
func Settle() error {
	err := os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0)
	const onFault = 4 // MCL_ONFAULT: what is used stays
	if locks := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | onFault); locks != nil {
		err = errors.Join(err, os.NewSyscallError("mlockall", locks))
	}
	return err
}

// Twin keeps a second process that follows the guard until ctx ends: a new one for each
// that dies. argv is its program, and ready is called once, when the first one is there.
func (g *Guard) Twin(ctx context.Context, argv []string, ready func() error) error {
	for first := true; ; first = false {
		ended, err := g.follow(ctx, argv)
		if err == nil && first {
			err = ready()
		}
		if err != nil {
			return fmt.Errorf("start the guard's second process: %w", err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ended:
			g.log.Warn("the guard's second process has ended; there will be another one")
		}
	}
}

// follow starts one, gives it the table, and each that comes.
func (g *Guard) follow(ctx context.Context, argv []string) (ended <-chan struct{}, err error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	write := func(t Table) {
		line, err := json.Marshal(t)
		if err == nil {
			_, _ = in.Write(append(line, '\n')) // a process that cannot take it has ended, or ends
		}
	}
	tell := func(t Table) {
		mu.Lock()
		defer mu.Unlock()
		write(t)
	}
	done := make(chan struct{})
	mu.Lock() // a newer table is written behind this one
	g.mu.Lock()
	g.watch, g.twin = tell, true
	now := Table{Holds: slices.Clone(g.holds), Watchdog: g.device, Reboot: g.boot.state().Ready}
	g.mu.Unlock()
	write(now)
	mu.Unlock()
	go func() { // waited for by the reader of ended
		defer close(done)
		_ = cmd.Wait()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.twin = false
	}()
	context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ErrIdle) {
			tell(Table{}) // so that it ends without a kill
		}
		_ = in.Close()
	})
	return done, nil
}

// Spawn starts a guard as a process of its own, in a session of its own, which outlives
// the caller, and returns when it listens at path.
func Spawn(ctx context.Context, argv []string, path string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stderr = os.Stderr
	ready, signal, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	cmd.Stdout = signal
	err = cmd.Start()
	signal.Close()
	if err != nil {
		return fmt.Errorf("start %s: %w", filepath.Base(argv[0]), err)
	}
	_ = cmd.Process.Release()
	if deadline, ok := ctx.Deadline(); ok {
		_ = ready.SetReadDeadline(deadline)
	}
	var b [1]byte
	if _, err := ready.Read(b[:]); err != nil {
		return fmt.Errorf("the guard did not begin: %w", err)
	}
	return nil
}
