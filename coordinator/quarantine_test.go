package coordinator_test

import (
	"errors"
	"slices"
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

// quarantined returns why the host gets nothing.
func quarantined(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) string {
	t.Helper()
	synctest.Wait()
	v, err := f.Coordinator().Members().Host(t.Context(), h.ID)
	if err != nil {
		t.Fatal(err)
	}
	return v.Quarantined
}

func readmit(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
	t.Helper()
	if err := f.Coordinator().Members().Readmit(t.Context(), f.Admin(), h.ID); err != nil {
		t.Fatal(err)
	}
	after(2 * time.Second) // hellos are answered once a second
}

func TestCopiedHostIsQuarantined(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		clone := h.Copy()
		after(2 * time.Second)
		clone.Connect() // the same disk started once more, elsewhere
		after(10 * time.Second)
		// The first process still lives: it says hello, is answered with the
		// probe, and carries it.
		h.Connect()
		after(10 * time.Second)
		if why := quarantined(t, f, h); !strings.Contains(why, "two processes") {
			t.Fatalf("quarantined because of %q", why)
		}
		_, err := f.Coordinator().Actions().Propose(t.Context(), f.Admin(), actions.Request{Host: h.ID, Spec: coordtest.RunSpec("true")})
		if !errors.Is(err, core.ErrDenied) {
			t.Errorf("an action for it: %v, want ErrDenied", err)
		}
		clone.Silence()
		clone.Goodbye()
		readmit(t, f, h)
		h.Auto(coordtest.Succeed(""))
		a := propose(t, f, h)
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		if why := quarantined(t, f, h); why != "" {
			t.Errorf("quarantined again after the copy was gone: %s", why)
		}
	})
}

func TestRolledBackHost(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Auto(coordtest.Succeed(""))
		first := propose(t, f, h)
		want(t, f, first.ID, protocol.StateDone, protocol.ReasonOK)
		backup := h.Copy()
		h.Auto(func(h *coordtest.Host, o coordtest.Order) { h.Report(o.Started(h)) })
		second := propose(t, f, h)
		want(t, f, second.ID, protocol.StateRunning, "")

		h.Rollback(backup)
		h.Connect()
		after(10 * time.Second)
		if why := quarantined(t, f, h); !strings.Contains(why, "disk went back") {
			t.Fatalf("quarantined because of %q", why)
		}
		want(t, f, second.ID, protocol.StateLost, protocol.ReasonRolledBack)
		h.Auto(coordtest.Succeed(""))
		noOrder(t, h)

		readmit(t, f, h)
		if why := quarantined(t, f, h); why != "" {
			t.Fatalf("quarantined again although it was readmitted: %s", why)
		}
		third := propose(t, f, h)
		want(t, f, third.ID, protocol.StateDone, protocol.ReasonOK)
		want(t, f, second.ID, protocol.StateLost, protocol.ReasonRolledBack)
	})
}

// TestEachPositionShowsARollback: a disk that went back shows in what the host
// has accepted, sent and taken in, and in the history behind the numbers. Each
// of them is enough.
func TestEachPositionShowsARollback(t *testing.T) {
	find := func(list []protocol.Position, s protocol.Stream) *protocol.Position {
		return &list[slices.IndexFunc(list, func(p protocol.Position) bool { return p.Stream == s })]
	}
	for _, c := range []struct {
		name, why string
		lie       func(*protocol.Hello)
	}{
		{"accepted", "accepted 0 actions", func(h *protocol.Hello) { h.AcceptSeq-- }},
		{"sent", "items of stream report", func(h *protocol.Hello) { find(h.Sent, protocol.StreamReport).N-- }},
		{"taken in", "items of stream order", func(h *protocol.Hello) {
			*find(h.Have, protocol.StreamOrder) = protocol.Position{Store: h.Have[0].Store, Stream: protocol.StreamOrder}
		}},
		{"another history", "two histories", func(h *protocol.Hello) { find(h.Have, protocol.StreamOrder).H[0] ^= 1 }},
		{"more than there is", "two histories", func(h *protocol.Hello) { find(h.Have, protocol.StreamOrder).N++ }},
		{"another database", "database is another one", func(h *protocol.Hello) { h.Store[0] ^= 1 }},
		{"nothing wrong", "", func(*protocol.Hello) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
				h.Auto(coordtest.Succeed(""))
				a := propose(t, f, h)
				want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
				after(5 * time.Second)
				h.Connect() // what it has accepted, it tells with a hello
				after(5 * time.Second)
				h.Lie(c.lie)
				h.Connect()
				after(5 * time.Second)
				if why := quarantined(t, f, h); (c.why == "") != (why == "") || !strings.Contains(why, c.why) {
					t.Errorf("quarantined because of %q, want %q", why, c.why)
				}
			})
		})
	}
}

// A disk that went back with its count of starts looks like a second process.
// Nothing of what it has forgotten stays open for ever.
func TestRolledBackWithItsStarts(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Auto(coordtest.Succeed(""))
		first := propose(t, f, h)
		want(t, f, first.ID, protocol.StateDone, protocol.ReasonOK)
		backup := h.Copy()
		h.Reboot()
		h.Reboot()
		h.Auto(func(h *coordtest.Host, o coordtest.Order) { h.Report(o.Started(h)) })
		second := propose(t, f, h)
		want(t, f, second.ID, protocol.StateRunning, "")
		h.Goodbye()
		h.Silence()

		backup.Connect()
		after(10 * time.Second)
		if why := quarantined(t, f, h); !strings.Contains(why, "two processes") {
			t.Fatalf("quarantined because of %q", why)
		}
		readmit(t, f, h)
		want(t, f, second.ID, protocol.StateLost, protocol.ReasonRolledBack)
		backup.Auto(coordtest.Succeed(""))
		third := propose(t, f, h)
		want(t, f, third.ID, protocol.StateDone, protocol.ReasonOK)
	})
}

func TestRestoredCoordinatorRecovers(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		f.Restart()
		synctest.Wait() // the host now holds a receipt of term 2
		after(10 * time.Second)
		f.RestartOn(storetest.NewMem(storetest.Faults{}))
		f.Put(core.Host{ID: h.ID, State: core.HostApproved, Key: coordtest.NewKey("host edge-07").Key(), PublicKey: coordtest.NewKey("host edge-07").Certificate()})
		h.Connect()
		synctest.Wait()
		if why := f.Coordinator().Recovery(); !strings.Contains(why, "put the newest copy of its state directory in place") {
			t.Fatalf("recovery: %q", why)
		}
		_, err := f.Coordinator().Actions().Propose(t.Context(), f.Admin(), actions.Request{Host: h.ID, Spec: coordtest.RunSpec("true")})
		if !errors.Is(err, core.ErrRecovery) {
			t.Errorf("an action in recovery: %v", err)
		}
		if err := f.Coordinator().Ready(t.Context()); !errors.Is(err, core.ErrRecovery) {
			t.Errorf("Ready in recovery: %v", err)
		}
		if why := quarantined(t, f, h); why != "" {
			t.Errorf("the host that proved it is quarantined: %s", why)
		}
	})
}

func TestOldHelloAfterARestartHarmsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Auto(coordtest.Succeed(""))
		old := h.Greeting()
		for range 3 {
			a := propose(t, f, h)
			want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		}
		h.Reboot()
		h.Connect()
		a := propose(t, f, h)
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		// The coordinator forgets all challenges, and the first that it sees is
		// a hello from before everything.
		h.Silence()
		f.Restart()
		if err := f.Ingest(old.Topic.String(), old.Payload); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h.Reboot()
		h.Connect()
		after(10 * time.Second)
		if why := quarantined(t, f, h); why != "" {
			t.Fatalf("an honest host is quarantined: %s", why)
		}
		b := propose(t, f, h)
		want(t, f, b.ID, protocol.StateDone, protocol.ReasonOK)
	})
}

// After a person has readmitted a host, receipts from before tell of more than
// the coordinator now counts. Whoever kept one must not stop the fleet with it.
func TestOldReceiptsOfAReadmittedHostStopNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Auto(coordtest.Succeed(""))
		backup := h.Copy()
		for range 3 {
			a := propose(t, f, h)
			want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		}
		kept := h.Copy() // with the newest receipt
		h.Rollback(backup)
		h.Connect()
		after(10 * time.Second)
		if why := quarantined(t, f, h); !strings.Contains(why, "disk went back") {
			t.Fatalf("quarantined because of %q", why)
		}
		readmit(t, f, h)
		after(10 * time.Second)
		h.Silence()
		kept.Reboot()
		kept.Reboot()
		after(10 * time.Second)
		if why := f.Coordinator().Recovery(); why != "" {
			t.Errorf("in recovery because of a host: %s", why)
		}
	})
}
