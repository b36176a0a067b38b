package run

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/terminal"
)

func (a *commands) replayCommand() *cobra.Command {
	var speed float64
	var raw bool
	cmd := &cobra.Command{
		Use: "replay ID", Short: "Play the recording of a session", Args: term.Exactly(1),
		Long: `Plays the output of a recorded session, as it came. A session is recorded with
--record, or because its host records all (sessions.record of its agent). Input is
not recorded, except where the terminal shows it.

A recording is played only if it has the digest that the host wrote into both
audit logs at the end of the session. Control sequences that a terminal answers, or
that make it report the mouse, are left out: your shell would read the answers as
typed. With --raw the recording itself is printed:
an asciicast of version 2, which other programs play too.`,
		Example: "  hostler action replay 0199f3 --speed 4\n  hostler action replay 0199f3 --raw > session.cast", ValidArgsFunction: a.Completing(conn.ActionIDs),
	}
	cmd.Flags().Float64Var(&speed, "speed", 1, "speed of the playback")
	cmd.Flags().BoolVar(&raw, "raw", false, "print the recording and play nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !(speed >= minSpeed && speed <= maxSpeed) {
			return term.Usage("", "--speed %v: use %v to %v", speed, minSpeed, maxSpeed)
		}
		r, err := a.Connect()
		if err != nil {
			return err
		}
		act, err := r.Action(cmd.Context(), args[0], 0)
		if err != nil {
			return term.Cannot("show action "+args[0], err)
		}
		return a.replay(cmd.Context(), r, act, speed, raw)
	}
	return cmd
}

// The bounds of --speed.
const minSpeed, maxSpeed = 0.01, 10_000.0

func (a *commands) replay(ctx context.Context, r *conn.Remote, act api.Action, speed float64, raw bool) error {
	what := "replay action " + act.ID
	account, err := recordingOf(act)
	if err != nil {
		return err
	}
	cast, err := a.fetchRecording(ctx, r, act, account)
	if err != nil {
		return term.Cannot(what, err)
	}
	if raw {
		_, err = a.Out.Write(cast)
	} else {
		err = play(ctx, bytes.NewReader(cast), a.Out, speed)
	}
	if err != nil {
		return term.Cannot(what, err)
	}
	if account.Ended != "" {
		a.Say("hostler: the recording ended before the session: %s", term.Printable(account.Ended))
	}
	return nil
}

// recordingOf is the account of a session's recording.
func recordingOf(act api.Action) (api.Output, error) {
	for _, o := range act.Output {
		if o.FD == string(protocol.Recording) {
			return o, nil
		}
	}
	f := &term.Failure{Code: term.ExitNotFound, What: "cannot replay action " + act.ID, Why: "it was not recorded", Next: "hostler attach HOST --record"}
	if !protocol.State(act.State).Final() {
		f.Code, f.Why, f.Next = term.ExitFailed, "the session has not ended; its recording arrives at the end", "hostler action attach "+act.ID+" --read-only"
	}
	return api.Output{}, f
}

// fetchRecording returns a whole recording that has the digest which its host has
// told.
func (a *commands) fetchRecording(ctx context.Context, r *conn.Remote, act api.Action, account api.Output) ([]byte, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var b bytes.Buffer
	var moved atomic.Int64
	f := &dispatch.Follower{Dispatcher: a.Dispatcher, Remote: r, Label: act.ID}
	s := &dispatch.Stream{Fd: protocol.Recording, W: &limited{w: &b, left: account.Bytes}}
	done := make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		s.Err = f.Copy(ctx, act.ID, s, true, &moved)
	}()
	missing := act
	missing.Output = []api.Output{account}
	dispatch.WatchTail(a.Tail, done, &moved, func() bool { return f.Comes(ctx, missing, moved.Load()) }, stop)
	switch sum := sha256.Sum256(b.Bytes()); {
	case errors.Is(s.Err, dispatch.ErrTail):
		return nil, &term.Failure{Code: term.ExitUnreachable, What: "cannot replay action " + act.ID,
			Why: fmt.Sprintf("its host has sent %d of %d bytes of the recording, and no more arrives", b.Len(), account.Bytes), Next: "hostler host ls"}
	case s.Err != nil:
		return nil, s.Err
	case account.SHA256 == "":
		return nil, fmt.Errorf("its host reports no digest: %s", account.Ended)
	case int64(b.Len()) != account.Bytes || hex.EncodeToString(sum[:]) != account.SHA256:
		return nil, errors.New("its digest differs from the one in the audit logs: it is not what the host recorded")
	}
	return b.Bytes(), nil
}

// limited refuses more than was announced.
type limited struct {
	w    io.Writer
	left int64
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, errors.New("more arrived than the host recorded")
	}
	return l.w.Write(p)
}

// errCast is a recording that cannot be played.
var errCast = errors.New("it is not an asciicast of version 2")

// longestPause is as long as anything between two events is waited for.
const longestPause = 24 * time.Hour

// play prints what a recording has printed, at the times at which it did.
func play(ctx context.Context, cast io.Reader, out io.Writer, speed float64) error {
	screen := unasked{w: out}
	lines := bufio.NewScanner(cast)
	lines.Buffer(make([]byte, 64<<10), terminal.MaxCastLine)
	if !lines.Scan() {
		return errors.Join(errCast, lines.Err())
	}
	var header struct{ Version int }
	if err := json.Unmarshal(lines.Bytes(), &header); err != nil || header.Version != 2 {
		return fmt.Errorf("%w: it begins with %.100q", errCast, lines.Bytes())
	}
	last := 0.0
	for n := 2; lines.Scan(); n++ {
		at, kind, text, err := parseEvent(lines.Bytes())
		if err != nil || at < last {
			return fmt.Errorf("%w: line %d is %.100q", errCast, n, lines.Bytes())
		}
		pauseFor := min((at-last)/speed*float64(time.Second), float64(longestPause))
		if err := term.Pause(ctx, time.Duration(pauseFor)); err != nil {
			return err
		}
		last = at
		if kind != "o" {
			continue
		}
		if err := screen.WriteString(text); err != nil {
			return err
		}
	}
	return lines.Err()
}

// parseEvent takes a line behind the first apart.
func parseEvent(line []byte) (at float64, kind, text string, err error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(line, &parts); err != nil || len(parts) != 3 {
		return 0, "", "", errCast
	}
	err = errors.Join(json.Unmarshal(parts[0], &at), json.Unmarshal(parts[1], &kind), json.Unmarshal(parts[2], &text))
	if err != nil || !(at >= 0) || math.IsInf(at, 0) {
		return 0, "", "", errCast
	}
	return at, kind, text, nil
}
