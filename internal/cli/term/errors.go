package term

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
	"github.com/hostler-io/hostler/internal/brief"
)

// The exit codes. Run and exec pass on the code of the command that they ran
// (128 and the number for a signal) and use exitHostler for whatever else goes
// wrong, so that the two are never mistaken for one another.
const (
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitRefused     = 4
	ExitTimeout     = 5
	ExitUnreachable = 6
	ExitChanges     = 10 // a plan that was only to be shown has changes
	ExitHostler     = 125
	ExitInterrupted = 130 // 128 and the number of the signal, as of every program
	ExitTerminated  = 143
)

// Failure is an error as people read it: what failed, why, and what to type
// next. The latter two may be empty.
type Failure struct {
	Code            int
	What, Why, Next string
	More            []string // that is wrong too, a line each
	Err             error    // what it comes from, if anything
}

func (f *Failure) Unwrap() error { return f.Err }

func (f *Failure) Error() string {
	if f.Why == "" {
		return f.What
	}
	return strings.Join(append([]string{f.What + ": " + f.Why}, f.More...), "; ")
}

// Exit ends the program with a code and without a word: all has been said.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// ErrInterrupted tells that the user has had enough.
var ErrInterrupted = errors.New("interrupted")

// Usage tells that the command line is wrong.
func Usage(next, format string, args ...any) error {
	return &Failure{Code: ExitUsage, What: fmt.Sprintf(format, args...), Next: next}
}

// Cannot says that something failed: what completes "cannot …". An error that
// says so already stays as it is.
func Cannot(what string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return ErrInterrupted
	}
	if _, ok := errors.AsType[Exit](err); ok || errors.Is(err, ErrInterrupted) {
		return err
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	f := &Failure{Code: ExitFailed, What: "cannot " + what, Why: err.Error(), Err: err}
	defer func() {
		lines := strings.Split(f.Why, "\n")
		f.Why, f.More = lines[0], lines[1:]
	}()
	if errors.Is(err, fs.ErrNotExist) {
		f.Code = ExitNotFound
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, fs.ErrPermission) {
		f.Next = "ls -ld " + p.Path + "    # is this the user that may use it?"
	}
	if p, ok := errors.AsType[*api.Problem](err); ok {
		f.Code, f.Why, f.Next = ExitOf(p.Code), p.Detail, p.Hint
		if hint := hintOf(p.Code); f.Next == "" || p.Code == api.CodeUnauthentic { // whose own hint is for programs
			f.Next = hint
		}
		return f
	}
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		f.Code, f.Why = ExitUnreachable, "the certificate of the server is not from this fleet: "+bad.Err.Error()
		f.Next = "hostler login CODE    # if the coordinator was recovered or replaced; an admin makes the code: hostler token create NAME --role ROLE"
		if _, ok := errors.AsType[x509.HostnameError](bad.Err); ok {
			f.Next = "use an address that the coordinator prints when it starts, or add this one to its http.addresses"
		}
		return f
	}
	if errors.Is(err, client.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
		f.Code, f.Why, f.Next = ExitUnreachable, unreachable(err), "hostler context ls    # is the address right, and does the coordinator run?"
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Net == "unix" {
			f.Next = "systemctl enable --now hostler-agent    # without systemd: hostler-agent run; does the agent run on this host, and is this user root or in its group?"
		}
	}
	return f
}

// Missing gives an error of [Cannot] the command that lists what there is, if what was
// asked for is not there and no other command is named.
func Missing(err error, next string) error {
	if f, ok := errors.AsType[*Failure](err); ok && f.Code == ExitNotFound && f.Next == "" {
		f.Next = next
	}
	return err
}

// unreachable says why no answer came, without the request that the user knows
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

// NeverAsked reports whether there was not even a connection: whatever was to be
// asked, it was never heard.
func NeverAsked(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// ExitOf returns the exit code for the code of a problem.
func ExitOf(code string) int {
	switch code {
	case api.CodeInvalid, api.CodeBadReference, api.CodeAmbiguous, api.CodeTooLarge:
		return ExitUsage
	case api.CodeNotFound, api.CodeUnknownHost:
		return ExitNotFound
	case api.CodeUnauthentic, api.CodeDenied, api.CodeRole:
		return ExitRefused
	case api.CodeTimeout:
		return ExitTimeout
	case api.CodeUnavailable:
		return ExitUnreachable
	}
	return ExitFailed
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

// IsNotFound reports whether the thing that was asked for does not exist.
func IsNotFound(err error) bool {
	p, ok := errors.AsType[*api.Problem](err)
	f, ours := errors.AsType[*Failure](err)
	return ok && p.Status == http.StatusNotFound || ours && f.Code == ExitNotFound
}

// report prints an error and returns the exit code that goes with it.
func report(w io.Writer, args []string, err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[Exit](err); ok {
		return int(e)
	}
	if errors.Is(err, ErrInterrupted) || errors.Is(err, context.Canceled) {
		return ExitInterrupted
	}
	f, ok := errors.AsType[*Failure](err)
	if !ok {
		f = &Failure{Code: ExitFailed, What: err.Error()}
	}
	shown := func(text string) string { return Printable(brief.Text(text, args...)) }
	fmt.Fprintf(w, "hostler: %s\n", shown(f.What))
	if f.Why != "" {
		fmt.Fprintf(w, "    why: %s\n", shown(f.Why))
	}
	for _, line := range f.More {
		fmt.Fprintf(w, "         %s\n", shown(line))
	}
	if f.Next != "" {
		fmt.Fprintf(w, "    try: %s\n", shown(f.Next))
	}
	return f.Code
}

// Printable keeps what comes from elsewhere from steering the terminal. Line
// ends become spaces.
func Printable(s string) string {
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
