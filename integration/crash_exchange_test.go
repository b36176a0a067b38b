//go:build integration && hostlertest

package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/podmantest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/data"
	"github.com/hostler-io/hostler/protocol/setting"
)

// exchangePoints are those of the upgrades of containers.
func exchangePoints(t *testing.T) {
	c := newWreck(t)
	l := c.addLimb(t, "edge-01", true)
	c.exchanges(t, l, "busybox", "A7", "S57", "S58", "S59")
}

// podmanExchangePoints are those of podman, of which the agent takes each.
func podmanExchangePoints(t *testing.T) {
	c := newWreck(t)
	s := podmantest.Start(t)
	l := c.addLimb(t, "edge-01", true, "[podman]\nuse = \"on\"\nsocket = \""+s.Socket+"\"\n")
	c.exchanges(t, l, podmantest.Image, "A7", "S57", "S58", "S59", "S60")
}

// exchanges kills at each step while containers get another image, and while they get their
// old one back.
func (c *wreck) exchanges(t *testing.T, l *limb, template string, steps ...failpoint.Step) {
	t.Helper()
	number := 0
	pass := func(t *testing.T) {
		number++
		c.exchanged(t, l, template, fmt.Sprintf("%s-u%d", filepath.Base(c.dir), number))
	}
	var strikes []strike
	for _, s := range steps {
		strikes = append(strikes, strike{s, l.victim, pass})
	}
	for _, s := range steps {
		if s != failpoint.FilesExchanged && s != failpoint.FilesWithdrawn {
			continue
		}
		for _, point := range []string{s.Before(), s.After()} {
			t.Run(point+", on the way back", func(t *testing.T) {
				c.strike(t, l.victim, point, 2, func() { pass(t) })
			})
		}
	}
	c.strikes(t, strikes...)
}

// exchanged upgrades a container to an image with which it is healthy, and to one with which
// it is not. An upgrade that was cut short is taken back or ended, and either can be done again.
func (c *wreck) exchanged(t *testing.T, l *limb, template, name string) {
	t.Helper()
	id := newCTID()
	does := func(s protocol.Spec, ends ...protocol.State) protocol.State {
		t.Helper()
		s.Target = id
		got := c.end(t, l, c.step(t, l, s))
		for _, want := range ends {
			if got.State == want {
				return got.State
			}
		}
		t.Errorf("%s of %s is %s, want %v", s.Kind, name, got, ends)
		return got.State
	}
	run := func(argv ...string) {
		t.Helper()
		does(protocol.Spec{Kind: protocol.KindExec, Args: protocol.Command(argv...)}, protocol.StateDone)
	}
	image := func(tag string) string {
		t.Helper()
		img := data.NewImage{Image: strings.ToLower(name) + ":" + tag}
		does(protocol.Spec{Kind: protocol.KindPromote, Args: &protocol.PromoteArgs{NewImage: img}}, protocol.StateDone)
		return img.Reference()
	}
	upgrade := func(image string, ends ...protocol.State) protocol.State {
		t.Helper()
		return does(protocol.Spec{Kind: protocol.KindContainerUpgrade, Args: &protocol.ContainerUpgradeArgs{Upgrade: setting.Upgrade{Image: image}}}, ends...)
	}
	does(protocol.Spec{Kind: protocol.KindCreate, Name: protocol.ContainerName(name), Args: &protocol.CreateArgs{
		Template: template, Start: true, Volumes: []string{name + ":/srv"},
		Health: &contract.Check{Cmd: []string{"test", "!", "-e", "/sick"}, IntervalMS: 1000, Retries: 1, Action: contract.Mark},
	}}, protocol.StateDone)
	run("touch", "/srv/kept", "/sick")
	sick := image("sick")
	run("rm", "/sick")
	run("touch", "/well")
	well := image("well")
	upgrade(sick, protocol.StateFailed)
	run("test", "-e", "/srv/kept", "-a", "!", "-e", "/sick")
	if upgrade(well, protocol.StateDone, protocol.StateFailed) == protocol.StateFailed {
		run("test", "-e", "/srv/kept")
		upgrade(well, protocol.StateDone)
	}
	run("test", "-e", "/srv/kept", "-a", "-e", "/well")
	does(protocol.Spec{Kind: protocol.KindDestroy, Args: &protocol.StopArgs{GraceMS: 100}}, protocol.StateDone)
	if got := c.end(t, l, c.step(t, l, protocol.Spec{Kind: protocol.KindVolumeRemove, Args: &protocol.VolumeArgs{Volume: name}})); got.State != protocol.StateDone {
		t.Errorf("the volume of %s stays: %s", name, got)
	}
}
