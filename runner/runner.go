// Package runner runs commands that outlive the process that ordered them.
//
// A command's parent is not the agent but a supervisor process, started by
// Start in a session of its own and with no pipe, no file and no environment in
// common with the agent. From then on the agent only watches a directory (see
// package rundir, the contract). So the agent can be killed with SIGKILL,
// restarted or upgraded at any line of its code: the command goes on, its output
// is kept, its end is recorded, and Recover tells afterwards what became of it.
//
//	r, err := runner.New(runner.Config{Root: "/var/lib/hostler/runs"})
//	run, err := r.Start(runner.Spec{…})
//	exit, err := run.Wait(ctx)
//
// After a restart there is one call per run that was under way, and its verdict
// is the whole truth that can be known:
//
//	found, err := r.Recover(ctx, action, attempt, boot)
//	switch found.Verdict {
//	case runner.Exited:     // found.Exit says how
//	case runner.Adopted:    // found.Run is watched again, nothing was missed
//	case runner.Rebooted:   // it ended with the machine, nobody knows how
//	case runner.Died:       // the supervisor was killed; what it left is dead too
//	case runner.NeverBegan: // nothing was ever executed, and nothing will be
//	}
//
// The supervisor's side is package supervise. One conformance suite, package
// runnertest, holds every supervisor program to the contract.
package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/space"
	"github.com/hostler-io/hostler/internal/spread"
	"github.com/hostler-io/hostler/runner/rundir"
)

var (
	// ErrClosed: the Runner was closed; the run goes on without being watched.
	ErrClosed = errors.New("runner is closed")
	// ErrDied: the supervisor ended without a record. Recover says more.
	ErrDied = errors.New("supervisor died without recording the end")
	// ErrUnsupported: this machine has no cgroup2 tree to hold the command,
	// so it cannot be cancelled as a whole. Nothing was done.
	ErrUnsupported = errors.New("cancelling is not supported here")
	// ErrRunning: the run is not over.
	ErrRunning = errors.New("run is not over")
)

// trash begins the names of actions that are being removed.
const trash = ".removed-"

// Config is what a Runner needs.
type Config struct {
	// Root is the directory that holds all run directories, absolute. It is
	// made with mode 0700 if it is missing. Required.
	Root string
	// Log takes what is worth knowing and belongs to no caller. Default: nothing.
	Log *slog.Logger
}

// Spec says what to start: the spec.json of the run and what goes beside it.
type Spec struct {
	rundir.Spec
	// Supervisor is the supervisor program and its arguments, to which the
	// run directory is appended, or rundir.Later. The program is an absolute
	// path.
	Supervisor []string
	// SecretEnv are more variables, as NAME=value. They are handed over through
	// memory and are in no file.
	SecretEnv []string
	// Stdin is given to the command: a file on the file system of the runs that is
	// there as it is to be read, by its path. It gets another name and is not copied.
	// Without it the command reads /dev/null.
	Stdin string
	// Note lets the command leave a note of what it did; see [Runner.Note].
	Note bool
}

// A Runner starts and watches runs below one root directory. Its methods may be
// called from any goroutine; calls that concern one action must not overlap.
type Runner struct {
	cfg    Config
	watch  *watcher
	spares spares
	closed chan struct{}
	once   sync.Once
	wg     sync.WaitGroup
}

// New prepares the root directory and begins to watch. Close must be called.
func New(cfg Config) (*Runner, error) {
	if !filepath.IsAbs(cfg.Root) {
		return nil, fmt.Errorf("runner: root %q is not an absolute path", cfg.Root)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Root, 0o700); err != nil {
		return nil, fmt.Errorf("making the runs directory: %w", err)
	}
	spread.Children(cfg.Root) // a dozen files come and go with each run
	// Supervisors make durable what is in it.
	if err := rundir.SyncDir(filepath.Dir(cfg.Root)); err != nil {
		return nil, fmt.Errorf("making the runs directory: %w", err)
	}
	if err := sweepTrash(cfg.Root); err != nil {
		return nil, fmt.Errorf("sweeping %q: %w", cfg.Root, err)
	}
	w, err := newWatcher()
	if err != nil {
		return nil, err
	}
	r := &Runner{cfg: cfg, watch: w, closed: make(chan struct{})}
	r.wg.Go(func() {
		if err := w.run(); err != nil {
			cfg.Log.Error("watching runs has ended", "err", err)
		}
	})
	return r, nil
}

// Close ends the watching and waits for its goroutines. Commands go on; what was
// started for the next ones is ended.
func (r *Runner) Close() error {
	var err error
	r.once.Do(func() {
		close(r.closed)
		err = r.watch.close()
		r.spares.close()
	})
	r.wg.Wait()
	return err
}

// Boot names the present boot, for Recover: boot id and start time of PID 1.
func Boot() (string, error) { return rundir.Boot() }

func (r *Runner) dir(action string, attempt int) rundir.Dir {
	return rundir.Dir(filepath.Join(r.cfg.Root, action, strconv.Itoa(attempt)))
}

// Start makes the run directory and starts the supervisor. It returns when the
// supervisor process exists; whether the command could be executed is told by
// the run's end. An attempt that exists gives fs.ErrExist. After any other error
// there is no supervisor, and Recover tells what there is, NeverBegan as a rule.
func (r *Runner) Start(spec Spec) (*Run, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("starting a run: %w", err)
	}
	if len(spec.Supervisor) == 0 || !filepath.IsAbs(spec.Supervisor[0]) {
		return nil, fmt.Errorf("starting run %s/%d: supervisor %q is not an absolute path", spec.Action, spec.Attempt, spec.Supervisor)
	}
	run, err := r.start(spec)
	if err != nil {
		return nil, fmt.Errorf("starting run %s/%d: %w", spec.Action, spec.Attempt, err)
	}
	return run, nil
}

func (r *Runner) start(spec Spec) (*Run, error) {
	dir := r.dir(spec.Action, spec.Attempt)
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	if spec.Note {
		spec.Env = append(slices.Clone(spec.Env), rundir.NoteVariable+"="+dir.Path(rundir.NoteFile))
	}
	if spec.Stdin != "" {
		if err := os.Link(spec.Stdin, dir.Path(rundir.StdinFile)); err != nil {
			return nil, fmt.Errorf("giving it its stdin: %w", err)
		}
	}
	secrets, err := r.handOver(&spec)
	if err != nil {
		return nil, fmt.Errorf("handing secrets over: %w", err)
	}
	failpoint.Before(failpoint.SpecKept)
	if err := dir.CreateSpec(&spec.Spec); err != nil {
		secrets.Close()
		return nil, err
	}
	failpoint.After(failpoint.SpecKept)
	run, err := r.newRun(spec.Action, spec.Attempt)
	if err != nil {
		secrets.Close()
		return nil, err
	}
	if err := r.startSupervisor(run, spec.Supervisor); err != nil {
		secrets.Close()
		run.release()
		return nil, err
	}
	if secrets != nil {
		r.wg.Go(func() {
			defer secrets.Close()
			select {
			case <-run.Started(): // it has read them before
			case <-r.closed:
			}
		})
	}
	return run, nil
}

// handOver makes a file in memory of the secrets of a run, which its supervisor
// finds by our process; nil if there are none.
func (r *Runner) handOver(spec *Spec) (*os.File, error) {
	if len(spec.SecretEnv) == 0 {
		return nil, nil
	}
	fd, err := unix.MemfdCreate("hostler-secrets", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "secrets")
	_, err = f.Write(rundir.AppendSecrets(nil, &rundir.Secrets{Action: spec.Action, Attempt: spec.Attempt, Env: spec.SecretEnv}))
	if err != nil {
		f.Close()
		return nil, err
	}
	spec.Secrets = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	return f, nil
}

// makeDir makes the directory of a new attempt.
func makeDir(dir rundir.Dir) error {
	if err := os.Mkdir(filepath.Dir(string(dir)), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Mkdir(string(dir), 0o700)
}

// An ID names one run.
type ID struct {
	Action  string
	Attempt int
}

// List returns every run that has a directory, in no particular order. What is
// listed but unknown to the caller is an orphan.
func (r *Runner) List() ([]ID, error) {
	actions, err := os.ReadDir(r.cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("listing runs: %w", err)
	}
	var ids []ID
	for _, a := range actions {
		if !rundir.ValidAction(a.Name()) || !a.IsDir() {
			continue
		}
		attempts, err := r.attempts(a.Name())
		if err != nil {
			return nil, fmt.Errorf("listing runs of %s: %w", a.Name(), err)
		}
		for _, n := range attempts {
			ids = append(ids, ID{a.Name(), n})
		}
	}
	return ids, nil
}

func (r *Runner) attempts(action string) ([]int, error) {
	entries, err := os.ReadDir(filepath.Join(r.cfg.Root, action))
	if err != nil {
		return nil, err
	}
	var attempts []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 0 && strconv.Itoa(n) == e.Name() {
			attempts = append(attempts, n)
		}
	}
	return attempts, nil
}

// Note returns what the command of an attempt has left of what it did. It fails
// with fs.ErrNotExist if that is nothing.
func (r *Runner) Note(action string, attempt int) ([]byte, error) {
	if !rundir.ValidAction(action) {
		return nil, fmt.Errorf("reading a note: action %q is not a plain name", action)
	}
	return rundir.ReadCapped(r.dir(action, attempt).Path(rundir.NoteFile), rundir.MaxRecord)
}

// Sizes returns how many bytes of the disk each action takes that has a directory.
func (r *Runner) Sizes() (map[string]int64, error) {
	ids, err := r.List()
	if err != nil {
		return nil, err
	}
	sizes := make(map[string]int64)
	for _, id := range ids {
		dir := r.dir(id.Action, id.Attempt)
		entries, err := os.ReadDir(string(dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("measuring run %s/%d: %w", id.Action, id.Attempt, err)
		}
		for _, e := range entries {
			var st unix.Stat_t
			switch err := unix.Lstat(dir.Path(e.Name()), &st); {
			case err == nil:
				sizes[id.Action] += st.Blocks * 512
			case !errors.Is(err, fs.ErrNotExist):
				return nil, fmt.Errorf("measuring run %s/%d: %w", id.Action, id.Attempt, err)
			}
		}
		sizes[id.Action] += 0 // it has a directory
	}
	return sizes, nil
}

// Space looks at the file system of the runs.
func (r *Runner) Space() (space.Space, error) { return space.Of(r.cfg.Root) }

// Remove removes every attempt of actions, output included. Of an action of which a
// supervisor or any process of a leaf lives it removes nothing, and gives ErrRunning;
// the others go all the same. An action that has no directory is no error.
func (r *Runner) Remove(actions ...string) error {
	var errs []error
	var gone []string
	for _, action := range actions {
		if !rundir.ValidAction(action) {
			errs = append(errs, fmt.Errorf("removing runs: action %q is not a plain name", action))
			continue
		}
		aside, err := r.setAside(action)
		if err != nil {
			errs = append(errs, fmt.Errorf("removing runs of %s: %w", action, err))
		} else if aside != "" {
			gone = append(gone, aside)
		}
	}
	if len(gone) == 0 {
		return errors.Join(errs...)
	}
	// Once for all of them: a directory waits here for the disk.
	if err := rundir.SyncDir(r.cfg.Root); err != nil {
		return errors.Join(append(errs, fmt.Errorf("removing runs: %w", err))...)
	}
	failpoint.After(failpoint.RunsRemoved)
	for _, dir := range gone {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// setAside gives the directory of an action, of which nothing lives, a name that
// nobody takes for a run, and returns its path; "" if there is none.
func (r *Runner) setAside(action string) (aside string, err error) {
	attempts, err := r.attempts(action)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, n := range attempts {
		lock, err := lockEnded(r.dir(action, n))
		if err != nil {
			return "", fmt.Errorf("attempt %d: %w", n, err)
		}
		defer rundir.Unlock(lock)
	}
	// One rename decides: half a directory would be taken for a crash.
	aside = filepath.Join(r.cfg.Root, trash+action)
	if err := os.RemoveAll(aside); err != nil {
		return "", err
	}
	failpoint.Before(failpoint.RunsRemoved)
	return aside, os.Rename(filepath.Join(r.cfg.Root, action), aside)
}

// lockEnded takes the lock of a run of which nothing lives.
func lockEnded(dir rundir.Dir) (*os.File, error) {
	lock, err := dir.Lock()
	if errors.Is(err, rundir.ErrLocked) {
		return nil, ErrRunning
	}
	if err != nil {
		return nil, err
	}
	start, err := dir.Start()
	if errors.Is(err, fs.ErrNotExist) || damaged(err) || err == nil && start.Leaf == "" {
		return lock, nil // nothing that could live, or be found
	}
	if err != nil {
		rundir.Unlock(lock)
		return nil, err
	}
	leaf := rundir.Leaf(start.Leaf)
	left, err := leaf.Populated()
	switch {
	case left:
		err = ErrRunning
	case err == nil:
		err = leaf.Remove() // it should be gone, and nothing else knows its name
	}
	if err != nil {
		rundir.Unlock(lock)
		return nil, err
	}
	return lock, nil
}

func sweepTrash(root string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), trash) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(root, e.Name())))
		}
	}
	return err
}
