package coordinator_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
)

// hooked is a store that runs a function once, right after a transaction in which a
// host was written.
type hooked struct {
	core.Store
	after atomic.Pointer[func()]
}

func (s *hooked) Update(ctx context.Context, fn func(core.Tx) error) error {
	wrote := false
	err := s.Store.Update(ctx, func(tx core.Tx) error {
		tx.Hosts = writes{tx.Hosts, &wrote}
		return fn(tx)
	})
	if wrote {
		if after := s.after.Swap(nil); after != nil {
			(*after)()
		}
	}
	return err
}

type writes struct {
	core.Hosts
	seen *bool
}

func (w writes) Put(h core.Host) error {
	*w.seen = true
	return w.Hosts.Put(h)
}

// TestReadmittedMeanwhile: a person readmits a host just after something that it says
// was compared with what was known of it. It is not quarantined again for that.
func TestReadmittedMeanwhile(t *testing.T) {
	for name, say := range map[string]func(*coordtest.Host){
		"a heartbeat": func(h *coordtest.Host) { h.Heartbeat() },
		"a hello":     func(h *coordtest.Host) { h.Connect() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &hooked{Store: storetest.NewMem(storetest.Faults{})}
				f := coordtest.NewOn(t, store)
				h := f.AddHost("edge-07")
				h.Connect()
				h.Auto(coordtest.Succeed(""))
				want(t, f, propose(t, f, h).ID, protocol.StateDone, protocol.ReasonOK)
				backup := h.Copy()
				h.Set(func(f *coordtest.Facts) {
					f.Audit = protocol.Position{Store: protocol.StoreID{9}, Stream: protocol.StreamAudit, N: 30, H: protocol.Sum([]byte("a"))}
				})
				h.Heartbeat()
				want(t, f, propose(t, f, h).ID, protocol.StateDone, protocol.ReasonOK)

				h.Rollback(backup)
				h.Set(func(f *coordtest.Facts) { f.Audit.H = protocol.Sum([]byte("b")) })
				h.Connect()
				after(10 * time.Second)
				if why := quarantined(t, f, h); !strings.Contains(why, "disk went back") {
					t.Fatalf("quarantined because of %q", why)
				}
				readmitted := make(chan error, 1)
				hook := func() { readmitted <- f.Coordinator().Members().Readmit(t.Context(), f.Admin(), h.ID) }
				store.after.Store(&hook)
				say(h)
				after(10 * time.Second)
				if err := <-readmitted; err != nil {
					t.Fatal(err)
				}
				if why := quarantined(t, f, h); why != "" {
					t.Errorf("quarantined again although it was readmitted: %s", why)
				}
			})
		})
	}
}
