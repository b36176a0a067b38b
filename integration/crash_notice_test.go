//go:build integration && hostlertest

package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// noticePoints has an alert raised and cleared in turns, and kills who is to tell of it: in
// the end everything was told.
func noticePoints(t *testing.T) {
	c := newWreck(t)
	told := c.path("told")
	write(t, told, "")
	write(t, c.path("coordinator.toml"), read(t, c.path("coordinator.toml"))+
		"[notify]\nwait_seconds = 1\ncommand = [\"/bin/sh\", \"-c\", \"cat >>'"+told+"'\"]\n")
	c.head.restart(t)
	c.addLimb(t, "edge-01", false)
	raised := false
	turn := func(t *testing.T) {
		t.Helper()
		raised = !raised
		c.insist(t, "change the rule", func(ctx context.Context) error {
			if raised {
				return c.api.Put(ctx, "/v1/alert-rules/tasks", api.NewAlertRule{Rules: []string{"tasks=1/15s"}}, nil)
			}
			err := c.api.Delete(ctx, "/v1/alert-rules/tasks", nil)
			if p, ok := errors.AsType[*api.Problem](err); ok && p.Status == http.StatusNotFound {
				return nil // an earlier try has done it
			}
			return err
		})
		c.insist(t, "somebody is told", func(context.Context) error {
			b, err := os.ReadFile(told)
			// What was told before may come once more: the newest of all counts.
			lines := strings.Split(strings.TrimSpace(string(b)), "\n")
			if err == nil && strings.Contains(lines[len(lines)-1], `"raised":[{"host":"edge-01","id":"measured.tasks.warning`) != raised {
				err = fmt.Errorf("told is %s", b)
			}
			return err
		})
	}
	c.strikes(t, strike{"C27", c.head, turn}, strike{"C28", c.head, turn})
}
