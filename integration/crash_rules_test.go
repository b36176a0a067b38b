//go:build integration && hostlertest

package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// rulePoints sets rules of alerts, and kills who takes them in: in the end the host has
// the newest.
func rulePoints(t *testing.T) {
	c := newWreck(t)
	l := c.addLimb(t, "edge-01", false)
	seconds := 60
	set := func(t *testing.T) {
		t.Helper()
		seconds++
		want := api.NewAlertRule{Rules: []string{fmt.Sprintf("ram=80%%/%ds", seconds)}}
		var rule api.AlertRule
		c.insist(t, "set a rule", func(ctx context.Context) error { return c.api.Put(ctx, "/v1/alert-rules/memory", want, &rule) })
		c.insist(t, "the host has it", func(ctx context.Context) error {
			var h api.Host
			err := c.api.Get(ctx, "/v1/hosts/edge-01", nil, &h)
			if err == nil && h.AlertRules < rule.Number {
				err = fmt.Errorf("it has change %d, want %d", h.AlertRules, rule.Number)
			}
			return err
		})
	}
	mute := func(t *testing.T) {
		t.Helper()
		c.insist(t, "mute", func(ctx context.Context) error {
			return c.api.Post(ctx, "/v1/alert-mutes", nil, api.NewMute{For: "1h"}, nil)
		})
		c.insist(t, "the mute is there", func(ctx context.Context) error {
			var all []api.Mute
			err := c.api.Get(ctx, "/v1/alert-mutes", nil, &all)
			if err == nil && len(all) == 0 {
				err = errors.New("there is no mute")
			}
			return err
		})
	}
	admit := func(t *testing.T) {
		t.Helper()
		seconds++
		want := api.NewAutoRule{Selector: "site=lab", Count: seconds, TTL: "1h"}
		c.insist(t, "set a rule that approves hosts", func(ctx context.Context) error { return c.api.Put(ctx, "/v1/auto-approve-rules/lab", want, nil) })
		c.insist(t, "the rule is there", func(ctx context.Context) error {
			var all []api.AutoRule
			err := c.api.Get(ctx, "/v1/auto-approve-rules", nil, &all)
			if err == nil && (len(all) != 1 || all[0].Count != seconds) {
				err = fmt.Errorf("the rules are %+v", all)
			}
			return err
		})
	}
	// No report follows rules, so what the host acknowledges of them is freed by itself (C14).
	c.strikes(t, strike{"C25", c.head, set}, strike{"C26", c.head, set}, strike{"C14", c.head, set}, strike{"A16", l.victim, set}, strike{"C29", c.head, mute}, strike{"C30", c.head, admit})
}
