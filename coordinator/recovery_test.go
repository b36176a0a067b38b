package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
)

// aged is a fleet whose coordinator was backed up, and went on: three actions
// more, and that many starts more.
func aged(t *testing.T, starts int, test func(*testing.T, *coordtest.Fleet, *coordtest.Host, *storetest.Mem)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewMem(storetest.Faults{})
		f := coordtest.NewOn(t, store)
		h := f.AddHost("edge-07")
		h.Auto(coordtest.Succeed(""))
		h.Connect()
		a := propose(t, f, h)
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		backup := store.Backup()
		for range starts {
			f.Restart()
			after(10 * time.Second)
		}
		for range 3 {
			a := propose(t, f, h)
			want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		}
		test(t, f, h, backup)
	})
}

// inRecovery checks that the coordinator has found out about itself, blames no
// host, and promises nothing.
func inRecovery(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
	t.Helper()
	synctest.Wait()
	c := f.Coordinator()
	if why := c.Recovery(); !strings.Contains(why, "put the newest copy of its state directory in place") {
		t.Fatalf("recovery: %q", why)
	}
	if why := quarantined(t, f, h); why != "" {
		t.Errorf("the host is quarantined: %s", why)
	}
	if _, err := c.Actions().Propose(t.Context(), f.Admin(), actions.Request{Host: h.ID, Spec: coordtest.RunSpec("true")}); !errors.Is(err, core.ErrRecovery) {
		t.Errorf("an action in recovery: %v", err)
	}
	grants := len(f.Published(h.ID, protocol.ChannelGrant))
	after(time.Minute)
	if n := len(f.Published(h.ID, protocol.ChannelGrant)); n != grants {
		t.Errorf("%d grants in recovery", n-grants)
	}
}

// However often the coordinator was started before and after the backup: what
// it has signed tells of more than it knows.
func TestRestoredCoordinatorIsFound(t *testing.T) {
	for _, before := range []int{0, 1, 3} {
		for _, since := range []int{0, 1, 3, 7} {
			aged(t, before, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host, backup *storetest.Mem) {
				f.Stop()
				// It was started alone, so that its term has caught up, or more.
				h.Deaf(func(protocol.Channel) bool { return true })
				f.RestartOn(backup)
				for range since {
					f.Restart()
				}
				h.Deaf(nil)
				h.Reboot()
				inRecovery(t, f, h)
			})
		}
	}
}

// What a coordinator that went back says before it has found out must not talk
// its hosts out of the proof.
func TestLaterWordsKeepTheProof(t *testing.T) {
	aged(t, 0, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host, backup *storetest.Mem) {
		f.Stop()
		// The hellos are lost, and the words of three starts come through.
		f.Delay(func(string, []byte) bool { return true })
		f.RestartOn(backup)
		f.Restart()
		f.Restart()
		synctest.Wait()
		f.Delay(nil)
		h.Reboot()
		inRecovery(t, f, h)
	})
}

// Nobody gets a coordinator out of recovery by starting it anew.
func TestRecoveryOutlivesARestart(t *testing.T) {
	aged(t, 1, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host, backup *storetest.Mem) {
		f.RestartOn(backup)
		h.Connect()
		inRecovery(t, f, h)
		h.Deaf(func(protocol.Channel) bool { return true })
		h.Silence() // there is nobody to prove it again
		f.Restart()
		inRecovery(t, f, h)
	})
}

// What recovery says to do helps: with the newest copy of the store everything
// goes on, after one more start if the old one was started too often.
func TestNewestCopyAfterAnOldOne(t *testing.T) {
	for _, starts := range []int{0, 1, 5} {
		aged(t, 1, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host, backup *storetest.Mem) {
			after(10 * time.Second)
			newest := f.Store().(*storetest.Mem).Backup()
			h.Deaf(func(protocol.Channel) bool { return true })
			f.RestartOn(backup)
			for range starts {
				f.Restart()
			}
			h.Deaf(nil)
			h.Reboot()
			inRecovery(t, f, h)

			f.RestartOn(newest)
			h.Reboot()
			after(10 * time.Second)
			if why := f.Coordinator().Recovery(); why != "" {
				if !strings.Contains(why, "start it again") || strings.Contains(why, "out of date") {
					t.Fatalf("recovery of the newest copy: %s", why)
				}
				f.Restart()
				h.Reboot()
				after(10 * time.Second)
			}
			a := propose(t, f, h)
			want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		})
	}
}

// A term that no number of starts explains is not taken over: the counter would come
// to its end. The way out is the owners' next ring, under which it begins anew.
func TestMadeUpTerm(t *testing.T) {
	aged(t, 0, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host, _ *storetest.Mem) {
		for _, made := range []struct {
			term  protocol.Term
			waits string // what the coordinator says of it
		}{
			{protocol.Term{Ring: protocol.MaxInteger, Counter: 1}, ""}, // above the ring of its message
			{protocol.Term{Ring: 1, Counter: 900}, "start it again"},
			{protocol.Term{Ring: 1, Counter: protocol.MaxInteger}, "which no number of starts explains"},
		} {
			word, err := core.SignMessage(f.Trust.Signer(), protocol.CoordinatorState{Header: protocol.Header{
				Type: protocol.TypeCoordinator, Fleet: f.ID, From: protocol.Coordinator, To: protocol.Everybody, Ring: 1, Term: made.term, Seq: protocol.Seq{Inc: 1, Conn: 1, K: 1},
			}})
			if err != nil {
				t.Fatal(err)
			}
			h.Lie(func(h *protocol.Hello) { h.Evidence = word })
			h.Reboot()
			after(10 * time.Second)
			if why := f.Coordinator().Recovery(); !strings.Contains(why, made.waits) || (why == "") != (made.waits == "") {
				t.Errorf("term %s: recovery is %q", made.term, why)
			}
			h.Lie(nil)
			f.Restart()
		}
		if n := f.Coordinator().Term().Counter; n < 901 || n > 910 {
			t.Errorf("the counter is %d", n)
		}
		f.Trust.SetRing(2)
		f.Restart()
		if term := f.Coordinator().Term(); term != (protocol.Term{Ring: 2, Counter: 1}) {
			t.Errorf("the first term under ring 2 is %s", term)
		}
	})
}

// In recovery nothing is concluded from what is known, which is too old: no
// action is LOST because its host is ahead, and no report is taken in.
func TestRecoveryConcludesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewMem(storetest.Faults{})
		f := coordtest.NewOn(t, store)
		h := f.AddHost("edge-07")
		h.Connect()
		synctest.Wait()
		early := h.Copy()
		open := propose(t, f, h)
		o := order(t, h)
		h.Report(o.Started(h))
		want(t, f, open.ID, protocol.StateRunning, "")
		backup := store.Backup()
		// After the backup the host lost its disk, and a person readmitted it.
		h.Rollback(early)
		h.Connect()
		after(10 * time.Second)
		readmit(t, f, h)
		for range 3 {
			f.Restart()
			after(10 * time.Second)
		}
		f.RestartOn(backup)
		h.Reboot()
		inRecovery(t, f, h)
		for range 5 { // until its term is one that the host listens to
			f.Restart()
		}
		after(10 * time.Second)
		h.Report(o.Done())
		after(10 * time.Second)
		want(t, f, open.ID, protocol.StateRunning, "")
	})
}

// A coordinator whose rings went back as well cannot even read its hosts. What
// it has signed itself tells why.
func TestCoordinatorBeforeItsRing(t *testing.T) {
	aged(t, 0, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host, backup *storetest.Mem) {
		f.Trust.SetRing(2)
		a := propose(t, f, h)
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		f.Stop()
		f.Trust.SetRing(1)
		f.RestartOn(backup)
		h.Reboot()
		inRecovery(t, f, h)
	})
}

// Whatever a host claims, it alone is affected: its word is no proof against
// the coordinator.
func TestLyingHost(t *testing.T) {
	const huge = protocol.MaxInteger
	lies := map[string]func(store protocol.StoreID, h *protocol.Hello){
		"term_seen":                         func(_ protocol.StoreID, h *protocol.Hello) { h.TermSeen = protocol.Term{Ring: huge, Counter: huge} },
		"accept_seq, and then what is true": func(_ protocol.StoreID, h *protocol.Hello) { h.AcceptSeq = huge },
		"sent": func(_ protocol.StoreID, h *protocol.Hello) {
			for i := range h.Sent {
				h.Sent[i].N, h.Sent[i].H = huge, protocol.Sum([]byte("lie"))
			}
		},
		"have": func(store protocol.StoreID, h *protocol.Hello) {
			h.Have = nil
			for _, s := range []protocol.Stream{protocol.StreamOrder, protocol.StreamControl} {
				h.Have = append(h.Have, protocol.Position{Store: store, Stream: s, N: huge, H: protocol.Sum([]byte("lie"))})
			}
		},
		"evidence that nobody signed": func(_ protocol.StoreID, h *protocol.Hello) {
			body := `{"hostler":"receipt/1","fleet":"` + strings.Repeat("0", 32) + `","ring":9007199254740991,"term":{"ring":9007199254740991,"counter":1}}`
			forged, err := protocol.Seal(coordtest.NewKey("host liar"), []byte(body), nil)
			if err != nil {
				panic(err)
			}
			h.Evidence, h.TermSeen = forged, protocol.Term{Ring: huge, Counter: 1}
		},
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := storetest.NewMem(storetest.Faults{})
				f := coordtest.NewOn(t, store)
				honest, liar := f.AddHost("edge-07"), f.AddHost("liar")
				for _, h := range []*coordtest.Host{honest, liar} {
					h.Auto(coordtest.Succeed(""))
					h.Connect()
					a := propose(t, f, h)
					want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
				}
				liar.Lie(func(h *protocol.Hello) { lie(store.ID(), h) })
				liar.Reboot()
				after(10 * time.Second)
				liar.Lie(nil)
				liar.Reboot()
				after(10 * time.Second)
				if why := quarantined(t, f, liar); why == "" && name != "sent" { // of its own stream it may say anything
					t.Error("the liar is not quarantined")
				}
				for _, restart := range []func(){func() {}, f.Restart} {
					restart()
					after(10 * time.Second)
					if why := f.Coordinator().Recovery(); why != "" {
						t.Fatalf("in recovery because of a host: %s", why)
					}
					if why := quarantined(t, f, honest); why != "" {
						t.Errorf("the honest host is quarantined: %s", why)
					}
					a := propose(t, f, honest)
					want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
				}
				if quarantined(t, f, liar) != "" {
					readmit(t, f, liar)
					a := propose(t, f, liar)
					want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
				}
			})
		})
	}
}

// afterUpdate is a store that calls a function when a change was kept.
type afterUpdate struct {
	core.Store
	then func()
}

func (s *afterUpdate) Update(ctx context.Context, fn func(core.Tx) error) error {
	err := s.Store.Update(ctx, fn)
	if then := s.then; then != nil {
		s.then = nil
		then()
	}
	return err
}

// A proof that comes while a person readmits a host is not forgotten: what is
// in force and what is stored are the same.
func TestQuarantineWhileReadmitting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &afterUpdate{Store: storetest.NewMem(storetest.Faults{})}
		f := coordtest.NewOn(t, store)
		h := f.AddHost("edge-07")
		h.Connect()
		synctest.Wait()
		fork(t, f, h)
		store.then = func() {
			h.Connect() // says once more that there are two
			synctest.Wait()
		}
		if err := f.Coordinator().Members().Readmit(t.Context(), f.Admin(), h.ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		_, err := f.Coordinator().Actions().Propose(t.Context(), f.Admin(), actions.Request{Host: h.ID, Spec: coordtest.RunSpec("true")})
		if why := quarantined(t, f, h); why == "" || !errors.Is(err, core.ErrDenied) {
			t.Errorf("stored is the quarantine %q, in force is %v", why, err)
		}
	})
}

// fork starts a copy of the host, and lets the host be heard beside it.
func fork(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) (clone *coordtest.Host) {
	t.Helper()
	clone = h.Copy()
	clone.Connect()
	after(10 * time.Second)
	h.Connect()
	after(10 * time.Second)
	if why := quarantined(t, f, h); !strings.Contains(why, "two processes") {
		t.Fatalf("quarantined because of %q", why)
	}
	return clone
}

// An order that somebody else signed with the coordinator's key is found as
// soon as the host acknowledges it.
func TestAcknowledgedButNeverSent(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Auto(coordtest.Succeed(""))
		a := propose(t, f, h)
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		h.Forge(protocol.OrderItem{Action: protocol.ActionID{15: 1}, Spec: coordtest.RunSpec("true"), Requester: "thief"})
		if why := quarantined(t, f, h); !strings.Contains(why, "two histories") {
			t.Errorf("quarantined because of %q", why)
		}
	})
}

// A host that was there when another one brought the proof is told nothing more
// either: its reports wait for a coordinator that knows what they are about.
func TestRecoveryTakesNothingIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewMem(storetest.Faults{})
		f := coordtest.NewOn(t, store)
		busy, h := f.AddHost("edge-07"), f.AddHost("edge-08")
		busy.Auto(coordtest.Succeed(""))
		busy.Connect()
		h.Connect()
		synctest.Wait()
		open := propose(t, f, h)
		o := order(t, h)
		h.Report(o.Started(h))
		want(t, f, open.ID, protocol.StateRunning, "")
		after(10 * time.Second) // the audit log is sealed
		backup := store.Backup()
		propose(t, f, busy)
		busy.Silence()
		busy.Deaf(func(protocol.Channel) bool { return true })
		f.RestartOn(backup)
		after(10 * time.Second)
		if why := f.Coordinator().Recovery(); why != "" {
			t.Fatalf("in recovery already: %s", why)
		}
		busy.Deaf(nil)
		busy.Reboot()
		inRecovery(t, f, h)
		h.Report(o.Done())
		after(10 * time.Second)
		want(t, f, open.ID, protocol.StateRunning, "")
	})
}
