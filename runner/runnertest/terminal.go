package runnertest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/terminal"
)

// terminalCases: a command with a pseudoterminal, and who types in it.
func terminalCases() []Case {
	return []Case{
		{"terminal", testTerminal},
		{"terminal is resized", testTerminalResize},
		{"terminal takes what is typed", testTerminalTyping},
		{"terminal interrupts and suspends", testTerminalSignals},
		{"terminal carries any bytes", testTerminalRaw},
		{"terminal without a reader", testTerminalFull},
		{"terminal takes everything once", testTerminalOnce},
		{"terminal of two peers", testTerminalPeers},
		{"terminal is hung up", testTerminalHangUp},
		{"terminal is hung up in spite of nohup", testTerminalHangUpKill},
		{"terminal stays for who is there", testTerminalAlive},
		{"terminal is hung up on who is played again", testTerminalReplay},
		{"terminal survives the agent", testTerminalAdopted},
		{"terminal is cancelled", testTerminalCancel},
		{"terminal of a user", testTerminalUser},
		{"terminal is recorded", testTerminalRecorded},
		{"terminal whose recording is full", testRecordingFull},
		{"terminal is hung up without a recording", testUnrecorded},
		{"login shell", testLoginShell},
		{"no terminal", testNoTerminal},
	}
}

// hangUp is a time without peers that no test here takes by accident.
const hangUp = time.Minute

// terminalSpec returns the spec of a shell line with a terminal of 24 by 80.
func (e *env) terminalSpec(line string, args ...string) runner.Spec {
	s := e.spec(line, args...)
	s.Terminal = &rundir.Terminal{Rows: 24, Cols: 80, HangUpMS: hangUp.Milliseconds()}
	s.Env = []string{"TERM=dumb", "PS1=$ "}
	return s
}

// A keyboard is a peer of a session. It belongs to one goroutine.
type keyboard struct {
	t    *testing.T
	at   io.ReadWriteCloser
	out  terminal.Outbox
	acks chan terminal.Ack
	wg   sync.WaitGroup
}

func newKeyboard(t *testing.T, run *runner.Run, peer byte) *keyboard {
	t.Helper()
	k := &keyboard{t: t, out: terminal.Outbox{Peer: terminal.Peer{peer}}}
	k.attach(run)
	t.Cleanup(k.leave)
	return k
}

func (k *keyboard) attach(run *runner.Run) {
	k.t.Helper()
	at, err := run.Attach(k.t.Context())
	if err != nil {
		k.t.Fatal(err)
	}
	k.at, k.acks = at, make(chan terminal.Ack, 1024)
	acks := k.acks
	k.wg.Go(func() {
		defer close(acks)
		buf := make([]byte, terminal.MaxPacket)
		for {
			n, err := at.Read(buf)
			if err != nil {
				return
			}
			got, err := terminal.ParseAcks(buf[:n])
			if err != nil {
				k.t.Error(err)
				return
			}
			for _, a := range got {
				acks <- a
			}
		}
	})
}

func (k *keyboard) leave() {
	_ = k.at.Close() // closed twice at the end of most tests
	acks := k.acks   // attach replaces it
	go func() {
		for range acks {
		}
	}()
	k.wg.Wait()
}

// send sends frames without waiting until they are taken.
func (k *keyboard) send(frames []byte) {
	k.t.Helper()
	k.out.Append(frames)
	k.flush()
}

func (k *keyboard) flush() {
	k.t.Helper()
	for p, ok := k.out.Next(terminal.Window); ok; p, ok = k.out.Next(terminal.Window) {
		if _, err := k.at.Write(terminal.AppendPacket(nil, p)); err != nil {
			k.t.Fatal(err)
		}
	}
}

// typed sends what is typed and waits until the terminal has taken it.
func (k *keyboard) typed(text string) {
	k.t.Helper()
	k.last(text)
	k.settle()
}

// last sends what a command ends upon: the session may be over before anything is
// acknowledged.
func (k *keyboard) last(text string) {
	k.t.Helper()
	k.send(terminal.AppendData(nil, []byte(text)))
}

// settle waits until everything that was sent is acknowledged.
func (k *keyboard) settle() {
	k.t.Helper()
	for !k.out.Empty() {
		ack, ok := <-k.acks
		if !ok {
			k.t.Fatal("the session ended before it took everything")
		}
		if ack.Peer == k.out.Peer {
			k.out.Acked(ack.Offset)
			k.flush()
		}
	}
}

func testTerminal(t *testing.T, e *env) {
	exit := e.do(t, e.terminalSpec("tty; stty size; test -t 0 && test -t 1 && test -t 2 && echo all >&2; : >/dev/tty && echo controls; exit 7"))
	got := string(e.output(t, rundir.Stdout))
	if !strings.HasPrefix(got, "/dev/pts/") || !strings.HasSuffix(got, "\r\n24 80\r\nall\r\ncontrols\r\n") {
		t.Errorf("it printed %q", got)
	}
	if exit.Code != 7 || exit.HungUp || exit.Stderr.Bytes != 0 || exit.Stdout.Bytes != int64(len(got)) || !exit.Emptied {
		t.Errorf("%+v", exit)
	}
	e.wantOutput(t, rundir.Stderr, nil)
}

func testTerminalResize(t *testing.T, e *env) {
	run := e.start(t, e.terminalSpec(`trap 'stty size' WINCH; echo ready; line=; until test "$line" = end; do read line; done`))
	follow(t, run, "ready")
	k := newKeyboard(t, run, 1)
	k.send(terminal.AppendResize(nil, terminal.Size{Rows: 50, Cols: 132}))
	k.settle()
	k.typed("\r") // not every shell leaves a read for a signal
	follow(t, run, "50 132")
	k.last("end\r")
	wait(t, run)
}

func testTerminalTyping(t *testing.T, e *env) {
	run := e.start(t, e.terminalSpec(`read a; read b; echo "got $a and $b"; cat >/dev/null; echo end`))
	k := newKeyboard(t, run, 1)
	k.typed("one\rtw\x7f\x7ftwo\r")
	follow(t, run, "got one and two")
	k.send([]byte{byte(terminal.KindEOF), 0, 0})
	if exit := wait(t, run); exit.Code != 0 {
		t.Errorf("%+v", exit)
	}
	follow0 := string(e.output(t, rundir.Stdout))
	if !strings.Contains(follow0, "one\r\n") || !strings.HasSuffix(follow0, "end\r\n") {
		t.Errorf("no echo, or no end: %q", follow0)
	}
}

func testTerminalSignals(t *testing.T, e *env) {
	spec := e.terminalSpec("")
	spec.Argv = []string{"/bin/sh", "-i"}
	run := e.start(t, spec)
	k := newKeyboard(t, run, 1)
	k.typed("stty -echo; echo rea''dy\r")
	follow(t, run, "ready")
	k.typed("sleep " + e.mark() + "\r")
	awaitProcess(t, e.mark())
	k.typed("\x03")
	k.typed("echo interrupted $?\r")
	follow(t, run, "interrupted 130")
	k.typed("sleep " + e.mark() + "\r")
	awaitProcess(t, e.mark())
	k.typed("\x1a")
	k.typed("echo suspended; jobs\r")
	follow(t, run, "suspended")
	k.send(terminal.AppendData(nil, []byte("kill -9 %1\rexit 9\rexit 9\r"))) // some want to be told twice
	if exit := wait(t, run); exit.Code != 9 {
		t.Errorf("%+v; it printed %q", exit, e.output(t, rundir.Stdout))
	}
	e.wantNothingLeft(t)
}

// awaitProcess waits until a process with a mark has begun.
func awaitProcess(t *testing.T, mark string) {
	t.Helper()
	for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
		if len(processes(t, "sleep\x00"+mark)) > 0 {
			tick.Stop()
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("it never began")
		}
	}
}

// awaitNone waits until no process has a mark.
func awaitNone(t *testing.T, mark string) {
	t.Helper()
	for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
		if len(processes(t, mark)) == 0 {
			tick.Stop()
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("it never ended")
		}
	}
}

// Of a terminal without its manners every byte arrives, more than any buffer on the
// way holds.
func testTerminalRaw(t *testing.T, e *env) {
	data := noise(1 << 20)
	sum := sha256.Sum256(data)
	run := e.start(t, e.terminalSpec(`stty raw -echo; echo ready; head -c "$1" | sha256sum; head -c 1 >/dev/null`, strconv.Itoa(len(data))))
	follow(t, run, "ready")
	k := newKeyboard(t, run, 1)
	for rest := data; len(rest) > 0; {
		n := min(len(rest), 5000, max(0, k.out.Room()-10))
		k.send(terminal.AppendData(nil, rest[:n]))
		rest = rest[n:]
		if k.out.Room() < 6000 {
			k.settle()
		}
	}
	k.settle()
	follow(t, run, hex.EncodeToString(sum[:]))
	k.last("x")
	wait(t, run)
}

// A command that reads nothing holds back who types, and can still be ended and
// told of its window's size.
func testTerminalFull(t *testing.T, e *env) {
	run := e.start(t, e.terminalSpec(`stty raw -echo -isig; trap 'stty size; exit 3' WINCH; echo ready; while :; do sleep 0.1; done`))
	follow(t, run, "ready")
	k := newKeyboard(t, run, 1)
	k.send(terminal.AppendData(nil, bytes.Repeat([]byte("x"), terminal.Window/2)))
	k.send(terminal.AppendResize(nil, terminal.Size{Rows: 10, Cols: 20}))
	follow(t, run, "10 20")
	if exit := wait(t, run); exit.Code != 3 {
		t.Errorf("%+v", exit)
	}
}

func testTerminalOnce(t *testing.T, e *env) {
	run := e.start(t, e.terminalSpec(`stty raw -echo; echo ready; head -c 6; stty sane; echo; echo sane; cat`))
	follow(t, run, "ready")
	k := newKeyboard(t, run, 1)
	k.send(terminal.AppendData(nil, []byte("abc")))
	k.out.Rewind()
	k.flush() // again
	k.settle()
	k.send(terminal.AppendData(nil, []byte("def")))
	for range 3 {
		k.out.Rewind()
		k.flush()
	}
	k.settle()
	follow(t, run, "abcdef")
	follow(t, run, "sane") // what is typed before is no end of file
	k.send([]byte{byte(terminal.KindEOF), 0, 0})
	wait(t, run)
}

func testTerminalPeers(t *testing.T, e *env) {
	run := e.start(t, e.terminalSpec(`stty -echo; echo ready; read a; read b; echo "$a $b"`))
	follow(t, run, "ready")
	one, two := newKeyboard(t, run, 1), newKeyboard(t, run, 2)
	one.typed("from one\r")
	two.last("from two\r")
	follow(t, run, "from one from two")
	wait(t, run)
}

func testTerminalHangUp(t *testing.T, e *env) {
	spec := e.terminalSpec("echo ready; cat")
	spec.Terminal.HangUpMS = 300
	exit := e.do(t, spec)
	if !exit.HungUp || exit.Signal != 1 || exit.Code != 129 || exit.TimedOut || exit.Cancelled || !exit.Emptied {
		t.Errorf("%+v", exit)
	}
}

func testTerminalHangUpKill(t *testing.T, e *env) {
	spec := e.terminalSpec("trap '' HUP; sleep " + e.mark() + " & sleep " + e.mark() + "; sleep " + e.mark())
	spec.Terminal.HangUpMS, spec.GraceMS = sometime, 300
	if exit := e.do(t, spec); !exit.HungUp || exit.Signal != 9 || !exit.Emptied {
		t.Errorf("%+v", exit)
	}
	e.wantNothingLeft(t)
}

func testTerminalAlive(t *testing.T, e *env) {
	spec := e.terminalSpec("echo ready; cat")
	spec.Terminal.HangUpMS = 4 * sometime // a busy machine may leave us out for a while
	run := e.start(t, spec)
	k := newKeyboard(t, run, 1)
	begun := time.Now()
	for tick := time.NewTicker(100 * time.Millisecond); time.Since(begun).Milliseconds() < 5*sometime; <-tick.C {
		if _, err := k.at.Write(terminal.AppendPacket(nil, k.out.Alive())); err != nil {
			t.Fatal(err)
		}
	}
	if err := run.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, run); exit.HungUp || !exit.Cancelled || exit.EndedMS-exit.StartedMS < 5*sometime {
		t.Errorf("%+v", exit)
	}
}

// Packets that somebody has kept do not keep a session alive, nor does a
// connection that says nothing.
func testTerminalReplay(t *testing.T, e *env) {
	spec := e.terminalSpec("echo ready; cat")
	spec.Terminal.HangUpMS = sometime
	run := e.start(t, spec)
	k := newKeyboard(t, run, 1)
	k.typed("x")
	kept := terminal.AppendPacket(nil, k.out.Alive())
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_, _ = k.at.Write(kept) // fails at the end
			continue
		case <-run.Done():
		}
		break
	}
	if exit := wait(t, run); !exit.HungUp || exit.EndedMS-exit.StartedMS > time.Minute.Milliseconds() {
		t.Errorf("%+v", exit)
	}
}

// An agent that ends takes nothing with it: the next one goes on where it was, and
// what was sent to both is taken once.
func testTerminalAdopted(t *testing.T, e *env) {
	run := e.start(t, e.terminalSpec(`stty raw -echo; echo ready; head -c 9; echo; exit 5`))
	follow(t, run, "ready")
	k := newKeyboard(t, run, 1)
	k.typed("abc")
	k.out.Append(terminal.AppendData(nil, []byte("def")))
	k.flush() // whose acknowledgement nobody waits for
	if err := e.runner.Close(); err != nil {
		t.Fatal(err)
	}
	k.leave()
	e.runner = e.open(t)
	found, err := e.runner.Recover(t.Context(), e.action, 1, e.boot)
	if err != nil || found.Verdict != runner.Adopted {
		t.Fatalf("%+v, %v", found, err)
	}
	k.attach(found.Run)
	k.out.Rewind()
	k.flush()
	k.last("ghi")
	follow(t, found.Run, "abcdefghi")
	if exit := wait(t, found.Run); exit.Code != 5 {
		t.Errorf("%+v", exit)
	}
}

func testTerminalCancel(t *testing.T, e *env) {
	spec := e.terminalSpec("")
	spec.Argv = []string{"/bin/sh", "-i"} // which does not heed SIGTERM
	spec.GraceMS = ages.Milliseconds()
	run := e.start(t, spec)
	k := newKeyboard(t, run, 1)
	k.typed("echo rea''dy\r")
	follow(t, run, "ready")
	if err := run.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, run); !exit.Cancelled || exit.HungUp || exit.Signal == 9 {
		t.Errorf("%+v", exit)
	}
}

func testTerminalUser(t *testing.T, e *env) {
	spec := e.terminalSpec(`id -u; tty; test -w "$(tty)" && : >"$(tty)" && echo writable`)
	spec.User = e.User
	e.do(t, spec)
	got := string(e.output(t, rundir.Stdout))
	if !strings.HasPrefix(got, strconv.Itoa(e.UID)+"\r\n/dev/pts/") || !strings.HasSuffix(got, "writable\r\n") {
		t.Errorf("it printed %q", got)
	}
}

func testLoginShell(t *testing.T, e *env) {
	spec := e.terminalSpec("")
	spec.Argv, spec.Login = nil, true
	run := e.start(t, spec)
	k := newKeyboard(t, run, 1)
	k.typed(`stty -echo; echo "shell=$SHELL home=$HOME in=$PWD"` + "\r")
	follow(t, run, "shell=/")
	k.last("exit 4\r")
	exit := wait(t, run)
	out := string(e.output(t, rundir.Stdout))
	_, line, _ := strings.Cut(out, "shell=/")
	_, line, _ = strings.Cut(line, "shell=/") // the first is the echo of what was typed
	if line == "" {
		_, line, _ = strings.Cut(out, "\nshell=/")
	}
	line, _, _ = strings.Cut(line, "\r")
	if exit.Code != 4 || !strings.Contains(line, "sh home=/") {
		t.Errorf("%+v; it printed %q", exit, out)
	}
}

func testNoTerminal(t *testing.T, e *env) {
	run := e.start(t, e.spec(held+"exit 0", e.mark()))
	follow(t, run, "ready")
	if _, err := run.Attach(t.Context()); !errors.Is(err, runner.ErrNoTerminal) {
		t.Errorf("got %v, want ErrNoTerminal", err)
	}
	e.letGo(t)
	wait(t, run)
	if _, err := run.Attach(t.Context()); !errors.Is(err, runner.ErrNoTerminal) {
		t.Errorf("after the end: %v", err)
	}
}

// recording is what a run has recorded, line by line.
func (e *env) recording(t *testing.T) (header map[string]any, events [][3]any) {
	t.Helper()
	o, err := e.runner.Output(e.action, 1, rundir.Recording)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	size, err := o.Size()
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.SplitAfter(string(read(t, io.NewSectionReader(o, 0, size))), "\n") {
		switch {
		case line == "":
		case i == 0:
			err = json.Unmarshal([]byte(line), &header)
		default:
			events = append(events, [3]any{})
			err = json.Unmarshal([]byte(line), &events[len(events)-1])
		}
		if err != nil || line != "" && !strings.HasSuffix(line, "\n") {
			t.Fatalf("line %d: %q: %v", i, line, err)
		}
	}
	return header, events
}

func read(t *testing.T, r io.Reader) []byte {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A recording has all that was printed and the sizes of the window, in order and
// with their times, and nothing that was typed unseen.
func testTerminalRecorded(t *testing.T, e *env) {
	spec := e.terminalSpec(`stty -echo; echo ready; read secret; stty size; printf 'end\303'; exit 4`)
	spec.Terminal.RecordBytes = 1 << 20
	run := e.start(t, spec)
	follow(t, run, "ready")
	k := newKeyboard(t, run, 1)
	k.send(terminal.AppendResize(nil, terminal.Size{Rows: 50, Cols: 132}))
	k.settle()
	k.last("sesame\r")
	exit := wait(t, run)
	header, events := e.recording(t)
	if header["version"] != 2.0 || header["width"] != 80.0 || header["height"] != 24.0 || header["env"].(map[string]any)["TERM"] != "dumb" {
		t.Errorf("header %v", header)
	}
	var printed strings.Builder
	last := 0.0
	resized := false
	for _, ev := range events {
		at := ev[0].(float64)
		if at < last || at > 60 {
			t.Errorf("an event at %v after one at %v", at, last)
		}
		last = at
		switch ev[1] {
		case "o":
			printed.WriteString(ev[2].(string))
		case "r":
			resized = resized || ev[2] == "132x50"
		}
	}
	if got := printed.String(); got != "ready\r\n50 132\r\nend\uFFFD" || !resized {
		t.Errorf("recorded %q, resized %v", got, resized)
	}
	out := string(e.output(t, rundir.Stdout))
	if !strings.HasPrefix(out, "hostler: this session is recorded") || !strings.HasSuffix(out, "end\303") {
		t.Errorf("it printed %q", out)
	}
	if exit.Code != 4 || exit.RecordingEnded != "" || exit.Unrecorded {
		t.Errorf("%+v", exit)
	}
}

func testRecordingFull(t *testing.T, e *env) {
	spec := e.terminalSpec(`printf %20000s | tr ' ' x; echo; exit 4`)
	spec.Terminal.RecordBytes = 10_000
	exit := e.do(t, spec)
	out := string(e.output(t, rundir.Stdout))
	if exit.Code != 4 || exit.Unrecorded || !strings.Contains(exit.RecordingEnded, "limit") {
		t.Errorf("%+v", exit)
	}
	if n := strings.Count(out, "x"); n < 20000 || strings.Count(out, "the recording of this session has ended: it has come to its limit") != 1 {
		t.Errorf("%d of 20000 were printed, and who looks is told: %q", n, out[max(0, len(out)-200):])
	}
	e.recording(t) // of whole lines
}

func testUnrecorded(t *testing.T, e *env) {
	spec := e.terminalSpec(`printf %20000s | tr ' ' x; sleep ` + e.mark())
	spec.Terminal.RecordBytes, spec.Terminal.RecordOrEnd = 10_000, true
	exit := e.do(t, spec)
	if !exit.Unrecorded || exit.HungUp || exit.Signal != 1 || !strings.Contains(exit.RecordingEnded, "limit") || !exit.Emptied {
		t.Errorf("%+v", exit)
	}
	e.wantNothingLeft(t)
	e.recording(t)
}
