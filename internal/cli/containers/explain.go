package containers

import (
	"context"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// preview are the flags of what may happen to a host.
type preview struct {
	period term.DurationFlag
	reboot bool
}

func (p *preview) flags(cmd *cobra.Command) *show.View {
	v := show.ListFlags(cmd)
	cmd.Flags().Var(&p.period, "for", "for how long the host is cut off from now on (default for ever)")
	cmd.Flags().BoolVar(&p.reboot, "reboot", false, "the host restarts at the end of that")
	return v
}

// list asks what becomes of the containers of a host.
func (p *preview) list(ctx context.Context, r *conn.Remote, host protocol.HostID) ([]api.OfflineForecast, error) {
	q := url.Values{}
	if p.period.Value > 0 {
		q.Set("for", p.period.Value.String())
	}
	if p.reboot {
		q.Set("reboot", "true")
	}
	path := "/v1/offline-preview"
	if !r.Local {
		path = "/v1/hosts/" + url.PathEscape(string(host)) + "/offline-preview"
	}
	var all []api.OfflineForecast
	err := r.Get(ctx, path, q, &all)
	return all, err
}

func forecastNoun() show.Noun[api.OfflineForecast] {
	return show.NounOf[api.OfflineForecast]("name", "name offline then~ stops_in why~~", nil)
}

const explained = `It is decided by the same code that decides on the host when it is cut off. The
coordinator asks it about what the host has told last, the host itself (--local) about
what is there. A foreign container is left out: it is left alone.`

// ExplainHost returns hostler host explain-offline.
func ExplainHost(e *conn.Env) *cobra.Command {
	var p preview
	cmd := &cobra.Command{
		Use: "explain-offline [HOST]", Short: "Say what becomes of the containers of a host that is cut off", Args: term.AtMost(1),
		Long:    "Says which containers go on, and which stop and when, if the host hears nothing of its\ncoordinator from now on.\n\n" + explained,
		Example: "  hostler host explain-offline edge-01\n  hostler host explain-offline edge-01 --for 2h --reboot", ValidArgsFunction: e.Completing(conn.HostNames),
	}
	v := p.flags(cmd)
	cmd.RunE = e.OnRemote(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		host, err := conn.ParseOneHost(args, r.Local)
		switch {
		case err != nil:
			return err
		case host == "" && !r.Local:
			return term.Usage("hostler host ls", "HOST is missing")
		}
		return show.Items(cmd.Context(), e.UI, v, forecastNoun(), func(ctx context.Context) ([]api.OfflineForecast, error) {
			all, err := p.list(ctx, r, host)
			return all, term.Cannot("explain what becomes of the containers", err)
		})
	})
	return cmd
}

func (a *commands) ctExplainCommand() *cobra.Command {
	var p preview
	cmd := &cobra.Command{
		Use: "explain-offline HOST/NAME", Short: "Say what becomes of a container whose host is cut off", Args: term.Exactly(1),
		Long:    "Says whether the container goes on, or when it stops, if its host hears nothing of its\ncoordinator from now on.\n\n" + explained,
		Example: "  hostler ct explain-offline edge-01/web\n  hostler ct explain-offline edge-01/web --for 2h --reboot", ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	v := p.flags(cmd)
	cmd.RunE = a.OnRemote(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		name, err := conn.ParseRef(args[0], r.Local)
		if err != nil {
			return term.Usage("hostler ct ls", "%s", err)
		}
		return show.Items(cmd.Context(), a.UI, v, forecastNoun(), func(ctx context.Context) ([]api.OfflineForecast, error) {
			all, err := p.list(ctx, r, name.Host)
			all = slices.DeleteFunc(all, func(f api.OfflineForecast) bool { return f.Name != name.Name })
			if err == nil && len(all) == 0 {
				err = &term.Failure{Code: term.ExitNotFound, What: "Hostler keeps no container " + name.String(), Why: "it is not there, or it is foreign", Next: "hostler ct ls"}
			}
			return all, term.Cannot("explain what becomes of "+args[0], err)
		})
	})
	return cmd
}
