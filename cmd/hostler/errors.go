package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
)

// The exit codes. Run and exec pass on the code of the command that they ran
// (128 and the number for a signal) and use exitHostler for whatever else goes
// wrong, so that the two are never mistaken for one another.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitRefused     = 4
	exitTimeout     = 5
	exitUnreachable = 6
	exitHostler     = 125
	exitInterrupted = 130 // 128 and the number of the signal, as of every program
	exitTerminated  = 143
)

// failure is an error as people read it: what failed, why, and what to type
// next. The latter two may be empty.
type failure struct {
	code            int
	what, why, next string
	more            []string // that is wrong too, a line each
	err             error    // what it comes from, if anything
}

func (f *failure) Unwrap() error { return f.err }

func (f *failure) Error() string {
	if f.why == "" {
		return f.what
	}
	return strings.Join(append([]string{f.what + ": " + f.why}, f.more...), "; ")
}

// exit ends the program with a code and without a word: all has been said.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// errInterrupted tells that the user has had enough.
var errInterrupted = errors.New("interrupted")

// usage tells that the command line is wrong.
func usage(next, format string, args ...any) error {
	return &failure{code: exitUsage, what: fmt.Sprintf(format, args...), next: next}
}

// cannot says that something failed: what completes "cannot …". An error that
// says so already stays as it is.
func cannot(what string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return errInterrupted
	}
	if _, ok := errors.AsType[exit](err); ok || errors.Is(err, errInterrupted) {
		return err
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	f := &failure{code: exitFailed, what: "cannot " + what, why: err.Error(), err: err}
	defer func() {
		lines := strings.Split(f.why, "\n")
		f.why, f.more = lines[0], lines[1:]
	}()
	if errors.Is(err, fs.ErrNotExist) {
		f.code = exitNotFound
	}
	if p, ok := errors.AsType[*api.Problem](err); ok {
		f.code, f.why, f.next = exitOf(p.Code), p.Detail, p.Hint
		if hint := hintOf(p.Code); f.next == "" || p.Code == api.CodeUnauthentic { // whose own hint is for programs
			f.next = hint
		}
		return f
	}
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		f.code, f.why = exitUnreachable, "whoever answers has no certificate of this fleet: "+bad.Err.Error()
		f.next = "hostler context ls    # is the address that of this fleet?"
		if _, ok := errors.AsType[x509.HostnameError](bad.Err); ok {
			f.next = "an address that the coordinator prints when it starts, or name this one in its http.addresses"
		}
		return f
	}
	if errors.Is(err, client.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
		f.code, f.why, f.next = exitUnreachable, unreachable(err), "hostler context ls    # is the address right, and does the coordinator run?"
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Net == "unix" {
			f.next = "hostler-agent run    # does the agent run on this host, and is this user root or in its group?"
		}
	}
	return f
}

// unreachable says why nobody answered, without the request that everybody knows
// who has typed the command.
func unreachable(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer came in time"
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return client.ErrUnreachable.Error() + ": " + u.Err.Error()
	}
	return err.Error()
}

// neverAsked reports whether there was not even a connection: whatever was to be
// asked, nobody has heard of it.
func neverAsked(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// exitOf returns the exit code for the code of a problem.
func exitOf(code string) int {
	switch code {
	case api.CodeInvalid, api.CodeBadReference, api.CodeAmbiguous, api.CodeTooLarge:
		return exitUsage
	case api.CodeNotFound, api.CodeUnknownHost:
		return exitNotFound
	case api.CodeUnauthentic, api.CodeDenied, api.CodeRole:
		return exitRefused
	case api.CodeTimeout:
		return exitTimeout
	case api.CodeUnavailable:
		return exitUnreachable
	}
	return exitFailed
}

// hintOf returns the next command to type for the code of a problem that came
// without a hint; most have none.
func hintOf(code string) string {
	switch code {
	case api.CodeUnauthentic:
		return "hostler login ADDRESS --token-file FILE    # an admin makes a token: hostler token create NAME --role ROLE"
	case api.CodeRole:
		return "hostler login ADDRESS --token-file FILE    # with a token of that role; an admin makes it: hostler token create"
	case api.CodeUnknownHost:
		return "hostler host ls"
	case api.CodeBadReference, api.CodeAmbiguous:
		return "hostler action ls"
	}
	return ""
}

// isNotFound reports whether the thing that was asked for does not exist.
func isNotFound(err error) bool {
	p, ok := errors.AsType[*api.Problem](err)
	return ok && p.Status == http.StatusNotFound
}

// report prints an error and returns the exit code that goes with it.
func report(w io.Writer, err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[exit](err); ok {
		return int(e)
	}
	if errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	f, ok := errors.AsType[*failure](err)
	if !ok {
		f = &failure{code: exitFailed, what: err.Error()}
	}
	fmt.Fprintf(w, "hostler: %s\n", printable(f.what))
	if f.why != "" {
		fmt.Fprintf(w, "    why: %s\n", printable(f.why))
	}
	for _, line := range f.more {
		fmt.Fprintf(w, "         %s\n", printable(line))
	}
	if f.next != "" {
		fmt.Fprintf(w, "    try: %s\n", printable(f.next))
	}
	return f.code
}

// printable keeps what comes from elsewhere from steering the terminal. Line
// ends become spaces.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
			return '\uFFFD'
		}
		return r
	}, s)
}
