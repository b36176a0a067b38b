//go:build integration && hostlertest

package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// replacementPoints puts another machine in the place of one for each point, and kills
// the coordinator meanwhile: when the old one is shut out, when the new one has proven
// its code, and when it is let in.
func replacementPoints(t *testing.T) {
	c := newWreck(t)
	number := 0
	for _, s := range []failpoint.Step{failpoint.HostReplaced, failpoint.ProofJudged, failpoint.HostDecided} {
		for _, point := range []string{s.Before(), s.After()} {
			t.Run(point, func(t *testing.T) {
				number++
				name := fmt.Sprintf("edge-%02d", number)
				l := c.addLimb(t, name, false)
				c.end(t, l, c.runs(t, l, "0"))
				lost := c.runs(t, l, "0.3")
				l.retire(t)
				c.head.arm(t, point, 1)
				done := make(chan struct{})
				go func() { // waited for below
					defer close(done)
					c.replaced(t, name, lost)
				}()
				if c.head.hit(t, point, patience) == 0 {
					t.Errorf("nobody came to %s", point)
				}
				c.head.revive(t)
				<-done
			})
		}
	}
	c.judge(t)
}

// replaced puts another machine in the place of a host, however often that has to be
// begun again, and works with it.
func (c *wreck) replaced(t *testing.T, name string, lost protocol.ActionID) {
	t.Helper()
	c.history.Removed[protocol.HostID(name)] = true
	var r api.Replacement
	c.post(t, "/v1/hosts/"+name+"/replace", api.Replace{TTL: "1h"}, &r)
	next := c.newLimb(t, name+"-next", false)
	config := strings.Replace(read(t, next.config()), name+"-next", name, 1)
	next.host.name = name // the configuration of the old one is of no use any more
	write(t, next.config(), config)
	for !c.joins(t, next, r.Code) {
	}
	next.revive(t)
	if got := c.end(t, next, c.runs(t, next, "0")); got.State != protocol.StateDone {
		t.Errorf("the command of the new machine is %s", got)
	}
	if got := c.end(t, next, lost); got.State != protocol.StateLost && got.State != protocol.StateDone {
		t.Errorf("what the old machine had is %s", got)
	}
}
