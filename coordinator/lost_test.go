package coordinator_test

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/sqlstore"
	"github.com/hostler-io/hostler/protocol"
)

// TestLostIsProven has a host that retains some records and has forgotten others,
// asked about all of them, with every answer told twice and in any order: what it
// still has is never LOST, what it has forgotten is, and late evidence corrects
// that once.
func TestLostIsProven(t *testing.T) {
	for _, retained := range []int{0, 1, 63, 500, 10_000} {
		synctest.Test(t, func(t *testing.T) {
			f := coordtest.NewOn(t, newStore(t))
			h := f.AddHost("edge-07")
			h.Connect()
			synctest.Wait()
			// Records of actions that began on the host, which it retains, beside
			// those that were ordered.
			local := make([]protocol.Report, retained)
			spec := coordtest.RunSpec("true")
			for i := range local {
				local[i] = protocol.Report{
					Action: protocol.NewActionID(int64(i+1), [10]byte{byte(i), byte(i >> 8)}), Digest: protocol.Sum(spec), Spec: spec, Event: protocol.EventTell,
					State: protocol.StateDone, Reason: protocol.ReasonOK, AcceptSeq: uint64(i + 1), HaveOrder: 1 << 20,
				}
			}
			var kept, forgotten []coordtest.Order
			for i := range 20 {
				propose(t, f, h)
				if o := order(t, h); i%2 == 0 {
					kept = append(kept, o)
				} else {
					forgotten = append(forgotten, o)
				}
			}
			synctest.Wait()
			answers := append([]protocol.Report{}, local...)
			for i, o := range kept {
				r := o.Started(h)
				r.Event, r.HaveOrder = protocol.EventTell, 20
				if i%3 == 0 {
					r = o.Done()
					r.Event, r.HaveOrder = protocol.EventTell, 20
				}
				answers = append(answers, r)
			}
			early := make([]protocol.Report, 0, len(forgotten))
			for i, o := range forgotten {
				r := protocol.Report{Action: o.Item.Action, Event: protocol.EventTell, HaveOrder: 20}
				answers = append(answers, r)
				// A snapshot of before the order had arrived says nothing.
				r.HaveOrder = uint64(2*i + 1)
				early = append(early, r)
			}
			for _, r := range early {
				h.Report(r)
			}
			synctest.Wait()
			states := func() (lost int) {
				for _, o := range append(append([]coordtest.Order{}, kept...), forgotten...) {
					a, err := f.Coordinator().Actions().Get(t.Context(), o.Item.Action)
					if err != nil {
						t.Fatal(err)
					}
					if a.State == protocol.StateLost {
						lost++
					}
				}
				return lost
			}
			if n := states(); n != 0 {
				t.Errorf("%d records retained: %d actions are LOST by snapshots of before their orders", retained, n)
			}
			answers = append(answers, answers...)
			rand.New(rand.NewPCG(uint64(retained), 1)).Shuffle(len(answers), func(i, j int) { answers[i], answers[j] = answers[j], answers[i] })
			for i, r := range answers {
				h.Report(r)
				if i%32 == 31 || len(answers) < 1000 {
					synctest.Wait() // an honest host has no more than a window under way
				}
			}
			synctest.Wait()
			after(90e9) // what went lost on the way is sent again
			for _, o := range kept {
				a, err := f.Coordinator().Actions().Get(t.Context(), o.Item.Action)
				if err != nil || a.State == protocol.StateLost || a.State == protocol.StatePendingSchedule {
					t.Errorf("%d records retained: what the host has is %s, %v", retained, a.State, err)
				}
			}
			for _, o := range forgotten {
				a, err := f.Coordinator().Actions().Get(t.Context(), o.Item.Action)
				if err != nil || a.State != protocol.StateLost || a.Reason != protocol.ReasonUnknown {
					t.Errorf("%d records retained: what the host does not know is %s %s, %v", retained, a.State, a.Reason, err)
				}
			}
			// Late evidence, twice and contradicting itself: the first counts.
			h.Report(forgotten[0].Done())
			h.Report(forgotten[0].Done())
			h.Report(forgotten[0].Cancelled())
			synctest.Wait()
			if a, err := f.Coordinator().Actions().Get(t.Context(), forgotten[0].Item.Action); err != nil || a.State != protocol.StateDone || !a.Corrected {
				t.Errorf("late evidence makes it %s, corrected %v, %v", a.State, a.Corrected, err)
			}
			believed(t, h)
		})
	}
}

// newStore returns a real store, which ends after those who use it.
func newStore(t testing.TB) core.Store {
	t.Helper()
	s, err := sqlstore.Create(t.Context(), sqlstore.Config{Path: filepath.Join(t.TempDir(), "store.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestReportsInAnyOrder feeds the reports of one action twice and shuffled,
// between answers that it is unknown: the end is the host's, and a final state
// never changes but from LOST.
func TestReportsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		synctest.Test(t, func(t *testing.T) {
			f := coordtest.New(t)
			h := f.AddHost("edge-07")
			h.Connect()
			synctest.Wait()
			a := propose(t, f, h)
			o := order(t, h)
			accepted := o.Started(h)
			accepted.Event, accepted.State, accepted.Attempt = protocol.EventAccept, protocol.StateNew, 0
			started, done := o.Started(h), o.Done()
			unknown := protocol.Report{Action: a.ID, Event: protocol.EventTell, HaveOrder: 9}
			all := []protocol.Report{accepted, started, done, unknown, accepted, started, done, unknown}
			rand.New(rand.NewPCG(seed, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			final := protocol.StateNone
			for _, r := range all {
				h.Report(r)
				synctest.Wait()
				now, err := f.Coordinator().Actions().Get(t.Context(), a.ID)
				if err != nil {
					t.Fatal(err)
				}
				if final.Final() && final != protocol.StateLost && now.State != final {
					t.Errorf("%s became %s", final, now.State)
				}
				final = now.State
			}
			if final != protocol.StateDone {
				t.Errorf("in the end it is %s", final)
			}
		})
	})
}

// BenchmarkBatch asks 1,000 hosts that are there, on a real store, and follows
// until all have told the end. Keys are those of the tests, which cost little.
func BenchmarkBatch(b *testing.B) {
	f := coordtest.NewOn(b, newStore(b))
	var hosts []protocol.HostID
	for n := range 1000 {
		h := f.AddHost(protocol.HostID("edge-" + string(rune('a'+n/100)) + string(rune('a'+n/10%10)) + string(rune('a'+n%10))))
		h.Auto(coordtest.Succeed(""))
		h.Connect()
		hosts = append(hosts, h.ID)
	}
	c := f.Coordinator()
	for b.Loop() {
		id := protocol.BatchID(c.Actions().NewActionID())
		for i := range 2 {
			_, _, err := c.Actions().ProposeMany(b.Context(), f.Admin(), actions.BatchRequest{ID: id, Hosts: hosts[i*500 : i*500+500], Spec: coordtest.RunSpec("true")})
			if err != nil {
				b.Fatal(err)
			}
		}
		following := c.Actions().FollowBatch(id)
		done := map[protocol.ActionID]bool{}
		for len(done) < len(hosts) {
			all, err := following.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			for _, a := range all {
				if a.State.Final() {
					done[a.ID] = true
				}
			}
		}
		following.Close()
	}
}
