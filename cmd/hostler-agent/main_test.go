package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent/join"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/builttest"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// programs is the directory of hostler-agent and hostler-run, as they are shipped.
func programs(t testing.TB) string {
	t.Helper()
	builttest.Program(t, "hostler-run")
	return filepath.Dir(builttest.Program(t, "hostler-agent"))
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// maxSize is what the agent may weigh on a host, stripped, in bytes. The packet filter, the
// client of InfluxDB and the image servers took the last of 20 MiB; several networks,
// volumes, archives of images and schedules of backups those of 21 MiB. The client of stores
// that speak S3 took 1.1 MB, which made it more than 24 MiB.
const maxSize = 25 << 20

func TestSize(t *testing.T) {
	info := must[fs.FileInfo](t)(os.Stat(filepath.Join(programs(t), "hostler-agent")))
	if info.Size() > maxSize {
		t.Errorf("hostler-agent has %d bytes, at most %d are allowed", info.Size(), maxSize)
	}
}

// site is a host with a configuration of its own.
type site struct {
	dir, bin string
	log      chan string // the lines of the agent that was started last
	*client.Client
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{dir: t.TempDir(), bin: programs(t)}
	s.configure(t, "")
	s.Client = must[*client.Client](t)(client.New(client.Config{Address: "unix://" + filepath.Join(s.dir, "agent.sock")}))
	return s
}

func (s *site) configure(t testing.TB, more string) {
	t.Helper()
	text := "host = \"edge-01\"\nstate_dir = \"" + s.dir + "/state\"\nsocket = \"" + s.dir + "/agent.sock\"\n[lxc]\npath = \"" + s.dir + "/lxc\"\n" + more
	if err := os.WriteFile(filepath.Join(s.dir, "agent.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *site) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, filepath.Join(s.bin, "hostler-agent"), append([]string{"--config", filepath.Join(s.dir, "agent.toml")}, args...)...)
}

// start runs the agent and waits until it serves.
func (s *site) start(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := s.command(context.WithoutCancel(t.Context()), "run")
	log := must[io.ReadCloser](t)(cmd.StderrPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, drained := make(chan string, 10_000), make(chan struct{})
	s.log = said
	go func() {
		defer close(drained)
		defer close(said)
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			t.Log(lines.Text())
			select {
			case said <- lines.Text():
			default: // no test waits for so many
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-drained
		_ = cmd.Wait() // by our signal
	})
	s.says(t, "msg=serving")
	return cmd
}

// says waits until the agent has logged a text.
func (s *site) says(t testing.TB, text string) {
	t.Helper()
	for line := range s.log {
		if strings.Contains(line, text) {
			return
		}
	}
	t.Fatalf("the agent ended before it said %q", text)
}

// propose asks for a command and does not wait.
func (s *site) propose(t testing.TB, argv ...string) api.Action {
	t.Helper()
	spec := must[[]byte](t)(json.Marshal(protocol.Spec{Kind: protocol.KindRun, Args: &protocol.CommandArgs{Process: protocol.Process{Argv: argv}, TimeLimit: protocol.TimeLimit{TimeoutMS: 60_000}}}))
	var a api.Action
	if err := s.Post(t.Context(), "/v1/actions", nil, api.NewAction{Spec: spec}, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// ticker asks for a command that counts aloud until it is told to end.
func (s *site) ticker(t testing.TB) (a api.Action, end func()) {
	t.Helper()
	enough := filepath.Join(s.dir, "enough")
	const script = `i=0; while [ ! -e "$0" ]; do i=$((i+1)); echo tick $i; sleep 0.1; done; exit 7`
	return s.propose(t, "/bin/sh", "-c", script, enough), func() {
		t.Helper()
		if err := os.WriteFile(enough, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// goesOn waits until a command has written so many lines more, agent or none.
func (s *site) goesOn(t testing.TB, a api.Action, lines int) {
	t.Helper()
	path := filepath.Join(s.dir, "state", "runs", a.ID, "1", "stdout")
	written := func() int { return strings.Count(text(path), "\n") }
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(2 * time.Minute)
	for want := written() + lines; written() < want; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("it has stopped")
		}
	}
}

// TestKilled kills the agent with SIGKILL while a command runs. The command does
// not notice, and nothing of its output or its end is lost.
func TestKilled(t *testing.T) {
	s := newSite(t)
	first := s.start(t)
	a, end := s.ticker(t)
	r, w := io.Pipe()
	var follower sync.WaitGroup
	follower.Go(func() {
		_, err := s.Output(context.WithoutCancel(t.Context()), client.Reading{Action: a.ID, FD: "stdout", Offset: 0, Follow: true}, w)
		_ = w.CloseWithError(err) // breaks off with the agent
	})
	if line := must[string](t)(bufio.NewReader(r).ReadString('\n')); line != "tick 1\n" {
		t.Fatalf("the first line is %q", line)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // by our signal
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	follower.Wait()
	s.goesOn(t, a, 5)

	s.start(t)
	end()
	var out bytes.Buffer
	if next, err := s.Output(t.Context(), client.Reading{Action: a.ID, FD: "stdout", Offset: 0, Follow: true}, &out); err != nil || next != -1 {
		t.Fatalf("the output ends at %d: %v", next, err)
	}
	var ended api.Action
	if err := s.Get(t.Context(), "/v1/actions/"+a.ID, url.Values{"wait": {"30s"}}, &ended); err != nil {
		t.Fatal(err)
	}
	if ended.State != "FAILED" || ended.Exit == nil || ended.Exit.Code != 7 || ended.Attempt != 1 {
		t.Errorf("it ended as %+v, exit %+v", ended, ended.Exit)
	}
	var want strings.Builder
	for i := range strings.Count(out.String(), "\n") {
		fmt.Fprintf(&want, "tick %d\n", i+1)
	}
	if out.String() != want.String() {
		t.Errorf("it has written\n%s", out.String())
	}
}

// TestTerminated ends the agent as an init system does: cleanly, at once, and
// without touching what runs.
func TestTerminated(t *testing.T) {
	s := newSite(t)
	cmd := s.start(t)
	a, end := s.ticker(t)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "agent.sock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its socket stays: %v", err)
	}
	s.start(t)
	end()
	var ended api.Action
	if err := s.Get(t.Context(), "/v1/actions/"+a.ID, url.Values{"wait": {"30s"}}, &ended); err != nil || ended.Exit == nil || ended.Exit.Code != 7 {
		t.Errorf("it ended as %+v: %v", ended, err)
	}
}

// TestReload changes the configuration of an agent that runs. One that cannot be used
// changes nothing, and a command goes on through all of it.
func TestReload(t *testing.T) {
	s := newSite(t)
	rules := filepath.Join(s.dir, "policy.toml")
	const policy = "version = 1\nallow_bypass = true\n[[rule]]\nkinds = ['host.run']\nrefuse = true\n"
	with := "[sessions]\nparallel = 3\n"
	named := func(more string) {
		t.Helper()
		s.configure(t, more)
		path := filepath.Join(s.dir, "agent.toml")
		b := must[[]byte](t)(os.ReadFile(path))
		if err := os.WriteFile(path, append([]byte("policy = \""+rules+"\"\n"), b...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	named("")
	cmd := s.start(t)
	running, end := s.ticker(t)
	hangUp := func(says string) {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		s.says(t, says)
	}
	hangUp("has not changed")
	named("nosuch = 1\n")
	hangUp("is refused")
	named(with)
	hangUp("begins anew")
	s.says(t, "msg=serving")
	if err := os.WriteFile(rules, []byte("version = 1\n[[rule]]\nnosuch = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hangUp("is refused")
	if err := os.WriteFile(rules, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	hangUp("begins anew")
	s.says(t, "msg=serving")
	// What passes every check, and cannot be used, is taken back.
	b := must[[]byte](t)(os.ReadFile(filepath.Join(s.dir, "agent.toml")))
	b = bytes.Replace(b, []byte("agent.sock"), []byte("nosuch/agent.sock"), 1)
	if err := os.WriteFile(filepath.Join(s.dir, "nosuch"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "agent.toml"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	hangUp("is taken back")
	s.says(t, "msg=serving")
	end()
	var ended api.Action
	if err := s.Get(t.Context(), "/v1/actions/"+running.ID, url.Values{"wait": {"30s"}}, &ended); err != nil || ended.Exit == nil || ended.Exit.Code != 7 || ended.Attempt > 1 {
		t.Errorf("the command ended as %+v: %v", ended, err)
	}
}

// TestAlone lets no second agent at the same state.
func TestAlone(t *testing.T) {
	s := newSite(t)
	s.start(t)
	out, err := s.command(t.Context(), "run").CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != daemon.ExitFailed || !bytes.Contains(out, []byte(errLocked.Error())) {
		t.Errorf("a second one ends with %v: %s", err, out)
	}
	out, err = s.command(t.Context(), "leave", "--yes").CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != daemon.ExitFailed || !bytes.Contains(out, []byte("Stop it first")) {
		t.Errorf("leave beside it ends with %v: %s", err, out)
	}
}

// TestMemory holds the memory that an agent which waits for work has for itself, and that
// the host cannot get back: doc/adr/0136. What it has in all, program text included, is
// the figure agent_rss_mb of the bench.
func TestMemory(t *testing.T) {
	s := newSite(t)
	cmd := s.start(t)
	const most = 8 << 10 // 6 MiB before the kernel was asked for its events
	// What the start took is given back a while after it has come to rest.
	tick := time.NewTicker(3 * time.Second)
	defer tick.Stop()
	kib := 0
	for range 20 {
		<-tick.C
		if kib = own(t, cmd.Process.Pid); kib <= most {
			return
		}
	}
	t.Errorf("the agent has %d KiB for itself, at most %d are allowed", kib, most)
}

// own is how much memory a process has that is no file's, in KiB.
func own(t *testing.T, pid int) int {
	t.Helper()
	for line := range strings.Lines(text("/proc/" + strconv.Itoa(pid) + "/status")) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "RssAnon:" {
			return must[int](t)(strconv.Atoi(f[1]))
		}
	}
	t.Fatal("the kernel tells nothing about the agent's memory")
	return 0
}

func TestCommandLine(t *testing.T) {
	s := newSite(t)
	if err := os.WriteFile(filepath.Join(s.dir, "none.toml"), fmt.Appendf(nil, "host = \"edge-01\"\nstate_dir = %q\n", filepath.Join(s.dir, "none")), 0o600); err != nil {
		t.Fatal(err)
	}
	code := must[string](t)(enrol.JoinCode{Addresses: []string{"192.0.2.1:1"}, Secret: enrol.Secret{1}}.Encode())
	for _, c := range []struct {
		args []string
		exit int
		text string
	}{
		{nil, daemon.ExitUsage, "a command is missing"},
		{[]string{"jion"}, daemon.ExitUsage, `has no command "jion", did you mean hostler-agent join?`},
		{[]string{"help", "jion"}, daemon.ExitUsage, `has no command "jion"`},
		{[]string{"help", "run", "now"}, daemon.ExitUsage, `run has no command "now"`},
		{[]string{"help", "run"}, 0, "hostler-agent run [flags]"},
		{[]string{"run", "now"}, daemon.ExitUsage, "run takes no arguments"},
		{[]string{"run", "--fast"}, daemon.ExitUsage, "unknown flag: --fast"},
		{[]string{"join"}, daemon.ExitUsage, "no enrolment is under way"},
		{[]string{"join", "nonsense"}, daemon.ExitUsage, "unusable code"},
		{[]string{"join", "-"}, daemon.ExitUsage, `unusable code: it starts with "type"`},
		{[]string{"join", code, "--host", "Not A Host"}, daemon.ExitUsage, "--host"},
		{[]string{"join", "--host", "edge-02"}, daemon.ExitUsage, "go with a code"},
		{[]string{"leave"}, daemon.ExitUsage, "joined no fleet"},
		{[]string{"config"}, daemon.ExitUsage, "config needs check, example or show"},
		{[]string{"config", "check"}, 0, ""},
		{[]string{"version"}, 0, "hostler-agent 0."},
		{[]string{"--version"}, 0, "hostler-agent version 0."},
	} {
		var out bytes.Buffer
		args := append([]string{"--config", filepath.Join(s.dir, "none.toml")}, c.args...)
		if exit := program(t.Context(), args, strings.NewReader("typed\n"), &out, &out); exit != c.exit || !strings.Contains(out.String(), c.text) {
			t.Errorf("%q exits with %d: %s", c.args, exit, out.String())
		}
		if _, err := os.Stat(filepath.Join(s.dir, "none")); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%q leaves a state directory behind: %v", c.args, err)
		}
	}
}

// TestMisspeltVariable: a check of the configuration tells of a variable that sets nothing.
func TestMisspeltVariable(t *testing.T) {
	t.Setenv("HOSTLER_SESIONS_PARALLEL", "7")
	s := newSite(t)
	var out, talk bytes.Buffer
	if code := program(t.Context(), []string{"--config", filepath.Join(s.dir, "agent.toml"), "config", "check"}, nil, &out, &talk); code != 0 || out.Len() > 0 || talk.String() != "hostler-agent: the variable HOSTLER_SESIONS_PARALLEL is no setting; perhaps HOSTLER_SESSIONS_PARALLEL is meant\n" {
		t.Errorf("code %d: %s%s", code, out.String(), talk.String())
	}
}

// TestCodeOfInput: an empty input is no code, with which a join would go on instead.
func TestCodeOfInput(t *testing.T) {
	for in, want := range map[string]string{" hj1_x\n": "hj1_x", "\n": ""} {
		if code, err := codeOf("-", strings.NewReader(in)); code != want || (err == nil) != (want != "") {
			t.Errorf("%q gives %q, %v", in, code, err)
		}
	}
}

func TestConfig(t *testing.T) {
	s := newSite(t)
	file := filepath.Join(s.dir, "agent.toml")
	if err := os.MkdirAll(filepath.Join(s.dir, "agent.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	dropIn := filepath.Join(s.dir, "agent.d", "10-net.toml")
	if err := os.WriteFile(dropIn, []byte("[network]\nsubnet = \"10.9.0.0/24\"\nbridge = \"br7\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, from, err := load(file, []string{"HOSTLER_NETWORK_BRIDGE=br8", "HOSTLER_COMMANDS_LANES=1"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Network.Bridge != "br8" || c.Network.Subnet != "10.9.0.0/24" || c.Commands.Lanes != 1 || c.Host != "edge-01" {
		t.Errorf("got %+v", c)
	}
	for name, want := range map[string]string{
		"host": file, "network.subnet": dropIn, "network.bridge": "$HOSTLER_NETWORK_BRIDGE", "commands.parallel": "",
	} {
		if from[name] != want {
			t.Errorf("%s comes from %q, want %q", name, from[name], want)
		}
	}
	for _, bad := range []string{
		"HOSTLER_COMMANDS_LANES=many", "HOSTLER_COMMANDS_LANES=0", "HOSTLER_HOST=Not A Host", "HOSTLER_STATE_DIR=here",
		"HOSTLER_NETWORK_SUBNET=10.9.0.1/24", "HOSTLER_NETWORK_SUBNET=10.9.0.0/31", "HOSTLER_NETWORK_SUBNET=fd00::/64",
		"HOSTLER_NETWORK_BRIDGE=a bridge", "HOSTLER_COMMANDS_OUTPUT_MIB=0", "HOSTLER_COMMANDS_OUTPUT_DAYS=0", "HOSTLER_SESSIONS_PARALLEL=0", "HOSTLER_SESSIONS_RECORD_MIB=65", "HOSTLER_SESSIONS_UNRECORDED=perhaps",
		"HOSTLER_METRICS_INFLUX_VIA=proxy", "HOSTLER_METRICS_INFLUX_SECONDS=0", "HOSTLER_METRICS_INFLUX_SPOOL_MIB=0", "HOSTLER_METRICS_INFLUX_URL=ftp://db",
	} {
		if _, _, err := load(file, []string{bad}); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	via := []string{"HOSTLER_METRICS_INFLUX_VIA=coordinator"}
	if _, _, err := load(file, via); err != nil {
		t.Errorf("samples by the coordinator: %v", err)
	}
	if _, _, err := load(file, append(via, "HOSTLER_METRICS_INFLUX_URL=https://db.example")); err == nil || !strings.Contains(err.Error(), "exclude each other") {
		t.Errorf("two ways for samples: %v", err)
	}
	s.configure(t, "[fleet]\nname = \"lab\"\n")
	if _, _, err := load(file, nil); err == nil || !strings.Contains(err.Error(), "unknown setting") {
		t.Errorf("an unknown setting gives %v", err)
	}
}

// TestLostMemory refuses to begin anew where there was a memory.
func TestLostMemory(t *testing.T) {
	s := state(t.TempDir())
	q, err := s.openQueue(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if q, err = s.openQueue(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	for _, f := range must[[]string](t)(filepath.Glob(s.queueFile() + "*")) {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.openQueue(t.Context(), nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "leave") {
		t.Errorf("got %v", err)
	}
}

// TestLeaveInterrupted finishes what was begun, whatever of it is done.
func TestLeaveInterrupted(t *testing.T) {
	for _, done := range []bool{false, true} {
		s := state(t.TempDir())
		if _, _, err := s.keys("edge-01"); err != nil {
			t.Fatal(err)
		}
		q := must[io.Closer](t)(s.openQueue(t.Context(), nil))
		if err := errors.Join(q.Close(), s.keep(join.Record{Host: "edge-01", State: enrol.Approved})); err != nil {
			t.Fatal(err)
		}
		if err := durable.WriteFile(s.leaving(), nil, 0o600, 0); err != nil {
			t.Fatal(err)
		}
		if done {
			if err := os.Remove(s.identity()); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.prepare(); err != nil {
			t.Fatal(err)
		}
		if left := must[[]os.DirEntry](t)(os.ReadDir(string(s))); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}
