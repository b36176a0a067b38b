package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// limited is a buffer with an end.
type limited struct {
	bytes.Buffer
	most int
}

func (l *limited) Write(b []byte) (int, error) {
	if l.Len()+len(b) > l.most {
		return 0, fmt.Errorf("the answer is larger than %s; ask for less", term.Size(int64(l.most)))
	}
	return l.Buffer.Write(b)
}

// maxNotes is how much is kept of what a host says beside its answer, in bytes.
const maxNotes = 64 << 10

// notes keep the beginning of what a host says beside its answer, and show the newest
// line of it.
type notes struct {
	bytes.Buffer
	shown *term.Ticker
}

func (n *notes) Write(b []byte) (int, error) {
	n.Buffer.Write(b[:min(len(b), maxNotes-n.Len())]) // it never fails
	return n.shown.Write(b)
}

// ErrAnswer tells of an answer of a host that this version cannot read.
var ErrAnswer = errors.New("the answer of the host is not what this version can read")

// Ask asks a host for an action whose output is its answer, of at most so many bytes, and
// returns that. What the host says beside it is passed on; on a terminal its newest line is
// shown meanwhile, and all of it if the action fails. label is what it is about.
func (a *Dispatcher) Ask(ctx context.Context, r *conn.Remote, host protocol.HostID, label, what string, most int, s protocol.Spec) ([]byte, error) {
	spec, err := EncodeSpec(s)
	if err != nil {
		return nil, err
	}
	act, err := a.Submit(ctx, r, host, spec)
	if err != nil {
		return nil, term.Cannot(what, err)
	}
	out := &limited{most: most}
	said := &notes{shown: a.Tick(label, "")}
	f := &Follower{Dispatcher: a, Remote: r, Label: label, Stdout: out, Stderr: a.Err, Hold: true, Whole: true, Ticker: said.shown}
	if a.Painted() {
		f.Stderr = said
	}
	final, err := f.Wait(ctx, act)
	said.shown.End()
	if err != nil {
		a.Leave(act.ID)
		return nil, err
	}
	if err := Ended(what, final); err != nil {
		if text := strings.TrimSpace(said.String()); text != "" {
			a.Say("%s", term.Printable(text))
		}
		return nil, err
	}
	return out.Bytes(), nil
}

// AskChange asks a host for an action whose answer are the things that it was about, as
// [Listed] does, if it is to be waited for.
func AskChange[T any](ctx context.Context, a *Dispatcher, c *Change, r *conn.Remote, host protocol.HostID, what string, s protocol.Spec) ([]T, error) {
	if !c.DryRun && !c.NoWait {
		return Listed[T](ctx, a, r, host, what, s)
	}
	spec, err := EncodeSpec(s)
	if err != nil {
		return nil, err
	}
	if c.DryRun {
		return nil, a.DryRun(ctx, r, c.View, OnHosts(spec, host)...)
	}
	act, err := a.Submit(ctx, r, host, spec)
	if err != nil {
		return nil, term.Cannot(what, err)
	}
	return nil, a.PrintID(c.View, act)
}

// PrintChanged is [AskChange] that prints the things: a line of each, or what --format wants.
func PrintChanged[T any](ctx context.Context, a *Dispatcher, c *Change, r *conn.Remote, host protocol.HostID, what string, s protocol.Spec, n show.Noun[T], line func(T) string) error {
	all, err := AskChange[T](ctx, a, c, r, host, what, s)
	if word := c.View.Format.Word; err == nil && all != nil && word != "table" && word != "wide" {
		return show.Print(a.UI, c.View, n, all)
	}
	for _, it := range all {
		fmt.Fprintln(a.Out, strings.TrimSpace(term.Printable(line(it))))
	}
	return err
}

// AnswerMode is how the output of such an action is kept: the output is not read of one which is
// not waited for.
func (c *Change) AnswerMode() protocol.OutputOption {
	if c.NoWait {
		return protocol.OutputOption{}
	}
	return protocol.OutputOption{Output: protocol.OutputStream}
}

// maxAnswer bounds what Listed reads, in bytes: tens of thousands of things.
const maxAnswer = 16 << 20

// Listed asks a host for things, each of which it prints as a line of JSON.
func Listed[T any](ctx context.Context, a *Dispatcher, r *conn.Remote, host protocol.HostID, what string, s protocol.Spec) (all []T, err error) {
	b, err := a.Ask(ctx, r, host, string(host), what, maxAnswer, s)
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(b)); ; {
		var it T
		switch err := d.Decode(&it); {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, term.Cannot(what, ErrAnswer)
		}
		all = append(all, it)
	}
}
