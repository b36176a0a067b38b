// Package access says who may speak to a coordinator, and which one this user speaks
// to: hostler login, context, token and viewer.
package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol/enrol"
)

type commands struct{ *conn.Env }

// Commands returns hostler login, context, token and viewer.
func Commands(e *conn.Env) []*cobra.Command {
	a := &commands{e}
	return []*cobra.Command{a.loginCommand(), a.contextCommand(), a.tokenCommand(), a.viewerCommand()}
}

func (a *commands) loginCommand() *cobra.Command {
	var token string
	cmd := &cobra.Command{
		Use: "login CODE|ADDRESS", Short: "Store a token, and use its coordinator", Args: term.Exactly(1),
		Long: `Tries a token at a coordinator, keeps both as a context of the configuration,
and makes it the one in use. The context is called as the fleet, or as --context
says.

A login code of hostler token create holds the token, the addresses of the
coordinator and the fleet's ring, by which the coordinator is verified. Give -
to read it from standard input.

With an address, the coordinator is verified with --ca (its ca.crt), or with the ring of the fleet,
if this machine keeps it. A certificate that neither confirms is refused.

The token comes from --token-file, from HOSTLER_TOKEN, or else from a question on
the terminal or a line of standard input. With --token other users of this machine
can see it in the list of processes.`,
		Example: `  hostler login hl1_…
  hostler login https://coordinator:8443
  hostler login https://coordinator:8443 --token-file token
  hostler login https://coordinator:8443 --token-file token --ca ca.crt`,
	}
	cmd.Flags().StringVar(&token, "token", "", "the API token; ps shows it to other users of this machine")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, t, err := a.login(cmd.Context(), args[0], token)
		if err != nil {
			return err
		}
		name := cmp.Or(a.ContextName, a.Getenv("HOSTLER_CONTEXT"), t.Fleet)
		if err := conn.ContextWord(name); err != nil {
			return err
		}
		c, err := a.LoadConfig()
		if err != nil {
			return err
		}
		c.Contexts[name], c.Current = &t, name
		if err := a.SaveConfig(c); err != nil {
			return err
		}
		a.Say("Logged in to fleet %s, as context %s. It has %d host(s).", s.Fleet, name, term.Total(s.Hosts))
		return nil
	}
	return cmd
}

func (a *commands) login(ctx context.Context, to, token string) (api.Status, conn.Target, error) {
	if to == "-" {
		b, err := io.ReadAll(io.LimitReader(a.In, maxCode))
		if err != nil {
			return api.Status{}, conn.Target{}, term.Cannot("read the login code", err)
		}
		to = string(b)
	}
	if enrol.IsLoginCode(to) {
		if token != "" || a.TokenFile != "" || a.CAFile != "" {
			return api.Status{}, conn.Target{}, term.Usage("hostler login CODE", "a login code cannot be combined with --token, --token-file and --ca")
		}
		return a.loginByCode(ctx, to)
	}
	a.Address = strings.TrimSuffix(to, "/")
	if err := conn.CheckAddress(a.Address); err != nil {
		return api.Status{}, conn.Target{}, err
	}
	t, err := a.loginTarget(token)
	if err != nil {
		return api.Status{}, t, err
	}
	trusted, err := a.authorities(t)
	if err != nil {
		return api.Status{}, t, err
	}
	s, err := a.tryLogin(ctx, &t, trusted)
	return s, t, term.Cannot("log in at "+t.Address, err)
}

// maxCode bounds a login code on standard input, in bytes.
const maxCode = 16 << 10

// loginByCode logs in at the first address of a code that answers.
func (a *commands) loginByCode(ctx context.Context, text string) (api.Status, conn.Target, error) {
	code, err := enrol.ParseLoginCode(text)
	if err != nil {
		return api.Status{}, conn.Target{}, term.Usage("hostler token create NAME, for another code", "%s", err)
	}
	var problems []error
	for _, address := range code.Addresses {
		t := conn.Target{Address: "https://" + address, Token: code.Token}
		trusted, err := a.pinned(ctx, address, code.Pin)
		var s api.Status
		if err == nil {
			s, err = a.tryLogin(ctx, &t, trusted)
		}
		if err == nil {
			return s, t, nil
		}
		problems = append(problems, term.Cannot("log in at "+t.Address, err))
	}
	return api.Status{}, conn.Target{}, errors.Join(problems...)
}

// pinned fetches the rings, and returns the authorities that the newest one since that
// of the pin names. Until then the server is unknown: nothing secret is sent to it.
func (a *commands) pinned(ctx context.Context, address string, pin enrol.Pin) ([][]byte, error) {
	served, err := conn.ServedRings(ctx, "https://"+address)
	if err != nil {
		return nil, err
	}
	chain, err := certs.OpenChain(pin, served)
	if err != nil {
		return nil, fmt.Errorf("the server at %s is not the coordinator that the code names: %w", address, err)
	}
	return conn.Authorities(chain), nil
}

// loginTarget is what the command line says; an older context has no part in
// it, lest its token go to another coordinator.
func (a *commands) loginTarget(token string) (conn.Target, error) {
	t := conn.Target{Address: a.Address, Token: cmp.Or(token, a.Getenv("HOSTLER_TOKEN"))}
	if a.TokenFile != "" {
		if token != "" {
			return t, term.Usage("", "--token and --token-file cannot be combined")
		}
		var err error
		if t.Token, err = conn.ReadToken(a.TokenFile); err != nil {
			return t, err
		}
	}
	if t.Token == "" {
		line, err := a.AskHidden("Token (it is not shown): ")
		if err != nil {
			return t, err
		}
		if line == "" {
			return t, term.Usage("hostler login "+a.Address+" --token-file FILE", "no token is given")
		}
		if t.Token, err = conn.CheckToken(line, "the line"); err != nil {
			return t, err
		}
	}
	if a.CAFile != "" {
		var err error
		if t.CA, err = conn.ReadCA(a.CAFile); err != nil {
			return t, err
		}
	}
	return t, nil
}

// authorities are those that may have signed the coordinator's certificate.
func (a *commands) authorities(t conn.Target) (trusted [][]byte, err error) {
	if t.CA != "" {
		der, err := conn.DecodeCA(t.CA)
		return [][]byte{der}, term.Cannot("log in at "+t.Address, err)
	}
	known, err := a.KnownFleets()
	if err != nil {
		return nil, term.Cannot("log in at "+t.Address, err)
	}
	for _, f := range known {
		all, err := a.RingAuthorities(f)
		if err != nil {
			return nil, err
		}
		trusted = append(trusted, all...)
	}
	if len(trusted) == 0 {
		return nil, &term.Failure{
			Code: term.ExitRefused, What: "cannot verify the coordinator at " + t.Address,
			Why:  "no CA certificate is given, and no ring on this machine names a coordinator",
			Next: "add --ca FILE, with the ca.crt of the coordinator, or use a login code of hostler token create",
		}
	}
	return trusted, nil
}

// tryLogin asks the coordinator with each authority that may be trusted, and
// takes in its rings. What did work is written into t.
func (a *commands) tryLogin(ctx context.Context, t *conn.Target, trusted [][]byte) (api.Status, error) {
	var s api.Status
	var err error
	for _, ca := range trusted {
		var c *client.Client
		if c, err = client.New(client.Config{Address: t.Address, Token: t.Token, CA: ca, Asked: a.Asked("the coordinator")}); err != nil {
			return s, term.Usage("hostler login https://HOST:PORT --token-file FILE", "%s", err)
		}
		if err = c.Get(ctx, "/v1/status", nil, &s); err != nil {
			if conn.Untrusted(err) {
				continue
			}
			return s, err
		}
		f, _, err := a.FetchRings(ctx, &conn.Remote{Client: c}, s.Fleet)
		if err != nil {
			return s, err
		}
		t.CA, t.Fleet = conn.EncodeCA(ca), string(f.Name)
		return s, nil
	}
	return s, err
}

// contextInfo is a context without its secret.
type contextInfo struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	Address string `json:"address"`
	Fleet   string `json:"fleet,omitempty"`
	Token   bool   `json:"token"` // whether there is one
}

func contextNoun() show.Noun[contextInfo] {
	mark := func(b bool) string {
		if b {
			return "yes"
		}
		return ""
	}
	return show.NounOf("name", "name current address fleet token+", show.Cells[contextInfo]{
		"current": func(c contextInfo) any { return mark(c.Current) },
		"token":   func(c contextInfo) any { return mark(c.Token) },
	})
}

func (a *commands) contextCommand() *cobra.Command {
	return term.Group("context", "The coordinators that this program knows",
		a.contextListCommand(), a.contextUseCommand(), a.contextSetCommand(), a.contextRemoveCommand())
}

func (a *commands) contextListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "List the contexts", Args: term.NoArgs, Example: "  hostler context ls"}
	v := show.ListFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return show.Items(cmd.Context(), a.UI, v, contextNoun(), func(context.Context) ([]contextInfo, error) {
			c, err := a.LoadConfig()
			if err != nil {
				return nil, err
			}
			var all []contextInfo
			for _, name := range slices.Sorted(maps.Keys(c.Contexts)) {
				t := c.Contexts[name]
				all = append(all, contextInfo{Name: name, Current: name == c.Current, Address: t.Address, Fleet: t.Fleet, Token: t.Token != ""})
			}
			return all, nil
		})
	}
	return cmd
}

// changeContext changes a context that is there.
func (a *commands) changeContext(name string, change func(*conn.Config, *conn.Target)) error {
	c, err := a.LoadConfig()
	if err != nil {
		return err
	}
	t, ok := c.Contexts[name]
	if !ok {
		return &term.Failure{Code: term.ExitNotFound, What: fmt.Sprintf("there is no context %q", name), Next: "hostler context ls"}
	}
	change(c, t)
	return a.SaveConfig(c)
}

func (a *commands) contextUseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Use a context from now on", Args: term.Exactly(1),
		Example: "  hostler context use lab", ValidArgsFunction: a.CompleteContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.changeContext(args[0], func(c *conn.Config, _ *conn.Target) { c.Current = args[0] })
		},
	}
}

func (a *commands) contextSetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "set NAME", Short: "Change address, token or authority of a context", Args: term.Exactly(1),
		Long:              "Changes what --address, --token-file and --ca name, without asking the coordinator.",
		Example:           "  hostler context set lab --token-file new-token",
		ValidArgsFunction: a.CompleteContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			if a.Address == "" && a.TokenFile == "" && a.CAFile == "" {
				return term.Usage("hostler context set --help", "nothing to set: use --address, --token-file or --ca")
			}
			given := conn.Target{Address: strings.TrimSuffix(a.Address, "/")}
			if given.Address != "" {
				if err := conn.CheckAddress(given.Address); err != nil {
					return err
				}
			}
			if a.TokenFile != "" {
				var err error
				if given.Token, err = conn.ReadToken(a.TokenFile); err != nil {
					return err
				}
			}
			if a.CAFile != "" {
				var err error
				if given.CA, err = conn.ReadCA(a.CAFile); err != nil {
					return err
				}
			}
			return a.changeContext(args[0], func(_ *conn.Config, t *conn.Target) {
				t.Address, t.Token, t.CA = cmp.Or(given.Address, t.Address), cmp.Or(given.Token, t.Token), cmp.Or(given.CA, t.CA)
			})
		},
	}
}

func (a *commands) contextRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Forget a context and its token", Args: term.Exactly(1),
		Example: "  hostler context rm lab", ValidArgsFunction: a.CompleteContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.changeContext(args[0], func(c *conn.Config, _ *conn.Target) {
				delete(c.Contexts, args[0])
				if c.Current == args[0] {
					c.Current = ""
				}
			})
		},
	}
}
