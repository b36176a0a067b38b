package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/alerting"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/journal"
	"github.com/hostler-io/hostler/internal/notify"
	"github.com/hostler-io/hostler/protocol"
)

// mailbox is a target that keeps what it gets, and may fail, having taken it or not.
type mailbox struct {
	mu    sync.Mutex
	got   []notify.Notification
	fails int
	takes bool // also when it fails
}

func (m *mailbox) Name() string { return "mailbox" }

func (m *mailbox) Send(_ context.Context, n notify.Notification) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails > 0 {
		m.fails--
		if m.takes {
			m.got = append(m.got, n)
		}
		return errors.New("the mailbox is closed")
	}
	m.got = append(m.got, n)
	return nil
}

// taken returns what came since the last call.
func (m *mailbox) taken() []notify.Notification {
	m.mu.Lock()
	defer m.mu.Unlock()
	got := m.got
	m.got = nil
	return got
}

func (m *mailbox) fail(n int, takes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails, m.takes = n, takes
}

// withMailbox tests a coordinator that tells a mailbox.
func withMailbox(t *testing.T, n alerting.Notices, test func(*testing.T, *coordtest.Fleet, *coordtest.Host, *mailbox)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		box := &mailbox{}
		n.Targets = []notify.Target{box}
		f := coordtest.New(t)
		f.Tune(func(c *coordinator.Config) { c.Notices = n })
		f.Restart()
		h := f.AddHost("edge-07")
		h.Connect()
		synctest.Wait()
		test(t, f, h, box)
	})
}

func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func alert(id string, raised bool) protocol.Alert {
	return protocol.Alert{Raised: raised, AlertInfo: protocol.AlertInfo{ID: id, Severity: "warning", Text: id + " is bad", SinceMS: 5}}
}

// TestNotifications: alerts that come together are told together, once, whatever fails
// and restarts on the way; what is still raised is told again after a while.
func TestNotifications(t *testing.T) {
	withMailbox(t, alerting.Notices{}, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host, box *mailbox) {
		told := func(what string, want ...string) {
			t.Helper()
			got := box.taken()
			var lines []string
			for _, n := range got {
				for _, a := range n.Raised {
					lines = append(lines, "raised "+a.Host+" "+a.ID)
				}
				for _, a := range n.Cleared {
					lines = append(lines, "cleared "+a.Host+" "+a.ID)
				}
			}
			if len(got) > 1 || !slices.Equal(lines, want) {
				t.Errorf("%s: %d notifications tell %q, want one of %q", what, len(got), lines, want)
			}
		}
		h.Alert(alert("a", true))
		elapse(10 * time.Second)
		h.Alert(alert("b", true))
		told("at once")
		elapse(25 * time.Second)
		told("after the wait", "raised edge-07 a", "raised edge-07 b")
		elapse(time.Hour)
		told("later")

		box.fail(5, false)
		h.Alert(alert("b", false))
		elapse(2 * time.Minute)
		told("after failures", "cleared edge-07 b")

		h.Alert(alert("c", true))
		synctest.Wait()
		f.Restart() // within the wait
		elapse(time.Minute)
		told("after a restart within the wait", "raised edge-07 c")

		box.fail(1000, false)
		h.Alert(alert("d", true))
		elapse(time.Minute)
		f.Restart() // while it cannot be delivered
		box.fail(0, false)
		elapse(10 * time.Minute)
		told("after a restart before its delivery", "raised edge-07 d")

		h.Alert(alert("d", true)) // whose heartbeat did not name it
		elapse(time.Minute)
		told("raised again", "raised edge-07 d")
		elapse(3 * time.Hour)
		repeated := box.taken()
		if len(repeated) != 1 || !repeated[0].Repeated || len(repeated[0].Raised) != 1 {
			t.Errorf("after four hours told again are %+v, want d", repeated)
		}

		box.fail(1, true) // it was taken, and nobody knows
		h.Alert(alert("e", true))
		elapse(time.Minute)
		if got := box.taken(); len(got) != 2 || got[0].ID != got[1].ID {
			t.Errorf("what may have been taken comes again with its id: %+v", got)
		}
		rows, _, err := f.Coordinator().Journal().Audit(t.Context(), journal.Filter{Verb: "alert.notified", Limit: 10})
		if err != nil || len(rows) != 7 {
			t.Errorf("%d deliveries are in the audit log, want 7; %v", len(rows), err)
		}
	})
}

// TestStorm: alerts of 1,000 hosts are one notification per group, which lists the worst
// and counts the others.
func TestStorm(t *testing.T) {
	for by, groups := range map[string]int{"": 1, "site": 2} {
		withMailbox(t, alerting.Notices{GroupBy: by}, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host, box *mailbox) {
			if err := f.Coordinator().Members().Relabel(t.Context(), f.Admin(), h.ID, []string{"site=lab"}, nil, ""); err != nil {
				t.Fatal(err)
			}
			elapse(time.Second)
			h.Alert(alert("a", true))
			err := f.Store().Update(t.Context(), func(tx core.Tx) error {
				for n := range 1000 { // of hosts that are gone by now: they have no labels
					severity := "warning"
					if n%100 == 0 {
						severity = "critical"
					}
					e := core.Event{AtMS: 1, Type: "alert.raised", Host: protocol.HostID(fmt.Sprintf("edge-%04d", n)), Object: "a", Data: fmt.Appendf(nil, `{"severity":%q,"text":"x"}`, severity)}
					if _, err := tx.Events.Append(e); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			elapse(time.Minute)
			got := box.taken()
			slices.SortFunc(got, func(x, y notify.Notification) int { return len(x.Group) - len(y.Group) })
			if len(got) != groups || len(got[0].Raised) != 100 || got[0].Raised[9].Severity != "critical" || got[0].Raised[10].Severity != "warning" {
				t.Fatalf("by %q: %d notifications, want %d", by, len(got), groups)
			}
			if want := 1001 - 100 - (groups - 1); got[0].Left != want {
				t.Errorf("by %q: %d more are counted, want %d", by, got[0].Left, want)
			}
			if groups == 2 && (got[1].Group != "lab" || len(got[1].Raised) != 1) {
				t.Errorf("%+v", got[1])
			}
		})
	}
}

// TestMarks: an alert that somebody looks after is not told again, until it is another
// one; one that is muted is told by nobody until the mute ends; both are listed.
func TestMarks(t *testing.T) {
	withMailbox(t, alerting.Notices{Repeat: time.Hour}, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host, box *mailbox) {
		raise := func(id string, since int64) {
			a := alert(id, true)
			a.SinceMS = since
			same := func(o protocol.AlertInfo) bool { return o.ID == id }
			h.Set(func(f *coordtest.Facts) {
				f.Alerts = append(slices.DeleteFunc(slices.Clone(f.Alerts), same), a.AlertInfo)
			})
			h.Alert(a)
			elapse(time.Minute)
		}
		rooms := f.Coordinator().Alerts
		told := func(what string, want ...string) {
			t.Helper()
			var ids []string
			for _, n := range box.taken() {
				for _, a := range n.Raised {
					ids = append(ids, a.ID)
				}
			}
			if !slices.Equal(ids, want) {
				t.Errorf("%s: told are %q, want %q", what, ids, want)
			}
		}
		raise("disk/a", 5)
		raise("ram/b", 5)
		told("raised", "disk/a", "ram/b")
		if _, err := rooms().Acknowledge(t.Context(), f.Admin(), h.ID, "disk", "ordered"); err != nil {
			t.Fatal(err)
		}
		f.Restart()
		elapse(time.Hour)
		told("told again is what nobody looks after", "ram/b")
		raise("disk/a", 6)
		told("another alert of the same name", "disk/a")

		mute, err := rooms().Mute(t.Context(), f.Admin(), alerting.Mute{Host: h.ID, Alert: "ram"}, 3*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		raise("ram/c", 5)
		told("muted")
		all, next, err := rooms().Raised(t.Context(), "", 100)
		if err != nil || next != "" || len(all) != 3 {
			t.Fatalf("%+v, %q, %v", all, next, err)
		}
		for _, a := range all {
			if muted := a.ID != "disk/a"; (a.Mute != nil) != muted || a.Ack != nil {
				t.Errorf("listed is %+v", a)
			}
		}
		if err := rooms().Unmute(t.Context(), f.Admin(), mute.ID); err != nil {
			t.Fatal(err)
		}
		elapse(time.Hour)
		told("after the mute", "disk/a", "ram/b", "ram/c")
		if _, err := rooms().Mute(t.Context(), f.Admin(), alerting.Mute{}, time.Hour/2); err != nil {
			t.Fatal(err)
		}
		elapse(31 * time.Minute)
		if left, err := rooms().Mutes(t.Context()); err != nil || len(left) != 0 {
			t.Errorf("after their end: %+v, %v", left, err)
		}

		for what, err := range map[string]error{
			"no such host":  second(rooms().Acknowledge(t.Context(), f.Admin(), "nosuch", "x", "")),
			"no such alert": second(rooms().Acknowledge(t.Context(), f.Admin(), h.ID, "x", "")),
			"several":       second(rooms().Acknowledge(t.Context(), f.Admin(), h.ID, "ram/", "")),
			"no such mute":  rooms().Unmute(t.Context(), f.Admin(), "mute-99"),
			"too long":      second(rooms().Mute(t.Context(), f.Admin(), alerting.Mute{}, 91*24*time.Hour)),
			"two ways":      second(rooms().Mute(t.Context(), f.Admin(), alerting.Mute{Host: h.ID, Selector: "a=b"}, time.Hour)),
			"a viewer":      second(rooms().Mute(t.Context(), core.Actor{Name: "eve", Role: core.RoleViewer}, alerting.Mute{}, time.Hour)),
		} {
			if err == nil {
				t.Errorf("%s: done", what)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }
