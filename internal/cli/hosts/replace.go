package hosts

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
)

func (a *commands) hostReplaceCommand() *cobra.Command {
	ttl := term.DurationFlag{}
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use: "replace HOST", Short: "Replace a lost machine by another", Args: term.Exactly(1),
		Long: `For a host whose machine is lost, or was installed anew: revokes that machine for
good, and prints the command to run on its replacement, which then waits until it is
approved. It keeps the name and the labels. Actions of the lost machine that have
not ended are LOST (host_replaced) and are not done again by themselves; see hostler
action show. Whether its containers still run is unknown, and they are not started
elsewhere. Make sure that it is off.

Run again before a machine was admitted, it prints a new code and ends the old one.`,
		Example:           "  hostler host replace edge-01 --reason \"disk died\"\n  hostler host replace edge-01 --ttl 8h --yes",
		ValidArgsFunction: a.Completing(conn.HostNames),
	}
	v := show.FormatFlags(cmd)
	cmd.Flags().Var(&ttl, "ttl", "how long the code is valid (default 1h)")
	cmd.Flags().StringVar(&reason, "reason", "", "reason, for the audit log and the lost machine")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := conn.ParseHost(args[0])
		if err != nil {
			return term.Usage("hostler host ls", "%s", err)
		}
		if err := a.Confirm(yes, "Shut the machine of host "+args[0]+" out for good, and give up its open actions?"); err != nil {
			return err
		}
		r, err := a.Coordinator()
		if err != nil {
			return err
		}
		ask := api.Replace{TTL: "1h", Reason: reason}
		if ttl.Value > 0 {
			ask.TTL = ttl.Value.String()
		}
		var done api.Replacement
		if err := r.Post(cmd.Context(), "/v1/hosts/"+url.PathEscape(string(id))+"/replace", nil, ask, &done); err != nil {
			return term.Cannot("replace host "+args[0], err)
		}
		if v.Format.Word != "table" && v.Format.Word != "wide" {
			return show.Print(a.UI, v, replacementNoun(), []api.Replacement{done})
		}
		fmt.Fprintf(a.Out, "hostler-agent join --host %s %s\n", done.Host, term.Printable(done.Code))
		a.tellReplaced(done)
		return nil
	}
	return cmd
}

// tellReplaced says what became of a machine that was shut out, and what is unknown.
func (a *commands) tellReplaced(r api.Replacement) {
	a.Say("The machine of host %s is revoked. Run that on its replacement, as root. It is valid for %s. Then: hostler host pending",
		r.Host, term.Roughly(r.ExpiresAt.Sub(a.Now()).Round(time.Minute)))
	if r.Unknown > 0 {
		a.Say("%d action(s) are LOST; they may have run, or still run, on the lost machine: hostler action ls %s", r.Unknown, r.Host)
	}
	if n := r.Unsent + r.Unapproved; n > 0 {
		a.Say("%d action(s) had not been sent, and will not be: request them again when the new machine is there.", n)
	}
	if len(r.Containers) > 0 {
		a.Say("Containers in its last report: %s. Whether they still run is unknown.", term.Printable(strings.Join(r.Containers, " ")))
	}
	a.Say("Make sure that the lost machine is off: its programs keep running.")
}

func replacementNoun() show.Noun[api.Replacement] {
	return show.NounOf[api.Replacement]("host", "host code labels expires_at unsent unknown unapproved containers", nil)
}
