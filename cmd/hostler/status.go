package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

func statusNoun() noun[api.Status] {
	return noun[api.Status]{
		name: func(s api.Status) string { return s.Fleet },
		columns: []column[api.Status]{
			{"fleet", inTable, func(s api.Status) any { return s.Fleet }},
			{"recovery", inTable, func(s api.Status) any { return s.Recovery }},
			{"recovered", inTable, func(s api.Status) any { return recovered(s.Recovered) }},
			{"hosts", inTable, func(s api.Status) any { return counts(s.Hosts) }},
			{"pending", inTable, func(s api.Status) any { return s.Pending }},
			{"containers", inTable, func(s api.Status) any { return counts(s.Containers) }},
			{"actions", inTable, func(s api.Status) any { return counts(inWords(s.Actions)) }},
			{"ring", inTable, func(s api.Status) any { return s.Ring }},
			{"term", inTable, func(s api.Status) any { return s.Term }},
			{"version", inTable, func(s api.Status) any { return s.Version }},
			{"brokers", inTable, func(s api.Status) any { return s.Brokers }},
			{"id", inTable, func(s api.Status) any { return s.FleetID }},
		},
	}
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
			state = "undelivered"
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
	return fmt.Sprintf("%d (%s)", total(m), strings.Join(parts, ", "))
}

func (a *app) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "The fleet on one screen", Args: noArgs,
		Long:    "Shows how many hosts, containers and open actions there are, and what waits for a person.",
		Example: "  hostler status\n  hostler status --watch",
	}
	v := showFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := a.coordinator()
		if err != nil {
			return err
		}
		err = showOne(cmd.Context(), a, v, statusNoun(), func(ctx context.Context) (s api.Status, err error) {
			err = r.Get(ctx, "/v1/status", nil, &s)
			if err == nil && s.Pending > 0 && !v.watch {
				a.say("%d host(s) wait for approval: hostler host pending", s.Pending)
			}
			if n := s.Actions[string(protocol.StatePendingApprove)]; err == nil && n > 0 && !v.watch {
				a.say("%d action(s) wait for approval: hostler action ls --pending", n)
			}
			return s, cannot("show the status", err)
		})
		return err
	}
	return cmd
}
