package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

const (
	// hostsAtOnce is how many hosts one request may name.
	hostsAtOnce = 500
	// namedFailures is how many hosts are named one by one when it went wrong.
	namedFailures = 20
)

// many is how something is done in many places.
type many struct {
	parallel     int           // at a time; 0 is all
	atOnce       int           // at a time, for which the coordinator sees; 0 is all
	wait         time.Duration // at the most; 0 is for ever
	leaveOffline bool
	NoWait       bool
	Output       bool // of commands, as it comes
	Own          bool // there is one place, which was named: its output and exit code are ours
	View         *show.View
	Verb         string // what completes "cannot …"
}

// outcome is what became of one target.
type outcome struct {
	dispatch.Target
	action         string
	act            api.Action
	refused        *api.Refusal
	stdout, stderr *lines
	asked, final   bool
	here, away     bool // its host was there once; it was told that it is away
	askedAt        time.Time
	named, gone    bool   // its host is silent and was named; and for so long that it is not waited for
	bytes          *int64 // that were copied, if anything is
	unkept         error  // why what came was not kept
}

// batchRun does one thing in many places. It belongs to the goroutine that
// follows.
type batchRun struct {
	Batcher  *Batcher
	remote   *conn.Remote
	m        *many
	id       protocol.BatchID
	hosts    bool // all are hosts
	outcomes []*outcome
	by       map[string]*outcome // by action
	screen   *screen
	// leave ends the waiting when only hosts are left that have gone away. It runs
	// while leaving is true.
	leave   *time.Timer
	leaving bool
	missing int // hosts that were told to be away
}

// What ends the waiting before everything has ended.
var (
	errWaited   = errors.New("the time to wait has passed")
	errLeftAway = errors.New("only offline hosts are left")
	errNoOutput = errors.New("the rest of the output did not arrive")
)

// DoMany does something in many places and tells how it went.
func (a *Batcher) DoMany(ctx context.Context, r *conn.Remote, m *many, targets []dispatch.Target) error {
	b := a.newBatchRun(r, m, a.newBatchID(), targets)
	if m.NoWait {
		return b.leaveAll(ctx)
	}
	return b.finish(ctx)
}

// followMany follows what was asked for before.
func (a *Batcher) followMany(ctx context.Context, r *conn.Remote, m *many, id protocol.BatchID, all []api.Action) error {
	var places []dispatch.Target
	for _, act := range all {
		label := act.Host
		if act.Name != "" {
			label += "/" + act.Name
		}
		places = append(places, dispatch.Target{Label: label, Host: protocol.HostID(act.Host)})
	}
	b := a.newBatchRun(r, m, id, places)
	clear(b.by)
	for i, act := range all {
		p := b.outcomes[i]
		p.action, p.asked, p.askedAt = act.ID, true, a.Now()
		b.by[act.ID] = p
		b.note(act)
	}
	return b.finish(ctx)
}

func (a *Batcher) newBatchID() protocol.BatchID {
	var random [10]byte
	a.Random(random[:])
	return protocol.NewBatchID(a.Now().UnixMilli(), random)
}

func (a *Batcher) newBatchRun(r *conn.Remote, m *many, id protocol.BatchID, targets []dispatch.Target) *batchRun {
	b := &batchRun{Batcher: a, remote: r, m: m, id: id, by: map[string]*outcome{}, hosts: true}
	width := 0
	for _, t := range targets {
		width = max(width, len(t.Label))
		b.hosts = b.hosts && t.Label == string(t.Host)
	}
	b.screen = newScreen(a)
	for _, t := range targets {
		p := &outcome{Target: t}
		p.action = b.id.Action(t.Label).String()
		prefix := fmt.Sprintf("%-*s | ", width, t.Label)
		if m.Own {
			prefix = ""
		}
		p.stdout, p.stderr = &lines{prefix: prefix, w: b.screen.out()}, &lines{prefix: prefix, w: b.screen.err()}
		b.outcomes, b.by[p.action] = append(b.outcomes, p), p
	}
	return b
}

// finish follows to the end and tells how it went.
func (b *batchRun) finish(ctx context.Context) error {
	err := b.follow(ctx)
	for _, p := range b.outcomes {
		p.stdout.flush()
		p.stderr.flush()
	}
	b.screen.clear()
	return b.summary(ctx, err)
}

// leaveAll asks, and prints what was asked for.
func (b *batchRun) leaveAll(ctx context.Context) error {
	if err := b.ask(ctx, b.outcomes); err != nil {
		return err
	}
	b.sayRefused()
	if word := b.m.View.Format.Word; word != "table" {
		return b.print()
	}
	for _, p := range b.outcomes {
		if p.refused == nil {
			fmt.Fprintf(b.Batcher.Out, "%s %s\n", p.Label, p.action)
		}
	}
	b.Batcher.Say("hostler: batch %s; to follow it: hostler batch follow %s", b.id, b.id)
	return b.code(nil)
}

// follow asks in turns and follows until all have ended, or the waiting ends.
func (b *batchRun) follow(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if b.m.wait > 0 {
		t := time.AfterFunc(b.m.wait, func() { stop(errWaited) })
		defer t.Stop()
	}
	b.leave = time.AfterFunc(time.Hour, func() { stop(errLeftAway) })
	b.leave.Stop()
	defer b.leave.Stop()
	if err := b.askNext(ctx); err != nil {
		return err
	}
	var again conn.Retry
	for !b.over() {
		quiet := time.AfterFunc(time.Hour, func() { stop(errNoOutput) })
		quiet.Stop()
		h := client.BatchHandler{Action: func(a api.Action) error {
			again = conn.Retry{}
			return b.take(ctx, a)
		}}
		if b.m.Output {
			h.Output = func(o api.BatchOutput) error {
				if err := b.write(o); err != nil {
					return err
				}
				return b.enough(quiet)
			}
			take := h.Action
			h.Action = func(a api.Action) error {
				if err := take(a); err != nil {
					return err
				}
				return b.enough(quiet)
			}
		}
		until, end := b.untilLook(ctx)
		err := b.remote.FollowBatch(until, b.id.String(), h)
		toLook := errors.Is(context.Cause(until), errLook)
		end()
		quiet.Stop()
		switch {
		case err == nil && b.allFinal():
			return nil
		case err == nil: // the other end has told everything of those that were asked
		case errors.Is(err, errLeftAway):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case toLook:
			if b.look() {
				return errLeftAway
			}
		default:
			if again.Since.IsZero() && errors.Is(err, client.ErrUnreachable) {
				b.screen.say("hostler: no answer from the coordinator, trying again; the commands continue")
			}
			if err := again.Wait(ctx, b.Batcher.Now(), err); err != nil {
				return term.Cannot("follow batch "+b.id.String(), err)
			}
		}
		if err := b.askNext(ctx); err != nil {
			return err
		}
	}
	return nil
}

// enough ends the waiting when everything has ended, or only hosts that are away
// are left and the user wants it so, and all output of the others is here. What is
// missing of that is waited for as long as anything comes.
func (b *batchRun) enough(quiet *time.Timer) error {
	left := !b.allFinal()
	if left && !b.leftAway() {
		quiet.Stop()
		return nil
	}
	quiet.Reset(b.Batcher.Tail)
	if left && !slices.ContainsFunc(b.outcomes, func(p *outcome) bool { return !p.drained() }) {
		return errLeftAway
	}
	return nil
}

// drained reports whether everything is here that an ended command has written.
func (p *outcome) drained() bool {
	for _, o := range p.act.Output {
		l := p.stdout
		if o.FD == string(protocol.Stderr) {
			l = p.stderr
		}
		if p.final && l.end < o.Bytes {
			return false
		}
	}
	return true
}

// over reports whether nothing is left to be told of.
func (b *batchRun) over() bool {
	return b.allFinal() && (!b.m.Output || !slices.ContainsFunc(b.outcomes, func(p *outcome) bool { return p.refused == nil }))
}

func (b *batchRun) allFinal() bool {
	return !slices.ContainsFunc(b.outcomes, func(p *outcome) bool { return p.refused == nil && !p.final })
}

// onlyAway reports whether everything has ended but what waits for its host.
func (b *batchRun) onlyAway() bool {
	return !slices.ContainsFunc(b.outcomes, func(p *outcome) bool {
		return p.refused == nil && !p.final && !(p.asked && p.isAway()) && !(p.gone && p.isSilent())
	})
}

// leftAway reports whether the user does not want to wait for those that are left. One
// whose host was there has a while to come back.
func (b *batchRun) leftAway() bool {
	away := b.m.leaveOffline && b.onlyAway() && !b.allFinal()
	gone := away && slices.ContainsFunc(b.outcomes, func(p *outcome) bool { return p.here && !p.final && p.refused == nil && !(p.gone && p.isSilent()) })
	switch {
	case !gone:
		b.leave.Stop()
	case !b.leaving:
		b.leave.Reset(b.Batcher.Away)
	}
	b.leaving = gone
	return away && !gone
}

// isAway reports whether a part waits for a host that is not there.
func (p *outcome) isAway() bool { return p.act.Waits != nil && p.act.Waits.For == "host" }

// askNext asks for as much as may be under way at a time. A host that is away
// takes nobody's place.
func (b *batchRun) askNext(ctx context.Context) error {
	free := len(b.outcomes)
	if b.m.parallel > 0 {
		free = b.m.parallel
		for _, p := range b.outcomes {
			if p.asked && !p.final && p.refused == nil && !p.isAway() {
				free--
			}
		}
	}
	var next []*outcome
	for _, p := range b.outcomes {
		if !p.asked && len(next) < free {
			next = append(next, p)
		}
	}
	return b.ask(ctx, next)
}

// ask asks for some of the parts: in one request for all hosts of a spec, if all are
// hosts.
func (b *batchRun) ask(ctx context.Context, next []*outcome) error {
	if !b.hosts {
		return b.askEach(ctx, next)
	}
	for len(next) > 0 {
		var same, others []*outcome
		for _, p := range next {
			if bytes.Equal(p.Spec, next[0].Spec) {
				same = append(same, p)
			} else {
				others = append(others, p)
			}
		}
		if err := b.askSame(ctx, same); err != nil {
			return err
		}
		next = others
	}
	return nil
}

// askSame asks hosts for the same.
func (b *batchRun) askSame(ctx context.Context, hosts []*outcome) error {
	for some := range slices.Chunk(hosts, hostsAtOnce) {
		ask := api.NewBatch{ID: b.id.String(), Spec: some[0].Spec, AtOnce: b.m.atOnce}
		for _, p := range some {
			ask.Hosts = append(ask.Hosts, string(p.Host))
		}
		var answer api.Batch
		if err := b.post(ctx, "/v1/batches", ask, &answer); err != nil {
			return err
		}
		for _, p := range some {
			p.asked, p.askedAt = true, b.Batcher.Now()
		}
		for i := range answer.Refused {
			for _, p := range some {
				if string(p.Host) == answer.Refused[i].Host {
					p.refused = &answer.Refused[i]
				}
			}
		}
		for _, act := range answer.Actions {
			b.note(act)
		}
	}
	return nil
}

// askEach asks for parts that differ.
func (b *batchRun) askEach(ctx context.Context, next []*outcome) error {
	for _, p := range next {
		ask := api.NewAction{ID: p.action, Host: string(p.Host), Spec: p.Spec, Batch: b.id.String()}
		var act api.Action
		err := b.post(ctx, "/v1/actions", ask, &act)
		p.asked, p.askedAt = true, b.Batcher.Now()
		if problem, ok := errors.AsType[*api.Problem](err); ok && problem.Status/100 == 4 {
			p.refused = &api.Refusal{Host: p.Label, Code: problem.Code, Detail: problem.Detail}
			continue
		}
		if err != nil {
			return err
		}
		b.note(act)
	}
	return nil
}

// post asks again when no answer comes: the ids are ours, so it is asked once.
func (b *batchRun) post(ctx context.Context, path string, ask, answer any) error {
	var again conn.Retry
	for try := 1; ; try++ {
		err := b.remote.Post(ctx, path, nil, ask, answer)
		if err == nil || try == dispatch.SubmitTries {
			return term.Cannot("ask for it", err)
		}
		if err := again.Wait(ctx, b.Batcher.Now(), err); err != nil {
			return term.Cannot("ask for it", err)
		}
	}
}

// note keeps how an action stands now.
func (b *batchRun) note(act api.Action) {
	p := b.by[act.ID]
	if p == nil {
		return
	}
	p.act, p.final = act, protocol.State(act.State).Final()
	b.sayAway(p)
	b.screen.show(b.status)
}

// sayAway tells of a part whose host is away, unless that is on the screen anyway.
func (b *batchRun) sayAway(p *outcome) {
	was := p.away
	p.away = !p.final && p.isAway()
	p.here = p.here || !p.away
	if was || !p.away || b.screen.live || b.m.NoWait || b.m.leaveOffline && !p.here {
		return // left at once, and told in the summary
	}
	if b.missing++; b.missing > namedFailures {
		return
	}
	b.screen.say("hostler: %s: %s", p.Label, term.Printable(p.act.Waits.Text))
}

// take hears of a change, and asks for what may begin then.
func (b *batchRun) take(ctx context.Context, act api.Action) error {
	p := b.by[act.ID]
	was := p != nil && p.final
	b.note(act)
	if p != nil && p.final && !was && b.m.parallel > 0 {
		if err := b.askNext(ctx); err != nil {
			return err
		}
	}
	if !b.m.Output && b.leftAway() {
		return errLeftAway
	}
	return nil
}

// write prints a piece of output, but for what was printed before the connection
// broke.
func (b *batchRun) write(o api.BatchOutput) error {
	p := b.by[o.Action]
	if p == nil {
		return nil
	}
	l := p.stdout
	if o.FD == string(protocol.Stderr) {
		l = p.stderr
	}
	if o.Offset > l.end {
		l.missing += o.Offset - l.end
		l.end = o.Offset
	}
	have := min(l.end-o.Offset, int64(len(o.Data)))
	l.end += int64(len(o.Data)) - have
	if b.m.View.Format.Word != "table" {
		l.keep(o.Data[have:])
		return nil
	}
	_, err := l.Write(o.Data[have:])
	return err
}

// findBatch returns a batch.
func findBatch(ctx context.Context, r *conn.Remote, id string) (api.Batch, error) {
	var b api.Batch
	err := r.Get(ctx, "/v1/batches/"+url.PathEscape(id), nil, &b)
	return b, err
}
