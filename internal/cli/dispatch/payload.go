package dispatch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// Payload is what a command reads: a file whose digest is known.
type Payload struct {
	file   *os.File
	digest protocol.Digest
	Size   int64
}

// StdinFlags are how a command is given something to read.
type StdinFlags struct {
	Path        string
	Interactive bool
}

// Add adds the options to a command.
func (s *StdinFlags) Add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.Path, "stdin", "", "file that the command reads, or - for the standard input of this program")
	f.BoolVarP(&s.Interactive, "interactive", "i", false, "the same as --stdin -")
}

// Open reads what the command is to read, to its end: its digest is part of what
// is asked for. nil is nothing.
func (s *StdinFlags) Open(a *Dispatcher) (*Payload, error) {
	switch {
	case s.Interactive && s.Path != "" && s.Path != "-":
		return nil, term.Usage("", "use --stdin FILE or -i, not both")
	case s.Interactive, s.Path == "-":
		in := a.In
		if !a.InTTY { // else it comes as fast as the user types
			bar := a.Progress("reading the standard input", 0)
			in = bar.Reader(in)
			defer bar.End()
		}
		f, err := spool(in)
		if err != nil {
			return nil, &term.Failure{Code: term.ExitFailed, What: "cannot keep the standard input until it is sent", Why: err.Error(), Next: "set TMPDIR to a directory with more room"}
		}
		return NewPayload(a.UI, f, "the standard input")
	case s.Path == "":
		return nil, nil
	}
	f, err := os.Open(s.Path)
	if err != nil {
		return nil, &term.Failure{Code: term.ExitNotFound, What: "cannot read " + s.Path, Why: err.Error()}
	}
	return NewPayload(a.UI, f, s.Path)
}

// spool copies what can be read once into a file without a name.
func spool(r io.Reader) (*os.File, error) {
	f, err := os.CreateTemp("", "hostler-stdin-")
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(os.Remove(f.Name()), err); err != nil {
		_ = f.Close() // it has no name any more
		return nil, err
	}
	return f, nil
}

// NewPayload reads a file for its digest. An empty one is nothing to read.
func NewPayload(a *term.UI, f *os.File, name string) (*Payload, error) {
	sum := sha256.New()
	n, err := f.Seek(0, io.SeekEnd)
	bar := a.Progress("reading "+term.Printable(name), n)
	defer bar.End()
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		n, err = io.Copy(sum, bar.Reader(f))
	}
	if err != nil {
		_ = f.Close() // it was only read
		return nil, &term.Failure{Code: term.ExitFailed, What: "cannot read " + name, Why: err.Error()}
	}
	return &Payload{file: f, digest: protocol.Digest(sum.Sum(nil)), Size: n}, nil
}

// PayloadOf is the payload of a text. name is what it is.
func PayloadOf(a *term.UI, text, name string) (*Payload, error) {
	f, err := spool(strings.NewReader(text))
	if err != nil {
		return nil, &term.Failure{Code: term.ExitFailed, What: "cannot keep " + name + " until it is sent", Why: err.Error(), Next: "set TMPDIR to a directory with more room"}
	}
	return NewPayload(a, f, name)
}

// Describe names the payload in a spec.
func (p *Payload) Describe(s *protocol.Spec) {
	if p != nil && p.Size > 0 {
		s.SetInput(p.digest, p.Size)
	}
}

// Close removes what was copied; a nil Payload has nothing.
func (p *Payload) Close() {
	if p != nil {
		_ = p.file.Close() // it was only read
	}
}

// Refused asks what would become of an action, before much is sent for it: the
// coordinator knows what it refuses to all, and what its hosts do. Whatever else is
// wrong shows when it is asked for, and the host judges in any case.
func Refused(ctx context.Context, r *conn.Remote, p *Payload, host protocol.HostID, spec []byte) error {
	if p == nil || p.Size == 0 || r.Local {
		return nil
	}
	err := r.Post(ctx, "/v1/actions", url.Values{"dry_run": {"true"}}, api.NewAction{Host: string(host), Spec: spec}, new(api.Action))
	if problem, ok := errors.AsType[*api.Problem](err); ok && (problem.Status == http.StatusForbidden || problem.Status == http.StatusNotFound) {
		return err
	}
	return nil
}

// Send brings the payload to the coordinator, or to the agent of this host, if it is not there. It goes on
// where it was when the line broke, or where a program before this one was.
//
// what is what it is for, as completes "cannot …".
func (p *Payload) Send(ctx context.Context, a *Dispatcher, r *conn.Remote, what string) error {
	if p == nil || p.Size == 0 {
		return nil
	}
	bar := a.Progress("sending", p.Size)
	defer bar.End()
	var again conn.Retry
	reached, begun := false, a.Now()
	for {
		err := p.sendOnce(ctx, r, bar)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			bar.End()
			a.Say("\nNothing was requested. Run it again to continue where it stopped.")
			return term.ErrInterrupted
		}
		if bar.Moved() {
			again = conn.Retry{} // it goes on, however often the line breaks
		}
		reached = reached || !term.NeverAsked(err)
		if !reached && a.Now().Sub(begun) > a.Patience() {
			return term.Cannot(what, err) // no server is there, rather than a line that breaks
		}
		if again.Since.IsZero() && errors.Is(err, client.ErrUnreachable) && !conn.Untrusted(err) {
			bar.End()
			a.Say("hostler: no answer, trying again")
		}
		if err := again.Wait(ctx, a.Now(), err); err != nil {
			return term.Cannot(what, err)
		}
	}
}

func (p *Payload) sendOnce(ctx context.Context, r *conn.Remote, bar *term.Progress) error {
	var have api.Payload
	err := r.Get(ctx, "/v1/payloads/"+p.digest.String(), nil, &have)
	if term.IsNotFound(err) {
		have, err = api.Payload{}, nil
	}
	if err != nil || have.Complete {
		return err
	}
	if have.Have > p.Size {
		have.Have = 0 // of another promise
	}
	bar.At(have.Have)
	body := bar.Reader(io.NewSectionReader(p.file, have.Have, p.Size-have.Have))
	if err := r.Upload(ctx, p.digest.String(), p.Size, have.Have, body, &have); err != nil {
		return err
	}
	if !have.Complete {
		return fmt.Errorf("%d of %d bytes have arrived", have.Have, p.Size)
	}
	return nil
}
