//go:build integration && hostlertest

package integration

import (
	"fmt"
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

// workloadPoints creates unique containers and removes them, and kills the coordinator
// where it stores which host holds one.
func workloadPoints(t *testing.T) {
	c := newWreck(t)
	write(t, c.path("coordinator.toml"), read(t, c.path("coordinator.toml"))+"[lease]\nmin_self_fence = \"guard\"\nttl_seconds = 10\nkill_seconds = 2\nmargin_seconds = 1\n")
	c.head.restart(t)
	l := c.newLimb(t, "edge-01", true)
	write(t, l.config(), read(t, l.config())+"[unique]\nguard = true\npausable = \"no\"\n")
	p, words := l.join(t, c.invite(t))
	c.must(t, "host", "approve", "edge-01", "--words", words)
	p.finish(t).exits(t, 0)
	l.revive(t)
	number := 0
	cycle := func(t *testing.T) {
		number++
		id, name := newCTID(), protocol.ContainerName(fmt.Sprintf("u%d", number))
		for _, s := range []protocol.Spec{
			{Kind: protocol.KindCreate, Target: id, Name: name, Args: &protocol.CreateArgs{Template: "busybox", Class: "unique", Data: "none"}},
			{Kind: protocol.KindDestroy, Target: id, Name: name},
		} {
			if got := c.end(t, l, c.step(t, l, s)); got.State != protocol.StateDone {
				t.Errorf("%s of %s is %s", s.Kind, name, got)
			}
		}
	}
	c.strikes(t, strike{"C45", c.head, cycle})
}
