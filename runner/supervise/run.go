package supervise

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/runner/rundir"
)

const (
	// drainTime is how long pipes are read after the command has ended: what
	// it wrote is in them already, so only a process that left the leaf with
	// the pipe in hand can use it up.
	drainTime = 2 * time.Second
	// oomScore protects the supervisor from the out-of-memory killer: it is
	// small, and its death would orphan a command that might be large.
	oomScore = -500
	// killAgain is after how long a command that was killed and lives is killed
	// once more: one kill may miss who is being forked.
	killAgain = time.Second
)

// Config is what Run needs.
type Config struct {
	// Dir is the run directory. Required.
	Dir rundir.Dir
	// Launcher starts the command. Required.
	Launcher Launcher
	// Self is what Await has told. Default: Run looks.
	Self *Self
	// Clock counts the time limit. Default: the time since boot.
	Clock Clock
}

// Run supervises the one command of cfg.Dir from its start to its end, and
// returns nil when exit.json is durable. ErrTaken means that there was nothing
// to do; any other error that the end could not be recorded. It changes the
// process (umask, subreaper, OOM score), waits for every child of it and may be
// called once in its life.
func Run(cfg Config) error {
	if cfg.Dir == "" || cfg.Launcher == nil {
		return errors.New("supervise: Dir and Launcher are required")
	}
	if cfg.Clock == nil {
		cfg.Clock = bootClock{}
	}
	if err := rundir.SealFiles(); err != nil {
		return wrap("closing inherited files", err)
	}
	lock, err := take(cfg.Dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	unix.Umask(0o022)
	r := &run{Config: cfg, lock: lock}
	if err := r.begin(); errors.Is(err, errSecretsGone) || noRoom(err) && !r.Dir.Has(rundir.StartFile) {
		if r.leaf != "" {
			err = errors.Join(err, r.leaf.Remove())
		}
		return err // nothing began, and another attempt can
	} else if err != nil {
		r.giveUp(err)
	} else {
		r.watch()
	}
	return r.finish()
}

// take takes the lock of a directory in which nothing was started yet.
func take(dir rundir.Dir) (*os.File, error) {
	lock, err := dir.Lock()
	if errors.Is(err, rundir.ErrLocked) {
		return nil, ErrTaken
	}
	if err != nil {
		return nil, err
	}
	if dir.Has(rundir.StartFile) || dir.Has(rundir.ExitFile) {
		lock.Close()
		return nil, ErrTaken
	}
	return lock, nil
}

// A run is one call of Run. One goroutine owns it.
type run struct {
	Config
	lock    *os.File
	spec    *rundir.Spec
	self    rundir.Holder
	leaf    rundir.Leaf
	leafDir *os.File
	keep    rundir.Keep
	stdin   *os.File
	out     [2]*stream // stdout, stderr
	ctl     *control
	tty     *session  // nil without a terminal
	rec     *recorder // nil unless the terminal is recorded
	exit    rundir.Exit
	gate    gate
}

// begin does everything before the fork. When it fails, no process was made.
func (r *run) begin() error {
	if err := r.holdLock(); err != nil {
		return err
	}
	if err := r.Dir.ReserveExit(); err != nil {
		return wrap("reserving "+rundir.ExitFile, err)
	}
	spec, err := r.Dir.Spec()
	if err != nil {
		return Refuse(rundir.ReasonSpec, err)
	}
	r.spec = spec
	secrets, err := rundir.ReadSecrets(spec)
	if err != nil {
		return errSecretsGone
	}
	spec.Env = append(spec.Env, secrets...)
	parent, err := r.Launcher.Prepare(spec)
	if err != nil {
		return err
	}
	if err := r.makeLeaf(parent); err != nil {
		return err
	}
	if spec.Daemon && r.leaf == "" {
		return errors.New("a daemon needs a cgroup2 tree to be held by, which is not to be had here")
	}
	if err := r.openFiles(); err != nil {
		return err
	}
	if spec.Terminal != nil {
		r.rec = newRecorder(r.Dir, spec.Terminal, termOf(spec.Env), r.Clock)
		if spec.Terminal.RecordOrEnd && r.rec != nil && r.rec.err != nil {
			return wrap("recording the session", r.rec.err)
		}
		r.tty = newSession(r.Clock, time.Duration(spec.Terminal.HangUpMS)*time.Millisecond, r.rec)
	}
	if r.ctl, err = listen(r.Dir, r.leaf != "", r.tty, r.credit); err != nil {
		return wrap("listening on "+rundir.CtlFile, err)
	}
	return r.declareStart()
}

// termOf is the type of the terminal, as the command is told.
func termOf(env []string) string {
	for _, v := range env {
		if term, ok := strings.CutPrefix(v, "TERM="); ok {
			return term
		}
	}
	return ""
}

// holdLock says in the lock file who holds it.
func (r *run) holdLock() error {
	if r.Self == nil {
		self, err := look()
		if err != nil {
			return err
		}
		r.Self = self
	}
	r.self = rundir.Holder{PID: os.Getpid(), StartTicks: r.Self.ticks}
	return rundir.WriteHolder(r.lock, &r.self)
}

// makeLeaf makes the leaf below parent. Without a cgroup2 tree that may be
// written, or without cgroup.kill, the command runs without one.
func (r *run) makeLeaf(parent string) error {
	if parent == "" {
		return nil
	}
	leaf := rundir.Leaf(parent + "/" + rundir.LeafName(r.spec.Action, r.spec.Attempt))
	// Named before it is made, so that it can be found if we die in between.
	r.self.Leaf = string(leaf)
	if err := rundir.WriteHolder(r.lock, &r.self); err != nil {
		return err
	}
	failpoint.Before(failpoint.LeafMade)
	err := os.Mkdir(string(leaf), 0o755)
	failpoint.After(failpoint.LeafMade)
	switch {
	case errors.Is(err, fs.ErrExist):
		if left, err := leaf.Populated(); left || err != nil {
			return errors.Join(errors.New("the leaf "+string(leaf)+" is in use"), err)
		}
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return wrap("making the leaf", err)
	}
	if _, err := rundir.Mode(string(leaf) + "/cgroup.kill"); err != nil {
		return leaf.Remove()
	}
	r.leaf = leaf
	r.leafDir, err = os.OpenFile(string(leaf), os.O_RDONLY|unix.O_DIRECTORY, 0)
	return err
}

func (r *run) openFiles() error {
	// All files lie in one directory, so the lock tells what can be done with them.
	r.keep = rundir.NewKeep(r.spec.Cap(), canPunch(r.lock))
	for i, fd := range []int{rundir.Stdout, rundir.Stderr} {
		r.out[i] = newStream(r.Dir.Path(rundir.StreamFile(fd)), r.keep)
		r.out[i].waits(time.Duration(r.spec.WaitMS)*time.Millisecond, r.Clock)
	}
	path, given := "/dev/null", r.Dir.Has(rundir.StdinFile)
	if given {
		path = r.Dir.Path(rundir.StdinFile)
	}
	var err error
	if r.stdin, err = os.Open(path); err == nil && given {
		// It may be large, and this directory stays for weeks.
		err = os.Remove(path)
	}
	return err
}

// credit takes word of what is safe elsewhere, from any goroutine. A stream
// without a follower waits no longer for it.
func (r *run) credit(taken [2]int64) {
	for i, s := range r.out {
		if taken[i] != rundir.NotTaken {
			s.credit(taken[i])
		}
	}
}

// declareStart makes start.json durable. After it, it must never be assumed that
// the command did not run.
func (r *run) declareStart() error {
	r.exit.StartedMS = r.Clock.Now().Milliseconds()
	failpoint.Before(failpoint.StartDeclared)
	err := r.Dir.CreateStart(&rundir.Start{
		Boot: r.Self.boot, PID: r.self.PID, StartTicks: r.self.StartTicks,
		Leaf: string(r.leaf), StartedMS: r.exit.StartedMS, Keep: r.keep,
	})
	failpoint.After(failpoint.StartDeclared)
	return wrap("writing "+rundir.StartFile, err)
}

// fork starts the command and the reading of its pipes.
func (r *run) fork() (pid int, err error) {
	if r.leaf != "" {
		// Without a leaf nothing is promised about orphans: they are init's.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return 0, wrap("becoming subreaper", err)
		}
	}
	child, err := r.files()
	if err != nil {
		return 0, err
	}
	defer child.Stdout.Close()
	defer child.Stderr.Close()
	inheritOOMScore()
	failpoint.Before(failpoint.CommandForked)
	if pid, err = r.Launcher.Fork(child); err != nil {
		return 0, err
	}
	failpoint.After(failpoint.CommandForked)
	// Not before the fork: the command would inherit it.
	_ = setOOMScore(oomScore)
	for _, s := range r.out {
		go s.drain()
	}
	if r.tty != nil {
		r.tty.begin(r.out[0].read)
	}
	return pid, nil
}

// files makes the command's ends of its standard files: of pipes, or of a terminal.
func (r *run) files() (c Child, err error) {
	c = Child{Spec: r.spec, Stdin: r.stdin, Leaf: r.leafDir, Commit: r.gate.commit}
	if r.spec.Terminal == nil {
		if c.Stdout, err = r.out[0].pipe(); err == nil {
			c.Stderr, err = r.out[1].pipe()
		}
		return c, wrap("making a pipe", err)
	}
	master, slave, err := r.Launcher.OpenTerminal()
	if err != nil {
		return c, wrap("making a terminal", err)
	}
	if r.rec != nil {
		r.out[0].tap = r.rec.output
		r.out[0].take([]byte(r.rec.greeting()))
	}
	if master == nil {
		c.Stdin, c.Took = nil, func(made *os.File) { r.out[0].read = made }
		return c, nil
	}
	r.out[0].read = master
	if err := resize(master, r.spec.Terminal.Rows, r.spec.Terminal.Cols); err != nil {
		return c, wrap("making a terminal", err)
	}
	c.Stdin, c.Stdout, c.Stderr = slave, slave, slave
	return c, nil
}

// giveUp records that the command was not run, and why.
func (r *run) giveUp(err error) {
	r.exit.NeverBegan = true
	r.exit.Code = rundir.CodeNeverBegan
	r.exit.Reason = rundir.ReasonSetup
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		r.exit.Reason = refusal.Reason
	}
	switch r.exit.Reason {
	case rundir.ReasonNotFound:
		r.exit.Code, r.exit.NeverBegan = rundir.CodeNotFound, false
	case rundir.ReasonNotExecutable:
		r.exit.Code, r.exit.NeverBegan = rundir.CodeNotExecutable, false
	}
	r.detail(err)
	r.exit.Emptied = true
	r.exit.EndedMS = r.Clock.Now().Milliseconds()
}

// errSecretsGone tells that the process that started this supervisor has ended,
// and that the secrets of the command have gone with it.
var errSecretsGone = errors.New("the secrets of the command cannot be read any more")

// noRoom reports whether a step failed because the disk is full.
func noRoom(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// finish records the end and tells it to those who wait.
func (r *run) finish() error {
	if r.leafDir != nil {
		r.leafDir.Close()
	}
	if r.leaf != "" {
		r.detail(wrap("removing the leaf", r.leaf.Remove()))
	}
	failpoint.Before(failpoint.ExitPublished)
	err := r.publish()
	failpoint.After(failpoint.ExitPublished)
	if r.ctl != nil {
		r.ctl.close()
	}
	return wrap("writing "+rundir.ExitFile, err)
}

// How often, and for how long, the end is tried to be written down that the disk
// does not take. Space is set aside for it, but a file system that has become
// read-only takes nothing; and no other process knows how the command ended.
const (
	publishEvery    = time.Second
	publishPatience = time.Hour
)

// publish makes exit.json durable. Meanwhile the lock is held, so that the run
// counts as under way.
func (r *run) publish() error {
	for tries := publishPatience / publishEvery; ; tries-- {
		err := r.Dir.PublishExit(&r.exit)
		if err == nil || errors.Is(err, fs.ErrNotExist) || tries == 0 {
			return err
		}
		alarm, stop, e := r.Clock.After(publishEvery)
		if e != nil {
			return errors.Join(err, e)
		}
		<-alarm
		stop()
	}
}

// detail adds err, if any, to what exit.json tells people.
func (r *run) detail(err error) {
	if err == nil {
		return
	}
	text := err.Error()
	if r.exit.Detail != "" {
		text = r.exit.Detail + "; " + text
	}
	r.exit.Detail = cut(text, rundir.MaxDetail)
}

// cut returns at most n bytes of valid UTF-8 without control characters.
func cut(s string, n int) string {
	b := make([]byte, 0, min(n, len(s)))
	for _, c := range s {
		if c < ' ' {
			c = ' '
		}
		if len(b)+len(string(c)) > n {
			break
		}
		b = append(b, string(c)...)
	}
	return string(b)
}

// waited is the end of the main process.
type waited struct {
	status unix.WaitStatus
	err    error
}

// await delivers the end of the main process. With a leaf it reaps every child
// of this process, for the subreaper's orphans would stay zombies, and ends with
// the last one. Without a leaf it leaves the main process to be reaped, so that
// its pid, by which it must be signalled, stays its own.
func (r *run) await(main int) <-chan waited {
	ended := make(chan waited, 1)
	if r.leaf != "" {
		go reap(main, ended)
		return ended
	}
	go func() {
		var err error
		for {
			err = unix.Waitid(unix.P_PID, main, nil, unix.WEXITED|unix.WNOWAIT, nil)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		ended <- waited{err: err}
	}()
	return ended
}

func reap(main int, ended chan<- waited) {
	delivered := false
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			if !delivered {
				ended <- waited{err: err}
			}
			return
		case pid == main:
			delivered = true
			ended <- waited{status: status}
		}
	}
}

// inheritOOMScore undoes a protection that the supervisor itself inherited, so
// that the command does not. Raising the score needs no privilege.
func inheritOOMScore() {
	b, err := rundir.ReadCapped(oomScoreFile, 64)
	if err == nil && len(b) > 0 && b[0] == '-' {
		_ = setOOMScore(0)
	}
}

const oomScoreFile = "/proc/self/oom_score_adj"

// setOOMScore is best effort: lowering the score needs CAP_SYS_RESOURCE.
func setOOMScore(score int) error {
	f, err := os.OpenFile(oomScoreFile, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.Itoa(score))
	return errors.Join(err, f.Close())
}

func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return &stepError{doing, err}
}

// A stepError is fmt.Errorf("doing: %w") without fmt.
type stepError struct {
	doing string
	err   error
}

func (e *stepError) Error() string { return e.doing + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }
