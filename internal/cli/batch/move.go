package batch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/batchfile"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/cli/transfer"
	"github.com/hostler-io/hostler/protocol"
)

// move is what an operation of a file copies: a payload, or what is pulled.
type move struct {
	files   protocol.FileArgs
	there   transfer.RemotePath
	payload *dispatch.Payload // of a push
	pull    *transfer.Pulling
	bytes   int64 // that were copied
}

// planMove looks at what is here of a copy. Paths here are relative to dir. What is
// pushed is read to its end: its digest is part of what is asked for.
func planMove(ctx context.Context, a *term.UI, op batchfile.Operation, host protocol.HostID, dir string) (*move, error) {
	m := &move{there: transfer.RemotePath{Host: host}}
	if strings.Contains(op.Where, "/") {
		m.there.Container = op.Where
	}
	if op.Verb == batchfile.Push {
		m.there.At(op.To)
		p, err := transfer.PreparePush(ctx, a, []string{localPath(dir, op.From)}, m.there, &m.files, true)
		if err != nil {
			return nil, err
		}
		m.payload, m.bytes = p, p.Size
		return m, nil
	}
	m.there.At(op.From)
	m.files.Paths = []string{m.there.Path}
	to, err := transfer.FindDestination(localPath(dir, op.To), true)
	m.pull = &transfer.Pulling{From: m.there, To: to, Stays: true}
	return m, err
}

// localPath is a path that a file in dir names. A slash at its end says that it is a
// directory, and stays.
func localPath(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return dir + string(filepath.Separator) + name
}

// describe puts the copy into a spec.
func (m *move) describe(s *protocol.Spec) {
	*s.Files() = m.files
	m.payload.Describe(s)
}

// send brings to the coordinator what is pushed, unless it is there.
func (m *move) send(ctx context.Context, b *fileRun, i int) error {
	if m == nil {
		return nil
	}
	if p := b.run.outcomes[i]; dispatch.Refused(ctx, b.run.remote, m.payload, p.Host, p.Spec) != nil {
		return nil // that is told when it is asked for
	}
	return m.payload.Send(ctx, b.Batcher.Dispatcher, b.run.remote, "push to "+m.there.String())
}

// collect takes what a pull brings. A user who goes on with a batch takes it once more,
// as it was then: only this machine knows whether it was kept.
func (m *move) collect(ctx context.Context, b *fileRun, i int) (api.Action, error) {
	p := b.run.outcomes[i]
	m.pull.Files, m.pull.Remote, m.pull.Words = b.Batcher.files, b.run.remote, b.writer(p.stderr)
	m.pull.Key = fmt.Sprintf("\x00%s\x00%d", b.run.id, i)
	act, n, err := m.pull.Collect(ctx, p.act)
	m.bytes = n
	if s := protocol.State(act.State); s.Final() && s != protocol.StateDone {
		m.pull.Said.End()
		err = nil // its end is told as that of any other operation
	}
	return act, err
}

// settle notes what came of a copy, and returns the error that ends more than it.
func (m *move) settle(p *outcome, err error) error {
	if m == nil {
		return err
	}
	done := p.act.State == string(protocol.StateDone)
	if err == nil && done {
		p.bytes = &m.bytes
	}
	if err == nil || m.pull == nil {
		return err
	}
	wider := errors.Is(err, errWaited) || errors.Is(err, term.ErrInterrupted) || errors.Is(err, client.ErrUnreachable)
	if done || !wider {
		p.unkept = err
	}
	if wider {
		return err
	}
	return nil
}
