package coordinator_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/recovery"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// memory is what a host knows of its actions, as its queue does.
type memory struct {
	h     *coordtest.Host
	known []protocol.Report // in the order of acceptance, as answers to a tell
	begun map[protocol.ActionID]int
}

// remember lets a host answer orders, by end, and remember what it did.
func remember(h *coordtest.Host, end func(coordtest.Order) bool) *memory {
	m := &memory{h: h, begun: make(map[protocol.ActionID]int)}
	h.Auto(func(h *coordtest.Host, o coordtest.Order) {
		m.begun[o.Item.Action]++
		r := o.Started(h)
		h.Report(r)
		r.Event, r.Spec, r.Requester = protocol.EventTell, o.Item.Spec, o.Item.Requester
		m.known = append(m.known, r)
		if end(o) {
			m.end(o)
		}
	})
	return m
}

// end ends an action, and reports it.
func (m *memory) end(o coordtest.Order) {
	r := o.Done()
	m.h.Report(r)
	i := slices.IndexFunc(m.known, func(k protocol.Report) bool { return k.Action == o.Item.Action })
	m.known[i].State, m.known[i].Reason, m.known[i].Exit = r.State, r.Reason, r.Exit
}

// answer answers the questions that have come, and those that follow.
func (m *memory) answer(t *testing.T, part int) (asked []protocol.ControlItem) {
	t.Helper()
	for range 100 {
		after(10 * time.Second)
		select {
		case q := <-m.h.Controls():
			asked = append(asked, q)
			m.tell(q, part)
		default:
			return asked
		}
	}
	t.Fatal("it is asked without an end")
	return nil
}

// tell answers as an agent does that tells so many at a time.
func (m *memory) tell(q protocol.ControlItem, part int) {
	told := uint64(0)
	if q.Since != nil {
		later := slices.DeleteFunc(slices.Clone(m.known), func(r protocol.Report) bool { return r.AcceptSeq <= *q.Since })
		told = uint64(len(m.known))
		if len(later) >= part {
			later = later[:part]
			told = later[part-1].AcceptSeq
		}
		for _, r := range later {
			m.h.Report(r)
		}
	}
	for _, id := range q.IDs {
		r := protocol.Report{Action: id, Event: protocol.EventTell, AcceptSeq: told, HaveOrder: 0}
		if i := slices.IndexFunc(m.known, func(k protocol.Report) bool { return k.Action == id }); i >= 0 {
			r = m.known[i]
		}
		m.h.Report(r)
	}
}

// recoverOn recovers a store and starts a coordinator of the next ring on it.
func recoverOn(t *testing.T, f *coordtest.Fleet, store core.Store, change ...func(*recovery.Config)) recovery.Recovered {
	t.Helper()
	f.Stop()
	f.Trust.SetRing(f.Trust.Ring() + 1)
	cfg := recovery.Config{Key: coordtest.NewKey("coordinator").Key(), Ring: f.Trust.Ring(), Now: time.Now(), Rand: rand.Reader}
	for _, c := range change {
		c(&cfg)
	}
	done, err := recovery.Recover(t.Context(), store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	f.RestartOn(store)
	return done
}

// left is how many hosts have not told everything.
func left(t *testing.T, f *coordtest.Fleet) int {
	t.Helper()
	synctest.Wait()
	r, err := f.Coordinator().Recoveries().Progress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r.Left
}

// TestRecovered restores a coordinator from a backup: what was asked for since
// is taken over from its host, what had not ended ends as it ended there, and
// nothing is sent again.
func TestRecovered(t *testing.T) {
	for _, part := range []int{1, 2, protocol.MaxTell} {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testRecovered(t, part) })
		})
	}
}

func testRecovered(t *testing.T, part int) {
	store := storetest.NewMem(storetest.Faults{})
	f := coordtest.NewOn(t, store)
	h := f.AddHost("edge-07")
	var open []coordtest.Order
	end := true
	m := remember(h, func(o coordtest.Order) bool { open = append(open, o); return end })
	h.Connect()
	synctest.Wait()
	early := propose(t, f, h)
	end = false
	running, lasting := propose(t, f, h), propose(t, f, h)
	want(t, f, lasting.ID, protocol.StateRunning, "")
	after(2 * time.Second)
	h.Break()
	sent, never := propose(t, f, h), propose(t, f, h)
	backup := store.Backup()

	// The coordinator goes on: it cancels one before it is sent, sends the other,
	// and gives two more.
	if _, err := f.Coordinator().Actions().Cancel(t.Context(), f.Admin(), never.ID); err != nil {
		t.Fatal(err)
	}
	end = true
	h.Connect()
	after(2 * time.Second)
	want(t, f, sent.ID, protocol.StateDone, protocol.ReasonOK)
	m.end(open[1])
	want(t, f, running.ID, protocol.StateDone, protocol.ReasonOK)
	later := []core.Action{propose(t, f, h), propose(t, f, h)}
	after(2 * time.Second)
	f.Stop()
	// What it does while nobody is there waits for whoever comes.
	m.end(open[2])

	done := recoverOn(t, f, backup)
	if done.Hosts != 1 || done.Actions != 4 || done.FormerStore != store.ID() || backup.ID() == store.ID() {
		t.Errorf("recovered %+v, the store is %s", done, backup.ID())
	}
	if n := left(t, f); n != 1 {
		t.Errorf("%d hosts are left to be asked", n)
	}
	if _, err := f.Coordinator().Actions().Get(t.Context(), later[0].ID); !errors.Is(err, core.ErrNotFound) || !strings.Contains(err.Error(), "was recovered from a backup on 20") {
		t.Errorf("what was asked for after the backup: %v", err)
	}
	h.Reboot()
	asked := m.answer(t, part)
	if n := left(t, f); n != 0 {
		t.Errorf("%d hosts are left after %d questions: %+v", n, len(asked), asked)
	}
	for _, a := range []core.Action{early, running, lasting, sent, later[0], later[1]} {
		got := want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		if string(got.Spec) != string(a.Spec) || got.Kind != a.Kind {
			t.Errorf("action %s is %s %s", a.ID, got.Kind, got.Spec)
		}
	}
	want(t, f, never.ID, protocol.StateLost, protocol.ReasonRestored)
	if why := f.Coordinator().Recovery(); why != "" {
		t.Errorf("in recovery: %s", why)
	}
	if why := quarantined(t, f, h); why != "" {
		t.Errorf("the host is quarantined: %s", why)
	}
	fresh := propose(t, f, h)
	want(t, f, fresh.ID, protocol.StateDone, protocol.ReasonOK)
	for id, n := range m.begun {
		if n != 1 {
			t.Errorf("action %s began %d times", id, n)
		}
	}
	// It is asked once, whatever is started anew.
	f.Restart()
	h.Reboot()
	if asked := m.answer(t, part); len(asked) > 0 || left(t, f) != 0 {
		t.Errorf("asked again: %+v", asked)
	}
	r, err := f.Coordinator().Recoveries().Progress(t.Context())
	if err != nil || r.AuditSeen <= r.AuditN {
		t.Errorf("the audit log went to %d, the host has seen %d: %v", r.AuditN, r.AuditSeen, err)
	}
	whole(t, f, int(r.AuditN)+1)
}

// TestRecoverTwice: a recovery that was interrupted after its transaction is told
// again and changes nothing; for another key it is another one.
func TestRecoverTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewMem(storetest.Faults{})
		f := coordtest.NewOn(t, store)
		h := f.AddHost("edge-07")
		remember(h, func(coordtest.Order) bool { return true })
		h.Connect()
		synctest.Wait()
		propose(t, f, h)
		first := recoverOn(t, f, store)
		id := store.ID()
		again, err := recovery.Recover(t.Context(), store, recovery.Config{Key: first.Key, Ring: 9, Now: time.Now(), Rand: rand.Reader})
		if err != nil || again.Ring != first.Ring || store.ID() != id {
			t.Errorf("again: %+v, %v", again, err)
		}
		if other := recoverOn(t, f, store, func(c *recovery.Config) { c.Key = protocol.KeyID{1} }); other.FormerStore != id {
			t.Errorf("for another key: %+v", other)
		}
	})
}

// TestRecoveringHostGoesOnBehindWhatItFreed: the reports that the coordinator
// before had taken, and its host has forgotten, are not waited for.
func TestRecoveringHostGoesOnBehindWhatItFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewMem(storetest.Faults{})
		f := coordtest.NewOn(t, store)
		h := f.AddHost("edge-07")
		remember(h, func(coordtest.Order) bool { return true })
		h.Connect()
		synctest.Wait()
		backup := store.Backup()
		for range 3 {
			propose(t, f, h)
		}
		after(2 * time.Second)
		f.Stop()
		h.Alert(protocol.Alert{AlertInfo: protocol.AlertInfo{ID: "disk", Severity: "warning", Text: "full", SinceMS: 1}, Raised: true})
		recoverOn(t, f, backup)
		h.Reboot()
		after(5 * time.Second)
		events, err := f.Coordinator().Journal().Events(t.Context(), 0, 1000)
		raised := func(e core.Event) bool { return e.Type == "alert.raised" && e.Object == "disk" }
		if err != nil || !slices.ContainsFunc(events, raised) {
			t.Errorf("the alert did not arrive: %v", err)
		}
	})
}

// TestClaimedReceiptsAreNoProof: a host that says that more was receipted than
// arrived, with nothing that anybody signed, is the one that lies.
func TestClaimedReceiptsAreNoProof(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Auto(coordtest.Succeed(""))
		a := propose(t, f, h)
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		after(2 * time.Second)
		h.Lie(func(h *protocol.Hello) {
			for i := range h.Freed {
				h.Freed[i].N += 10
			}
		})
		h.Reboot()
		after(5 * time.Second)
		if why := quarantined(t, f, h); why == "" || f.Coordinator().Recovery() != "" {
			t.Errorf("quarantined because of %q, in recovery because of %q", why, f.Coordinator().Recovery())
		}
	})
}

// TestRecoveredBackupOfARolledBackHost: a host that has less than the backup
// knew was rolled back, whoever else was.
func TestRecoveredBackupOfARolledBackHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewMem(storetest.Faults{})
		f := coordtest.NewOn(t, store)
		h := f.AddHost("edge-07")
		m := remember(h, func(coordtest.Order) bool { return false })
		h.Connect()
		synctest.Wait()
		old := h.Copy()
		a := propose(t, f, h)
		want(t, f, a.ID, protocol.StateRunning, "")
		after(2 * time.Second)
		backup := store.Backup()
		recoverOn(t, f, backup)
		h.Rollback(old)
		m.known = nil
		h.Connect()
		m.answer(t, protocol.MaxTell)
		if why := quarantined(t, f, h); why == "" {
			t.Error("the host is not quarantined")
		}
		want(t, f, a.ID, protocol.StateLost, protocol.ReasonRolledBack)
		readmit(t, f, h)
		m.answer(t, protocol.MaxTell)
		if n := left(t, f); n != 0 {
			t.Errorf("%d hosts are left", n)
		}
	})
}

// TestAccessIsRevokedByALaterRun: a recovery that was begun without revoking and did not
// come to its end is gone on with by one that revokes, and once is as good as twice.
func TestAccessIsRevokedByALaterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewMem(storetest.Faults{})
		f := coordtest.NewOn(t, store)
		secret := f.Token(core.RoleAdmin)
		if _, err := f.Coordinator().Access().CreateViewer(t.Context(), f.Admin(), "eyes"); err != nil {
			t.Fatal(err)
		}
		recoverOn(t, f, store, func(c *recovery.Config) {
			first, err := recovery.Recover(t.Context(), store, *c)
			if err != nil || len(first.Tokens) != 1 || len(first.Viewers) != 1 {
				t.Fatalf("%+v, %v", first, err)
			}
			c.RevokeAccess = true
			for range 2 {
				again, err := recovery.Recover(t.Context(), store, *c)
				if err != nil || len(again.Tokens)+len(again.Viewers) > 0 || again.FormerStore != first.FormerStore || again.AuditN != first.AuditN {
					t.Errorf("%+v, %v; the first one was %+v", again, err, first)
				}
			}
		})
		if _, err := f.Authenticate(secret); !errors.Is(err, core.ErrDenied) {
			t.Errorf("a token of before: %v", err)
		}
		if all, err := f.Coordinator().Access().Viewers(t.Context(), f.Admin()); err != nil || len(all) != 1 || all[0].RevokedMS == 0 {
			t.Errorf("viewers: %+v, %v", all, err)
		}
	})
}

// TestCopyForAnotherFleet: a copy of a store for staging can order nothing of
// the hosts that are in it, and lets nobody in whom the fleet had let in.
func TestCopyForAnotherFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewMem(storetest.Faults{})
		f := coordtest.NewOn(t, store)
		h := f.AddHost("edge-07")
		remember(h, func(coordtest.Order) bool { return false })
		h.Connect()
		synctest.Wait()
		a := propose(t, f, h)
		secret := f.Token(core.RoleOperator)
		recoverOn(t, f, store, func(c *recovery.Config) { c.FormerFleet = "lab" })
		h.Reboot()
		after(5 * time.Second)
		want(t, f, a.ID, protocol.StateLost, protocol.ReasonRemoved)
		_, err := f.Coordinator().Actions().Propose(t.Context(), f.Admin(), actions.Request{Host: h.ID, Spec: coordtest.RunSpec("true")})
		if !errors.Is(err, core.ErrDenied) {
			t.Errorf("an action for a stranger: %v", err)
		}
		if _, err := f.Authenticate(secret); !errors.Is(err, core.ErrDenied) {
			t.Errorf("a token of the fleet: %v", err)
		}
		if v, err := f.Coordinator().Members().Host(t.Context(), h.ID); err != nil || v.State != core.HostRevoked || v.Connectivity == core.Online {
			t.Errorf("the host is %s, %s: %v", v.State, v.Connectivity, err)
		}
	})
}

// TestOutputThatWasNotBackedUp: what the store says is held is not there after a
// restore without files. It is asked for again, as long as the host has it.
func TestOutputThatWasNotBackedUp(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		const text = "it is on the host"
		h.Auto(coordtest.Succeed(text))
		a := propose(t, f, h)
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		after(5 * time.Second)
		f.LoseOutput(a.ID)
		recoverOn(t, f, f.Store())
		h.Reboot()
		after(10 * time.Second)
		if s, next := read(t, f, a.ID, 0, true); s != text || next != -1 {
			t.Errorf("there is %q, go on at %d", s, next)
		}
	})
}

// TestApprovalAfterRecovery: what waited for approval in the backup may have been
// approved and carried out since. It is frozen until its host has spoken: what
// the host does not know waits for approval again, with the approvals that it
// had, and what the host ran ended as the host says. Nothing runs twice.
func TestApprovalAfterRecovery(t *testing.T) {
	for _, later := range []bool{false, true} { // the second approval was there, and counts later
		for _, ran := range []bool{false, true} {
			t.Run(fmt.Sprintf("later=%t,ran=%t", later, ran), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testApprovalAfterRecovery(t, later, ran) })
			})
		}
	}
}

func testApprovalAfterRecovery(t *testing.T, later, ran bool) {
	store := storetest.NewMem(storetest.Faults{})
	c := newCrew(t, store, twoPersons)
	m := remember(c.host, func(coordtest.Order) bool { return true })
	a := c.request()
	c.must(c.approve(a, "ann"))
	bobs := func(a core.Action) error {
		return c.give(a, c.keys["bob"], time.Hour, func(p *protocol.Approval) {
			if later {
				p.NotBeforeMS += time.Minute.Milliseconds()
			}
		})
	}
	if later {
		c.must(bobs(a))
	}
	after(2 * time.Second)
	backup := store.Backup()
	if ran {
		if !later {
			c.must(bobs(a))
		}
		after(3 * time.Minute)
		want(t, c.Fleet, a.ID, protocol.StateDone, protocol.ReasonOK)
	}
	if done := recoverOn(t, c.Fleet, backup); done.Actions != 1 || done.Waiting != 1 {
		t.Errorf("recovered %+v", done)
	}
	after(3 * time.Minute) // nothing moves it on before its host has spoken
	if _, err := c.Coordinator().Actions().Deny(t.Context(), boss(), a.ID, ""); !errors.Is(err, core.ErrConflict) {
		t.Errorf("denied before its host has spoken: %v", err)
	}
	if err := c.approve(a, "cat"); !errors.Is(err, core.ErrConflict) || !strings.Contains(err.Error(), "its host is asked") {
		t.Errorf("approved before its host has spoken: %v", err)
	}
	if _, err := c.Coordinator().Actions().Nudge(t.Context(), c.Admin(), a.ID); err != nil {
		t.Error(err)
	}
	got := want(t, c.Fleet, a.ID, protocol.StatePendingApprove, "")
	if why := c.Coordinator().Explain().Waiting(got); why == nil || !strings.Contains(why.Text, "before the coordinator was recovered") {
		t.Errorf("it waits for %+v", why)
	}
	if !got.Former {
		t.Error("it is as if it had never been sent, before its host has spoken")
	}
	c.host.Reboot()
	m.answer(t, protocol.MaxTell)
	if n := left(t, c.Fleet); n != 0 {
		t.Errorf("%d hosts are left", n)
	}
	switch {
	case ran: // it is in the past, so nothing is to be approved
		want(t, c.Fleet, a.ID, protocol.StateDone, protocol.ReasonOK)
		if err := c.approve(a, "cat"); !errors.Is(err, core.ErrConflict) {
			t.Errorf("approved after the host ran it: %v", err)
		}
	case !later:
		got := want(t, c.Fleet, a.ID, protocol.StatePendingApprove, "")
		if got.Former || got.N != 0 || len(got.Approvals) != 1 || m.begun[a.ID] != 0 {
			t.Errorf("it waits as number %d with %d approvals, begun %d times", got.N, len(got.Approvals), m.begun[a.ID])
		}
		c.must(bobs(a))
	}
	after(2 * time.Minute)
	want(t, c.Fleet, a.ID, protocol.StateDone, protocol.ReasonOK)
	if n := m.begun[a.ID]; n != 1 {
		t.Errorf("it began %d times", n)
	}
}

// TestCancelWhileRecovering: of what may have been sent before, only its host can
// say that it is cancelled.
func TestCancelWhileRecovering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewMem(storetest.Faults{})
		f := coordtest.NewOn(t, store)
		h := f.AddHost("edge-07")
		a := propose(t, f, h)
		recoverOn(t, f, store)
		got, err := f.Coordinator().Actions().Cancel(t.Context(), f.Admin(), a.ID)
		if err != nil || got.State != protocol.StatePendingSchedule || !got.Cancelling {
			t.Errorf("it is %s, cancelling %t: %v", got.State, got.Cancelling, err)
		}
		h.Connect()
		after(2 * time.Second)
		noOrder(t, h)
	})
}

// TestAnswersOfBeforeSayNothing: that a host did not know an action may be its
// answer to the coordinator of before, of when the order was on its way. It
// counts once the host has told all that it accepted.
func TestAnswersOfBeforeSayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewMem(storetest.Faults{})
		f := coordtest.NewOn(t, store)
		h := f.AddHost("edge-07")
		m := remember(h, func(coordtest.Order) bool { return true })
		a := propose(t, f, h)
		backup := store.Backup()
		h.Connect()
		after(2 * time.Second)
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		f.Stop()
		h.Report(protocol.Report{Action: a.ID, Event: protocol.EventTell})
		recoverOn(t, f, backup)
		h.Reboot()
		after(5 * time.Second)
		want(t, f, a.ID, protocol.StatePendingSchedule, "")
		m.answer(t, protocol.MaxTell)
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
	})
}

// TestCodesOfBeforeARecovery: a code to join that was given out before may have
// been used since, so it counts no more. One that is made afterwards does.
func TestCodesOfBeforeARecovery(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		code := invite(t, f)
		after(time.Second)
		recoverOn(t, f, f.Store())
		if err := offer(t, f, "edge-20", code, nil); !errors.Is(err, enrol.ErrExpired) {
			t.Errorf("a code of before: %v", err)
		}
		after(time.Second)
		if err := offer(t, f, "edge-20", invite(t, f), nil); err != nil {
			t.Errorf("a code of afterwards: %v", err)
		}
	})
}
