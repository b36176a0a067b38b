package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/protocol"
)

const (
	// waitStep is how long the other end is asked to wait at a time.
	waitStep = 30 * time.Second
	// lookStep is that where more may happen than the end.
	lookStep = 2 * time.Second
	// restartTime is how long nobody may be there at all: a coordinator that is
	// started again is back by then.
	restartTime = 10 * time.Second
	// submitTries is how often an action is asked for when no answer comes. It
	// has its id by then, so asking again does it no second time.
	submitTries = 4
	// tail is how long output that is still under way may stand still after the
	// end of its command was told, unless its host is there: over the slowest line
	// a part takes longer. It is looked at as often, so giving up takes up to
	// twice of it.
	tail = 30 * time.Second
)

const (
	// patience is how long nobody may answer before waiting is given up. What
	// was asked for goes on meanwhile, so this is about the user's time alone.
	patience = 2 * time.Minute
	// firstRetry and lastRetry bound the pauses between tries, which double.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 3 * time.Second
)

// retry pauses between tries, for longer each time.
type retry struct {
	next  time.Duration
	since time.Time // when the tries began to fail
}

// wait pauses before another try at time now. It returns the error when
// patience is at its end, or there is no point in trying again.
func (r *retry) wait(ctx context.Context, now time.Time, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	if !errors.Is(err, client.ErrUnreachable) || untrusted(err) {
		return err
	}
	if r.since.IsZero() {
		r.since, r.next = now, firstRetry
	}
	if now.Sub(r.since) > patience {
		return err
	}
	d := r.next
	r.next = min(2*r.next, lastRetry)
	return pause(ctx, d)
}

// submit asks for an action. The id is made here, so that a request whose
// answer was lost can be made again.
func (a *app) submit(ctx context.Context, r *remote, host protocol.HostID, spec []byte) (api.Action, error) {
	return a.submitAs(ctx, r, a.newActionID(), host, spec)
}

func (a *app) newActionID() protocol.ActionID {
	var random [10]byte
	a.random(random[:])
	return protocol.NewActionID(a.now().UnixMilli(), random)
}

// submitAs does it under an id that is given already.
func (a *app) submitAs(ctx context.Context, r *remote, id protocol.ActionID, host protocol.HostID, spec []byte) (api.Action, error) {
	ask := api.NewAction{ID: id.String(), Host: string(host), Spec: spec}
	var again retry
	asked := false // somebody may have heard it
	for try := 1; ; try++ {
		var act api.Action
		err := r.Post(ctx, "/v1/actions", nil, ask, &act)
		if err == nil {
			a.sayWaits(act)
			return act, nil
		}
		asked = asked || !neverAsked(err)
		if try < submitTries {
			if err = again.wait(ctx, a.now(), err); err == nil {
				continue
			}
		}
		switch {
		case !asked:
		case ctx.Err() != nil:
			a.leave(ask.ID)
		case errors.Is(err, client.ErrUnreachable) && !untrusted(err):
			a.say("hostler: nobody knows whether it was taken; later: hostler action show %s", ask.ID)
		}
		return act, err
	}
}

// follower waits for the end of an action and tells how it goes.
type follower struct {
	app    *app
	remote *remote
	label  string // of what it is about
	// stdout and stderr get the output of a command; nil for none.
	stdout, stderr io.Writer
	// hold lets a command in mode stream wait for us: we have asked for it.
	hold bool
	// whole takes nothing behind a part of stdout that was left out, and fails
	// without the end of it.
	whole bool
	// enough, if it is set, tells that there is nothing to wait for though the
	// action has not ended. It is asked every few seconds.
	enough func(api.Action) bool
	told   bool // that output is waited for
}

// wait returns the action in its final state, when all of its output was
// written.
func (f *follower) wait(ctx context.Context, act api.Action) (api.Action, error) {
	if f.stdout == nil {
		return f.await(ctx, act)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var readers sync.WaitGroup
	var moved atomic.Int64 // bytes that came so far
	streams := [2]stream{{fd: protocol.Stdout, w: f.stdout}, {fd: protocol.Stderr, w: f.stderr}}
	for i := range streams {
		readers.Go(func() { streams[i].err = f.copy(ctx, act.ID, &streams[i], true, &moved) })
	}
	done := make(chan struct{})
	go func() { readers.Wait(); close(done) }() // ends with the readers, which end with ctx
	final, err := f.await(ctx, act)
	if err != nil {
		stop(err)
		<-done
		return final, err
	}
	watchTail(f.app.tail, done, &moved, func() bool { return f.comes(ctx, final, moved.Load()) }, stop)
	return final, f.streamsEnded(final, streams[:])
}

// watchTail waits until the readers are done, and stops them when what they have
// moved stands still for a pause and nobody is there to send more.
func watchTail(pause time.Duration, done <-chan struct{}, moved *atomic.Int64, comes func() bool, stop context.CancelCauseFunc) {
	t := time.NewTicker(pause)
	defer t.Stop()
	for last := moved.Load(); ; {
		select {
		case <-done:
			return
		case <-t.C:
		}
		now := moved.Load()
		if now == last && !comes() {
			stop(errTail)
		}
		last = now
	}
}

// comes reports whether more of the output of an ended action can be expected: so
// much came, and its host is there to send the rest. It says so once.
func (f *follower) comes(ctx context.Context, act api.Action, moved int64) bool {
	missing := -moved
	for _, o := range act.Output {
		missing += o.Bytes - o.Dropped
	}
	if missing <= 0 || f.remote.local {
		return false
	}
	h, err := f.remote.member(ctx, protocol.HostID(act.Host))
	if err != nil {
		return errors.Is(err, client.ErrUnreachable) // the readers find out whether that lasts
	}
	if h.Connectivity != "online" && h.Connectivity != "suspect" {
		return false
	}
	if !f.told {
		f.told = true
		f.app.say("hostler: %s has ended; waiting for %d bytes of its output, which its host, %s, has still to send", f.label, missing, act.Host)
	}
	return true
}

// errTail tells that output which was promised did not come.
var errTail = errors.New("the rest of the output does not come")

// streamsEnded says what is not there of the output.
func (f *follower) streamsEnded(act api.Action, streams []stream) error {
	f.app.sayCutShort(act)
	for _, s := range streams {
		if s.err != nil && !isNotFound(s.err) {
			if errors.Is(s.err, errTail) && f.whole && s.fd == protocol.Stdout {
				return &failure{code: exitUnreachable, what: fmt.Sprintf("nothing of the rest has come for %v", f.app.tail), next: "hostler host ls"}
			}
			if errors.Is(s.err, errTail) {
				f.app.say("hostler: %s of %s: nothing of the rest has come for %v; later: hostler action logs %s --follow", s.fd, f.label, f.app.tail, act.ID)
				continue
			}
			return s.err
		}
		for _, o := range act.Output {
			if o.FD == string(s.fd) && o.Dropped > 0 && !s.gap {
				f.app.say("hostler: %d bytes of %s of %s were left out", o.Dropped, s.fd, f.label)
			}
		}
	}
	return nil
}

// sayCutShort tells of a command that nobody saw to its end: what it wrote last may
// have been in nobody's hands.
func (a *app) sayCutShort(act api.Action) {
	if protocol.Reason(act.Reason) == protocol.ReasonInterrupted && len(act.Output) > 0 {
		a.say("hostler: %s was interrupted; the last bytes of its output may be missing", act.ID)
	}
}

// await polls the state of an action until it is final, over restarts of the
// other end.
func (f *follower) await(ctx context.Context, act api.Action) (api.Action, error) {
	var again retry
	shown, away := "", false
	step := lookStep // a host that is away is told of soon
	for ; ; step = waitStep {
		if now := act.Waits != nil && act.Waits.For == "host"; now != away {
			if away = now; away {
				f.app.say("hostler: %s: %s; to look: hostler why %s", printable(f.label), printable(act.Waits.Text), act.ID)
			}
		}
		if word := cmp.Or(act.Shown, act.State); word != shown && f.app.errTTY && f.stdout == nil {
			f.app.say("%s: %s", printable(f.label), printable(word))
			shown = word
		}
		if protocol.State(act.State).Final() {
			return act, nil
		}
		asked := f.app.now()
		if f.enough != nil {
			step = lookStep
		}
		next, err := f.remote.action(ctx, act.ID, step)
		if err != nil {
			if again.since.IsZero() && ctx.Err() == nil && errors.Is(err, client.ErrUnreachable) {
				f.app.say("hostler: no answer; %s goes on, trying again", act.ID)
			}
			if err := again.wait(ctx, f.app.now(), err); err != nil {
				return act, err
			}
			continue
		}
		act, again = next, retry{}
		if f.enough != nil && f.enough(act) {
			return act, nil
		}
		if !protocol.State(act.State).Final() && f.app.now().Sub(asked) < time.Second {
			// Whoever answers at once without an end does not wait.
			if err := pause(ctx, firstRetry); err != nil {
				return act, err
			}
		}
	}
}

// stream is one output stream of a command.
type stream struct {
	fd   protocol.FD
	w    io.Writer
	from int64 // first byte that is wanted
	gap  bool  // bytes were left out, and it was said
	end  int64 // offset behind the last byte that was written
	err  error
}

// copy writes a stream from its first wanted byte on.
func (f *follower) copy(ctx context.Context, id string, s *stream, follow bool, moved *atomic.Int64) error {
	var again retry
	for offset := s.from; ; {
		w := &counter{w: s.w, moved: moved}
		next, err := f.remote.Output(ctx, client.Reading{Action: id, FD: string(s.fd), Offset: offset, Follow: follow, Hold: f.hold}, w)
		if w.err != nil {
			return w.err // whoever reads our output is gone
		}
		if w.n > 0 {
			again = retry{}
		}
		end := offset + w.n
		s.end, offset = end, next
		switch {
		case err != nil:
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			if err := again.wait(ctx, f.app.now(), err); err != nil {
				return err
			}
		case next < 0:
			return nil
		case next > end && f.whole && s.fd == protocol.Stdout:
			return fmt.Errorf("%d bytes were left out, for they were not taken in time", next-end)
		case next > end:
			s.gap = true
			f.app.say("hostler: %d bytes of %s of %s were left out here", next-end, s.fd, f.label)
		case !follow:
			return nil // that is all there is yet
		case w.n == 0:
			if err := pause(ctx, firstRetry); err != nil {
				return err
			}
		}
	}
}

// counter counts what is written, and keeps the error of the other side.
type counter struct {
	w     io.Writer
	n     int64
	err   error
	moved *atomic.Int64 // the same of all streams, for whoever looks on
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n, c.err = c.n+int64(n), err
	c.moved.Add(int64(n))
	return n, err
}

// leave tells how to go on after the user has had enough of waiting.
func (a *app) leave(id string) {
	a.say("\nThe action goes on. To follow it: hostler action logs %s --follow\nTo cancel it: hostler action cancel %s", id, id)
}

// ended turns the end of an action into the error that tells it.
func ended(what string, act api.Action) error {
	if act.State == string(protocol.StateDone) {
		return nil
	}
	f := &failure{code: exitFailed, what: "cannot " + what, why: cmp.Or(act.Detail, reasonText(act), act.Reason, act.State), next: "hostler action show " + act.ID}
	if act.State == string(protocol.StateLost) {
		f.why = "nobody knows what became of it: " + f.why
	}
	switch protocol.Reason(act.Reason) {
	case protocol.ReasonTimeout, protocol.ReasonExpired:
		f.code = exitTimeout
	case protocol.ReasonDisapproved, protocol.ReasonFenced, protocol.ReasonRemoved:
		f.code = exitRefused
	case protocol.Reason(protocol.ErrNotApproved):
		f.code, f.next = exitRefused, "hostler policy show "+act.Host+"    # is this policy known by now? Then the same request waits for its approvals"
	case protocol.Reason(protocol.ErrTooManySessions):
		f.next = "hostler action ls " + act.Host + " --open    # end one: hostler action cancel ID"
	case protocol.ReasonTargetGone:
		f.code = exitNotFound
	}
	return f
}

// reasonText is the reason of an action's end in words, where its host or the
// coordinator has given none; empty if the word itself has to do.
func reasonText(act api.Action) string {
	switch protocol.Reason(act.Reason) {
	case protocol.ReasonExit:
		if act.Exit != nil {
			return fmt.Sprintf("it ended with exit code %d", act.Exit.Code)
		}
	case protocol.ReasonTargetGone:
		return "the container is gone"
	case protocol.ReasonTimeout:
		return "it took longer than it may"
	case protocol.ReasonExpired:
		return "its host did not begin it in time"
	case protocol.ReasonInterrupted:
		return "it was interrupted: its host, or who looked after it there, ended meanwhile"
	case protocol.ReasonPreempted:
		return "a stop that waits for nothing ended it"
	case protocol.ReasonCancelled:
		return "it was cancelled"
	case protocol.ReasonUnknown:
		return "its host knows nothing of it"
	}
	return ""
}

// plan is what --dry-run shows of an action.
type plan struct {
	Host      string `json:"host"`
	Kind      string `json:"kind"`
	Spec      any    `json:"spec"`
	Digest    string `json:"digest"`
	Approvals string `json:"approvals"`
	text      string // the spec as it would be signed
}

func planNoun() noun[plan] {
	return noun[plan]{
		name: func(p plan) string { return p.Digest },
		columns: []column[plan]{
			{"host", inTable, func(p plan) any { return p.Host }},
			{"kind", inTable, func(p plan) any { return p.Kind }},
			{"spec", inTable, func(p plan) any { return p.text }},
			{"digest", inTable, func(p plan) any { return p.Digest }},
			{"approvals", inTable, func(p plan) any { return p.Approvals }},
		},
	}
}

// planOf tells what would be asked of a host, and what it would need.
func planOf(ctx context.Context, r *remote, host protocol.HostID, kind protocol.Kind, spec []byte) (plan, error) {
	p := plan{Host: cmp.Or(string(host), "this host"), Kind: string(kind), Digest: protocol.Sum(spec).String(), text: string(spec)}
	var err error
	if p.Approvals, err = needsOf(ctx, r, host, spec); err != nil {
		return p, err
	}
	return p, protocol.DecodeJSON(spec, &p.Spec, true)
}

// encodeSpec writes a spec as it is going to be signed, and refuses what the
// host would refuse.
func encodeSpec(s protocol.Spec) ([]byte, error) {
	if err := checkUTF8(s); err != nil {
		return nil, err
	}
	b, err := encode(s, false)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	b = b[:len(b)-1] // the line end
	if _, err := protocol.DecodeRequest(b); err != nil {
		// Of what the command line says wrong, the words of the spec are enough.
		what := strings.TrimPrefix(err.Error(), fmt.Sprintf("%s: %s: ", protocol.ErrSpec.Error(), s.Kind))
		return nil, usage("", "%s", what)
	}
	return b, nil
}

// checkUTF8 refuses what JSON cannot carry. Its encoder would put something else
// in the place of such bytes, and another command would run than was asked for.
func checkUTF8(s protocol.Spec) error {
	texts := slices.Concat([]string{s.User, s.Cwd, s.Template}, s.Argv, s.Env, s.Labels)
	if s.Files != nil {
		texts = slices.Concat(texts, []string{s.Files.Name, s.Files.Owner}, s.Files.Paths)
	}
	for _, t := range texts {
		if !utf8.ValidString(t) {
			return &failure{
				code: exitUsage, what: fmt.Sprintf("%.60q is not UTF-8", t),
				why:  "names and arguments travel as text; input and output may hold any bytes",
				next: "hostler run HOST --stdin SCRIPT -- sh    # a script that has these bytes",
			}
		}
	}
	return nil
}
