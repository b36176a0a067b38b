// Package term is how the command line speaks with its user: streams and the
// terminal, questions, progress, errors with exit codes and hints, and the manners
// that all commands share.
//
// Data goes to standard output, everything else to standard error.
package term

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hostler-io/hostler/internal/clock"
)

// UI is what a run of the program has of the world: its streams, the user, and
// the time. Everything but In, Out and Err may be replaced by a test.
type UI struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer // safe for concurrent use, which Run makes it

	InTTY, OutTTY, ErrTTY bool    // whether the stream is a terminal
	Console               Console // of In; nil without a terminal
	// Width is how many columns the terminal of Out has, 0 if that is not known.
	Width func() int

	Getenv  func(string) string
	Environ func() []string // for the programs that this one starts
	Now     func() time.Time
	Random  func([]byte)
	Every   time.Duration // how often --watch asks again
	// Secret reads a line of the terminal without showing it, until done is closed.
	Secret func(done <-chan struct{}) ([]byte, error)

	Quiet bool     // the option --quiet
	Args  []string // the command line; set by Run

	Done <-chan struct{} // closed when the user has had enough; set by Run
}

// OfProcess returns the UI of this process, whose environment is given.
func OfProcess(getenv func(string) string, environ func() []string) *UI {
	ui := &UI{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTTY: term.IsTerminal(int(os.Stdin.Fd())), OutTTY: term.IsTerminal(int(os.Stdout.Fd())), ErrTTY: term.IsTerminal(int(os.Stderr.Fd())),
		Getenv: getenv, Environ: environ, Now: clock.Now, Every: 2 * time.Second, Secret: readSecret,
		Random: func(b []byte) { _, _ = rand.Read(b) }, // it never fails
		Width: func() int {
			cols, _, err := term.GetSize(int(os.Stdout.Fd()))
			if err != nil {
				return 0
			}
			return cols
		},
	}
	if ui.InTTY {
		ui.Console = tty{os.Stdin}
	}
	return ui
}

// Run runs a command line of root and returns the exit code.
func (a *UI) Run(ctx context.Context, root *cobra.Command, args []string) int {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	talk := &talk{w: a.Err}
	out := &data{w: a.Out, lost: stop}
	if a.Err = talk; a.OutTTY {
		out.shown = talk
	}
	a.Out, a.Done, a.Args = out, ctx.Done(), args
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(out)
	root.SetErr(a.Err)
	cmd, err := root.ExecuteContextC(ctx)
	return report(a.Err, args, out.judge(cmd.Name(), err))
}

// data is the standard output. What it could not write is remembered, so that no
// command has to look at each of its writes, and ends all that goes on: its
// reader is gone.
type data struct {
	w     io.Writer
	lost  func()
	shown *talk // what has a line on the same terminal, which makes room; nil for none

	mu  sync.Mutex
	err error
}

func (d *data) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	write := d.w.Write
	if d.shown != nil {
		write = func(b []byte) (int, error) { return d.shown.through(d.w, b) }
	}
	n, err := write(b)
	if err != nil && d.err == nil {
		d.err = err
		d.lost()
	}
	return n, err
}

// judge makes a failure of what a command has come to, if some of its data is
// lost: a caller that reads an exit code of 0 believes to have all of it.
func (d *data) judge(command string, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		return err
	}
	f := &Failure{Code: ExitFailed, What: "standard output could not be written completely", Why: d.err.Error(), Err: d.err}
	if slices.Contains([]string{"run", "exec", "attach"}, command) {
		f.Code = ExitHostler
	}
	return f
}

// Say tells the user something that is no data.
func (a *UI) Say(format string, args ...any) {
	if !a.Quiet {
		fmt.Fprintf(a.Err, format+"\n", args...)
	}
}

// Confirm asks before something that cannot be undone. Elsewhere than on a
// terminal there is no answer, so there it takes --yes.
func (a *UI) Confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !a.InTTY || !a.ErrTTY {
		stream := "stdin"
		if a.InTTY {
			stream = "stderr"
		}
		return &Failure{Code: ExitRefused, What: "confirmation needed, but " + stream + " is not a terminal", Why: "this asks: " + question, Next: "rerun with --yes"}
	}
	answer, ended, err := a.ask(question + " [y/N] ")
	if err != nil {
		return err
	}
	if answer = strings.ToLower(answer); answer != "y" && answer != "yes" {
		why := "you answered no"
		if ended {
			why = "the input ended without an answer"
		}
		return &Failure{Code: ExitRefused, What: "nothing was done", Why: why}
	}
	return nil
}

// ask prints a question and reads one line. It reports whether the input ended before
// the line did.
func (a *UI) ask(question string) (line string, ended bool, err error) {
	fmt.Fprint(a.Err, question)
	line, ended, err = a.line()
	if ended || errors.Is(err, ErrInterrupted) {
		fmt.Fprintln(a.Err) // behind the question
	} else if t, ok := a.Err.(*talk); ok {
		t.ended()
	}
	return line, ended, err
}

// AskHidden asks a question on a terminal, and reads a line that it does not show. From
// elsewhere it reads a line without a question.
func (a *UI) AskHidden(question string) (string, error) {
	if !a.InTTY || !a.ErrTTY {
		line, _, err := a.line()
		return line, err
	}
	fmt.Fprint(a.Err, question)
	line, err := a.Secret(a.Done)
	fmt.Fprintln(a.Err)
	if err != nil && !errors.Is(err, ErrInterrupted) {
		err = fmt.Errorf("read the answer: %w", err)
	}
	return string(line), err
}

// line reads one line of standard input. It reports whether the input ended before the
// line did.
func (a *UI) line() (_ string, ended bool, _ error) {
	over := make(chan bool, 1)
	line, err := answered(a.Done, func() ([]byte, error) {
		var line []byte
		for b := make([]byte, 1); len(line) < 1000; {
			n, err := a.In.Read(b)
			if n == 1 && b[0] == '\n' {
				break
			}
			if errors.Is(err, io.EOF) {
				over <- true
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read the answer: %w", err)
			}
			line = append(line, b[:n]...)
		}
		return line, nil
	})
	select {
	case ended = <-over:
	default:
	}
	return strings.TrimSpace(string(line)), ended, err
}

// answered reads what is typed, unless done comes first. A read of a
// terminal cannot be broken off: then it goes on until the program has ended, which
// is at once.
func answered(done <-chan struct{}, read func() ([]byte, error)) ([]byte, error) {
	type answer struct {
		line []byte
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		line, err := read()
		got <- answer{line, err}
	}()
	select {
	case x := <-got:
		return x.line, x.err
	case <-done:
		return nil, ErrInterrupted
	}
}

// readSecret reads a line of the terminal, which shows again what is typed
// afterwards, however it ends.
func readSecret(done <-chan struct{}) ([]byte, error) {
	fd := int(os.Stdin.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	line, err := answered(done, func() ([]byte, error) { return term.ReadPassword(fd) })
	if errors.Is(err, ErrInterrupted) {
		err = errors.Join(err, term.Restore(fd, before))
	}
	return line, err
}

// Dumb reports whether the terminal is one that only goes on: nothing on it can be
// painted, nor taken away again.
func (a *UI) Dumb() bool { return a.Getenv("TERM") == "dumb" }

// Colour paints the words that want to be seen, on a terminal alone.
func (a *UI) Colour(s string) string {
	if !a.OutTTY || a.Dumb() || a.Getenv("NO_COLOR") != "" {
		return s
	}
	code := ""
	switch s {
	case "online", "running", "done", "approved":
		code = "32"
	case "late", "pending", "starting", "stopping", "queued", "being sent", "cancelling", "waits for its host", "waits for approval":
		code = "33"
	case "offline", "revoked", "denied", "failed", "lost":
		code = "31"
	default:
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// screenWidth is how much of a line is shown at most.
const screenWidth = 78

// Columns is how many characters a line of the terminal takes without wrapping.
func (a *UI) Columns() int {
	if a.Console != nil {
		if s, err := a.Console.Size(); err == nil && s.Cols > 1 {
			return int(s.Cols) - 1
		}
	}
	return screenWidth
}

// Fit cuts a line that would wrap on the terminal: such a one could not be taken
// away again.
func (a *UI) Fit(row string) string {
	return Cut(row, min(screenWidth, a.Columns()))
}

// Cut ends a text with … where it is longer than a width.
func Cut(text string, width int) string {
	if r := []rune(text); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return text
}

// Pause waits, or returns errInterrupted.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ErrInterrupted
	}
}
