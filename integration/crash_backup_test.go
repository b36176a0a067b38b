//go:build integration && hostlertest

package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
)

// backupPoints kills what makes a backup: in the end there is one, it is whole, and
// nothing is left beside it. What was cut short is there until the next one is made.
func backupPoints(t *testing.T) {
	c := newWreck(t)
	l := c.addLimb(t, "edge-01", true)
	n, halves := 0, 0
	left := func() (other []string) {
		for _, e := range entriesOf(t, l.path("backups")) {
			if !strings.HasSuffix(e, ".hostler-backup") && !strings.HasPrefix(e, ".verified-") {
				other = append(other, e)
			}
		}
		return other
	}
	ask := func(s protocol.Spec) protocol.State { return c.end(t, l, c.step(t, l, s)).State }
	backUp := func(t *testing.T) {
		id := newCTID()
		ask(protocol.Spec{Kind: protocol.KindCreate, Target: id, Name: "web", Args: &protocol.CreateArgs{Template: "busybox"}})
		for state := protocol.StateFailed; state != protocol.StateDone; {
			n++
			name := data.BackupName{Backup: fmt.Sprintf("b%d", n)}
			ask(protocol.Spec{Kind: protocol.KindBackup, Target: id, Args: &protocol.NewBackupArgs{NewBackup: data.NewBackup{BackupName: name}}})
			state = ask(protocol.Spec{Kind: protocol.KindBackupVerify, Args: &protocol.BackupArgs{BackupName: name}})
			for _, e := range left() {
				if e == ".new-"+name.Backup {
					halves++
				}
			}
		}
		if other := left(); len(other) > 0 {
			t.Errorf("beside whole backups there are %q", other)
		}
		ask(protocol.Spec{Kind: protocol.KindDestroy, Target: id, Args: &protocol.StopArgs{GraceMS: 100}})
	}
	c.strikes(t, strike{"S44", l.victim, backUp})
	if halves != 1 {
		t.Errorf("%d backups were seen that were cut short, want the one that was killed before it had its name", halves)
	}
}
