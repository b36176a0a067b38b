package coordinator_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/journal"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// exportLog exports the audit log.
func exportLog(t *testing.T, f *coordtest.Fleet) []byte {
	t.Helper()
	var b bytes.Buffer
	err := f.Coordinator().Journal().ExportAudit(t.Context(), 0, func(line []byte) error {
		b.Write(line)
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// verifyLog exports the audit log and verifies it against checkpoints that were
// seen elsewhere.
func verifyLog(t *testing.T, f *coordtest.Fleet, known ...protocol.Checkpoint) audit.Result {
	t.Helper()
	r, err := audit.Verify(bytes.NewReader(exportLog(t, f)), audit.Config{Fleet: f.ID, Keys: f.Trust, Known: known})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// whole checks that the audit log has so many records at least, and no fault.
func whole(t *testing.T, f *coordtest.Fleet, records int, known ...protocol.Checkpoint) {
	t.Helper()
	if r := verifyLog(t, f, known...); len(r.Faults) > 0 || r.Records < records || r.Known != len(known) {
		t.Errorf("%d records, want %d; %d of %d known checkpoints; faults %v", r.Records, records, r.Known, len(known), r.Faults)
	}
}

// brought is the checkpoint that a host brings to its hello.
func brought(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) protocol.Checkpoint {
	t.Helper()
	for range 2 { // the answer to the first has it, the second brings it back
		h.Connect()
		after(2 * time.Second)
	}
	env, err := protocol.Split(h.Greeting().Payload)
	if err != nil {
		t.Fatal(err)
	}
	var p protocol.Presence
	if err := protocol.DecodeJSON(env.Body, &p, true); err != nil {
		t.Fatal(err)
	}
	c, _, err := protocol.OpenCheckpoint(p.Hello.Checkpoint, f.ID, f.Trust)
	if err != nil {
		t.Fatalf("the checkpoint of the hello: %v", err)
	}
	return c
}

func recordInvites(t *testing.T, f *coordtest.Fleet, n int) {
	t.Helper()
	for range n {
		if _, _, err := f.Coordinator().Members().Invite(t.Context(), f.Admin(), time.Hour, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEveryTransitionIsRecorded(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Auto(func(h *coordtest.Host, o coordtest.Order) {
			h.Report(o.Started(h))
			coordtest.Succeed("")(h, o)
		})
		a := propose(t, f, h)
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		records, rest, err := f.Coordinator().Journal().Audit(t.Context(), journal.Filter{Object: a.ID.String(), Limit: 10})
		if err != nil || rest != 0 {
			t.Fatal(err, rest)
		}
		var got []string
		for _, r := range records {
			got = append(got, r.Actor+" "+r.Verb)
			if r.Host != h.ID || r.Digest.IsZero() {
				t.Errorf("record %d does not tell where, or over what: %+v", r.N, r)
			}
		}
		if w := []string{"token:admin action.request", "host:edge-07 action.start", "host:edge-07 action.succeed"}; !slices.Equal(got, w) {
			t.Errorf("recorded %q, want %q", got, w)
		}
		whole(t, f, 3)
		// The host that it was about has heard of the seal, and bears witness.
		if c := brought(t, f, h); c.N < records[len(records)-1].N {
			t.Errorf("the host brings a checkpoint of record %d, its last was sealed as %d", c.N, records[len(records)-1].N)
		}
		believed(t, h)
	})
}

func TestAuditIsSearched(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		recordInvites(t, f, 1199) // behind the start
		a := propose(t, f, h)
		after(time.Hour)
		since := time.Now().UnixMilli()
		recordInvites(t, f, 3)
		search := func(filter journal.Filter) (numbers []uint64) {
			t.Helper()
			records, _, err := f.Coordinator().Journal().Audit(t.Context(), filter)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				numbers = append(numbers, r.N)
			}
			return numbers
		}
		for _, c := range []struct {
			filter journal.Filter
			want   []uint64
		}{
			{journal.Filter{Limit: 2}, []uint64{1203, 1204}},
			{journal.Filter{Limit: 2, Before: 3}, []uint64{1, 2}},
			{journal.Filter{Limit: 2, After: 700}, []uint64{701, 702}},
			{journal.Filter{Limit: 9, After: 700, Before: 702}, []uint64{701}},
			{journal.Filter{Limit: 9, SinceMS: since}, []uint64{1202, 1203, 1204}},
			{journal.Filter{Limit: 2, UntilMS: since}, []uint64{1200, 1201}},
			{journal.Filter{Limit: 9, SinceMS: since, UntilMS: since + 1}, []uint64{1202, 1203, 1204}},
			{journal.Filter{Limit: 9, SinceMS: since, UntilMS: since}, nil},
			{journal.Filter{Limit: 9, Object: a.ID.String()}, []uint64{1201}},
			{journal.Filter{Limit: 9, Host: h.ID, Verb: "action.request", Actor: "token:admin"}, []uint64{1201}},
			{journal.Filter{Limit: 9, Actor: "token:mallory"}, nil},
		} {
			if got := search(c.filter); !slices.Equal(got, c.want) {
				t.Errorf("%+v: %v, want %v", c.filter, got, c.want)
			}
		}
		var from uint64
		err := f.Coordinator().Journal().ExportAudit(t.Context(), since, func(line []byte) error {
			if r, err := audit.ParseLine(line); err == nil && from == 0 {
				from = r.N
			}
			return nil
		})
		if err != nil || from < 1000 || from > 1202 {
			t.Errorf("an export of the last hour begins with record %d, %v", from, err)
		}
	})
}

// TestSealerKilled kills the coordinator before and after each commit while it
// records and seals: what was recorded is sealed in the end, once.
func TestSealerKilled(t *testing.T) {
	kill := func(t *testing.T, lose bool, n int64) (killed bool) {
		synctest.Test(t, func(t *testing.T) {
			var r reaper
			faults := storetest.Faults{Refuse: r.strike}
			if lose {
				faults = storetest.Faults{Lose: r.strike}
			}
			f := coordtest.NewOn(t, storetest.NewMem(faults))
			h := f.AddHost("edge-07")
			h.Connect()
			recordInvites(t, f, 2)
			after(5 * time.Second)
			witness := brought(t, f, h)
			r.n.Store(n)
			made := 2
			for range 3 {
				if _, _, err := f.Coordinator().Members().Invite(t.Context(), f.Admin(), time.Hour, nil); err == nil {
					made++
				}
				after(1500 * time.Millisecond)
			}
			killed = r.dead.Load()
			r.n.Store(-1 << 40)
			r.dead.Store(false)
			f.Restart()
			recordInvites(t, f, 1)
			after(5 * time.Second)
			whole(t, f, made+1, witness)
			if why := f.Coordinator().Recovery(); why != "" {
				t.Errorf("killed at commit %d: %s", n, why)
			}
		})
		return killed
	}
	for _, lose := range []bool{false, true} {
		n := int64(1)
		for kill(t, lose, n) {
			n++
		}
		if n <= 6 {
			t.Errorf("three records and their seals took %d commits: they were not all met", n-1)
		}
	}
}

func TestPrunedLogVerifies(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		f.Tune(func(c *coordinator.Config) { c.AuditRecords = 20 })
		f.Restart()
		for range 100 {
			recordInvites(t, f, 1)
			after(2 * time.Second)
		}
		after(10 * time.Minute)
		r := verifyLog(t, f, brought(t, f, h))
		if len(r.Faults) > 0 || r.After < 40 || r.Records < 20 || r.Records > 45 || r.Known != 1 {
			t.Errorf("after %d: %d records, %d known, %v", r.After, r.Records, r.Known, r.Faults)
		}
	})
}

// TestManyRecordsAtOnce are sealed without waiting for the second to end.
func TestManyRecordsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		after(1500 * time.Millisecond)
		recordInvites(t, f, audit.MaxSealed)
		synctest.Wait()
		if c := brought(t, f, h); c.N < audit.MaxSealed {
			t.Errorf("sealed up to record %d", c.N)
		}
		whole(t, f, audit.MaxSealed)
	})
}

// TestCheckpointProvesTheCoordinatorOld: nothing but the audit log moved since
// the backup, no order and no term.
func TestCheckpointProvesTheCoordinatorOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewMem(storetest.Faults{})
		f := coordtest.NewOn(t, store)
		h := f.AddHost("edge-07")
		h.Connect()
		recordInvites(t, f, 3)
		after(5 * time.Second)
		backup := store.Backup()
		recordInvites(t, f, 2)
		after(5 * time.Second)
		witness := brought(t, f, h)
		f.RestartOn(backup)
		after(10 * time.Second)
		if why := f.Coordinator().Recovery(); !strings.Contains(why, "audit log") {
			t.Fatalf("recovery: %q", why)
		}
		if why := quarantined(t, f, h); why != "" {
			t.Errorf("the host that proved it is quarantined: %s", why)
		}
		r := verifyLog(t, f, witness)
		if !slices.ContainsFunc(r.Faults, func(x audit.Fault) bool { return x.Kind == audit.Cut && x.To == witness.N }) {
			t.Errorf("verification finds %v", r.Faults)
		}
	})
}

// TestAnotherHistoryIsFound: the restored coordinator got further than what the
// host has seen before the host came back.
func TestAnotherHistoryIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewMem(storetest.Faults{})
		f := coordtest.NewOn(t, store)
		h := f.AddHost("edge-07")
		h.Connect()
		after(5 * time.Second)
		backup := store.Backup()
		recordInvites(t, f, 2)
		after(5 * time.Second)
		witness := brought(t, f, h)
		h.Goodbye()
		f.RestartOn(backup)
		recordInvites(t, f, 1)
		after(5 * time.Second)
		recordInvites(t, f, 6)
		after(5 * time.Second)
		r := verifyLog(t, f, witness)
		if !slices.ContainsFunc(r.Faults, func(x audit.Fault) bool { return x.Kind == audit.RolledBack && x.From == witness.N }) {
			t.Errorf("verification finds %v", r.Faults)
		}
		h.Connect()
		after(5 * time.Second)
		if why := f.Coordinator().Recovery(); !strings.Contains(why, "another record") {
			t.Errorf("recovery: %q", why)
		}
	})
}

// TestHeadProvesTheHostOld: a host whose own audit log goes back, or sideways,
// is not to be trusted.
func TestHeadProvesTheHostOld(t *testing.T) {
	head := func(n uint64, what string) protocol.Position {
		return protocol.Position{Store: protocol.StoreID{9}, Stream: protocol.StreamAudit, N: n, H: protocol.Sum([]byte(what))}
	}
	for name, c := range map[string]struct {
		next protocol.Position
		why  string
	}{
		"further": {head(40, "x"), ""}, "the same": {head(30, "a"), ""},
		"back": {head(20, "b"), "its disk went back"}, "sideways": {head(30, "c"), "two histories"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
				tell := func(p protocol.Position) {
					h.Set(func(f *coordtest.Facts) { f.Audit = p })
					h.Heartbeat()
					after(time.Second)
				}
				tell(head(30, "a"))
				h.Connect()
				after(2 * time.Second)
				told := false
				for _, m := range f.Published(h.ID, protocol.ChannelReceipt) {
					told = told || bytes.Contains(m.Payload, []byte(`"audit":{"store":"`))
				}
				if !told {
					t.Error("the host was not told what it had said")
				}
				tell(c.next)
				why := quarantined(t, f, h)
				if c.why == "" && why != "" || c.why != "" && !strings.Contains(why, c.why) {
					t.Fatalf("quarantined because of %q, want %q", why, c.why)
				}
				if c.why == "" {
					return
				}
				readmit(t, f, h)
				tell(c.next)
				if why := quarantined(t, f, h); why != "" {
					t.Errorf("quarantined again although it was readmitted: %s", why)
				}
			})
		})
	}
}

// TestCutLogIsSealedNoFurther: numbers that were cut off would be given again,
// and the old checkpoints would vouch for the new records.
func TestCutLogIsSealedNoFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewMem(storetest.Faults{})
		f := coordtest.NewOn(t, store)
		recordInvites(t, f, 5)
		after(5 * time.Second)
		err := store.Update(t.Context(), func(tx core.Tx) error { return tx.Audit.Prune(6) })
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			recordInvites(t, f, 1)
			after(2 * time.Second)
		}
		if r := verifyLog(t, f); len(r.Faults) > 0 && r.Newest.N > 6 {
			t.Errorf("%+v", r)
		}
		events, err := f.Coordinator().Journal().Events(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, e := range events {
			if e.Type == "audit.broken" {
				n++
			}
		}
		if n != 1 {
			t.Errorf("people were told %d times", n)
		}
		var seal core.Seal
		err = store.View(t.Context(), func(tx core.Tx) (err error) {
			seal, err = tx.Audit.SealUpTo(math.MaxInt64)
			return err
		})
		if err != nil || seal.N != 6 {
			t.Errorf("sealed up to record %d, %v", seal.N, err)
		}
	})
}

// TestRecordsCostNoCommit: records cost no commit of their own, and
// seals one a second.
func TestRecordsCostNoCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		commits := 0
		count := func() error { commits++; return nil }
		f := coordtest.NewOn(t, storetest.NewMem(storetest.Faults{Lose: count}))
		after(1100 * time.Millisecond)
		before := commits
		for i := range 50 {
			if _, _, err := f.Coordinator().Members().Invite(t.Context(), f.Admin(), time.Hour, []string{fmt.Sprintf("n=%d", i)}); err != nil {
				t.Fatal(err)
			}
		}
		after(1100 * time.Millisecond)
		if n := commits - before; n != 51 {
			t.Errorf("50 decisions and their seal took %d commits, want 51", n)
		}
	})
}
