package coordinator_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
)

// quarantined returns why the host gets nothing.
func quarantined(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) string {
	t.Helper()
	synctest.Wait()
	v, err := f.Coordinator().Host(t.Context(), h.ID)
	if err != nil {
		t.Fatal(err)
	}
	return v.Quarantined
}

func readmit(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
	t.Helper()
	if err := f.Coordinator().Readmit(t.Context(), f.Admin(), h.ID); err != nil {
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
		_, err := f.Coordinator().Propose(t.Context(), f.Admin(), coordinator.Request{Host: h.ID, Spec: coordtest.RunSpec("true")})
		if !errors.Is(err, coordinator.ErrDenied) {
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

func TestRestoredCoordinatorRecovers(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		f.Restart()
		synctest.Wait() // the host now holds a receipt of term 2
		after(10 * time.Second)
		f.RestartOn(storetest.NewMem(storetest.Faults{}))
		f.Put(coordinator.Host{ID: h.ID, State: coordinator.HostApproved, Key: coordtest.NewKey("host edge-07").Key(), PublicKey: coordtest.NewKey("host edge-07").Certificate()})
		h.Connect()
		synctest.Wait()
		if why := f.Coordinator().Recovery(); !strings.Contains(why, "put the newest copy of its state directory in place") {
			t.Fatalf("recovery: %q", why)
		}
		_, err := f.Coordinator().Propose(t.Context(), f.Admin(), coordinator.Request{Host: h.ID, Spec: coordtest.RunSpec("true")})
		if !errors.Is(err, coordinator.ErrRecovery) {
			t.Errorf("an action in recovery: %v", err)
		}
		if err := f.Coordinator().Ready(t.Context()); !errors.Is(err, coordinator.ErrRecovery) {
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
