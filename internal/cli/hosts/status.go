package hosts

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// fleetStatus is what the coordinator counts, and the raised alerts by severity.
type fleetStatus struct {
	api.Status
	Alerts map[string]int `json:"alerts"`
}

func statusNoun() show.Noun[fleetStatus] {
	return show.NounOf("fleet", "fleet recovery recovered hosts pending containers actions alerts ring term version brokers id:fleet_id key", show.Cells[fleetStatus]{
		"recovered":  func(s fleetStatus) any { return recovered(s.Recovered) },
		"hosts":      func(s fleetStatus) any { return counts(s.Hosts) },
		"containers": func(s fleetStatus) any { return counts(s.Containers) },
		"actions":    func(s fleetStatus) any { return counts(inWords(s.Actions)) },
		"alerts":     func(s fleetStatus) any { return counts(s.Alerts) },
	})
}

// recovered writes how far a recovery is.
func recovered(r *api.Recovered) string {
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("%d of %d hosts have answered", r.Answered, r.Hosts)
	if r.LostTo > 0 {
		text += fmt.Sprintf("; records %d to %d of the audit log are missing", r.LostFrom, r.LostTo)
	}
	return text
}

// inWords names the states of open actions as their list does.
func inWords(states map[string]int) map[string]int {
	m := make(map[string]int)
	for state, n := range states {
		switch protocol.State(state) {
		case protocol.StatePendingApprove:
			state = "waiting for approval"
		case protocol.StatePendingSchedule:
			state = "being sent"
		case protocol.StateNew:
			state = "queued"
		}
		m[strings.ToLower(state)] += n
	}
	return m
}

// counts writes "12 (10 online, 2 offline)".
func counts(m map[string]int) string {
	var parts []string
	for _, word := range slices.Sorted(maps.Keys(m)) {
		if m[word] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", m[word], word))
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", term.Total(m), strings.Join(parts, ", "))
}

func agentNoun() show.Noun[api.AgentStatus] {
	return show.NounOf("host", "host connection degraded fleet ring term containers broken waiting running unsent policy version starts+ id:fleet_id+", show.Cells[api.AgentStatus]{
		"policy": func(s api.AgentStatus) any { return policyWord(s.Policy) },
	})
}

// policyWord says where the policy in force comes from, and what is wrong with it.
func policyWord(p api.Policy) string {
	text := p.Source
	if p.Number > 0 {
		text += fmt.Sprintf(" %d", p.Number)
	}
	if p.Broken != "" {
		text += ", broken: " + p.Broken
	}
	return text
}

func (a *commands) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "The fleet, or with --local this host, on one screen", Args: term.NoArgs,
		Long: `Shows how many hosts, containers, open actions and alerts there are, and what waits for
a person. PENDING counts hosts that wait for approval. On a host, with --local, it shows the state of the agent: its connection, its
containers, and how many actions wait or run.`,
		Example: "  hostler status\n  hostler status --watch\n  hostler --local status",
	}
	v := show.ShowFlags(cmd)
	cmd.RunE = a.OnRemote(func(cmd *cobra.Command, _ []string, r *conn.Remote) error {
		if r.Local {
			return show.Item(cmd.Context(), a.UI, v, agentNoun(), func(ctx context.Context) (s api.AgentStatus, err error) {
				err = r.Get(ctx, "/status", nil, &s)
				return s, term.Cannot("show the status", err)
			})
		}
		return show.Item(cmd.Context(), a.UI, v, statusNoun(), func(ctx context.Context) (fleetStatus, error) {
			s, err := readStatus(ctx, r)
			if err == nil && !v.Watch {
				a.sayNeeds(s)
			}
			return s, term.Cannot("show the status", err)
		})
	})
	return cmd
}

// readStatus reads what the coordinator counts, and counts the alerts.
func readStatus(ctx context.Context, r *conn.Remote) (s fleetStatus, err error) {
	if err = r.Get(ctx, "/v1/status", nil, &s.Status); err != nil {
		return s, err
	}
	raised, err := r.Alerts(ctx, nil)
	s.Alerts = make(map[string]int)
	for _, a := range raised {
		s.Alerts[a.Severity]++
	}
	return s, err
}

// sayNeeds names what a person has to look at, each with the command that shows it.
func (a *commands) sayNeeds(s fleetStatus) {
	if s.Pending > 0 {
		a.Say("%d host(s) wait for approval: hostler host pending", s.Pending)
	}
	if n := s.Actions[string(protocol.StatePendingApprove)]; n > 0 {
		a.Say("%d action(s) wait for approval: hostler action ls --pending", n)
	}
	if n := term.Total(s.Alerts); n > 0 {
		a.Say("%d alert(s) are raised: hostler alert ls", n)
	}
}
