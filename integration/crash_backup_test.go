//go:build integration && hostlertest

package integration

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
)

// backupPoints kills what makes a backup, and what takes one that a host has exported: in
// the end there is one, it is whole, and nothing is left beside it. What was cut short is
// there until the next one is made.
func backupPoints(t *testing.T) {
	c := newWreck(t)
	l := c.addLimb(t, "edge-01", true)
	n, halves := 0, 0
	left := func() (other []string) {
		for _, e := range entriesOf(t, l.path("backups")) {
			if !strings.HasSuffix(e, ".hostler-backup") && !strings.HasPrefix(e, ".verified-") && !strings.HasPrefix(e, ".index-") {
				other = append(other, e)
			}
		}
		return other
	}
	ask := func(s protocol.Spec) protocol.State { return c.end(t, l, c.step(t, l, s)).State }
	untilWhole := func(t *testing.T, attempt func(data.BackupName)) {
		t.Helper()
		for state := protocol.StateFailed; state != protocol.StateDone; {
			n++
			name := data.BackupName{Backup: fmt.Sprintf("b%d", n)}
			attempt(name)
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
	}
	backUp := func(t *testing.T) {
		id := newCTID()
		ask(protocol.Spec{Kind: protocol.KindCreate, Target: id, Name: "web", Args: &protocol.CreateArgs{Template: "busybox"}})
		untilWhole(t, func(name data.BackupName) {
			ask(protocol.Spec{Kind: protocol.KindBackup, Target: id, Args: &protocol.NewBackupArgs{NewBackup: data.NewBackup{BackupName: name}}})
		})
		ask(protocol.Spec{Kind: protocol.KindDestroy, Target: id, Args: &protocol.StopArgs{GraceMS: 100}})
	}
	// What is killed beside the list of files leaves a whole backup, and so is the next
	// increment, whichever it lies on.
	goOn := func(t *testing.T) {
		id := newCTID()
		ask(protocol.Spec{Kind: protocol.KindCreate, Target: id, Name: "grows", Args: &protocol.CreateArgs{Template: "busybox"}})
		for range 2 {
			untilWhole(t, func(name data.BackupName) {
				ask(protocol.Spec{Kind: protocol.KindBackup, Target: id, Args: &protocol.NewBackupArgs{NewBackup: data.NewBackup{BackupName: name, Incremental: 7}}})
			})
		}
		ask(protocol.Spec{Kind: protocol.KindDestroy, Target: id, Args: &protocol.StopArgs{GraceMS: 100}})
	}
	exported := func(t *testing.T, name string) []byte {
		t.Helper()
		var wire bytes.Buffer
		id := c.step(t, l, protocol.Spec{Kind: protocol.KindBackupExport, Args: &protocol.BackupExportArgs{BackupExport: data.BackupExport{BackupName: data.BackupName{Backup: name}}}})
		c.end(t, l, id)
		c.insist(t, "reading the exported backup", func(ctx context.Context) error {
			wire.Reset()
			next, err := c.api.Output(ctx, client.Reading{Action: id.String(), FD: "stdout", Follow: true}, &wire)
			if err == nil && next != -1 {
				err = fmt.Errorf("its output ends at %d", next)
			}
			return err
		})
		return wire.Bytes()
	}
	take := func(t *testing.T, name data.BackupName, wire []byte) {
		ask(protocol.Spec{Kind: protocol.KindBackupImport, Args: &protocol.BackupImportArgs{BackupName: name, Input: c.payload(t, wire)}})
	}
	var wire []byte
	bring := func(t *testing.T) {
		if wire == nil {
			wire = exported(t, fmt.Sprintf("b%d", n))
		}
		untilWhole(t, func(name data.BackupName) { take(t, name, wire) })
	}
	remove := func(name string) {
		ask(protocol.Spec{Kind: protocol.KindBackupRemove, Args: &protocol.BackupArgs{BackupName: data.BackupName{Backup: name}}})
	}
	grown := newCTID()
	ask(protocol.Spec{Kind: protocol.KindCreate, Target: grown, Name: "grown", Args: &protocol.CreateArgs{Template: "busybox"}})
	for _, name := range []string{"low", "top"} {
		ask(protocol.Spec{Kind: protocol.KindBackup, Target: grown, Args: &protocol.NewBackupArgs{NewBackup: data.NewBackup{BackupName: data.BackupName{Backup: name}, Incremental: 7}}})
	}
	chain := exported(t, "top")
	ask(protocol.Spec{Kind: protocol.KindDestroy, Target: grown, Args: &protocol.StopArgs{GraceMS: 100}})
	remove("top")
	// What is killed at the lower backup of a chain leaves nothing, or that one, which is whole; the
	// next attempt brings the rest.
	bringChain := func(t *testing.T) {
		remove("low")
		first := n + 1
		untilWhole(t, func(name data.BackupName) { take(t, name, chain) })
		if state := ask(protocol.Spec{Kind: protocol.KindBackupVerify, Args: &protocol.BackupArgs{BackupName: data.BackupName{Backup: "low"}}}); state != protocol.StateDone {
			t.Errorf("the backup below it ends as %s", state)
		}
		for i := first; i <= n; i++ { // low can be removed then
			remove(fmt.Sprintf("b%d", i))
		}
	}
	c.strikes(t, strike{"S44", l.victim, backUp}, strike{"S44", l.victim, bring}, strike{"S61", l.victim, goOn}, strike{"S44", l.victim, bringChain})
	if halves != 2 {
		t.Errorf("%d backups were seen that were cut short, want the two that were killed before they had their names", halves)
	}
}
