package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/batchfile"
	"github.com/hostler-io/hostler/protocol"
)

// move is what an operation of a file copies: a payload, or what is pulled.
type move struct {
	files   protocol.FileArgs
	there   remotePath
	payload *payload // of a push
	pull    *pulling
	bytes   int64 // that were copied
}

// planMove looks at what is here of a copy. Paths here are relative to dir. What is
// pushed is read to its end: its digest is part of what is asked for.
func planMove(ctx context.Context, op batchfile.Operation, host protocol.HostID, dir string) (*move, error) {
	m := &move{there: remotePath{host: host}}
	if strings.Contains(op.Where, "/") {
		m.there.container = op.Where
	}
	if op.Verb == batchfile.Push {
		m.there.at(op.To)
		p, err := preparePush(ctx, []string{localPath(dir, op.From)}, m.there, &m.files, true)
		if err != nil {
			return nil, err
		}
		m.payload, m.bytes = p, p.size
		return m, nil
	}
	m.there.at(op.From)
	m.files.Paths = []string{m.there.path}
	to, err := findDestination(localPath(dir, op.To), true)
	m.pull = &pulling{from: m.there, to: to, stays: true}
	return m, err
}

// at sets the path, which is absolute.
func (p *remotePath) at(s string) {
	p.path = path.Clean(s)
	p.into = p.path != "/" && strings.HasSuffix(s, "/")
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
	s.Files = &m.files
	if m.pull != nil {
		s.Output = protocol.OutputStream
	}
	m.payload.describe(s)
}

// send brings to the coordinator what is pushed, unless it is there.
func (m *move) send(ctx context.Context, b *fileRun, i int) error {
	if m == nil {
		return nil
	}
	if p := b.run.parts[i]; refused(ctx, b.run.remote, m.payload, p.host, p.spec) != nil {
		return nil // that is told when it is asked for
	}
	return m.payload.send(ctx, b.app, b.run.remote, "push to "+m.there.String())
}

// collect takes what a pull brings. Whoever goes on with a batch takes it once more,
// as it was then: nobody but this machine knows whether it was kept.
func (m *move) collect(ctx context.Context, b *fileRun, i int) (api.Action, error) {
	p := b.run.parts[i]
	m.pull.app, m.pull.remote, m.pull.words = b.app, b.run.remote, b.writer(p.stderr)
	m.pull.key = fmt.Sprintf("\x00%s\x00%d", b.run.id, i)
	act, n, err := m.pull.collect(ctx, p.act)
	m.bytes = n
	if s := protocol.State(act.State); s.Final() && s != protocol.StateDone {
		m.pull.said.end()
		err = nil // its end is told as that of any other operation
	}
	return act, err
}

// settle notes what came of a copy, and returns the error that ends more than it.
func (m *move) settle(p *part, err error) error {
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
	wider := errors.Is(err, errWaited) || errors.Is(err, errInterrupted) || errors.Is(err, client.ErrUnreachable)
	if done || !wider {
		p.unkept = err
	}
	if wider {
		return err
	}
	return nil
}
