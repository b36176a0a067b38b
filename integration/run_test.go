//go:build integration

package integration

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// fifo makes a named pipe on which a command can be made to wait.
func (w *world) fifo(t testing.TB, name string) string {
	t.Helper()
	path := w.path(name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// release lets the command go on that reads from a pipe.
func release(t testing.TB, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0) // both ends, so that opening waits for nobody
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() }) // what was written must not go before it was read
	if _, err := f.WriteString("go on\n"); err != nil {
		t.Fatal(err)
	}
}

// TestRun holds commands on a host to what a shell user expects.
func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addHost(t, "edge-01", false)

	t.Run("output comes while the command runs", func(t *testing.T) {
		t.Parallel()
		gate := w.fifo(t, "gate-live")
		p := w.start(t, "hostler", "run", "edge-01", "--", "sh", "-c", `echo first; echo aside >&2; read x <"$0"; echo last`, gate)
		p.says(t, p.out, "first\n")
		p.says(t, p.talk, "aside\n")
		if p.ended() {
			t.Fatal("it has ended before it was let go on")
		}
		release(t, gate)
		if r := p.finish(t).exits(t, 0); r.stdout != "first\nlast\n" || r.stderr != "aside\n" {
			t.Errorf("got %q and %q", r.stdout, r.stderr)
		}
	})

	t.Run("exit codes are passed on", func(t *testing.T) {
		t.Parallel()
		for script, want := range map[string]int{
			"exit 0": 0, "exit 1": 1, "exit 77": 77, "exit 255": 255, "kill -TERM $$": 143, "kill -KILL $$": 137, "kill -HUP $$": 129,
		} {
			w.cli(t, "run", "edge-01", "--", "sh", "-c", script).exits(t, want)
		}
		w.cli(t, "run", "edge-01", "--", "no-such-program").exits(t, 127, "could not begin")
		w.cli(t, "run", "edge-01", "--", "/etc/passwd").exits(t, 126, "could not begin")
	})

	t.Run("an unknown user is refused and never root", func(t *testing.T) {
		t.Parallel()
		if r := w.cli(t, "run", "edge-01", "--as", "nobody-at-all", "--", "id", "-u"); r.code == 0 || r.stdout != "" || !strings.Contains(r.stderr, "nobody-at-all") {
			t.Errorf("exit code %d, %q, %q", r.code, r.stdout, r.stderr)
		}
		if out := w.must(t, "run", "edge-01", "--as", "nobody", "--", "id", "-un"); out != "nobody\n" {
			t.Errorf("as nobody it is %q", out)
		}
	})

	t.Run("a time limit ends all of it", func(t *testing.T) {
		t.Parallel()
		gate := w.fifo(t, "gate-timeout")
		r := w.cli(t, "run", "edge-01", "--timeout", "1s", "--", "sh", "-c", `(read x <"$0") & echo $!; wait`, gate)
		r.exits(t, 143, "time limit")
		var pid int
		if _, err := fmt.Sscan(r.stdout, &pid); err != nil {
			t.Fatal(err)
		}
		awaitExit(pid)
	})

	t.Run("arguments and environment arrive unchanged", func(t *testing.T) {
		t.Parallel()
		args := []string{"two  words", `$(reboot) "and" ` + "`more`", "; rm -rf /", "", "--flag", "-", "*", "äöü 日本", "line\nend", `back\slash`, "'", "&|<>"}
		out := w.must(t, append([]string{"run", "edge-01", "--", "printf", `%s\0`}, args...)...)
		if want := strings.Join(args, "\x00") + "\x00"; out != want {
			t.Errorf("got %q, want %q", out, want)
		}
		env := w.must(t, "run", "edge-01", "--env", "A=$B `c`", "--cwd", "/usr", "--", "sh", "-c", `printf '%s\n' "$A" "$PWD"`)
		if want := "$B `c`\n/usr\n"; env != want {
			t.Errorf("got %q, want %q", env, want)
		}
	})

	t.Run("no byte of the output is changed", func(t *testing.T) {
		t.Parallel()
		random := w.path("random")
		w.tool(t, "dd", "if=/dev/urandom", "of="+random, "bs=1000", "count=999")
		for name, tc := range map[string]struct{ script, want string }{
			"nothing":     {"true", ""},
			"no line end": {"printf abc", "abc"},
			"zeros":       {`printf 'a\0b\n\0'`, "a\x00b\n\x00"},
			"binary":      {`cat "$0"`, read(t, random)},
		} {
			t.Run(name, func(t *testing.T) {
				if r := w.cli(t, "run", "edge-01", "--", "sh", "-c", tc.script, random).exits(t, 0); r.stdout != tc.want || r.stderr != "" {
					t.Errorf("%d bytes arrived, wanted %d; on the other stream %q", len(r.stdout), len(tc.want), r.stderr)
				}
			})
		}
	})

	t.Run("a line of 20 MiB", func(t *testing.T) {
		t.Parallel()
		const size = 20 << 20
		sum := sha256.New()
		cmd := exec.CommandContext(t.Context(), filepath.Join(w.bin, "hostler"), "run", "edge-01", "--", "sh", "-c", fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x`, size))
		cmd.Env, cmd.Stdout = w.env(), sum
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		want := sha256.New()
		if _, err := io.Copy(want, io.LimitReader(endless('x'), size)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(sum.Sum(nil), want.Sum(nil)) {
			t.Error("another line arrived")
		}
	})

	t.Run("what was left out is said", func(t *testing.T) {
		t.Parallel()
		const size = 70 << 20
		id := w.submit(t, "edge-01", "head", "-c", fmt.Sprint(size), "/dev/zero")
		w.done(t, id)
		act := w.action(t, id)
		if len(act.Output) != 2 && len(act.Output) != 1 || act.Output[0].Bytes != size || act.Output[0].Dropped <= 0 {
			t.Fatalf("the action tells of %+v, wanted %d bytes and a part of them dropped", act.Output, size)
		}
		r := w.cli(t, "action", "logs", id, "--follow").exits(t, 0, "left out")
		if len(r.stdout) == 0 || len(r.stdout) >= size {
			t.Errorf("%d bytes are shown of %d", len(r.stdout), size)
		}
	})

	t.Run("nothing is left of commands", func(t *testing.T) {
		// The parallel tests above have not begun yet: this is about one command
		// whose child would stay.
		gate := w.fifo(t, "gate-stay")
		r := w.cli(t, "run", "edge-01", "--", "sh", "-c", `(setsid sh -c 'read x <"$0"' "$0" >/dev/null 2>&1 &) ; echo done`, gate).exits(t, 0)
		if r.stdout != "done\n" {
			t.Errorf("got %q", r.stdout)
		}
		w.quiet(t)
	})
}

// quiet waits until no command and no supervisor of the world is left, and
// checks that their control groups are gone.
func (w *world) quiet(t testing.TB) {
	t.Helper()
	for pid, line := range w.relatives() {
		if strings.Contains(line, "hostler-run ") || strings.Contains(line, "supervise") || strings.HasPrefix(line, "sh -c ") {
			w.awaitRelative(pid, line)
			if w.relative(pid) == line {
				t.Errorf("process %d stays: %s", pid, line)
			}
		}
	}
	for _, leaf := range w.leaves() {
		gone(t, leaf)
	}
}

// endless is a reader of one byte again and again.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

// TestManners is what the command line promises beside the commands themselves.
func TestManners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addHost(t, "edge-01", false)

	t.Run("leave and come back", func(t *testing.T) {
		id := w.submit(t, "edge-01", "sh", "-c", "echo one; echo two >&2; exit 3")
		if got := w.ended(t, id)[id]; got != "FAILED exit" {
			t.Errorf("it is %s, want FAILED exit", got)
		}
		r := w.cli(t, "action", "logs", id, "--follow").exits(t, 0)
		if r.stdout != "one\n" || r.stderr != "two\n" {
			t.Errorf("its output is %q and %q", r.stdout, r.stderr)
		}
		if out := w.must(t, "action", "logs", id, "--stream", "stderr"); out != "two\n" {
			t.Errorf("its standard error is %q", out)
		}
		if status, body := w.ask(t, "GET", "/v1/actions/"+id+"/output?stream=stdout&offset=2", ""); status != 200 || body != "e\n" {
			t.Errorf("from offset 2 on it is %d %q", status, body)
		}
		if act := w.action(t, id); act.Exit == nil || act.Exit.Code != 3 || act.Host != "edge-01" || act.Requester == "" {
			t.Errorf("it is shown as %+v", act)
		}
		if act := w.action(t, id[:len(id)-2]); act.ID != id {
			t.Errorf("the beginning of its id finds %s", act.ID)
		}
		other := w.submit(t, "edge-01", "true")
		w.cli(t, "action", "show", common(id, other)).exits(t, 2, "ambiguous", id, other)
		w.cli(t, "action", "show", "00000000").exits(t, 3)
	})

	t.Run("JSON for programs", func(t *testing.T) {
		act := show[api.Action](t, w, "run", "edge-01", "--no-wait", "-o", "json", "--", "true")
		w.done(t, act.ID)
		hosts := show[[]api.Host](t, w, "host", "ls")
		if len(hosts) != 1 || hosts[0].ID != "edge-01" {
			t.Errorf("%+v", hosts)
		}
	})

	t.Run("everything can be looked at", func(t *testing.T) {
		for _, line := range []string{
			"status", "fleet show", "fleet ring ls", "fleet ring show", "context ls", "token ls", "viewer ls", "host ls",
			"host show edge-01", "host pending", "ct ls", "action ls", "events --after 0 --limit 3",
		} {
			args := strings.Fields(line)
			for _, form := range []string{"json", "yaml", "csv", "wide", "name"} {
				if out := w.must(t, append(args, "-o", form)...); form == "json" && out == "" {
					t.Errorf("hostler %s -o json prints nothing", line)
				}
			}
		}
	})

	t.Run("Hostler's own failures are no command's", func(t *testing.T) {
		w.cli(t, "run", "nobody", "--", "true").exits(t, 125, "nobody")
		w.cli(t, "exec", "edge-01/nothing", "--", "true").exits(t, 125, "nothing")
		w.cli(t, "run", "edge-01", "true").exits(t, 125, "--")
		w.cli(t, "host", "show", "nobody").exits(t, 3)
		w.cli(t, "host", "show", "../etc").exits(t, 2)
		w.cli(t, "no-such-command").exits(t, 2)
	})

	t.Run("Ctrl-C leaves the action running", func(t *testing.T) {
		gate := w.fifo(t, "gate-ctrl-c")
		p := w.start(t, "hostler", "run", "edge-01", "--", "sh", "-c", `echo begun; read x <"$0"; echo over`, gate)
		p.says(t, p.out, "begun\n")
		p.signal(t, syscall.SIGINT)
		r := p.finish(t).exits(t, 130, "hostler action logs ", "hostler action cancel ")
		id := after(r.stderr, "hostler action cancel ")
		w.state(t, id, "RUNNING")
		follow := w.start(t, "hostler", "action", "logs", id, "--follow")
		follow.says(t, follow.out, "begun\n")
		release(t, gate)
		if out := follow.finish(t).exits(t, 0).stdout; out != "begun\nover\n" {
			t.Errorf("followed: %q", out)
		}
		w.done(t, id)
	})

	t.Run("cancel", func(t *testing.T) {
		gate := w.fifo(t, "gate-cancel")
		id := w.submit(t, "edge-01", "sh", "-c", `trap '' TERM; echo begun; read x <"$0"; read x <"$0"`, gate)
		w.state(t, id, "RUNNING")
		w.must(t, "action", "cancel", id)
		if act := w.action(t, id); act.State != "CANCELLED" || act.Reason != "cancelled" {
			t.Errorf("it is %s %s", act.State, act.Reason)
		}
		w.quiet(t)
		w.cli(t, "action", "cancel", id).exits(t, 0)
		over := w.submit(t, "edge-01", "true")
		w.done(t, over)
		w.cli(t, "action", "cancel", over).exits(t, 1, "it ended before")
	})

	t.Run("roles", func(t *testing.T) {
		for role, codes := range map[string][3]int{ // of run, host invite, token ls
			"viewer": {125, 4, 4}, "operator": {0, 4, 4}, "approver": {0, 0, 4}, "admin": {0, 0, 0},
		} {
			made := show[api.Token](t, w, "token", "create", "a-"+role, "--role", role)
			write(t, w.path("token-"+role), made.Secret)
			as := []string{"--token-file", w.path("token-" + role)}
			w.cli(t, append(as, "run", "edge-01", "--", "true")...).exits(t, codes[0])
			w.cli(t, append(as, "host", "invite")...).exits(t, codes[1])
			w.cli(t, append(as, "token", "ls")...).exits(t, codes[2])
			w.cli(t, append(as, "host", "ls")...).exits(t, 0)
			w.must(t, "token", "revoke", made.ID, "--yes")
			w.cli(t, append(as, "host", "ls")...).exits(t, 4, "revoked")
		}
	})

	t.Run("nobody there", func(t *testing.T) {
		w.coordinator.end(t, kill)
		begin := time.Now()
		w.cli(t, "host", "ls").exits(t, 6, "hostler context ls")
		if d := time.Since(begin); d > 30*time.Second {
			t.Errorf("it took %s to say so", d)
		}
		w.cli(t, "run", "edge-01", "--", "true").exits(t, 125)
		w.startCoordinator(t)
	})
}

// common is the beginning that two texts share.
func common(a, b string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// after is the word that follows a text.
func after(s, text string) string {
	_, rest, _ := strings.Cut(s, text)
	return strings.Fields(rest + " ?")[0]
}
