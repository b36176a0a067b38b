package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/protocol"
)

// payload is what a command reads: a file whose digest is known.
type payload struct {
	file   *os.File
	digest protocol.Digest
	size   int64
}

// stdinFlags are how a command is given something to read.
type stdinFlags struct {
	path        string
	interactive bool
}

func (s *stdinFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.path, "stdin", "", "file that the command reads, or - for the standard input of this program")
	f.BoolVarP(&s.interactive, "interactive", "i", false, "the same as --stdin -")
}

// open reads what the command is to read, to its end: its digest is part of what
// is asked for. nil is nothing.
func (s *stdinFlags) open(a *app) (*payload, error) {
	switch {
	case s.interactive && s.path != "" && s.path != "-":
		return nil, usage("", "the command reads a file or the standard input, and not both")
	case s.interactive, s.path == "-":
		f, err := spool(a.in)
		if err != nil {
			return nil, &failure{code: exitFailed, what: "cannot keep the standard input until it is sent", why: err.Error(), next: "set TMPDIR to a directory with more room"}
		}
		return newPayload(f, "the standard input")
	case s.path == "":
		return nil, nil
	}
	f, err := os.Open(s.path)
	if err != nil {
		return nil, &failure{code: exitNotFound, what: "cannot read " + s.path, why: err.Error()}
	}
	return newPayload(f, s.path)
}

// spool copies what can be read once into a file without a name.
func spool(r io.Reader) (*os.File, error) {
	f, err := os.CreateTemp("", "hostler-stdin-")
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(os.Remove(f.Name()), err); err != nil {
		_ = f.Close() // nobody can find it any more
		return nil, err
	}
	return f, nil
}

// newPayload reads a file for its digest. An empty one is nothing to read.
func newPayload(f *os.File, name string) (*payload, error) {
	sum := sha256.New()
	_, err := f.Seek(0, io.SeekStart)
	var n int64
	if err == nil {
		n, err = io.Copy(sum, f)
	}
	if err != nil {
		_ = f.Close() // it was only read
		return nil, &failure{code: exitFailed, what: "cannot read " + name, why: err.Error()}
	}
	return &payload{file: f, digest: protocol.Digest(sum.Sum(nil)), size: n}, nil
}

// describe names the payload in a spec.
func (p *payload) describe(s *protocol.Spec) {
	if p != nil && p.size > 0 {
		s.StdinSHA256, s.StdinBytes = p.digest, p.size
	}
}

func (p *payload) close() {
	if p != nil {
		_ = p.file.Close() // it was only read
	}
}

// refused asks what would become of an action, before much is sent for it: the
// coordinator knows what it lets nobody have, and what its hosts do. Whatever else is
// wrong shows when it is asked for, and the host judges in any case.
func refused(ctx context.Context, r *remote, p *payload, host protocol.HostID, spec []byte) error {
	if p == nil || p.size == 0 || r.local {
		return nil
	}
	err := r.Post(ctx, "/v1/actions", url.Values{"dry_run": {"true"}}, api.NewAction{Host: string(host), Spec: spec}, new(api.Action))
	if problem, ok := errors.AsType[*api.Problem](err); ok && (problem.Status == http.StatusForbidden || problem.Status == http.StatusNotFound) {
		return err
	}
	return nil
}

// send brings the payload to the coordinator, if it is not there. It goes on
// where it was when the line broke, or where a program before this one was.
//
// what is what it is for, as completes "cannot …".
func (p *payload) send(ctx context.Context, a *app, r *remote, what string) error {
	switch {
	case p == nil || p.size == 0:
		return nil
	case r.local:
		return usage("hostler --context NAME …", "the agent of this host takes no input by its socket: ask the coordinator")
	}
	bar := a.progress("sending", p.size)
	defer bar.end()
	var again retry
	reached, begun := false, a.now()
	for {
		err := p.sendOnce(ctx, r, bar)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			bar.end()
			a.say("\nNothing was asked. The same again goes on where this has come to.")
			return errInterrupted
		}
		if bar.moved() {
			again = retry{} // it goes on, however often the line breaks
		}
		reached = reached || !neverAsked(err)
		if !reached && a.now().Sub(begun) > restartTime {
			return cannot(what, err) // there is nobody, rather than a line that breaks
		}
		if again.since.IsZero() && errors.Is(err, client.ErrUnreachable) && !untrusted(err) {
			bar.end()
			a.say("hostler: no answer, trying again")
		}
		if err := again.wait(ctx, a.now(), err); err != nil {
			return cannot(what, err)
		}
	}
}

func (p *payload) sendOnce(ctx context.Context, r *remote, bar *progress) error {
	var have api.Payload
	err := r.Get(ctx, "/v1/payloads/"+p.digest.String(), nil, &have)
	if isNotFound(err) {
		have, err = api.Payload{}, nil
	}
	if err != nil || have.Complete {
		return err
	}
	if have.Have > p.size {
		have.Have = 0 // of another promise
	}
	bar.at(have.Have)
	body := bar.reader(io.NewSectionReader(p.file, have.Have, p.size-have.Have))
	if err := r.Upload(ctx, p.digest.String(), p.size, have.Have, body, &have); err != nil {
		return err
	}
	if !have.Complete {
		return fmt.Errorf("the coordinator has %d of %d bytes", have.Have, p.size)
	}
	return nil
}
