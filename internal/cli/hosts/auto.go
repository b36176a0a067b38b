package hosts

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
)

const autoPath = "/v1/auto-approve-rules"

func autoNoun() show.Noun[api.AutoRule] {
	return show.NounOf("name", "name state selector subnets~ approved expires_at set_by+ set_at+", show.Cells[api.AutoRule]{
		"approved": func(r api.AutoRule) any { return fmt.Sprintf("%d/%d", r.Approved, r.Count) },
	})
}

func (a *commands) autoApproveCommand() *cobra.Command {
	return term.Group("auto-approve", "Rules that approve hosts without a person",
		a.autoSetCommand(), a.autoListCommand(), a.autoRemoveCommand())
}

func (a *commands) autoSetCommand() *cobra.Command {
	var labels conn.Selector
	var life term.DurationFlag
	var ask api.NewAutoRule
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Have hosts approved without a person, for a time", Args: term.Exactly(1),
		Long: `Has hosts approved as soon as they have proven their join code. A rule selects by the
labels of the invite (hostler host invite --label), which people have given; what a host
says of itself decides nothing. It ends after --ttl, or when it has approved --count
hosts. The four words are not compared then: what proves the host is the code alone, so
any machine that has such a code is a member. A host that waits already is approved when it asks
again, unless its code has ended. A machine that takes the name of another one, by
hostler host replace, always waits for a person.

--from is about the address from which the host reaches the coordinator. Behind a proxy
or NAT that is the address of the proxy.

host show, the audit log and the events name the rule as rule:NAME. Setting a rule again
replaces it, and counts anew. Only an admin may do so.`,
		Example: "  hostler host auto-approve set lab -l site=lab --count 20 --ttl 8h\n" +
			"  hostler host auto-approve set x -l rack=7 --count 9 --ttl 1d --from 10.0.0.0/8",
	}
	v := show.FormatFlags(cmd)
	cmd.Flags().VarP(&labels, "selector", "l", "the labels that the invite must have; at least one must be there")
	cmd.Flags().StringArrayVar(&ask.Subnets, "from", nil, "network that the host must ask from, as 10.1.0.0/16; may be repeated (default any)")
	cmd.Flags().IntVar(&ask.Count, "count", 0, "how many hosts it may approve, 1 to 10000")
	cmd.Flags().Var(&life, "ttl", "for how long it approves hosts, at most 90d")
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		const example = "hostler host auto-approve set lab -l site=lab --count 20 --ttl 8h"
		switch {
		case labels.String() == "":
			return term.Usage(example, "say with -l which labels the invite of a host must have")
		case ask.Count == 0:
			return term.Usage(example, "say with --count how many hosts the rule may approve")
		case life.Value <= 0:
			return term.Usage(example, "say with --ttl for how long the rule approves hosts")
		}
		ask.Selector, ask.TTL = labels.String(), life.Value.String()
		return show.Item(cmd.Context(), a.UI, v, autoNoun(), func(ctx context.Context) (set api.AutoRule, err error) {
			err = r.Put(ctx, autoPath+"/"+url.PathEscape(args[0]), ask, &set)
			return set, term.Cannot("set rule "+args[0], err)
		})
	})
	return cmd
}

func (a *commands) autoListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls", Short: "List the rules that approve hosts", Args: term.NoArgs,
		Long:    "Lists the rules that approve hosts without a person, also those that have ended. APPROVED is how many hosts each has approved, and how many it may.",
		Example: "  hostler host auto-approve ls",
	}
	v := show.ListFlags(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, _ []string, r *conn.Remote) error {
		return show.Items(cmd.Context(), a.UI, v, autoNoun(), func(ctx context.Context) ([]api.AutoRule, error) {
			all, err := autoRules(ctx, r)
			return all, term.Cannot("list the rules that approve hosts", err)
		})
	})
	return cmd
}

func autoRules(ctx context.Context, r *conn.Remote) (all []api.AutoRule, err error) {
	err = r.Get(ctx, autoPath, nil, &all)
	return all, err
}

func (a *commands) autoRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Remove a rule that approves hosts; its hosts stay members", Args: term.Exactly(1), Example: "  hostler host auto-approve rm lab",
		ValidArgsFunction: a.Completing(func(ctx context.Context, r *conn.Remote) ([]string, error) {
			all, err := autoRules(ctx, r)
			return conn.Each(all, autoNoun().Name), err
		}),
		RunE: a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
			if err := r.Delete(cmd.Context(), autoPath+"/"+url.PathEscape(args[0]), nil); err != nil {
				return term.Missing(term.Cannot("remove rule "+args[0], err), "hostler host auto-approve ls")
			}
			a.Say("Rule %s is removed: it approves no host any more.", args[0])
			return nil
		}),
	}
}
