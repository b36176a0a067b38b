package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/upgrade"
	"github.com/hostler-io/hostler/internal/buildinfo"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/release"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner"
)

// errUpgrade ends one wiring of the agent, so that another release is tried or put in
// place.
var errUpgrade = errors.New("another release of the agent is to be tried")

// awaitSwap ends with errUpgrade when the upgrade needs the agent out of the way.
func (n *node) awaitSwap(ctx context.Context) error {
	select {
	case <-n.swap:
		return errUpgrade
	case <-ctx.Done():
		return nil
	}
}

// programs are those of this host, as the agent of a member may replace them.
func (n *node) programs() *upgrade.Programs {
	_, err := os.Stat(n.config.LXC.Helper)
	return &upgrade.Programs{
		Dir: n.state.upgrade(), Version: buildinfo.Version, Arch: release.Arch(runtime.GOARCH), LXC: err == nil,
		Verify: func(sig []byte, file io.Reader) (string, error) {
			name, key, err := n.member.keys.Chain().VerifyRelease(sig, file)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s (%s)", name, key), nil
		},
		Swap: func() {
			select {
			case n.swap <- struct{}{}:
			default:
			}
		},
		Format: func(ctx context.Context) release.Format {
			self, err := thisProgram()
			if err != nil {
				return "" // and then nothing can be put in place either, which says why
			}
			return ownerOf(ctx, self).format
		},
		Settle: func(ctx context.Context, id protocol.ActionID) error { return awaitUnit(ctx, unitOf(id)) },
	}
}

// upgrader replaces the agent while no agent is wired. The process stays the one that
// the service manager has started: it is the watcher of the trial, and becomes
// the new agent by exec.
type upgrader struct {
	state      state
	reload     *reloading
	configured []string
	log        *slog.Logger
}

// run carries the upgrade one step on. When it returns nil the old agent goes on, and
// tells what has happened.
func (u *upgrader) run(ctx context.Context) error {
	alive, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { watched <- u.reload.service.Watch(alive, func(context.Context) {}) }() // waited for below
	defer func() { stop(); <-watched }()

	dir := u.state.upgrade()
	r, err := dir.Load()
	if err != nil {
		return err
	}
	if r.Stage == upgrade.Staged {
		u.log.Info("the new agent is tried", "version", r.Version, "probation_ms", r.ProbationMS)
		err := u.try(ctx, r)
		switch {
		case ctx.Err() != nil:
			return nil // neither has shown anything
		case err == nil:
			u.log.Info("the coordinator has answered the new agent", "version", r.Version)
			r.Stage, r.Why = upgrade.Proved, ""
		default:
			u.log.Warn("the new agent did not prove itself; the old one goes on", "version", r.Version, "error", err)
			r.Why = err.Error()
		}
		if err := dir.Keep(r); err != nil || r.Stage != upgrade.Proved {
			return err
		}
	}
	if r.Stage != upgrade.Proved {
		return nil
	}
	var self string
	if r.Installs++; r.Installs > maxInstalls {
		err = fmt.Errorf("that was begun %d times, and the agent ended under each", maxInstalls)
	} else if err = dir.Keep(r); err == nil {
		self, err = u.install(ctx, r)
	}
	if ctx.Err() != nil {
		return nil // the package manager has ended this process, and starts the new one
	}
	if err != nil {
		u.log.Error("the new programs cannot be put in place", "version", r.Version, "error", err)
		r.Stage, r.Why = upgrade.Failed, fmt.Sprintf("version %s was answered, but cannot be put in place: %s", r.Version, err)
		return dir.Keep(r)
	}
	u.log.Info("this process becomes the new agent", "version", r.Version)
	return fmt.Errorf("start %s: %w", self, syscall.Exec(self, os.Args, os.Environ()))
}

// maxInstalls is how often the programs are put in place before the old agent goes on: a
// package manager that restarts the agent and then fails would otherwise do so for ever.
const maxInstalls = 3

// answered is what the new agent prints when it was answered, with its version behind.
const answered = "answered as version "

// try runs the new agent in its trial. It is killed when its time is over, or when this
// process ends.
func (u *upgrader) try(ctx context.Context, r upgrade.Record) error {
	if err := u.copyMemory(ctx); err != nil {
		return fmt.Errorf("copy the agent's memory for the trial: %w", err)
	}
	defer os.RemoveAll(u.state.upgrade().Trial())
	probation := time.Duration(r.ProbationMS) * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, probation)
	defer cancel()
	cmd := exec.CommandContext(ctx, u.state.upgrade().Program(release.Agent), append([]string{"trial"}, u.configured...)...)
	out, said := &tail{}, &tail{}
	cmd.Stdout, cmd.Stderr = out, io.MultiWriter(os.Stderr, said)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	// The kernel kills the child when the thread ends that made it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("the coordinator did not answer it within %s%s", probation, said.last())
	case err != nil:
		return fmt.Errorf("it did not start, or ended: %w%s", err, said.last())
	case strings.TrimSpace(out.String()) != answered+r.Version:
		return fmt.Errorf("it ended and did not say that version %s was answered; it said %.100q", r.Version, out.String())
	}
	return nil
}

// copyMemory gives the new agent a copy of the agent's memory, which it may change as
// it likes. The number that it will count as its own start is used up here too: no
// agent after it says the same.
func (u *upgrader) copyMemory(ctx context.Context) error {
	dir := u.state.upgrade().Trial()
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	files, err := filepath.Glob(u.state.queueFile() + "*")
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := copyFile(f, filepath.Join(dir, filepath.Base(f))); err != nil {
			return err
		}
	}
	q, err := queue.Open(ctx, queue.Config{Path: u.state.queueFile(), Log: u.log})
	if err != nil {
		return err
	}
	now, err := now()
	if err == nil {
		_, err = q.Begin(ctx, now)
	}
	return errors.Join(err, q.Close())
}

// now is the time of a step of the queue.
func now() (queue.Now, error) {
	boot, err := runner.Boot()
	return queue.Now{WallMS: clock.Now().UnixMilli(), BootMS: clock.BootMS(), Boot: boot}, err
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// tail keeps the end of what a program says.
type tail struct{ bytes.Buffer }

const maxTail = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.Buffer.Write(b)
	if over := t.Len() - maxTail; over > 0 {
		t.Next(over)
	}
	return len(b), nil
}

// last is the last line, to be added to a sentence.
func (t *tail) last() string {
	lines := strings.Split(strings.TrimSpace(t.String()), "\n")
	if line := lines[len(lines)-1]; line != "" {
		return fmt.Sprintf("; its last words: %.300s", strings.ToValidUTF8(line, "?"))
	}
	return ""
}

// install puts the new programs in their places, and returns that of the agent: by the
// package manager if that has installed the old ones, and else one by one.
func (u *upgrader) install(ctx context.Context, r upgrade.Record) (self string, err error) {
	if self, err = thisProgram(); err != nil {
		return "", err
	}
	switch m := ownerOf(ctx, self); m.format {
	case r.Format:
		return self, u.manage(ctx, m, r)
	case "":
	default:
		return "", fmt.Errorf("%s has brought the programs of this host, and the packages are of %s", m.format, r.Format)
	}
	c := u.reload.now.config
	return self, upgrade.Replace(u.state.upgrade(), r, map[string]string{
		release.Agent: self, release.Run: c.Commands.Supervisor, release.LXC: helperOf(c),
	})
}

// helperOf is the program for LXC containers, if the host has it.
func helperOf(c config) string {
	if _, err := os.Stat(c.LXC.Helper); err != nil {
		return ""
	}
	return c.LXC.Helper
}

// manager is a package manager that has installed the programs of this host.
type manager struct {
	format release.Format // empty: none has
	path   string
}

// steps are the command lines that install packages, one after the other as long as they
// succeed. files are those of the packages, that of the agent first.
func (m manager) steps(files []string) [][]string {
	if m.format == release.Deb {
		// After an error it goes on to no other package: the agent and its helper fit each other.
		return [][]string{append([]string{m.path, "--install", "--abort-after=1", "--force-confdef", "--force-confold"}, files...)}
	}
	// rpm goes on to other packages after an error, in an order of its own. So the agent is
	// installed by itself, when all packages were found to fit this host. The signature
	// that counts was verified; what an earlier try has installed is installed once more.
	rpm := func(option string, files ...string) []string {
		return append([]string{m.path, "--upgrade", "--nosignature", "--replacepkgs", option}, files...)
	}
	steps := [][]string{rpm("--test", files...), rpm("--nodeps", files[0])}
	if len(files) > 1 {
		steps = append(steps, rpm("--quiet", files[1:]...))
	}
	return steps
}

// ownerOf finds the package manager of a program.
func ownerOf(ctx context.Context, program string) manager {
	owns := func(name string, args ...string) (string, bool) {
		path, err := exec.LookPath(name)
		return path, err == nil && exec.CommandContext(ctx, path, append(args, program)...).Run() == nil
	}
	if query, ours := owns("dpkg-query", "--search"); ours {
		return manager{release.Deb, filepath.Join(filepath.Dir(query), "dpkg")}
	}
	if rpm, ours := owns("rpm", "--query", "--file"); ours {
		return manager{release.RPM, rpm}
	}
	return manager{}
}

// manage has the package manager install the packages. Where systemd is in charge that
// runs as a unit of its own: it restarts the agent, and must not end with it.
func (u *upgrader) manage(ctx context.Context, m manager, r upgrade.Record) error {
	var files []string
	for _, p := range slices.Sorted(slices.Values(r.Packages)) { // the agent first
		if p == release.AgentLXC && helperOf(u.reload.now.config) == "" {
			continue // it would ask for libraries that this host does without
		}
		files = append(files, u.state.upgrade().Package(p, r.Format))
	}
	steps := m.steps(files)
	environ := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive"}
	// What it says goes to a file and not to this process, whose end must not matter.
	said := filepath.Join(u.state.upgrade().Release(), "install.log")
	log, err := os.Create(said)
	if err != nil {
		return err
	}
	defer log.Close()
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		unit := unitOf(r.Action)
		if err := awaitUnit(ctx, unit); err != nil {
			return err
		}
		steps = [][]string{asUnit(unit, said, environ, steps)}
	}
	for _, argv := range steps {
		cmd := exec.Command(argv[0], argv[1:]...) // what has begun to install goes on to its end, whatever becomes of this process
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), environ...), log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }() // it ends with the child, or with this process
		select {
		case err = <-ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err == nil {
			continue
		}
		b, _ := os.ReadFile(said) // it may have said nothing
		why := string(b)
		for _, begin := range []string{"error processing ", "error: "} { // of dpkg, of rpm
			if _, after, found := strings.Cut(why, begin); found {
				why = after
			}
		}
		return fmt.Errorf("%s: %w: %.300s", filepath.Base(m.path), err, strings.ToValidUTF8(strings.Join(strings.Fields(why), " "), "?"))
	}
	return nil
}

// asUnit has systemd run command lines as one unit, and say what they said to a file.
func asUnit(unit, said string, environ []string, steps [][]string) []string {
	argv := []string{
		"systemd-run", "--quiet", "--collect", "--wait", "--unit", unit, "--setenv", environ[0], "--setenv", environ[1],
		"--property", "TimeoutStartSec=infinity", "--property", "StandardOutput=append:" + said, "--property", "StandardError=append:" + said,
	}
	// Words are read as in a unit file.
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$")
	last := len(steps) - 1
	for _, step := range steps[:last] {
		words := make([]string, len(step))
		for i, w := range step {
			words[i] = `"` + quote.Replace(w) + `"`
		}
		argv = append(argv, "--property", "ExecStartPre="+strings.Join(words, " "))
	}
	return append(append(argv, "--"), steps[last]...)
}

// unitOf is the unit in which the package manager works for an action.
func unitOf(id protocol.ActionID) string { return "hostler-upgrade-" + id.String() }

// awaitUnit waits until the package manager has ended that an earlier process has
// started; where systemd is not in charge there is none.
func awaitUnit(ctx context.Context, unit string) error {
	for {
		state, err := exec.CommandContext(ctx, "systemctl", "show", "--property", "ActiveState", "--value", unit).Output()
		if s := strings.TrimSpace(string(state)); err != nil || s == "inactive" || s == "failed" {
			return ctx.Err()
		}
		if err := wait(ctx, time.Second, nil); err != nil {
			return err
		}
	}
}
