//go:build integration

package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// person is somebody at a terminal, with hostler in it.
type person struct {
	t      testing.TB
	cmd    *exec.Cmd
	tty    *os.File
	screen transcript
	done   chan struct{}
	err    error
}

// sit starts hostler on a terminal of 24 by 80.
func (w *world) sit(t testing.TB, args ...string) *person {
	t.Helper()
	return w.sitAt(t, append([]string{filepath.Join(w.bin, "hostler")}, args...)...)
}

// sitAt starts another program on it.
func (w *world) sitAt(t testing.TB, argv ...string) *person {
	t.Helper()
	p := &person{t: t, done: make(chan struct{}), cmd: exec.Command(argv[0], argv[1:]...)}
	p.cmd.Env, p.cmd.Dir = w.env("TERM=xterm", "LANG=C.UTF-8"), w.dir
	var err error
	if p.tty, err = pty.StartWithSize(p.cmd, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the terminal
		defer close(p.done)
		buf := make([]byte, 64<<10)
		for {
			n, err := p.tty.Read(buf)
			p.screen.Write(buf[:n]) // it never fails
			if err != nil {
				break
			}
		}
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
		p.tty.Close()
		if t.Failed() {
			t.Logf("the screen of %q:\n%q", argv, p.screen.tail())
		}
	})
	return p
}

// types types.
func (p *person) types(text string) {
	p.t.Helper()
	if _, err := p.tty.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
}

// sees waits until something stands on the screen.
func (p *person) sees(text string) {
	p.t.Helper()
	until(p.t, &p.screen.change, fmt.Sprintf("the screen to show %q", text), func() bool {
		if strings.Contains(p.screen.String(), text) {
			return true
		}
		select {
		case <-p.done:
			p.t.Fatalf("it ended (%v) without showing %q", p.err, text)
		default:
		}
		return false
	})
}

// repeats types something until it is answered: a shell forgets what is typed while
// it comes back to its prompt.
func (p *person) repeats(text, answer string) {
	p.t.Helper()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !strings.Contains(p.screen.String(), answer); <-tick.C {
		if time.Now().After(deadline) {
			p.t.Fatalf("%q is never answered by %q", text, answer)
		}
		p.types(text)
	}
}

// exits waits for the end and holds it to an exit code.
func (p *person) exits(code int) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("it goes on")
	}
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](p.err); ok {
		got = exit.ExitCode()
	} else if p.err != nil {
		p.t.Fatal(p.err)
	}
	if got != code {
		p.t.Errorf("exit code %d, want %d", got, code)
	}
}

// shell waits for a shell to listen, and has it speak plainly.
func (p *person) shell() {
	p.t.Helper()
	p.types("stty -echo; PS1=; PS2=; echo re''ady\r")
	p.sees("ready\r\n")
}

// untilSize is what a shell is told to wait, and print, until its window has a size:
// it looks when it is told of a change, and now and then, as that may have come
// before it listened.
func untilSize(size string) string {
	return `trap : WINCH; until [ "$(stty size)" = '` + size + `' ]; do sleep 0.2; done; trap - WINCH; stty size`
}

// session is the id of the newest session.
func (w *world) session(t testing.TB) string {
	t.Helper()
	for _, line := range strings.Split(w.must(t, "action", "ls", "--no-headers", "-o", "csv", "--open"), "\n") {
		if strings.Contains(line, ".attach") {
			return strings.Split(line, ",")[0]
		}
	}
	t.Fatal("there is no session")
	return ""
}

var ptsName = regexp.MustCompile(`/dev/pts/\d+\r`)

// TestSessions sits at a terminal, as a person does.
func TestSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", true)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox")
	w.must(t, "ct", "start", "edge-01/web")
	w.container(t, "edge-01/web", "runs", func(c ct) bool { return c.State == "running" })

	for name, argv := range map[string][]string{
		"on the host":      {"attach", "edge-01"},
		"in a container":   {"attach", "edge-01/web"},
		"run -t":           {"run", "-t", "edge-01", "--", "sh", "-i"},
		"exec -t":          {"exec", "-t", "edge-01/web", "--", "sh", "-i"},
		"beside the agent": {"--socket", h.socket(), "attach"},
	} {
		t.Run(name, func(t *testing.T) {
			p := w.sit(t, argv...)
			p.shell()
			p.types("tty; " + untilSize("24 80") + "; echo \"$TERM\"\r")
			p.sees("\n24 80\r\nxterm\r\n")
			if !ptsName.MatchString(p.screen.String()) {
				t.Error("tty names no terminal")
			}
			// Not while the shell comes to its prompt: bash reads the size there and
			// sets it again, which undoes what came in between.
			p.types("echo wait''ing; " + untilSize("50 132") + "; echo res''ized\r")
			p.sees("waiting\r\n")
			if err := pty.Setsize(p.tty, &pty.Winsize{Rows: 50, Cols: 132}); err != nil {
				t.Fatal(err)
			}
			p.sees("50 132\r\nresized\r\n")
			p.types("echo slee''ping; sleep 1000\r")
			p.sees("sleeping\r\n")
			// A shell that is about to begin the command takes the interruption itself,
			// and waits for the command: then it takes another.
			p.repeats("\x03echo interr''upted\r", "interrupted\r\n")
			p.types("exit 7\r")
			p.exits(7)
		})
	}

	t.Run("suspended and resumed", func(t *testing.T) {
		p := w.sit(t, "run", "-t", "edge-01", "--", "sh", "-i")
		p.shell()
		// In its own place: who is stopped between vfork and exec holds up its parent,
		// which then never stops, as nobody does who waits for that.
		p.types("sh -c 'echo slee''ping; exec sleep 1000'\r")
		p.sees("sleeping\r\n")
		p.types("\x1a")
		p.repeats("kill -9 %1; echo at the pro''mpt\r", "at the prompt\r\n")
		p.types("exit 0\rexit 0\r")
		p.exits(0)
	})

	t.Run("any bytes, pasted at once", func(t *testing.T) {
		data := make([]byte, 1<<20)
		_, _ = rand.NewChaCha8([32]byte{7}).Read(data) // it never fails
		for i := range data {
			if data[i] == 0x10 {
				data[i] = 0x11 // the first of the keys that leave
			}
		}
		sum := sha256.Sum256(data)
		p := w.sit(t, "run", "-t", "edge-01", "--", "sh", "-c", "stty raw -echo; echo ready; head -c 1048576 | sha256sum; stty sane")
		p.sees("ready")
		begun := time.Now()
		p.types(string(data))
		p.sees(hex.EncodeToString(sum[:]))
		t.Logf("1 MiB was typed in %v", time.Since(begun))
		p.exits(0)
	})

	t.Run("bytes come out as they are", func(t *testing.T) {
		p := w.sit(t, "run", "-t", "edge-01", "--", "sh", "-c", `stty raw; printf '\033[2J\001\377\200\t\r\n\004end'`)
		p.exits(0)
		if !strings.Contains(p.screen.String(), "\x1b[2J\x01\xff\x80\t\r\n\x04end") {
			t.Errorf("the screen shows %q", p.screen.String())
		}
	})

	t.Run("left and taken up again", func(t *testing.T) {
		p := w.sit(t, "attach", "edge-01")
		p.shell()
		p.types("x=kept; echo be''fore\r")
		p.sees("before\r\n")
		id := w.session(t)
		p.types("\x10\x11")
		p.sees("action attach " + id)
		p.exits(0)
		q := w.sit(t, "action", "attach", id[:13])
		q.sees("before\r\n")
		q.types("echo $x af''ter\r")
		q.sees("kept after\r\n")
		watch := w.sit(t, "action", "attach", id, "--read-only")
		watch.sees("kept after\r\n")
		watch.types("exit 1\r")
		q.types("echo both s''ee\r")
		q.sees("both see\r\n")
		watch.sees("both see\r\n")
		q.types("exit 3\r")
		q.exits(3)
		watch.exits(3)
	})

	t.Run("the agent is killed under it", func(t *testing.T) {
		p := w.sit(t, "attach", "edge-01")
		p.shell()
		h.agent.signal(t, syscall.SIGKILL)
		p.types("echo typed mean''while\r")
		h.agent.end(t, syscall.SIGKILL)
		h.start(t)
		p.sees("typed meanwhile\r\n")
		p.types("exit 4\r")
		p.exits(4)
		if n := strings.Count(p.screen.String(), "typed meanwhile"); n != 1 {
			t.Errorf("it was typed %d times", n)
		}
	})

	t.Run("the coordinator is killed under it", func(t *testing.T) {
		p := w.sit(t, "attach", "edge-01")
		p.shell()
		w.coordinator.end(t, syscall.SIGKILL)
		p.types("echo typed mean''while\r")
		w.startCoordinator(t)
		p.sees("typed meanwhile\r\n")
		p.types("exit 5\r")
		p.exits(5)
		if n := strings.Count(p.screen.String(), "typed meanwhile"); n != 1 {
			t.Errorf("it was typed %d times", n)
		}
	})

	t.Run("the terminal is as it was", func(t *testing.T) {
		for _, end := range []string{"exit\r", "\x10\x11", "SIGTERM"} {
			// A shell around it, for the terminal goes with its last user.
			q := w.sitAt(t, "sh", "-c", `before=$(stty -g); echo $$ >pid; hostler attach edge-01; [ "$before" = "$(stty -g)" ] && echo the sa''me || echo an''other; stty -a | head -1`)
			q.shell()
			if end == "SIGTERM" {
				w.tool(t, "pkill", "-TERM", "-P", strings.TrimSpace(read(t, w.path("pid"))), "-x", "hostler")
			} else {
				q.types(end)
			}
			q.sees("the same\r\n")
			q.exits(0)
		}
	})

	t.Run("no terminal", func(t *testing.T) {
		w.cli(t, "attach", "edge-01").exits(t, 125, "needs a terminal")
		w.cli(t, "run", "-t", "edge-01", "--", "true").exits(t, 125, "needs a terminal")
	})

	t.Run("written down", func(t *testing.T) {
		p := w.sit(t, "run", "-t", "edge-01", "--", "true")
		p.exits(0)
		log := w.must(t, "audit", "ls", "-o", "json")
		for _, verb := range []string{"session.attach", "session.detach"} {
			if !strings.Contains(log, verb) {
				t.Errorf("the audit log has no %s", verb)
			}
		}
	})

	t.Run("the echo of a key", func(t *testing.T) {
		p := w.sit(t, "run", "-t", "edge-01", "--", "sh", "-c", "stty raw -echo; echo ready; exec cat")
		p.sees("ready")
		var took []time.Duration
		for i := range 100 {
			key := string(rune('a' + i%26))
			before := len(p.screen.String())
			begun := time.Now()
			p.types(key)
			until(t, &p.screen.change, "the echo", func() bool { return len(p.screen.String()) > before })
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		t.Logf("echo: p50 %v, p99 %v", took[50], took[99])
	})
}

// TestSessionIsHungUp: a session ends with everything in it half a minute after the
// last sign of anybody.
func TestSessionIsHungUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addHost(t, "edge-01", false)
	p := w.sit(t, "attach", "edge-01")
	p.shell()
	mark := w.path("mark")
	p.types("trap '' TERM; sleep 98765 & echo $! >" + mark + "; echo beg''un\r")
	p.sees("begun\r\n")
	id := w.session(t)
	gone := time.Now()
	p.cmd.Process.Kill()
	w.ended(t, id)
	a := w.action(t, id)
	if a.HostEndedAt == nil {
		t.Fatalf("its host has not said when it ended: %+v", a)
	}
	// By the host's own account: how long that took to arrive is another matter. After
	// half a minute a moment is for its end.
	took := a.HostEndedAt.Sub(gone)
	if a.Exit == nil || !a.Exit.HungUp || took > within(31*time.Second, 45*time.Second) || took < 20*time.Second {
		t.Errorf("it ended after %v with %+v", took, a.Exit)
	}
	t.Logf("it was hung up after %v", took)
	if _, err := os.Stat("/proc/" + strings.TrimSpace(read(t, mark))); err == nil {
		t.Error("what it had started goes on")
	}
}
