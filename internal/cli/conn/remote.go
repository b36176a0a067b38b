package conn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// RestartTime is how long a coordinator may be away that is being restarted. Every
// command waits for it, whatever it asks for, unless --wait says for how long.
const RestartTime = 10 * time.Second

// defaultSocket is where the agent of a host listens.
const defaultSocket = "/run/hostler/agent.sock"

// Remote is the other end: a coordinator, or the agent of this host. It has
// the requests whose path or form is needed more than once.
type Remote struct {
	*client.Client
	Local bool
}

// Connect prepares to speak to the other end. It does not connect yet.
func (a *Env) Connect() (*Remote, error) {
	t, err := a.target()
	if err != nil {
		return nil, err
	}
	socket, local := a.agentSocket(t)
	if local {
		path, err := filepath.Abs(socket) // as an address it has no current directory
		if err != nil {
			return nil, term.Cannot("speak to the agent", err)
		}
		c, err := client.New(client.Config{Address: "unix://" + path, Asked: a.Asked("the agent")})
		return &Remote{c, true}, term.Cannot("speak to the agent", err)
	}
	if t.Address == "" {
		return nil, &term.Failure{
			Code: term.ExitUsage, What: "no coordinator is configured",
			Why:  "no context is in use, no address is given, and this host has no agent at " + socket,
			Next: "hostler login ADDRESS --token-file FILE",
		}
	}
	if err := CheckAddress(t.Address); err != nil {
		return nil, err
	}
	ca, err := a.authority(t)
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{
		Address: t.Address, Token: t.Token, CA: ca, Renew: a.renewal(t), Patience: a.Patience(),
		Away:  func(error) { a.Say("hostler: no answer, trying again") },
		Asked: a.Asked("the coordinator"),
	})
	if err != nil {
		return nil, term.Usage("hostler login https://HOST:PORT --token-file FILE", "%s", err)
	}
	return &Remote{c, false}, nil
}

// Asked shows for how long an answer has been waited for, where no other line tells what
// goes on.
func (a *Env) Asked(of string) func() (answered func()) {
	return func() func() { return a.TickAlone("waiting for an answer of " + of).End }
}

// CheckAddress accepts the address of a coordinator.
func CheckAddress(address string) error {
	if u, err := url.Parse(address); err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return term.Usage("hostler login https://HOST:PORT --token-file FILE", "%q is not the address of a coordinator: use https://HOST:PORT", address)
	}
	return nil
}

// Coordinator is connect for what only a coordinator knows.
func (a *Env) Coordinator() (*Remote, error) {
	r, err := a.Connect()
	if err == nil && r.Local {
		return nil, errLocal()
	}
	return r, err
}

// agentSocket returns the agent's socket, and whether it is the one to speak
// to: by option, or because there is no coordinator to speak to.
func (a *Env) agentSocket(t Target) (path string, local bool) {
	path = cmp.Or(a.socket, a.Getenv("HOSTLER_SOCKET"), defaultSocket)
	if a.local || a.socket != "" {
		return path, true
	}
	if t.Address != "" {
		return path, false
	}
	info, err := os.Stat(path)
	return path, err == nil && info.Mode().Type() == os.ModeSocket
}

// authority returns the authority of a target's certificates: the one that was
// given, else that of the fleet's ring.
func (a *Env) authority(t Target) ([]byte, error) {
	if t.CA != "" {
		return DecodeCA(t.CA)
	}
	all, err := a.RingAuthorities(t.Fleet)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, &term.Failure{
			Code: term.ExitRefused, What: "cannot verify the coordinator at " + t.Address,
			Why:  "no CA certificate is given, and the rings on this machine do not name exactly one coordinator",
			Next: "add --ca FILE, with the ca.crt of the coordinator",
		}
	}
	return all[0], nil
}

// Containers returns those of one host, or of all.
func (r *Remote) Containers(ctx context.Context, host protocol.HostID) ([]api.Container, error) {
	path := "/v1/containers"
	if host != "" {
		path = "/v1/hosts/" + url.PathEscape(string(host)) + "/containers"
	}
	return pages[api.Container](ctx, r, path, nil)
}

// pageSize is how many actions are asked for at once.
const pageSize = 1000

// pages returns all of a list.
func pages[T any](ctx context.Context, r *Remote, path string, which url.Values) ([]T, error) {
	q := url.Values{}
	maps.Copy(q, which)
	var all []T
	for {
		var page []T
		next, err := r.Page(ctx, path, q, &page)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); next == "" {
			return all, nil
		}
		q.Set("cursor", next)
	}
}

// Container finds the container that a reference means.
func (r *Remote) Container(ctx context.Context, name Ref) (api.Container, error) {
	all, err := r.Containers(ctx, name.Host)
	if err != nil {
		return api.Container{}, err
	}
	all = slices.DeleteFunc(all, func(c api.Container) bool {
		return c.Name != name.Name || name.Runtime != "" && c.Runtime != name.Runtime
	})
	switch len(all) {
	case 0:
		next := "hostler ct ls"
		if name.Host != "" {
			next += " " + string(name.Host)
		}
		return api.Container{}, &term.Failure{Code: term.ExitNotFound, What: fmt.Sprintf("there is no container %s", name), Next: next}
	case 1:
		return all[0], nil
	}
	var both []string
	for _, c := range all {
		both = append(both, Ref{Host: name.Host, Runtime: c.Runtime, Name: c.Name}.String())
	}
	return api.Container{}, term.Usage("", "%s is ambiguous: use one of %q", name, both)
}

// Action returns an action by its id or the beginning of it; wait is how long
// the other end may wait for its end.
func (r *Remote) Action(ctx context.Context, id string, wait time.Duration) (api.Action, error) {
	if wait > 0 {
		return r.action(ctx, id, url.Values{"wait": {wait.String()}})
	}
	return r.action(ctx, id, nil)
}

// ActionWhy is action, with what it waits for as its host says.
func (r *Remote) ActionWhy(ctx context.Context, id string) (api.Action, error) {
	if r.Local {
		return r.action(ctx, id, nil)
	}
	return r.action(ctx, id, url.Values{"why": {"true"}})
}

func (r *Remote) action(ctx context.Context, id string, q url.Values) (act api.Action, err error) {
	err = r.Get(ctx, "/v1/actions/"+url.PathEscape(id), q, &act)
	return act, err
}

// ActionQuery chooses actions; the zero value is all.
type ActionQuery struct {
	Host, Batch string
	Labels      string // of its host, as a selector
	States      []string
	Since       time.Time // of the request
	Limit       int       // 0: all
}

// Actions returns actions, the newest first.
func (r *Remote) Actions(ctx context.Context, f ActionQuery) ([]api.Action, error) {
	q := url.Values{}
	if f.Batch != "" {
		q.Set("batch", f.Batch)
	}
	if f.Host != "" {
		q.Set("host", f.Host)
	}
	if f.Labels != "" {
		q.Set("label", f.Labels)
	}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339))
	}
	if len(f.States) > 0 {
		q.Set("state", strings.Join(f.States, ","))
	}
	var all []api.Action
	for {
		n := pageSize
		if f.Limit > 0 {
			n = min(n, f.Limit-len(all))
		}
		q.Set("limit", strconv.Itoa(n))
		var page []api.Action
		next, err := r.Page(ctx, "/v1/actions", q, &page)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); next == "" || len(all) == f.Limit {
			return all, nil
		}
		q.Set("cursor", next)
	}
}

// OpenStates are those of actions that have not ended.
func OpenStates() []string {
	var open []string
	for _, s := range protocol.States() {
		if !s.Final() && s != protocol.StateNone {
			open = append(open, string(s))
		}
	}
	return open
}

// Untrusted reports whether the other end has a certificate of another fleet.
func Untrusted(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// OnRemote returns what a command runs that needs the other end, whichever it is.
func (a *Env) OnRemote(run func(cmd *cobra.Command, args []string, r *Remote) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		r, err := a.Connect()
		if err != nil {
			return err
		}
		return run(cmd, args, r)
	}
}

// OnHost is OnRemote for a command with the arguments [HOST] and n more. With
// --local, HOST is left out.
func (a *Env) OnHost(n int, run func(cmd *cobra.Command, r *Remote, host protocol.HostID, rest []string) error) func(*cobra.Command, []string) error {
	return a.OnRemote(func(cmd *cobra.Command, args []string, r *Remote) error {
		want := n
		if !r.Local {
			want++
		}
		if len(args) != want {
			return term.Usage(cmd.CommandPath()+" --help", "%s", wrongCount(cmd.UseLine(), r.Local, len(args), want))
		}
		if r.Local {
			return run(cmd, r, "", args)
		}
		host, err := ParseHost(args[0])
		if err != nil {
			return term.Usage("hostler host ls", "%s", err)
		}
		return run(cmd, r, host, args[1:])
	})
}

// wrongCount says what the arguments of a command with [HOST] have to be.
func wrongCount(usage string, local bool, got, want int) string {
	usage = strings.TrimSuffix(usage, " [flags]")
	switch {
	case local:
		return fmt.Sprintf("with --local, the name of the host is left out: %s", strings.Replace(usage, " [HOST]", " --local", 1))
	case got == want-1:
		return fmt.Sprintf("the name of a host is missing: %s", strings.Replace(usage, "[HOST]", "HOST", 1))
	}
	return fmt.Sprintf("the arguments do not fit: %s", strings.Replace(usage, "[HOST]", "HOST", 1))
}

// OnCoordinator is OnRemote for what only a coordinator knows.
func (a *Env) OnCoordinator(run func(cmd *cobra.Command, args []string, r *Remote) error) func(*cobra.Command, []string) error {
	return a.OnRemote(func(cmd *cobra.Command, args []string, r *Remote) error {
		if r.Local {
			return errLocal()
		}
		return run(cmd, args, r)
	})
}

func errLocal() error {
	return term.Usage("hostler login ADDRESS --token-file FILE", "this needs a coordinator; the agent of a host cannot answer it")
}
