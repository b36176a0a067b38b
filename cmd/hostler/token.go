package main

import (
	"context"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
)

func tokenNoun() noun[api.Token] {
	return noun[api.Token]{
		name: func(t api.Token) string { return t.ID },
		columns: []column[api.Token]{
			{"id", inTable, func(t api.Token) any { return t.ID }},
			{"name", inTable, func(t api.Token) any { return t.Name }},
			{"role", inTable, func(t api.Token) any { return t.Role }},
			{"token", inShow, func(t api.Token) any { return t.Secret }},
			{"created_at", inTable, func(t api.Token) any { return t.CreatedAt }},
			{"created_by", inWide, func(t api.Token) any { return t.CreatedBy }},
			{"expires_at", inTable, func(t api.Token) any { return t.ExpiresAt }},
			{"revoked_at", inTable, func(t api.Token) any { return t.RevokedAt }},
		},
	}
}

func (a *app) tokenCommand() *cobra.Command {
	return group("token", "Who may use the API", a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
}

func (a *app) tokenCreateCommand() *cobra.Command {
	var role string
	var ttl durationFlag
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make an API token; it is shown once", Args: exactly(1),
		Long:    "Makes a token for a person or a program. The roles are viewer, operator, approver and admin; each may do what the ones before it may.",
		Example: "  hostler token create alice --role operator --ttl 90d\n  hostler token create ci --role operator -o template={{.secret}}",
	}
	v := formatFlags(cmd)
	cmd.Flags().StringVar(&role, "role", "viewer", "viewer, operator, approver or admin")
	cmd.Flags().Var(&ttl, "ttl", "how long it is good (default: until it is revoked)")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"viewer", "operator", "approver", "admin"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := a.coordinator()
		if err != nil {
			return err
		}
		ask := api.NewToken{Name: args[0], Role: role}
		if ttl.d > 0 {
			ask.TTL = ttl.d.String()
		}
		return showOne(cmd.Context(), a, v, tokenNoun(), func(ctx context.Context) (t api.Token, err error) {
			err = r.Post(ctx, "/v1/tokens", nil, ask, &t)
			return t, cannot("make a token for "+args[0], err)
		})
	}
	return cmd
}

func (a *app) tokenListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "List the tokens, without their secrets", Args: noArgs, Example: "  hostler token ls"}
	v := listFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := a.coordinator()
		if err != nil {
			return err
		}
		return show(cmd.Context(), a, v, tokenNoun(), func(ctx context.Context) (all []api.Token, err error) {
			err = r.Get(ctx, "/v1/tokens", nil, &all)
			return all, cannot("list the tokens", err)
		})
	}
	return cmd
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "revoke ID", Short: "End a token and what goes on by it", Args: exactly(1), Example: "  hostler token revoke 3f0c11aa90bd --yes",
		ValidArgsFunction: a.completing(func(ctx context.Context, r *remote) ([]string, error) {
			var all []api.Token
			err := r.Get(ctx, "/v1/tokens", nil, &all)
			return names(all, tokenNoun().name), err
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.confirm(yes, "End token "+args[0]+" for ever?"); err != nil {
				return err
			}
			r, err := a.coordinator()
			if err != nil {
				return err
			}
			if err := r.Delete(cmd.Context(), "/v1/tokens/"+url.PathEscape(args[0]), nil); err != nil {
				return cannot("revoke token "+args[0], err)
			}
			a.say("Token %s is revoked.", args[0])
			return nil
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func viewerNoun() noun[api.Viewer] {
	return noun[api.Viewer]{
		name: func(v api.Viewer) string { return v.Name },
		columns: []column[api.Viewer]{
			{"name", inTable, func(v api.Viewer) any { return v.Name }},
			{"serial", inTable, func(v api.Viewer) any { return v.Serial }},
			{"created_at", inTable, func(v api.Viewer) any { return v.CreatedAt }},
			{"created_by", inWide, func(v api.Viewer) any { return v.CreatedBy }},
			{"revoked_at", inTable, func(v api.Viewer) any { return v.RevokedAt }},
			{"brokers", inShow, func(v api.Viewer) any { return v.Brokers }},
		},
	}
}

func (a *app) viewerCommand() *cobra.Command {
	return group("viewer", "Certificates that read everything on the broker and say nothing",
		a.viewerCreateCommand(), a.viewerListCommand(), a.viewerRevokeCommand())
}

func (a *app) viewerCreateCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a certificate for a program that reads the topics", Args: exactly(1),
		Long: `Makes a certificate with which any MQTT client may read all topics of the fleet
and publish none. It writes ca.crt, viewer.crt and viewer.key into --out.`,
		Example: `  hostler viewer create recorder --out viewer
  mosquitto_sub --cafile viewer/ca.crt --cert viewer/viewer.crt \
    --key viewer/viewer.key -h HOST -p 8883 -t 'hostler/v1/#' -v`,
	}
	v := formatFlags(cmd)
	cmd.Flags().StringVar(&out, "out", "", "write the files into this directory")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if out == "" {
			return usage("the same with --out DIR", "the key is shown once, and nobody would keep it: --out is missing")
		}
		r, err := a.coordinator()
		if err != nil {
			return err
		}
		return showOne(cmd.Context(), a, v, viewerNoun(), func(ctx context.Context) (made api.Viewer, err error) {
			if err = r.Post(ctx, "/v1/viewers", nil, api.NewViewer{Name: args[0]}, &made); err == nil {
				err = writeViewer(out, made)
			}
			if err == nil {
				a.say("Its ca.crt, viewer.crt and viewer.key are in %s; hostler viewer create --help shows how to use them.", out)
			}
			made.Key = "" // it is in the file, and nowhere else
			return made, cannot("make viewer "+args[0], err)
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
	}{{"ca.crt", v.CA, 0o644}, {"viewer.crt", v.Certificate, 0o644}, {"viewer.key", v.Key, 0o600}} {
		if err := replaceFile(filepath.Join(dir, f.name), []byte(f.text), f.mode); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) viewerListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "List the viewers", Args: noArgs, Example: "  hostler viewer ls"}
	v := listFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := a.coordinator()
		if err != nil {
			return err
		}
		return show(cmd.Context(), a, v, viewerNoun(), func(ctx context.Context) (all []api.Viewer, err error) {
			err = r.Get(ctx, "/v1/viewers", nil, &all)
			return all, cannot("list the viewers", err)
		})
	}
	return cmd
}

func (a *app) viewerRevokeCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "revoke NAME", Short: "End a viewer and cut its connections", Args: exactly(1), Example: "  hostler viewer revoke recorder --yes",
		ValidArgsFunction: a.completing(func(ctx context.Context, r *remote) ([]string, error) {
			var all []api.Viewer
			err := r.Get(ctx, "/v1/viewers", nil, &all)
			return names(all, viewerNoun().name), err
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.confirm(yes, "End viewer "+args[0]+"?"); err != nil {
				return err
			}
			r, err := a.coordinator()
			if err != nil {
				return err
			}
			if err := r.Delete(cmd.Context(), "/v1/viewers/"+url.PathEscape(args[0]), nil); err != nil {
				return cannot("revoke viewer "+args[0], err)
			}
			a.say("Viewer %s is revoked.", args[0])
			return nil
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}
