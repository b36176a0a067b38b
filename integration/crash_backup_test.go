//go:build integration && hostlertest

package integration

import (
	"fmt"
	"testing"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
)

// backupPoints kills what makes a backup: in the end there is one, it is whole, and
// nothing is left beside it.
func backupPoints(t *testing.T) {
	c := newWreck(t)
	l := c.addLimb(t, "edge-01", true)
	n := 0
	ask := func(s protocol.Spec) protocol.State { return c.end(t, l, c.step(t, l, s)).State }
	backUp := func(t *testing.T) {
		id := newCTID()
		ask(protocol.Spec{Kind: protocol.KindCreate, Target: id, Name: "web", Args: &protocol.CreateArgs{Template: "busybox"}})
		for state := protocol.StateFailed; state != protocol.StateDone; {
			n++
			name := data.BackupName{Backup: fmt.Sprintf("b%d", n)}
			ask(protocol.Spec{Kind: protocol.KindBackup, Target: id, Args: &protocol.NewBackupArgs{NewBackup: data.NewBackup{BackupName: name}}})
			state = ask(protocol.Spec{Kind: protocol.KindBackupVerify, Args: &protocol.BackupArgs{BackupName: name}})
		}
		ask(protocol.Spec{Kind: protocol.KindDestroy, Target: id, Args: &protocol.StopArgs{GraceMS: 100}})
	}
	c.strikes(t, strike{"S44", l.victim, backUp})
}
