// Lonely is the first program of a machine that a test boots, and with the guard the only
// one. It has the guard hold a process under the real watchdog, does to the guard what the
// word case= of the kernel's command line names, and says each half second that the machine
// still runs. After a time in which the machine should have been reset it switches it off.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/guard"
	"github.com/hostler-io/hostler/internal/clock"
)

const (
	socket = "/run/guard"
	group  = "lonely.payload"
	// frozen is a file system that a process can be made to wait for, for ever.
	frozen = "/frozen"
	// lasting is for how long the machine is watched after the fault: more than twice the
	// time of the watchdog.
	lasting = 25 * time.Second
)

func main() {
	switch filepath.Base(os.Args[0]) {
	case "sleep": // the program that the guard's test of itself starts, and what is held
		for {
			<-time.After(time.Hour)
		}
	case "writer":
		for {
			if err := os.WriteFile(frozen+"/file", []byte("still here"), 0o600); err != nil {
				say("write: %v", err)
			}
		}
	}
	if err := run(); err != nil {
		say("failed: %v", err)
	}
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// say writes one line for the test, with the time since boot.
func say(format string, args ...any) {
	fmt.Printf("lonely %d %s\n", clock.BootMS(), fmt.Sprintf(format, args...))
}

func run() error {
	name, err := prepare()
	if err != nil {
		return err
	}
	fault, ok := faults[name]
	if !ok {
		return fmt.Errorf("there is no case %q", name)
	}
	asks := guard.Resort{Watchdog: "/dev/watchdog"}
	switch name {
	case "unwatched", "undead":
		asks = guard.Resort{}
	case "restarted", "followed":
		asks = guard.Resort{Reboot: true}
	}
	ctx := context.Background()
	m := &machine{client: guard.NewClient(socket, asks, func(ctx context.Context) error {
		return guard.Spawn(ctx, []string{"/hostler-agent", "guard", "--socket", socket}, socket)
	})}
	shown, err := guard.SelfTest(ctx, m.client)
	if err != nil {
		return err
	}
	say("the watchdog: %+v", shown.Watchdog)
	say("it can restart the machine: %t", shown.Reboot.Ready)
	program := "/bin/sleep"
	if slices.Contains([]string{"unkillable", "undead", "restarted", "followed"}, name) {
		program = "/bin/writer"
	}
	if err := m.hold(ctx, program); err != nil {
		return err
	}
	if err := fault(ctx, m); err != nil {
		return err
	}
	say("fault")
	m.watch(lasting)
	say("lasted")
	return nil
}

// prepare makes a machine of what the kernel has booted, and returns the case.
func prepare() (name string, err error) {
	if err := os.Setenv("PATH", "/bin"); err != nil {
		return "", err
	}
	for _, m := range []struct{ kind, at string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"}, {"cgroup2", "/sys/fs/cgroup"}} {
		err = errors.Join(err, os.MkdirAll(m.at, 0o755), unix.Mount(m.kind, m.at, m.kind, 0, ""))
	}
	for _, module := range []string{"watchdog", "softdog", "loop"} {
		err = errors.Join(err, load("/modules/"+module+".ko"))
	}
	err = errors.Join(err, leaveAsOthersDo())
	line, readErr := os.ReadFile("/proc/cmdline")
	for word := range strings.FieldsSeq(string(line)) {
		if value, ok := strings.CutPrefix(word, "case="); ok {
			name = value
		}
	}
	return name, errors.Join(err, readErr)
}

func load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil {
		return fmt.Errorf("load %s: %w", path, err)
	}
	return nil
}

// leaveAsOthersDo stops the watchdog as systemd does, twice: by the call, and by a V. After
// that the kernel takes any close for a wish to stop it, until something else is written.
func leaveAsOthersDo() error {
	f, err := os.OpenFile("/dev/watchdog", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = unix.IoctlSetPointerInt(int(f.Fd()), unix.WDIOC_SETOPTIONS, unix.WDIOS_DISABLECARD)
	_, writeErr := f.WriteString("V")
	return errors.Join(err, writeErr, f.Close())
}

// machine is what the faults are done to.
type machine struct {
	client *guard.Client
	held   guard.Hold
	pid    int // of the process that is held
}

// hold starts a process in a control group of its own, under the guard.
func (m *machine) hold(ctx context.Context, program string) error {
	dir := "/sys/fs/cgroup/" + group
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if program == "/bin/writer" {
		if err := mountFrozen(); err != nil {
			return err
		}
	}
	m.held = guard.Hold{ID: "lonely", Group: group, UntilMS: clock.BootMS() + time.Hour.Milliseconds()}
	if err := m.client.Set(ctx, []guard.Hold{m.held}); err != nil {
		return err
	}
	cmd := exec.Command(program)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
	cmd.Stdout = os.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	m.pid = cmd.Process.Pid
	return nil
}

// faults are the cases.
var faults = map[string]func(context.Context, *machine) error{
	"killed":    killBoth,
	"unwatched": killBoth,
	"stopped":   func(context.Context, *machine) error { return signal(unix.SIGSTOP, "--socket") },
	"alone":     func(context.Context, *machine) error { return signal(unix.SIGKILL, "--socket") },
	"emptied": func(ctx context.Context, m *machine) error {
		m.watch(lasting) // it is fed as long as something is held
		err := errors.Join(m.client.Set(ctx, nil), m.client.Close())
		for len(guards("--socket")) > 0 { // it ends by itself
			m.watch(0)
		}
		return err
	},
	"unkillable": unkillable,
	"undead":     unkillable,
	"restarted":  unkillable,
	"followed": func(ctx context.Context, m *machine) error {
		return errors.Join(unkillable(ctx, m), signal(unix.SIGKILL, "--socket"))
	},
}

// unkillable has what is held wait for a disk for ever, and its deadline pass.
func unkillable(ctx context.Context, m *machine) error {
	if err := freeze(); err != nil {
		return err
	}
	for m.state() != "D" {
		m.watch(0)
	}
	m.held.UntilMS = clock.BootMS()
	return m.client.Set(ctx, []guard.Hold{m.held})
}

// killBoth kills the guard and its second process. Neither sees the other die, as both are
// stopped before.
func killBoth(context.Context, *machine) error {
	return errors.Join(signal(unix.SIGSTOP, "--socket"), signal(unix.SIGSTOP, "--follow"), signal(unix.SIGKILL, "--follow"), signal(unix.SIGKILL, "--socket"))
}

func signal(s unix.Signal, flag string) (err error) {
	all := guards(flag)
	if len(all) != 1 {
		return fmt.Errorf("%d guards have %s", len(all), flag)
	}
	return unix.Kill(all[0], s)
}

// guards are the processes of a guard that have a flag.
func guards(flag string) (all []int) {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range found {
		b, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(b, []byte("/hostler-agent\x00guard\x00"+flag)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// watch says that the machine runs, for a time, and what becomes of the process that is
// held.
func (m *machine) watch(d time.Duration) {
	for until := clock.Boot() + d; ; {
		say("runs, and what is held is %s", m.state())
		var dead unix.WaitStatus
		_, _ = unix.Wait4(-1, &dead, unix.WNOHANG, nil) // as the first process must
		<-time.After(500 * time.Millisecond)
		if clock.Boot() >= until {
			return
		}
	}
}

// state is the letter of the kernel for the process that is held.
func (m *machine) state() string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.pid))
	if err != nil {
		return "gone"
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return rest[:1]
}

// mountFrozen mounts the file system that is to be frozen.
func mountFrozen() error {
	image, err := os.OpenFile("/frozen.ext4", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer image.Close()
	loop, err := os.OpenFile("/dev/loop0", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer loop.Close()
	if err := unix.IoctlSetInt(int(loop.Fd()), unix.LOOP_SET_FD, int(image.Fd())); err != nil {
		return fmt.Errorf("attach %s: %w", image.Name(), err)
	}
	return errors.Join(os.MkdirAll(frozen, 0o755), unix.Mount(loop.Name(), frozen, "ext4", 0, ""))
}

// freeze has all that write to the file system wait.
func freeze() error {
	f, err := os.Open(frozen)
	if err != nil {
		return err
	}
	defer f.Close()
	const fifreeze = 0xC0045877 // FIFREEZE
	if err := unix.IoctlSetInt(int(f.Fd()), fifreeze, 0); err != nil {
		return fmt.Errorf("freeze %s: %w", frozen, err)
	}
	return nil
}
