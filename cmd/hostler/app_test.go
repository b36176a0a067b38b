package main

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// desk is the program as it is on a terminal: what is typed and what is
// shown. Its methods are safe for concurrent use.
type desk struct {
	app *dispatch.Dispatcher
	ca  string
	mu  sync.Mutex
	all strings.Builder
	// changed is closed at the next write.
	changed chan struct{}
}

func (c *desk) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.Write(b)
	close(c.changed)
	c.changed = make(chan struct{})
	return len(b), nil
}

func (c *desk) shown() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.String()
}

// until waits until a text is shown.
func (c *desk) until(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		c.mu.Lock()
		changed, found := c.changed, strings.Contains(c.all.String(), text)
		c.mu.Unlock()
		if found {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%q is never shown in %q", text, c.shown())
		}
	}
}

// newTerminal returns the program on a terminal, or behind pipes, logged in to
// a site.
func newTerminal(t *testing.T, s *site, tty bool, typed string) *desk {
	t.Helper()
	c := &desk{changed: make(chan struct{})}
	home := t.TempDir()
	env := map[string]string{"XDG_CONFIG_HOME": home, "HOSTLER_SOCKET": home + "/no-agent.sock", "HOSTLER_ADDRESS": "https://127.0.0.1:1"}
	if s != nil {
		env["HOSTLER_ADDRESS"], env["HOSTLER_TOKEN"] = s.url, s.tokens[core.RoleAdmin]
		if err := conn.ReplaceFile(home+"/ca.crt", []byte(conn.EncodeCA(s.authority.Certificate())), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ui := &term.UI{
		In: strings.NewReader(typed), Out: c, Err: c, InTTY: tty, OutTTY: tty, ErrTTY: tty,
		Getenv: func(k string) string { return env[k] }, Environ: os.Environ, Now: time.Now, Every: 5 * time.Millisecond,
		Random: func(b []byte) { _, _ = rand.Read(b) },
	}
	c.app = newDispatcher(ui)
	c.ca = home + "/ca.crt"
	return c
}

func (c *desk) run(ctx context.Context, args ...string) int {
	return c.app.Run(ctx, root(c.app), append([]string{"--ca", c.ca}, args...))
}

// TestTokenOnTerminal: a token that is not given is asked for, and never shown.
func TestTokenOnTerminal(t *testing.T) {
	s := newSite(t)
	c := newTerminal(t, s, true, "")
	getenv, token := c.app.Getenv, s.tokens[core.RoleAdmin]
	c.app.Getenv = func(k string) string {
		if k == "HOSTLER_TOKEN" {
			return ""
		}
		return getenv(k)
	}
	c.app.Secret = func(<-chan struct{}) ([]byte, error) { return []byte(token), nil }
	if code := c.run(t.Context(), "login", s.url); code != 0 || !strings.Contains(c.shown(), "Token (it is not shown): \nLogged in") || strings.Contains(c.shown(), token) {
		t.Errorf("code %d, shown %q", code, c.shown())
	}
}

func TestAskOnTerminal(t *testing.T) {
	s := newSite(t)
	for _, x := range []struct {
		typed string
		code  int
		want  string
	}{
		{"n\n", term.ExitRefused, "you answered no"},
		{"\n", term.ExitRefused, "you answered no"},
		{"", term.ExitRefused, "[y/N] \nhostler: nothing was done\n    why: the input ended without an answer"}, // it is no yes
		{"y\n", 0, "edge-01/web is gone"},
	} {
		c := newTerminal(t, s, true, x.typed)
		if got := c.run(t.Context(), "ct", "rm", "edge-01/web"); got != x.code || !strings.Contains(c.shown(), x.want) {
			t.Errorf("typed %q: code %d, shown %q, want %d and %q", x.typed, got, c.shown(), x.code, x.want)
		}
		if !strings.Contains(c.shown(), "Destroy edge-01/web with everything in it? [y/N] ") {
			t.Errorf("no question in %q", c.shown())
		}
	}
}

// TestInterruptedQuestion proves that Ctrl-C ends a question, though a read of a
// terminal cannot be broken off.
func TestInterruptedQuestion(t *testing.T) {
	s := newSite(t)
	c := newTerminal(t, s, true, "")
	in, typed := io.Pipe()
	c.app.In = in
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int)
	go func() { code <- c.run(ctx, "ct", "rm", "edge-01/web") }()
	c.until(t, "[y/N]")
	cancel()
	if got := <-code; got != term.ExitInterrupted {
		t.Errorf("code %d, shown %q", got, c.shown())
	}
	if err := typed.Close(); err != nil { // the reader that is left behind ends
		t.Error(err)
	}
}

// TestDaemonThatEndsAtOnce is told, with its code, when that is known in time.
func TestDaemonThatEndsAtOnce(t *testing.T) {
	s := newSite(t)
	c := newTerminal(t, s, false, "")
	c.app.Look = time.Minute // it ends a hang
	if got := c.run(t.Context(), "run", "edge-01", "--daemon", "--", "exit7"); got != 7 {
		t.Errorf("code %d, shown %q", got, c.shown())
	}
}

// TestDaemonIsLeftWhenItHasBegun, however late that is.
func TestDaemonIsLeftWhenItHasBegun(t *testing.T) {
	s := newSite(t)
	c := newTerminal(t, s, false, "")
	c.app.Look = time.Nanosecond
	code := make(chan int, 1)
	go func() { code <- c.run(t.Context(), "run", "edge-01", "--daemon", "-o", "json", "--", "idle") }()
	o := <-s.orders
	s.host.Report(o.Started(s.host))
	if got := <-code; got != 0 || !strings.Contains(c.shown(), `"state": "RUNNING"`) {
		t.Errorf("code %d, shown %q", got, c.shown())
	}
}

// TestAwayIsWaitedFor although nothing comes of the others any more, for as long as
// the user says.
func TestAwayIsWaitedFor(t *testing.T) {
	s := newSite(t)
	c := newTerminal(t, s, false, "")
	c.app.Tail = time.Millisecond
	if got := c.run(t.Context(), "run", "-A", "--wait", "1s", "--", "hello"); got != term.ExitTimeout {
		t.Errorf("code %d, shown %q", got, c.shown())
	}
	if got := c.run(t.Context(), "run", "-A", "--no-wait-offline", "--", "hello"); got != term.ExitUnreachable {
		t.Errorf("not waited for: code %d, shown %q", got, c.shown())
	}
}

// TestGoneMeanwhile: the user is told at once that a host went away while its command
// runs. With --no-wait-offline the command line does not wait for that host.
func TestGoneMeanwhile(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		s := newSite(t)
		c := newTerminal(t, s, false, "")
		c.app.Away = 2 * time.Second // the command line has read by then that it runs
		args := []string{"run", "-A", "--no-wait-offline", "--", "idle"}
		if quiet {
			args = append([]string{"run", "-A", "--no-wait-offline", "-o", "json"}, "--", "idle")
		}
		code := make(chan int, 1)
		go func() { code <- c.run(t.Context(), args...) }()
		o := <-s.orders
		s.host.Report(o.Started(s.host))
		s.untilState(o.Item.Action, func(now protocol.State) bool { return now == protocol.StateRunning })
		s.host.Break()
		if got := <-code; got != term.ExitUnreachable || !strings.Contains(c.shown(), "hostler: edge-01: it ran when that was last heard; its host was last seen") {
			t.Errorf("code %d, shown %q", got, c.shown())
		}
	}
}

// TestSilentHostIsNamed: a host whose line broke without a word counts as there for 45 s.
// It is named as soon as it should have acknowledged its order, and with
// --no-wait-offline it is left soon after. One that answers meanwhile is followed.
func TestSilentHostIsNamed(t *testing.T) {
	for _, answers := range []bool{false, true} {
		s := newSite(t)
		c := newTerminal(t, s, false, "")
		c.app.Silent, c.app.Away = time.Millisecond, 300*time.Millisecond
		if answers {
			c.app.Away = time.Minute
		}
		code := make(chan int, 1)
		go func() { code <- c.run(t.Context(), "run", "-A", "--no-wait-offline", "--", "idle") }()
		o := <-s.orders
		if answers {
			c.until(t, "has not acknowledged")
			s.host.Report(o.Started(s.host))
			s.host.Report(o.Done())
		}
		if got := <-code; got != term.ExitUnreachable /* edge-02 is away */ || strings.Count(c.shown(), "edge-01: has not acknowledged its order for 1ms; the host may be out of reach") != 1 ||
			strings.Contains(c.shown(), "1 not acknowledged") == answers || strings.Contains(c.shown(), "no answer from the coordinator") {
			t.Errorf("answers: %t: code %d, shown %q", answers, got, c.shown())
		}
	}
}

// TestPullKeepsWhatCame of a host that went away before it had sent the rest.
func TestPullKeepsWhatCame(t *testing.T) {
	s := newSite(t)
	c := newTerminal(t, s, false, "")
	c.app.Tail = 100 * time.Millisecond
	to := t.TempDir()
	if got := c.run(t.Context(), "pull", "edge-01:/stalls", to); got != term.ExitUnreachable || !strings.Contains(c.shown(), "1.1KiB have arrived; to continue") {
		t.Errorf("code %d, shown %q", got, c.shown())
	}
	s.host.Connect()
	if got := c.run(t.Context(), "pull", "edge-01:/stalls", to); got != 0 || !strings.Contains(c.shown(), "continuing after 1.1KiB") {
		t.Errorf("again: code %d, shown %q", got, c.shown())
	}
	if b, err := os.ReadFile(to + "/stalls/b"); err != nil || string(b) != "alpha" {
		t.Errorf("pulled %q, %v", b, err)
	}
}

func TestApproveOnTerminal(t *testing.T) {
	s := newSite(t)
	c := newTerminal(t, s, true, "no\n")
	if got := c.run(t.Context(), "host", "approve", "edge-03"); got != term.ExitRefused || !strings.Contains(c.shown(), "words: ") {
		t.Fatalf("code %d, shown %q", got, c.shown())
	}
	c = newTerminal(t, s, true, "yes\n")
	if got := c.run(t.Context(), "host", "approve", "edge-03"); got != 0 || !strings.Contains(c.shown(), "is approved") {
		t.Fatalf("code %d, shown %q", got, c.shown())
	}
}

func TestTerminalShowsStatesAndColour(t *testing.T) {
	s := newSite(t)
	c := newTerminal(t, s, true, "")
	if got := c.run(t.Context(), "host", "ls"); got != 0 || !strings.Contains(c.shown(), "\x1b[32monline\x1b[0m") || !strings.Contains(c.shown(), "ago") && !strings.Contains(c.shown(), "now") {
		t.Errorf("code %d, shown %q", got, c.shown())
	}
	c = newTerminal(t, s, true, "")
	env := c.app.Getenv
	c.app.Getenv = func(k string) string {
		if k == "NO_COLOR" {
			return "1"
		}
		return env(k)
	}
	if got := c.run(t.Context(), "host", "ls"); got != 0 || strings.Contains(c.shown(), "\x1b[") {
		t.Errorf("code %d, shown %q", got, c.shown())
	}
	c = newTerminal(t, s, true, "")
	if got := c.run(t.Context(), "ct", "stop", "edge-01/web"); got != 0 || !strings.Contains(c.shown(), "edge-01/web: done") {
		t.Errorf("no progress: code %d, shown %q", got, c.shown())
	}
}

// TestDumbTerminal proves that nothing is painted where nothing can be.
func TestDumbTerminal(t *testing.T) {
	s := newSite(t)
	for _, args := range [][]string{{"host", "ls"}, {"exec", "-A", "--", "hello"}, {"ct", "ls"}} {
		c := newTerminal(t, s, true, "")
		env := c.app.Getenv
		c.app.Getenv = func(k string) string {
			if k == "TERM" {
				return "dumb"
			}
			return env(k)
		}
		if c.run(t.Context(), args...); strings.Contains(c.shown(), "\x1b") {
			t.Errorf("%v: shown %q", args, c.shown())
		}
	}
}

// TestWatch proves that a change is printed, alone, and that Ctrl-C ends it.
func TestWatch(t *testing.T) {
	s := newSite(t)
	for _, args := range [][]string{
		{"host", "show", "edge-03", "--watch", "-o", "template={{.state}}"},
		{"host", "ls", "--watch", "-o", "json"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		c := newTerminal(t, s, false, "")
		code := make(chan int, 1)
		go func() { code <- c.run(ctx, args...) }()
		switch args[1] {
		case "show":
			c.until(t, "pending\n")
			if got := newTerminal(t, s, false, "").run(t.Context(), "host", "approve", "edge-03", "--yes"); got != 0 {
				t.Fatalf("approve: code %d", got)
			}
			c.until(t, "pending\nunknown\n")
		case "ls":
			c.until(t, `"id":"edge-03"`)
			if got := newTerminal(t, s, false, "").run(t.Context(), "host", "revoke", "edge-02", "--yes"); got != 0 {
				t.Fatalf("revoke: code %d", got)
			}
			c.until(t, `"state":"revoked"`)
			if n := strings.Count(c.shown(), `"id":"edge-03"`); n != 1 {
				t.Errorf("a host that did not change is shown %d times", n)
			}
		}
		cancel()
		if got := <-code; got != term.ExitInterrupted {
			t.Errorf("%q: code %d, want %d", args, got, term.ExitInterrupted)
		}
	}
}

func TestWatchOnTerminal(t *testing.T) {
	s := newSite(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := newTerminal(t, s, true, "")
	code := make(chan int, 1)
	go func() { code <- c.run(ctx, "host", "ls", "--watch") }()
	c.until(t, "edge-02")
	s.mu.Lock()
	s.down = true
	s.mu.Unlock()
	c.until(t, "no answer, trying again")
	before := strings.Count(c.shown(), "\x1b[2J")
	s.mu.Lock()
	s.down = false
	s.mu.Unlock()
	for strings.Count(c.shown(), "\x1b[2J") <= before {
		c.until(t, "HOST")
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		<-changed
	}
	cancel()
	if got := <-code; got != term.ExitInterrupted {
		t.Errorf("code %d, want %d", got, term.ExitInterrupted)
	}
}

func TestEventsFromNow(t *testing.T) {
	s := newSite(t)
	c := newTerminal(t, s, false, "")
	code := make(chan int, 1)
	go func() { code <- c.run(t.Context(), "events", "--limit", "1", "-o", "template={{.type}} {{.object}}") }()
	// Whatever happened before is not shown, so something is made to happen
	// until it is.
	for done := false; !done; {
		newTerminal(t, s, false, "").run(t.Context(), "host", "revoke", "edge-02", "--yes", "-q")
		newTerminal(t, s, false, "").run(t.Context(), "run", "edge-01", "--", "true")
		select {
		case got := <-code:
			if got != 0 || !strings.Contains(c.shown(), "action.state") && !strings.Contains(c.shown(), "host.revoked") {
				t.Errorf("code %d, shown %q", got, c.shown())
			}
			done = true
		default:
		}
	}
}
