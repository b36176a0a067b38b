package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/batchfile"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/cli/transfer"
	"github.com/hostler-io/hostler/protocol"
)

// batchOptions is how a file of operations is done.
type batchOptions struct {
	file     string
	goOn     bool
	parallel int
	dryRun   bool
	resume   string
	view     *show.View
}

// Command returns hostler batch.
func (a *Batcher) Command() *cobra.Command {
	o := &batchOptions{}
	cmd := &cobra.Command{
		Use: "batch -f FILE", Short: "Do the operations of a file, one after another",
		Long: `Does the operations of a file in their order, and stops at the first that fails
unless --continue says otherwise. The file is YAML or JSON: a list of operations,
each an object with one of ping, run, push, pull, exec, create, start, stop, reset and
rm, whose value is the host or container.

  - name: look          # for people
    run: edge-01
    argv: [systemctl, is-active, nginx]
    timeout: 30s        # as, cwd, env and exclusive go with run and exec, too
    wait: 5m            # for its end, its host being away included
  - {stop: edge-01/web, grace: 1m}
  - {create: edge-01/new, template: busybox, labels: [app=web], started: true}
  - {push: edge-01/new, from: site.conf, to: /etc/site.conf}  # or a directory
  - {pull: edge-01, from: /var/log/syslog, to: logs/, timeout: 10m}

Paths of this machine are relative to the directory of the file. The whole of it is
checked, and what is pushed is read and sent to the coordinator, before the first
operation begins. A pull is done when its files have arrived here. The exit code is 0
if all were done, 1 if one failed. With --resume and the printed id, a batch goes on where it ended: operations that were
done are not done again, and those that failed are tried once more, in the form that
the file has now. An operation that is LOST may have run, and is not repeated. Files of
pulls are fetched once more, as they were then.`,
		Example: "  hostler batch -f sunday.yaml\n  hostler batch -f sunday.yaml --dry-run\n  generate | hostler batch -f - --continue --parallel 4 -o json",
		Args:    cobra.ArbitraryArgs,
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "file of operations, or - for standard input")
	f.BoolVar(&o.goOn, "continue", false, "continue when an operation fails")
	f.IntVar(&o.parallel, "parallel", 1, "do up to this many at a time; operations on one container keep their order")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would be requested, and request nothing")
	f.StringVar(&o.resume, "resume", "", "continue this batch")
	o.view = show.FormatFlags(cmd)
	cmd.AddCommand(a.batchFollowCommand(), a.batchShowCommand(), a.batchCancelCommand())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return term.Usage("hostler batch -f "+args[0], "batch has no command %q; a file is named with -f", args[0])
		case o.file == "":
			return term.Usage("hostler batch -f FILE", "no file is named: use -f FILE")
		case o.parallel < 1:
			return term.Usage("", "--parallel %d: want at least 1", o.parallel)
		}
		return a.doFile(cmd.Context(), o)
	}
	return cmd
}

// doFile does the operations of a file.
func (a *Batcher) doFile(ctx context.Context, o *batchOptions) error {
	raw, err := a.readFile(o.file)
	if err != nil {
		return err
	}
	all, err := batchfile.Parse(raw)
	if err != nil {
		lines := strings.Split(err.Error(), "\n")
		return &term.Failure{Code: term.ExitUsage, What: "cannot read " + o.file, Why: lines[0], More: lines[1:], Next: "hostler batch --help"}
	}
	r, err := a.Coordinator()
	if err != nil {
		return err
	}
	id := a.newBatchID()
	if o.resume != "" {
		if id, err = protocol.ParseBatchID(o.resume); err != nil {
			return term.Usage("hostler action ls -o wide", "%q is not the id of a batch: want a whole id, as in 01928fd1-6d4a-7c3e-9b1f-0a2b3c4d5e6f", o.resume)
		}
	}
	b, err := a.planFile(ctx, r, o, id, all)
	if err != nil {
		return err
	}
	defer b.close()
	if o.dryRun {
		return b.dryRun(ctx)
	}
	for i, m := range b.moves {
		if err := m.send(ctx, b, i); err != nil {
			return err
		}
	}
	note := api.NewBatch{ID: id.String(), Digest: protocol.Sum(raw).String(), Operations: len(all)}
	if err := b.run.post(ctx, "/v1/batches", note, new(api.Batch)); err != nil {
		return err
	}
	a.Say("batch %s", id)
	return b.do(ctx)
}

func (a *Batcher) readFile(path string) ([]byte, error) {
	in := a.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, term.Cannot("read "+path, err)
		}
		defer f.Close()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, batchfile.MaxBytes+1))
	return raw, term.Cannot("read "+path, err)
}

// fileRun does a file. Its parts are those of a batchRun, in the order of the file.
type fileRun struct {
	Batcher *Batcher
	o       *batchOptions
	run     *batchRun
	ops     []batchfile.Operation
	// moves has what an operation copies, nil where it copies nothing.
	moves []*move
}

func (b *fileRun) close() {
	for _, m := range b.moves {
		if m != nil {
			m.payload.Close()
		}
	}
}

// planFile checks everything that can be known before the first operation
// begins, and makes all specs.
func (a *Batcher) planFile(ctx context.Context, r *conn.Remote, o *batchOptions, id protocol.BatchID, all []batchfile.Operation) (*fileRun, error) {
	known, err := a.knownTargets(ctx, r)
	if err == nil && o.resume != "" {
		err = known.goOn(ctx, r, id)
	}
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(o.file) // of - it is the one that we are in
	b := &fileRun{Batcher: a, o: o, ops: all}
	var places []dispatch.Target
	var actions, wrong []string
	for i, op := range all {
		action, before := known.attempt(id, i)
		p, m, err := known.plan(ctx, op, id, i, before, dir)
		b.moves = append(b.moves, m)
		if err == nil && before.ID != "" && before.Digest != protocol.Sum(p.Spec).String() {
			err = fmt.Errorf("the operation %s in another form; put changes to it into another file", wasOrIs(before))
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("line %d: %s", op.Line, err))
		}
		places, actions = append(places, p), append(actions, action.String())
	}
	if len(wrong) > 0 {
		b.close()
		return nil, &term.Failure{Code: term.ExitUsage, What: "cannot do " + o.file, Why: wrong[0], More: wrong[1:min(len(wrong), namedFailures)], Next: "hostler ct ls"}
	}
	m := &many{View: o.view, Verb: "do it"}
	b.run = a.newBatchRun(r, m, id, places)
	clear(b.run.by)
	b.run.screen.live = false // each operation says how it goes
	for i, p := range b.run.outcomes {
		p.action = actions[i]
		p.stdout.w, p.stderr.w = b.run.screen.err(), b.run.screen.err() // stdout is for the results
		b.run.by[p.action] = p
	}
	return b, nil
}

// knownTargets are the hosts and containers that are there, and that operations
// will make.
type knownTargets struct {
	ui         *term.UI
	hosts      map[string]bool
	containers map[string]protocol.CTID
	// asked has the actions that were asked for before, by their ids.
	asked map[string]api.Action
	// arrivals has what the operations before pull.
	arrivals transfer.Arrivals
}

func (a *Batcher) knownTargets(ctx context.Context, r *conn.Remote) (*knownTargets, error) {
	k := &knownTargets{ui: a.UI, hosts: make(map[string]bool), containers: make(map[string]protocol.CTID), arrivals: make(transfer.Arrivals)}
	hosts, err := r.Hosts(ctx)
	if err != nil {
		return nil, term.Cannot("list the hosts", err)
	}
	for _, h := range hosts {
		k.hosts[h.ID] = h.State == conn.EnrolmentApproved
	}
	all, err := r.Containers(ctx, "")
	if err != nil {
		return nil, term.Cannot("list the containers", err)
	}
	for _, c := range all {
		if c.CTID == "" {
			continue
		}
		if k.containers[c.Host+"/"+c.Name], err = protocol.ParseCTID(c.CTID); err != nil {
			return nil, fmt.Errorf("id of %s/%s: %w", c.Host, c.Name, err)
		}
	}
	return k, nil
}

// goOn finds what was asked for before of a batch: since then a container may have
// been made or removed by it, which is no reason to refuse the file now.
func (k *knownTargets) goOn(ctx context.Context, r *conn.Remote, id protocol.BatchID) error {
	all, err := r.Actions(ctx, conn.ActionQuery{Batch: id.String()})
	if err != nil {
		return term.Cannot("list the actions of batch "+id.String(), err)
	}
	k.asked = make(map[string]api.Action)
	for _, act := range all {
		if !act.Conflict {
			k.asked[act.ID] = act
		}
	}
	return nil
}

// attempt returns the id of the action that does an operation, and the action if it was
// asked for before and is not repeated. One that failed or was cancelled is: the next
// attempt is another action.
func (k *knownTargets) attempt(id protocol.BatchID, i int) (protocol.ActionID, api.Action) {
	part := fmt.Sprint(i)
	for n := 2; ; n++ {
		action := id.Action(part)
		act, asked := k.asked[action.String()]
		if s := protocol.State(act.State); !asked || s != protocol.StateFailed && s != protocol.StateCancelled {
			return action, act
		}
		part = fmt.Sprintf("%d attempt %d", i, n)
	}
}

func wasOrIs(act api.Action) string {
	if protocol.State(act.State).Final() {
		return "was done"
	}
	return "is under way"
}

// plan makes the spec of one operation, and notes what it makes or removes for
// those behind it. before is its action, if it was asked for. What is copied is in dir.
func (k *knownTargets) plan(ctx context.Context, op batchfile.Operation, id protocol.BatchID, i int, before api.Action, dir string) (dispatch.Target, *move, error) {
	p := dispatch.Target{Label: cmp.Or(op.Name, string(op.Verb)+" "+op.Where)}
	host, name, _ := strings.Cut(op.Where, "/")
	var err error
	if p.Host, err = conn.ParseHost(host); err != nil {
		return p, nil, err
	}
	if !k.hosts[host] {
		return p, nil, fmt.Errorf("there is no approved host %s", host)
	}
	if err = conn.CheckLabels(op.Labels); err != nil {
		return p, nil, err
	}
	s := protocol.Spec{Name: protocol.ContainerName(name), Args: argsOf(op)}
	if op.NoTimeout {
		s.SetTimeLimit(protocol.NoTimeout)
	} else {
		s.SetTimeLimit(op.Timeout.Milliseconds())
	}
	s.Kind = map[batchfile.Verb]protocol.Kind{
		batchfile.Ping: protocol.KindPing, batchfile.Run: protocol.KindRun, batchfile.Push: protocol.KindHostPush, batchfile.Pull: protocol.KindHostPull,
		batchfile.Exec: protocol.KindExec, batchfile.Create: protocol.KindCreate,
		batchfile.Start: protocol.KindStart, batchfile.Stop: protocol.KindStop, batchfile.Reset: protocol.KindReset, batchfile.Remove: protocol.KindDestroy,
	}[op.Verb]
	if name != "" {
		if err := k.container(&s, op, id, i, before); err != nil {
			return p, nil, err
		}
	}
	var m *move
	if op.Verb == batchfile.Push || op.Verb == batchfile.Pull {
		if m, err = planMove(ctx, k.ui, op, p.Host, dir); err != nil {
			return p, nil, err
		}
		if m.pull != nil {
			if err = k.arrivals.Add(m.there, m.pull.To); err != nil {
				return p, nil, err
			}
		}
		m.describe(&s)
	}
	p.Spec, err = dispatch.EncodeSpec(s)
	return p, m, err
}

// argsOf are the arguments of an operation. What its verb does not take is not in
// it, for the reader of the file has refused that.
func argsOf(op batchfile.Operation) protocol.Args {
	switch op.Verb {
	case batchfile.Run, batchfile.Exec:
		return &protocol.CommandArgs{Process: protocol.Process{Argv: op.Argv, User: op.User, Cwd: op.Cwd, Env: op.Env}, Exclusive: op.Exclusive}
	case batchfile.Create:
		return &protocol.CreateArgs{Template: op.Template, Runtime: op.Runtime, Class: op.Class, Labels: op.Labels, Start: op.Started, Privileged: op.Privileged}
	case batchfile.Stop, batchfile.Remove:
		return &protocol.StopArgs{GraceMS: op.Grace.Milliseconds()}
	case batchfile.Push:
		return &protocol.PushArgs{Files: new(protocol.FileArgs)}
	case batchfile.Pull:
		return &protocol.PullArgs{Files: new(protocol.FileArgs), OutputOption: protocol.OutputOption{Output: protocol.OutputStream}}
	}
	return nil
}

// container finds the container of an operation. The id of a new one follows from
// the batch, so that going on with the batch is about the same one.
func (k *knownTargets) container(s *protocol.Spec, op batchfile.Operation, id protocol.BatchID, i int, before api.Action) error {
	if _, err := protocol.ParseContainerName(string(s.Name)); err != nil {
		return err
	}
	if before.Target != "" {
		ct, err := protocol.ParseCTID(before.Target)
		if err != nil {
			return fmt.Errorf("container of action %s: %w", before.ID, err)
		}
		k.containers[op.Where] = ct
	}
	ct, ok := k.containers[op.Where]
	made := protocol.CTID(id.Action(fmt.Sprintf("container %d", i)))
	switch {
	case op.Verb == batchfile.Create && ok && ct != made:
		return fmt.Errorf("there is a container %s already", op.Where)
	case op.Verb == batchfile.Create:
		ct = made
	case !ok:
		return fmt.Errorf("there is no container %s", op.Where)
	}
	switch op.Verb {
	case batchfile.Push:
		s.Kind = protocol.KindContainerPush
	case batchfile.Pull:
		s.Kind = protocol.KindContainerPull
	}
	s.Target = ct
	k.containers[op.Where] = ct
	if op.Verb == batchfile.Remove {
		delete(k.containers, op.Where)
	}
	return nil
}

func (b *fileRun) dryRun(ctx context.Context) error {
	v := *b.o.view
	v.One = false
	return b.Batcher.DryRun(ctx, b.run.remote, &v, conn.Each(b.run.outcomes, func(p *outcome) dispatch.Target { return p.Target })...)
}

// do begins the operations in their order, as many at a time as may be, and waits
// for those that began.
func (b *fileRun) do(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	turns := make(chan struct{}, b.o.parallel)
	var group sync.WaitGroup
	var mu sync.Mutex
	failed := false
	var broken error
	ended := make([]chan struct{}, len(b.run.outcomes))
	for i, p := range b.run.outcomes {
		ended[i] = make(chan struct{})
		turns <- struct{}{}
		b.letPass(ctx, i, ended)
		mu.Lock()
		end := ctx.Err() != nil || broken != nil || failed && !b.o.goOn
		mu.Unlock()
		if end {
			break
		}
		err := b.begin(ctx, i)
		if err != nil {
			mu.Lock()
			broken = err
			mu.Unlock()
			break
		}
		m := b.moves[i]
		if p.refused != nil || p.final && (m == nil || m.pull == nil) {
			_ = m.settle(p, nil) // which is no error
			mu.Lock()
			failed = failed || p.word() != "done"
			mu.Unlock()
			close(ended[i])
			<-turns
			continue
		}
		group.Go(func() {
			defer func() { close(ended[i]); <-turns }()
			act, err := b.await(ctx, i)
			mu.Lock()
			defer mu.Unlock()
			p.act, p.final = act, protocol.State(act.State).Final()
			err = m.settle(p, err)
			failed = failed || p.word() != "done"
			if err != nil && !errors.Is(err, errWaited) {
				broken = err
			}
		})
	}
	group.Wait()
	return b.end(ctx, broken)
}

// letPass waits for the operations on the same container that an operation may not
// overtake. Its host sees to that, but for a pull: that changes nothing, and so runs
// beside whatever else there is.
func (b *fileRun) letPass(ctx context.Context, i int, ended []chan struct{}) {
	op := b.ops[i]
	if !strings.Contains(op.Where, "/") {
		return
	}
	for j, before := range b.ops[:i] {
		if before.Where != op.Where || before.Verb != batchfile.Pull && op.Verb != batchfile.Pull {
			continue
		}
		select {
		case <-ended[j]:
		case <-ctx.Done():
			return
		}
	}
}

// begin asks for an operation, once. What is pushed was sent before, but the
// coordinator keeps an unnamed one for a day only.
func (b *fileRun) begin(ctx context.Context, i int) error {
	p := b.run.outcomes[i]
	if err := b.moves[i].send(ctx, b, i); err != nil {
		return err
	}
	if err := b.run.askEach(ctx, []*outcome{p}); err != nil {
		return err
	}
	if p.refused == nil {
		b.Batcher.Say("%s: %s", term.Printable(p.Label), cmp.Or(p.act.Shown, p.act.State))
	}
	return nil
}

// await waits for the end of an operation, with its output, for as long as the
// file says.
func (b *fileRun) await(ctx context.Context, i int) (api.Action, error) {
	p := b.run.outcomes[i]
	if w := b.ops[i].Wait; w > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, w, errWaited)
		defer cancel()
	}
	f := &dispatch.Follower{Dispatcher: b.Batcher.Dispatcher, Remote: b.run.remote, Label: p.Label, Hold: true}
	if slices.Contains([]batchfile.Verb{batchfile.Run, batchfile.Exec, batchfile.Push}, b.ops[i].Verb) {
		f.Stdout, f.Stderr = b.writer(p.stdout), b.writer(p.stderr)
	}
	begin := b.Batcher.Now()
	var act api.Action
	var err error
	if m := b.moves[i]; m != nil && m.pull != nil {
		act, err = m.collect(ctx, b, i)
	} else {
		act, err = f.Wait(ctx, p.act)
	}
	p.stdout.flush()
	p.stderr.flush()
	if err != nil && errors.Is(context.Cause(ctx), errWaited) {
		b.Batcher.Say("%s: it has not ended within %s, and continues", term.Printable(p.Label), b.ops[i].Wait)
		return act, errWaited
	}
	if err == nil {
		b.Batcher.Say("%s: %s after %s", term.Printable(p.Label), cmp.Or(strings.ToLower(act.State), act.Reason), b.Batcher.Now().Sub(begin).Round(time.Millisecond))
	}
	return act, err
}

// writer takes the output of a command: printed, or kept for what is printed in
// the end.
func (b *fileRun) writer(l *lines) io.Writer {
	if b.o.view.Format.Word == "table" {
		return l
	}
	return keeper{l}
}

// keeper keeps the beginning of what is written.
type keeper struct{ l *lines }

func (k keeper) Write(b []byte) (int, error) { k.l.keep(b); return len(b), nil }

// end prints what became of all operations, in their order.
func (b *fileRun) end(ctx context.Context, broken error) error {
	if err := b.run.print(); err != nil {
		return err
	}
	b.run.sayRefused()
	unkept := false
	for _, p := range b.run.outcomes {
		if p.unkept != nil {
			unkept = true
			b.Batcher.Say("hostler: %s: %s", p.Label, term.Printable(p.unkept.Error()))
		}
	}
	failed := slices.ContainsFunc(b.run.outcomes, func(p *outcome) bool { return p.word() != "done" })
	if unkept || failed {
		b.Batcher.Say("hostler: %d operations: %s", len(b.run.outcomes), countsText(b.run.counts()))
		b.Batcher.Say("To continue it: hostler batch -f %s --resume %s", b.o.file, b.run.id)
	}
	switch {
	case ctx.Err() != nil || errors.Is(broken, term.ErrInterrupted):
		b.run.sayLeft()
		return term.ErrInterrupted
	case broken != nil:
		return broken
	case failed:
		return term.Exit(term.ExitFailed)
	}
	return nil
}
