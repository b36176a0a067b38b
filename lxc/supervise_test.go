//go:build linux && cgo

package lxc_test

import (
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/builttest"
	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
)

// running returns a running container that knows the user nobody, and how to
// run commands in it.
func running(t *testing.T) (*machine, container.Info, container.Supervisor) {
	t.Helper()
	m := newMachine(t, nil)
	spec := m.create(t)
	etc := filepath.Join(m.cfg.LXCPath, spec.Name, "rootfs", "etc")
	for file, line := range map[string]string{"passwd": "nobody:x:65534:65534::/home:/bin/sh\n", "group": "staff:x:50:nobody\n"} {
		f, err := os.OpenFile(filepath.Join(etc, file), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(line); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	info := m.start(t, spec.Name)
	supervisor, err := m.Exec(t.Context(), spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	return m, info, supervisor
}

// commands runs one command after the other.
type commands struct {
	runner     *runner.Runner
	root       string
	supervisor container.Supervisor
	attempt    int
}

func newCommands(t *testing.T, s container.Supervisor) *commands {
	t.Helper()
	root := filepath.Join(t.TempDir(), "runs")
	r, err := runner.New(runner.Config{Root: root, Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return &commands{runner: r, root: root, supervisor: s}
}

// action names all commands of this process.
func action() string { return "lxc-test-" + strconv.Itoa(os.Getpid()) }

// dir is the run directory of the last command.
func (c *commands) dir() rundir.Dir {
	return rundir.Dir(filepath.Join(c.root, action(), strconv.Itoa(c.attempt)))
}

func (c *commands) start(t *testing.T, user string, argv ...string) *runner.Run {
	t.Helper()
	c.attempt++
	run, err := c.runner.Start(runner.Spec{
		Spec:       rundir.Spec{Action: action(), Attempt: c.attempt, Argv: argv, User: user, Target: c.supervisor.Target, GraceMS: -1},
		Supervisor: c.supervisor.Argv,
	})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func (c *commands) do(t *testing.T, user string, argv ...string) (*rundir.Exit, string) {
	t.Helper()
	run := c.start(t, user, argv...)
	exit, err := run.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := run.Output(rundir.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	size, err := out.Size()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(io.NewSectionReader(out, 0, size))
	if err != nil {
		t.Fatal(err)
	}
	return exit, strings.TrimSpace(string(raw))
}

// sleep starts a command that does not end, and returns its leaf once it runs.
func (c *commands) sleep(t *testing.T) (run *runner.Run, leaf string) {
	t.Helper()
	run = c.start(t, "", "/bin/sh", "-c", "echo ready; exec sleep 1000")
	c.says(t, run)
	start, err := c.dir().Start()
	if err != nil {
		t.Fatal(err)
	}
	return run, start.Leaf
}

// says waits until a command has written something.
func (c *commands) says(t *testing.T, run *runner.Run) {
	t.Helper()
	out, err := run.Output(rundir.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for {
		changed := run.Changed()
		if size, err := out.Size(); err != nil {
			t.Fatal(err)
		} else if size > 0 {
			break
		}
		select {
		case <-changed:
		case <-run.Done():
			exit, err := run.Wait(t.Context())
			t.Fatalf("the command ended: %+v, %v", exit, err)
		}
	}
}

// softFileLimit is what a child of ours may open: os/exec gives it the limit
// that we were given.
func softFileLimit(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("/bin/sh", "-c", "ulimit -Sn").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestExecIsInside: a command sees the container and not the host, as the
// container's user, and stands in its own leaf below the container's cgroup.
func TestExecIsInside(t *testing.T) {
	_, info, supervisor := running(t)
	c := newCommands(t, supervisor)
	for _, tt := range []struct{ user, line, want string }{
		{"", "hostname", info.Name},
		{"", "id -u; id -G", "0\n0"},
		{"nobody", "id -u; id -g; id -G; echo $USER $HOME", "65534\n65534\n65534 50\nnobody /home"},
		{"1234:5678", "id -u; id -G", "1234\n5678"},
		{"", "readlink /proc/1/exe", "/sbin/init"},
		{"", "ls /proc/self/fd | wc -l", "4"}, // 0, 1, 2 and the directory itself
		{"", "cut -d' ' -f6 /proc/$$/stat; echo $$", ""},
	} {
		exit, out := c.do(t, tt.user, "/bin/sh", "-c", tt.line)
		if exit.Code != 0 || exit.Reason != "" || tt.want != "" && out != tt.want {
			t.Errorf("%q as %q: %q, %+v; want %q", tt.line, tt.user, out, exit, tt.want)
		}
		if session, pid, two := strings.Cut(out, "\n"); tt.want == "" && (!two || session != pid) {
			t.Errorf("process %s is in session %s, want its own", pid, session)
		}
	}
}

// TestExecIsConfined: a command is held by whatever holds the container's init:
// capabilities that are gone, and the filter of system calls. Root in there
// would else be more than root in the container.
func TestExecIsConfined(t *testing.T) {
	m := newMachine(t, nil)
	spec := m.create(t)
	config, err := os.OpenFile(filepath.Join(m.cfg.LXCPath, spec.Name, "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer config.Close()
	if _, err := config.WriteString("lxc.seccomp.profile = /usr/share/lxc/config/common.seccomp\n"); err != nil {
		t.Fatal(err)
	}
	m.start(t, spec.Name)
	supervisor, err := m.Exec(t.Context(), spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	const confinement = "grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/"
	exit, out := newCommands(t, supervisor).do(t, "", "/bin/sh", "-c", confinement+"1/status; echo; "+confinement+"self/status")
	init, command, _ := strings.Cut(out, "\n\n")
	if exit.Code != 0 || command != init {
		t.Errorf("%+v: the command is confined by\n%s\nwant, as init,\n%s", exit, command, init)
	}
	ours, err := exec.Command("/bin/sh", "-c", confinement+"self/status").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(ours)), "\n") {
		name, _, _ := strings.Cut(line, ":")
		if confines := name == "CapBnd" || name == "CapEff" || name == "Seccomp"; confines && strings.Contains(init, line) {
			t.Errorf("init is not confined, so this tries nothing: %s", line)
		}
	}
}

// TestExecKeepsNoWayOut: no descriptor of the supervisor is open when the command's
// directory and program are looked up, so /proc/self/fd leads nowhere. Each would be
// a way onto the host's file systems (the pattern of CVE-2024-21626).
func TestExecKeepsNoWayOut(t *testing.T) {
	m, info, supervisor := running(t)
	c := newCommands(t, supervisor)
	rootfs := filepath.Join(m.cfg.LXCPath, info.Name, "rootfs")
	busybox, err := os.ReadFile(filepath.Join(rootfs, "bin/busybox"))
	if err != nil {
		t.Fatal(err)
	}
	host := filepath.Join(t.TempDir(), "true") // is nowhere in the container
	if err := builttest.Write(host, string(busybox)); err != nil {
		t.Fatal(err)
	}
	for fd := 3; fd < 32; fd++ {
		dir := "/proc/self/fd/" + strconv.Itoa(fd)
		link := "way" + strconv.Itoa(fd)
		if err := os.Symlink(dir, filepath.Join(rootfs, link)); err != nil {
			t.Fatal(err)
		}
		for _, cwd := range []string{dir, dir + "/..", "/" + link} {
			c.attempt++
			run, err := c.runner.Start(runner.Spec{
				Spec:       rundir.Spec{Action: action(), Attempt: c.attempt, Argv: []string{"/bin/true"}, Dir: cwd, Target: supervisor.Target, GraceMS: -1},
				Supervisor: supervisor.Argv,
			})
			if err != nil {
				t.Fatal(err)
			}
			if exit, err := run.Wait(t.Context()); err != nil || exit.Reason != rundir.ReasonDirectory {
				t.Errorf("in directory %s: %+v, %v; want %s", cwd, exit, err, rundir.ReasonDirectory)
			}
		}
		program := dir + strings.Repeat("/..", 12) + host
		if exit, _ := c.do(t, "", program); exit.Reason != rundir.ReasonNotFound {
			t.Errorf("program %s: %+v, want %s", program, exit, rundir.ReasonNotFound)
		}
	}
}

// TestExecKeepsFileLimit: the Go runtime raises its own soft limit on open
// files; neither containers nor commands may see that.
func TestExecKeepsFileLimit(t *testing.T) {
	_, _, supervisor := running(t)
	exit, out := newCommands(t, supervisor).do(t, "", "/bin/sh", "-c", "ulimit -Sn; grep 'open files' /proc/1/limits")
	if exit.Code != 0 {
		t.Fatalf("%+v", exit)
	}
	want := softFileLimit(t)
	command, init, _ := strings.Cut(out, "\n")
	if fields := strings.Fields(init); command != want || len(fields) < 4 || fields[3] != want {
		t.Errorf("the command may open %s files and the container's init %s; want %s", command, init, want)
	}
}

// TestExecLeaf: the command is in a cgroup2 directory of its own, below the
// container's.
func TestExecLeaf(t *testing.T) {
	_, info, supervisor := running(t)
	c := newCommands(t, supervisor)
	run, leaf := c.sleep(t)
	pids, err := os.ReadFile(filepath.Join(leaf, "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(leaf, "/lxc.payload."+info.Name+"/") {
		t.Errorf("leaf %s is not below the container's cgroup", leaf)
	}
	if lines := strings.Count(string(pids), "\n"); lines != 1 {
		t.Errorf("the leaf holds %q, want one process", pids)
	}
	if err := run.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	exit, err := run.Wait(t.Context())
	if err != nil || !exit.Cancelled || !exit.Emptied {
		t.Errorf("cancelled command: %+v, %v", exit, err)
	}
}

// TestExecGroups: a command is counted to its container in every hierarchy, and
// is the only child of its supervisor.
func TestExecGroups(t *testing.T) {
	_, info, supervisor := running(t)
	c := newCommands(t, supervisor)
	run, leaf := c.sleep(t)
	pid := onlyLine(t, filepath.Join(leaf, "cgroup.procs"))
	its := strings.Replace(read(t, "/proc/"+pid+"/cgroup"), "/"+filepath.Base(leaf)+"\n", "\n", 1)
	if init := read(t, "/proc/"+strconv.Itoa(info.InitPID)+"/cgroup"); its != init {
		t.Errorf("the command's control groups, but for the leaf:\n%swant its init's:\n%s", its, init)
	}
	start, err := c.dir().Start()
	if err != nil {
		t.Fatal(err)
	}
	if got := children(t, start.PID); len(got) != 1 || got[0] != pid {
		t.Errorf("the supervisor's children are %v, want the command %s alone", got, pid)
	}
	if err := run.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func onlyLine(t *testing.T, file string) string {
	t.Helper()
	text := read(t, file)
	if strings.Count(text, "\n") != 1 {
		t.Fatalf("%s holds %q, want one line", file, text)
	}
	return strings.TrimSpace(text)
}

// children returns the processes whose parent is pid.
func children(t *testing.T, pid int) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(b), "\nPPid:\t"+strconv.Itoa(pid)+"\n") {
			found = append(found, filepath.Base(filepath.Dir(file)))
		}
	}
	return found
}

// TestExecEndsWithItsContainer: when the container is stopped under a command,
// the command's end is recorded as what it was.
func TestExecEndsWithItsContainer(t *testing.T) {
	m, info, supervisor := running(t)
	c := newCommands(t, supervisor)
	run, _ := c.sleep(t)
	if _, err := m.Stop(t.Context(), info.Name, 0); err != nil {
		t.Fatal(err)
	}
	exit, err := run.Wait(t.Context())
	if err != nil || exit.Signal != 9 || exit.Code != 137 || !exit.Emptied {
		t.Errorf("command of a stopped container: %+v, %v; want it killed", exit, err)
	}
}

// TestExecNotWhileFrozen: a command that was ordered before its container was
// frozen is refused, and does not wait for somebody to thaw it.
func TestExecNotWhileFrozen(t *testing.T) {
	m, info, supervisor := running(t)
	c := newCommands(t, supervisor)
	m.freeze(t, info.Name)
	if exit, _ := c.do(t, "", "/bin/true"); exit.Reason != rundir.ReasonTarget || !strings.Contains(exit.Detail, "frozen") {
		t.Errorf("in a frozen container: %+v, want %s", exit, rundir.ReasonTarget)
	}
}

// TestExecIsForOneIncarnation: what was ordered for a container does not run in
// it after a restart, nor in one that is gone.
func TestExecIsForOneIncarnation(t *testing.T) {
	m, info, supervisor := running(t)
	c := newCommands(t, supervisor)
	if _, err := m.Stop(t.Context(), info.Name, 0); err != nil {
		t.Fatal(err)
	}
	if exit, _ := c.do(t, "", "/bin/true"); exit.Reason != rundir.ReasonTarget || exit.Code != rundir.CodeNeverBegan {
		t.Errorf("in a stopped container: %+v, want %s", exit, rundir.ReasonTarget)
	}
	m.start(t, info.Name)
	if exit, _ := c.do(t, "", "/bin/true"); exit.Reason != rundir.ReasonTarget || !strings.Contains(exit.Detail, "restarted") {
		t.Errorf("in a restarted container: %+v, want %s", exit, rundir.ReasonTarget)
	}
	again, err := m.Exec(t.Context(), info.Name)
	if err != nil || maps.Equal(again.Target, supervisor.Target) {
		t.Errorf("Exec after the restart = %v, %v; want another target", again.Target, err)
	}
	other := maps.Clone(again.Target)
	other["init_ticks"] = "1" // the number is another process's by now
	c.supervisor.Target = other
	if exit, _ := c.do(t, "", "/bin/true"); exit.Reason != rundir.ReasonTarget || !strings.Contains(exit.Detail, "another one") {
		t.Errorf("for a process that has the number of another: %+v, want %s", exit, rundir.ReasonTarget)
	}
	broken := maps.Clone(supervisor.Target)
	broken["name"] = "../" + info.Name
	c.supervisor.Target = broken
	if exit, _ := c.do(t, "", "/bin/true"); exit.Reason != rundir.ReasonTarget {
		t.Errorf("with a broken target: %+v, want %s", exit, rundir.ReasonTarget)
	}
}
