//go:build integration && hostlertest

package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hostler-io/hostler/internal/failpoint"
	releases "github.com/hostler-io/hostler/internal/release"
	"github.com/hostler-io/hostler/protocol"
)

// upgradePoints upgrades a host again and again while its agent dies on the way.
func upgradePoints(t *testing.T) {
	c := newWreck(t)
	u := &upgrades{world: c.world}
	u.trust(t)
	l := c.newLimb(t, "edge-01", false)
	u.ownPrograms(t, l.host)
	p, words := l.join(t, c.invite(t))
	c.must(t, "host", "approve", "edge-01", "--words", words)
	p.finish(t).exits(t, 0)
	l.revive(t)

	number := 0
	pass := func(t *testing.T) {
		number++
		c.upgraded(t, u, l, newerVersion(number))
	}
	c.strikes(t, strike{failpoint.UpgradeStaged, l.victim, pass}, strike{failpoint.UpgradeTried, l.victim, pass}, strike{failpoint.ProgramReplaced, l.victim, pass})
}

// upgraded brings a version to a host, and sees that it runs there.
func (c *wreck) upgraded(t *testing.T, u *upgrades, l *limb, version string) {
	t.Helper()
	var parts []releases.Package
	for _, file := range u.build(t, version, newerAgent(t, version), "") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sig, err := os.ReadFile(file + ".sig")
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, releases.Package{Name: filepath.Base(file), Signature: sig, Size: int64(len(content)), Content: bytes.NewReader(content)})
	}
	var bundle bytes.Buffer
	if err := releases.Write(&bundle, parts); err != nil {
		t.Fatal(err)
	}
	id := c.newAction(t, l, protocol.KindHostUpgrade, false)
	c.order(t, l, id, protocol.Spec{Kind: protocol.KindHostUpgrade, Args: &protocol.UpgradeArgs{Version: version, Input: c.payload(t, bundle.Bytes())}})
	if got := c.end(t, l, id); got.State != protocol.StateDone {
		t.Errorf("the upgrade to %s is %s", version, got)
	}
	out, err := exec.Command(filepath.Join(l.host.bin, "hostler-agent"), "version").Output()
	if err != nil || !bytes.Contains(out, []byte(version)) {
		t.Errorf("the program in place is %s, %v, want %s", out, err, version)
	}
}
