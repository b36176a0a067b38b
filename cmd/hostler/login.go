package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
)

func (a *app) loginCommand() *cobra.Command {
	var token string
	cmd := &cobra.Command{
		Use: "login ADDRESS", Short: "Keep a token, and use a coordinator from now on", Args: exactly(1),
		Long: `Tries a token at a coordinator, keeps both as a context of the configuration,
and makes it the one in use. The context is called as the fleet, or as --context
says.

Whom to trust: the authority of --ca (the coordinator's ca.crt), else those that
the fleet's ring names, if this machine keeps the ring. Nothing is trusted that
merely answers.

A token on the command line can be seen by other users of this machine; in a
file, or in HOSTLER_TOKEN, it cannot.`,
		Example: `  hostler login https://coordinator:8443 --token-file token
  hostler login https://coordinator:8443 --token-file token --ca ca.crt`,
	}
	cmd.Flags().StringVar(&token, "token", "", "the API token")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.address = strings.TrimSuffix(args[0], "/")
		t, err := a.loginTarget(token)
		if err != nil {
			return err
		}
		s, err := a.tryLogin(cmd.Context(), &t)
		if err != nil {
			return cannot("log in at "+t.Address, err)
		}
		name := cmp.Or(a.contextName, a.env("HOSTLER_CONTEXT"), t.Fleet)
		if err := contextWord(name); err != nil {
			return err
		}
		c, err := a.loadConfig()
		if err != nil {
			return err
		}
		c.Contexts[name], c.Current = &t, name
		if err := a.saveConfig(c); err != nil {
			return err
		}
		a.say("Logged in to fleet %s, as context %s. It has %d host(s).", s.Fleet, name, total(s.Hosts))
		return nil
	}
	return cmd
}

// loginTarget is what the command line says; an older context has no part in
// it, lest its token go to another coordinator.
func (a *app) loginTarget(token string) (target, error) {
	t := target{Address: a.address, Token: cmp.Or(token, a.env("HOSTLER_TOKEN"))}
	if a.tokenFile != "" {
		if token != "" {
			return t, usage("", "there are two tokens: --token and --token-file")
		}
		var err error
		if t.Token, err = readToken(a.tokenFile); err != nil {
			return t, err
		}
	}
	if t.Token == "" {
		return t, usage("hostler login "+a.address+" --token-file FILE", "there is no token to log in with")
	}
	if a.caFile != "" {
		b, err := readSmall(a.caFile)
		if err != nil {
			return t, cannot("read the certificate", err)
		}
		t.CA = string(b)
	}
	return t, nil
}

// tryLogin asks the coordinator with each authority that may be trusted, and
// takes in its rings. What did work is written into t.
func (a *app) tryLogin(ctx context.Context, t *target) (api.Status, error) {
	var trusted [][]byte
	if t.CA != "" {
		der, err := decodeCA(t.CA)
		if err != nil {
			return api.Status{}, err
		}
		trusted = [][]byte{der}
	} else {
		known, err := a.knownFleets()
		if err != nil {
			return api.Status{}, err
		}
		for _, f := range known {
			all, err := a.ringAuthorities(f)
			if err != nil {
				return api.Status{}, err
			}
			trusted = append(trusted, all...)
		}
	}
	if len(trusted) == 0 {
		return api.Status{}, &failure{
			code: exitRefused, what: "cannot tell whom to trust at " + t.Address,
			why:  "no authority is given, and no ring of this machine names a coordinator",
			next: "the same with --ca FILE, the ca.crt of the coordinator",
		}
	}
	var s api.Status
	var err error
	for _, ca := range trusted {
		var c *client.Client
		if c, err = client.New(client.Config{Address: t.Address, Token: t.Token, CA: ca}); err != nil {
			return s, usage("hostler login https://HOST:PORT --token-file FILE", "%s", err)
		}
		if err = c.Get(ctx, "/v1/status", nil, &s); err != nil {
			if untrusted(err) {
				continue
			}
			return s, err
		}
		f, _, err := a.fetchRings(ctx, &remote{Client: c}, s.Fleet)
		if err != nil {
			return s, err
		}
		t.CA, t.Fleet = encodeCA(ca), string(f.name)
		return s, nil
	}
	return s, err
}

func total(m map[string]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}

// contextInfo is a context without its secret.
type contextInfo struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	Address string `json:"address"`
	Fleet   string `json:"fleet,omitempty"`
	Token   bool   `json:"token"` // whether there is one
}

func contextNoun() noun[contextInfo] {
	mark := func(b bool) string {
		if b {
			return "yes"
		}
		return ""
	}
	return noun[contextInfo]{
		name: func(c contextInfo) string { return c.Name },
		columns: []column[contextInfo]{
			{"name", inTable, func(c contextInfo) any { return c.Name }},
			{"current", inTable, func(c contextInfo) any { return mark(c.Current) }},
			{"address", inTable, func(c contextInfo) any { return c.Address }},
			{"fleet", inTable, func(c contextInfo) any { return c.Fleet }},
			{"token", inWide, func(c contextInfo) any { return mark(c.Token) }},
		},
	}
}

func (a *app) contextCommand() *cobra.Command {
	return group("context", "The coordinators that this program knows",
		a.contextListCommand(), a.contextUseCommand(), a.contextSetCommand(), a.contextRemoveCommand())
}

func (a *app) contextListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "List the contexts", Args: noArgs, Example: "  hostler context ls"}
	v := formatFlags(cmd)
	v.one = false
	cmd.RunE = func(*cobra.Command, []string) error {
		c, err := a.loadConfig()
		if err != nil {
			return err
		}
		var all []contextInfo
		for _, name := range slices.Sorted(maps.Keys(c.Contexts)) {
			t := c.Contexts[name]
			all = append(all, contextInfo{Name: name, Current: name == c.Current, Address: t.Address, Fleet: t.Fleet, Token: t.Token != ""})
		}
		return printAll(a, v, contextNoun(), all)
	}
	return cmd
}

func (a *app) completeContexts(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := a.loadConfig()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(c.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// changeContext changes a context that is there.
func (a *app) changeContext(name string, change func(*config, *target)) error {
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	t, ok := c.Contexts[name]
	if !ok {
		return &failure{code: exitNotFound, what: fmt.Sprintf("there is no context %q", name), next: "hostler context ls"}
	}
	change(c, t)
	return a.saveConfig(c)
}

func (a *app) contextUseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Use a context from now on", Args: exactly(1),
		Example: "  hostler context use lab", ValidArgsFunction: a.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.changeContext(args[0], func(c *config, _ *target) { c.Current = args[0] })
		},
	}
}

func (a *app) contextSetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "set NAME", Short: "Change address, token or authority of a context", Args: exactly(1),
		Long:              "Changes what --address, --token-file and --ca name, without asking the coordinator.",
		Example:           "  hostler context set lab --token-file new-token",
		ValidArgsFunction: a.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			if a.address == "" && a.tokenFile == "" && a.caFile == "" {
				return usage("hostler context set --help", "there is nothing to set: want --address, --token-file or --ca")
			}
			given := target{Address: a.address}
			if a.tokenFile != "" {
				var err error
				if given.Token, err = readToken(a.tokenFile); err != nil {
					return err
				}
			}
			if a.caFile != "" {
				b, err := readSmall(a.caFile)
				if err != nil {
					return cannot("read the certificate", err)
				}
				if _, err := decodeCA(string(b)); err != nil {
					return err
				}
				given.CA = string(b)
			}
			return a.changeContext(args[0], func(_ *config, t *target) {
				t.Address, t.Token, t.CA = cmp.Or(given.Address, t.Address), cmp.Or(given.Token, t.Token), cmp.Or(given.CA, t.CA)
			})
		},
	}
}

func (a *app) contextRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Forget a context and its token", Args: exactly(1),
		Example: "  hostler context rm lab", ValidArgsFunction: a.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.changeContext(args[0], func(c *config, _ *target) {
				delete(c.Contexts, args[0])
				if c.Current == args[0] {
					c.Current = ""
				}
			})
		},
	}
}
