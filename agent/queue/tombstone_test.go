package queue_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// aging is a queue whose clocks a test sets.
type aging struct {
	t    *testing.T
	path string
	q    *queue.Queue
	now  queue.Now
}

func newAging(t *testing.T) *aging {
	t.Helper()
	a := &aging{t: t, path: filepath.Join(t.TempDir(), "queue.db"), now: now}
	q, err := queue.Create(t.Context(), queue.Config{Path: a.path}, store)
	if err != nil {
		t.Fatal(err)
	}
	a.q = q
	t.Cleanup(func() {
		if err := a.q.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := q.SawTerm(t.Context(), protocol.Term{Ring: 1, Counter: 1}, theirs, nil); err != nil {
		t.Fatal(err)
	}
	a.start()
	return a
}

// start is what an agent does first.
func (a *aging) start() {
	a.t.Helper()
	if _, err := a.q.Begin(a.t.Context(), a.now); err != nil {
		a.t.Fatal(err)
	}
}

// restart closes the queue and opens it at another moment.
func (a *aging) restart(boot string, bootMS int64) {
	a.t.Helper()
	if err := a.q.Close(); err != nil {
		a.t.Fatal(err)
	}
	q, err := queue.Open(a.t.Context(), queue.Config{Path: a.path})
	if err != nil {
		a.t.Fatal(err)
	}
	a.q, a.now.Boot, a.now.BootMS = q, boot, bootMS
	a.start()
}

// pass lets days go by in this boot.
func (a *aging) pass(days int) {
	a.t.Helper()
	a.now.BootMS += int64(days) * day
	a.forget()
}

func (a *aging) forget() {
	a.t.Helper()
	if _, err := a.q.Forget(a.t.Context(), a.now); err != nil {
		a.t.Fatal(err)
	}
}

// entomb leaves the tombstone of an action that never came.
func (a *aging) entomb(id protocol.ActionID) {
	a.t.Helper()
	if _, err := a.q.Cancel(a.t.Context(), down(a.t, a.q, protocol.StreamControl), id, a.now); err != nil {
		a.t.Fatal(err)
	}
}

// kept compares whether an id is remembered with what it should be.
func (a *aging) kept(when string, id protocol.ActionID, want bool) {
	a.t.Helper()
	_, err := a.q.Action(a.t.Context(), id)
	if err != nil && !errors.Is(err, queue.ErrUnknown) {
		a.t.Fatal(err)
	}
	if got := err == nil; got != want {
		a.t.Errorf("%s: remembered is %t, want %t", when, got, want)
	}
}

const day = 24 * 3600 * 1000

// TestTombstonesGoByUptime: what is remembered of forgotten actions goes after 400
// days of uptime, and no clock that jumps makes it go before.
func TestTombstonesGoByUptime(t *testing.T) {
	a := newAging(t)
	a.now.WallMS = 0 // a host without a clock of its own begins in 1970
	a.entomb(action(1))
	a.pass(200)
	a.entomb(action(2))
	a.now.WallMS = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	a.pass(0)
	a.kept("the date has come", action(1), true)
	a.now.WallMS = 0
	a.pass(1)
	a.kept("the date has gone back", action(1), true)
	a.restart("boot-1", a.now.BootMS)
	a.pass(0)
	a.kept("the agent was restarted", action(1), true)
	a.restart("boot-2", 1000*day)
	a.pass(0)
	a.kept("another init on a clock that is far ahead", action(1), true)
	a.pass(198)
	a.kept("399 days", action(1), true)
	a.restart("boot-2", a.now.BootMS-50*day)
	a.pass(50)
	a.kept("the boot clock went back and forth", action(1), true)
	a.restart("boot-2", a.now.BootMS+day)
	a.pass(0)
	a.kept("400 days", action(1), true)
	a.now.BootMS += time.Hour.Milliseconds()
	a.pass(0)
	a.kept("400 days and an hour", action(1), false)
	a.kept("200 days", action(2), true)
	if _, fresh := accept(t, a.q, order(2)); fresh {
		t.Error("an id that is remembered was accepted")
	}
	a.pass(201)
	a.kept("401 days", action(2), false)
}

// TestUptimeIsNotedRarely: an idle host does not write each time that it looks, and
// what it left out counts for no tombstone.
func TestUptimeIsNotedRarely(t *testing.T) {
	a := newAging(t)
	a.entomb(action(1))
	a.pass(400)
	for range 59 {
		a.now.BootMS += time.Minute.Milliseconds()
		a.forget()
		a.kept("within an hour", action(1), true)
	}
	a.entomb(action(2)) // notes the uptime
	a.now.BootMS += time.Hour.Milliseconds()
	a.forget()
	a.kept("400 days and two hours", action(1), false)
	a.now.BootMS += 400*day - time.Hour.Milliseconds()
	a.forget()
	a.kept("400 days to the moment", action(2), true)
}

// TestDroppedTombstonesShutApprovalsOut: what an action rested on counts for nothing
// from the moment on at which its id could be ordered again, be it by age or by
// number.
func TestDroppedTombstonesShutApprovalsOut(t *testing.T) {
	a := newAging(t)
	used := func(when string, want int64) {
		t.Helper()
		if got, err := a.q.UsedMS(t.Context()); err != nil || got != want {
			t.Errorf("%s: approvals until %d may have been used, want %d; %v", when, got, want, err)
		}
	}
	approved := func(n byte, ms int64) {
		t.Helper()
		o := order(n)
		o.ApprovedMS, o.BudgetMS = ms, 0
		accept(t, a.q, o)
	}
	approved(1, 5000)
	approved(2, 4000)
	approved(3, 7000)
	bury := func() {
		t.Helper()
		p, err := a.q.Positions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.q.Freed(t.Context(), stream.Find(p.Sent, protocol.StreamReport), []byte("r")); err != nil {
			t.Fatal(err)
		}
		a.now.WallMS += queue.KeepMS + 1
		a.forget()
	}
	bury()
	a.kept("forgotten", action(1), true)
	used("all are remembered", 0)
	a.number(queue.MaxTombstones + 1) // as many were buried meanwhile
	a.entomb(action(9))
	a.kept("too many", action(1), false)
	a.kept("not too many", action(3), true)
	used("the two oldest are gone", 5000)
	a.pass(400)
	a.pass(1)
	a.kept("too old", action(3), false)
	used("all are gone", 7000)
	a.restart("boot-2", 1)
	used("after a restart", 7000)
	approved(4, 6000)
	bury()
	a.pass(400)
	a.pass(1)
	a.kept("too old", action(4), false)
	used("an older date takes nothing back", 7000)
}

// number has the queue believe that it has buried so many.
func (a *aging) number(n int) {
	a.t.Helper()
	if err := a.q.Close(); err != nil {
		a.t.Fatal(err)
	}
	execute(a.t, a.path, `UPDATE self SET buried = $1`, n)
	var err error
	if a.q, err = queue.Open(a.t.Context(), queue.Config{Path: a.path}); err != nil {
		a.t.Fatal(err)
	}
}

// execute changes the database of a queue that is closed.
func execute(t *testing.T, path, statement string, args ...any) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), sqldb.Config{Path: path, ApplicationID: 0x48737441, Migrations: os.DirFS("schema")})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(statement, args...)
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}
