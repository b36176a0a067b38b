package coordinator_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// there reports which actions are known.
func there(t *testing.T, f *coordtest.Fleet, ids ...protocol.ActionID) (known []bool) {
	t.Helper()
	for _, id := range ids {
		_, err := f.Coordinator().Actions().Get(t.Context(), id)
		if err != nil && !errors.Is(err, core.ErrNotFound) {
			t.Fatal(err)
		}
		known = append(known, err == nil)
	}
	return known
}

// TestForgotten: what ended too long ago is forgotten with its output, by age and
// by number, and never what has not ended.
func TestForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		first := talked(t, f, h, "hello")
		after(time.Minute)
		second, third := talked(t, f, h, "hello"), talked(t, f, h, "hello")
		h.Auto(func(h *coordtest.Host, o coordtest.Order) { h.Report(o.Started(h)) })
		open := propose(t, f, h)
		f.Tune(func(c *coordinator.Config) { c.Actions = 2 })
		f.Restart()
		after(3 * time.Minute)
		if known := there(t, f, first, second, third, open.ID); known[0] || !known[1] || !known[2] || !known[3] {
			t.Errorf("of 4 of which 2 that ended are kept there are %v", known)
		}
		for _, ref := range []string{first.String(), first.String()[:30]} {
			if _, err := f.Coordinator().Actions().Resolve(t.Context(), ref); !errors.Is(err, core.ErrNotFound) || !strings.Contains(err.Error(), "kept for 90 days") {
				t.Errorf("who asks for %s is told %v", ref, err)
			}
		}
		if n := f.OutputFiles(first); n != 0 {
			t.Errorf("%d files are left", n)
		}
		if n := f.OutputFiles(second); n == 0 {
			t.Error("files of another are gone")
		}
		// The answer to a question of before brings nothing back.
		h.Report(protocol.Report{Action: first, Event: protocol.EventTell, Digest: protocol.Sum(open.Spec), Spec: open.Spec,
			State: protocol.StateDone, Reason: protocol.ReasonOK, AcceptSeq: 1, HaveOrder: 4})
		f.SetDate(89 * 24 * time.Hour)
		after(2 * time.Minute)
		if known := there(t, f, first, second, third, open.ID); known[0] || !known[1] || !known[2] || !known[3] {
			t.Errorf("within their time there are %v", known)
		}
		f.SetDate(91 * 24 * time.Hour)
		after(2 * time.Minute)
		if known := there(t, f, first, second, third, open.ID); known[0] || known[1] || known[2] || !known[3] {
			t.Errorf("after it there are %v", known)
		}
		if n := f.OutputFiles(second); n != 0 {
			t.Errorf("%d files are left", n)
		}
	})
}

// TestSpokenOfIsKept: what the host may still speak of is not forgotten.
func TestSpokenOfIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host)
		undo   func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host)
	}{
		"a question under way": {
			func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
				h.Auto(func(h *coordtest.Host, o coordtest.Order) { h.Report(o.Started(h)) })
				runs := propose(t, f, h)
				after(time.Minute)
				h.Break()
				if _, err := f.Coordinator().Actions().Cancel(t.Context(), f.Admin(), runs.ID); err != nil {
					t.Fatal(err)
				}
			},
			func(_ *testing.T, _ *coordtest.Fleet, h *coordtest.Host) { h.Connect() },
		},
		"an order that was not acknowledged": {
			func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
				h.Break()
				after(time.Minute)
				free(t, f, h, -1)
			},
			func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) { free(t, f, h, 1) },
		},
		"quarantined": {
			func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) { quarantine(t, f, h, "not to be trusted") },
			func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) { quarantine(t, f, h, "") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
				id := talked(t, f, h, "hello")
				c.change(t, f, h)
				synctest.Wait()
				f.SetDate(100 * 24 * time.Hour)
				after(2 * time.Minute)
				if !there(t, f, id)[0] {
					t.Error("it is forgotten")
				}
				c.undo(t, f, h)
				after(3 * time.Minute)
				if there(t, f, id)[0] {
					t.Error("it is kept although nobody may speak of it")
				}
			})
		})
	}
}

// free moves what a host has acknowledged of its orders.
func free(t *testing.T, f *coordtest.Fleet, h *coordtest.Host, by int) {
	t.Helper()
	err := f.Store().Update(t.Context(), func(tx core.Tx) error {
		st, err := tx.Streams.Get(h.ID, protocol.StreamOrder)
		st.Freed.N += uint64(by)
		if err != nil {
			return err
		}
		return tx.Streams.Put(st)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// quarantine changes why a host is quarantined.
func quarantine(t *testing.T, f *coordtest.Fleet, h *coordtest.Host, why string) {
	t.Helper()
	err := f.Store().Update(t.Context(), func(tx core.Tx) error {
		host, err := tx.Hosts.Get(h.ID)
		host.Quarantined = why
		if err != nil {
			return err
		}
		return tx.Hosts.Put(host)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestOldEnrolmentsAreForgotten: but not those of the hosts that there are.
func TestOldEnrolmentsAreForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		member := f.Join("edge-99")
		if _, err := f.Coordinator().Members().ApproveEnrolment(t.Context(), f.Admin(), member.ID, ""); err != nil {
			t.Fatal(err)
		}
		gone := func(id string, state core.EnrolmentState, decided time.Time) {
			f.PutEnrolments(func(put func(core.Enrolment)) {
				e := core.Enrolment{ID: id, Host: h.ID, State: state, CreatedMS: 1}
				if !decided.IsZero() {
					e.DecidedMS = decided.UnixMilli()
				}
				put(e)
			})
		}
		gone("denied", core.EnrolmentDenied, time.Now())
		gone("waits", core.EnrolmentPending, time.Time{})
		f.SetDate(91 * 24 * time.Hour)
		after(2 * time.Minute)
		all, err := f.Coordinator().Members().Enrolments(t.Context(), "")
		if err != nil || len(all) != 2 || all[0].ID != "waits" || all[1].ID != member.ID {
			t.Errorf("left are %+v, %v", all, err)
		}
		err = f.Store().View(t.Context(), func(tx core.Tx) error { _, err := tx.Enrolments.Invite(member.Invite); return err })
		if !errors.Is(err, core.ErrNotFound) {
			t.Errorf("its invite of 91 days ago: %v", err)
		}
	})
}
