package access

import (
	"context"
	"encoding/base32"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
)

func tokenNoun() show.Noun[api.Token] {
	return show.NounOf[api.Token]("id", "id name person role token:secret++ login++ created_at created_by+ expires_at revoked_at", nil)
}

func (a *commands) tokenCommand() *cobra.Command {
	return term.Group("token", "Who may use the API", a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
}

// roles are those of tokens, the least first.
var roles = []string{"viewer", "operator", "approver", "admin"}

func (a *commands) tokenCreateCommand() *cobra.Command {
	var role, person string
	var ttl term.DurationFlag
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make an API token; it is shown once", Args: term.Exactly(1),
		Long: `Makes a token for a person or a program. The roles are viewer, operator, approver
and admin; each may do what the ones before it may. A program uses the token.
A person types hostler login with the login code, which holds the token: keep
both secret. A name has one token that is valid: revoke it to make another, and
choose a name for each person and each program.

With four_eyes, a person cannot approve their own request: --person binds the
token to a person of the ring, and what needs approvals is refused to other tokens.`,
		Example: "  hostler token create alice --role operator --ttl 90d\n  hostler token create alice-laptop --role operator --person alice\n  hostler token create ci --role operator -o template={{.secret}}",
	}
	v := show.FormatFlags(cmd)
	cmd.Flags().StringVar(&role, "role", "viewer", "viewer, operator, approver or admin")
	cmd.Flags().StringVar(&person, "person", "", "the person of the ring who uses it")
	cmd.Flags().Var(&ttl, "ttl", "how long it is valid (default: until it is revoked)")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(roles, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		if !slices.Contains(roles, role) {
			return term.Usage("hostler token create --help", "%q is not a role: use viewer, operator, approver or admin", role)
		}
		ask := api.NewToken{Name: args[0], Person: person, Role: role, Secret: a.tokenSecret()}
		if ttl.Value > 0 {
			ask.TTL = ttl.Value.String()
		}
		return show.Item(cmd.Context(), a.UI, v, tokenNoun(), func(ctx context.Context) (t api.Token, err error) {
			err = r.Post(ctx, "/v1/tokens", nil, ask, &t)
			return t, term.Cannot("make a token for "+args[0], err)
		})
	})
	return cmd
}

// tokenSecret makes the secret up here, so that asking once more makes no second token.
func (a *commands) tokenSecret() string {
	var raw [20]byte
	a.Random(raw[:])
	return "hst_" + base32.StdEncoding.EncodeToString(raw[:])
}

func (a *commands) tokenListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "List the tokens, without their secrets", Args: term.NoArgs, Example: "  hostler token ls"}
	v := show.ListFlags(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, _ []string, r *conn.Remote) error {
		return show.Items(cmd.Context(), a.UI, v, tokenNoun(), func(ctx context.Context) ([]api.Token, error) {
			all, err := tokens(ctx, r)
			return all, term.Cannot("list the tokens", err)
		})
	})
	return cmd
}

func (a *commands) tokenRevokeCommand() *cobra.Command {
	var yes, dryRun bool
	var v *show.View
	cmd := &cobra.Command{
		Use: "revoke NAME|ID", Short: "Revoke a token and end its requests", Args: term.Exactly(1), Example: "  hostler token revoke ci --yes\n  hostler token revoke 3f0c11aa90bd --yes",
		Long: "Revokes the token of a name. If several tokens of the name are valid, name the one to revoke by its id.",
		ValidArgsFunction: a.Completing(func(ctx context.Context, r *conn.Remote) ([]string, error) {
			all, err := tokens(ctx, r)
			return slices.Concat(conn.Each(all, func(t api.Token) string { return t.Name }), conn.Each(all, tokenNoun().Name)), err
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.Coordinator()
			if err != nil {
				return err
			}
			all, err := tokens(cmd.Context(), r)
			if err != nil {
				return term.Cannot("revoke token "+args[0], err)
			}
			t, err := validToken(all, args[0])
			if err != nil {
				return err
			}
			if dryRun {
				return show.Print(a.UI, v, tokenNoun(), []api.Token{t})
			}
			if err := a.Confirm(yes, fmt.Sprintf("End token %s (%s, %s) for good?", t.ID, t.Name, t.Role)); err != nil {
				return err
			}
			if err := r.Delete(cmd.Context(), "/v1/tokens/"+url.PathEscape(t.ID), nil); err != nil {
				return term.Cannot("revoke token "+args[0], err)
			}
			a.Say("Token %s (%s) is revoked.", t.ID, t.Name)
			return nil
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show the token that would be revoked, and revoke nothing")
	v = show.FormatFlags(cmd)
	return cmd
}

func tokens(ctx context.Context, r *conn.Remote) (all []api.Token, err error) {
	err = r.Get(ctx, "/v1/tokens", nil, &all)
	return all, err
}

// validToken finds a token by its id, or the one valid token of a name.
func validToken(all []api.Token, name string) (api.Token, error) {
	var found []api.Token
	for _, t := range all {
		if t.ID == name {
			return t, nil
		}
		if t.Name == name && t.RevokedAt == nil {
			found = append(found, t)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return api.Token{}, &term.Failure{Code: term.ExitNotFound, What: "cannot revoke token " + name, Why: "no valid token has this name or id", Next: "hostler token ls"}
	}
	return api.Token{}, &term.Failure{Code: term.ExitUsage, What: "cannot revoke token " + name,
		Why: fmt.Sprintf("%d valid tokens have this name: name one by its id, such as %s", len(found), found[0].ID), Next: "hostler token ls"}
}

func viewerNoun() show.Noun[api.Viewer] {
	return show.NounOf[api.Viewer]("name", "name serial created_at created_by+ revoked_at brokers++", nil)
}

func (a *commands) viewerCommand() *cobra.Command {
	return term.Group("viewer", "Certificates with which programs read all topics of the broker",
		a.viewerCreateCommand(), a.viewerListCommand(), a.viewerRevokeCommand())
}

func (a *commands) viewerCreateCommand() *cobra.Command {
	var out string
	var keep bool
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a certificate for a program that reads the topics", Args: term.Exactly(1),
		Long: `Makes a certificate with which any MQTT client may read all topics of the fleet
and publish none. It writes ca.crt, viewer.crt and viewer.key into --out, and
brokers, the addresses of the brokers. With --keep it writes them to where hostler
watch looks for them.`,
		Example: `  hostler viewer create recorder --out viewer
  mosquitto_sub --cafile viewer/ca.crt --cert viewer/viewer.crt \
    --key viewer/viewer.key -h HOST -p 8883 -t 'hostler/v1/#' -v
  hostler viewer create my-screen --keep; hostler watch 'host/+/alert'`,
	}
	v := show.FormatFlags(cmd)
	cmd.Flags().StringVar(&out, "out", "", "write the files into this directory")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the files on this machine, for hostler watch")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (out == "") == !keep {
			return term.Usage("add --out DIR or --keep", "one of --out and --keep is wanted: the key is given out only once")
		}
		r, err := a.Coordinator()
		if err != nil {
			return err
		}
		if keep {
			files, _, err := a.ChooseFleet("")
			if err != nil {
				return err
			}
			out = files.Viewer()
		}
		return show.Item(cmd.Context(), a.UI, v, viewerNoun(), func(ctx context.Context) (made api.Viewer, err error) {
			if err = r.Post(ctx, "/v1/viewers", nil, api.NewViewer{Name: args[0]}, &made); err == nil {
				if err = writeViewer(out, made); err != nil { // its key is lost, and its name is taken
					err = errors.Join(err, r.Delete(context.WithoutCancel(ctx), "/v1/viewers/"+url.PathEscape(args[0]), nil))
				}
			}
			if err == nil {
				a.Say("Its ca.crt, viewer.crt and viewer.key are in %s; hostler viewer create --help shows how to use them.", out)
			}
			made.Key = "" // it is in the file, and nowhere else
			return made, term.Cannot("make viewer "+args[0], err)
		})
	}
	return cmd
}

func writeViewer(dir string, v api.Viewer) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, f := range []struct {
		name, text string
		mode       os.FileMode
	}{{"ca.crt", v.CA, 0o644}, {"viewer.crt", v.Certificate, 0o644}, {"viewer.key", v.Key, 0o600}, {"brokers", strings.Join(v.Brokers, "\n") + "\n", 0o644}} {
		if err := conn.ReplaceFile(filepath.Join(dir, f.name), []byte(f.text), f.mode); err != nil {
			return err
		}
	}
	return nil
}

func (a *commands) viewerListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "List the viewers", Args: term.NoArgs, Example: "  hostler viewer ls"}
	v := show.ListFlags(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, _ []string, r *conn.Remote) error {
		return show.Items(cmd.Context(), a.UI, v, viewerNoun(), func(ctx context.Context) (all []api.Viewer, err error) {
			err = r.Get(ctx, "/v1/viewers", nil, &all)
			return all, term.Cannot("list the viewers", err)
		})
	})
	return cmd
}

func (a *commands) viewerRevokeCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "revoke NAME", Short: "End a viewer and cut its connections", Args: term.Exactly(1), Example: "  hostler viewer revoke recorder --yes",
		ValidArgsFunction: a.Completing(func(ctx context.Context, r *conn.Remote) ([]string, error) {
			var all []api.Viewer
			err := r.Get(ctx, "/v1/viewers", nil, &all)
			return conn.Each(all, viewerNoun().Name), err
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.Confirm(yes, "End viewer "+args[0]+"?"); err != nil {
				return err
			}
			r, err := a.Coordinator()
			if err != nil {
				return err
			}
			if err := r.Delete(cmd.Context(), "/v1/viewers/"+url.PathEscape(args[0]), nil); err != nil {
				return term.Missing(term.Cannot("revoke viewer "+args[0], err), "hostler viewer ls")
			}
			a.Say("Viewer %s is revoked.", args[0])
			return nil
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}
