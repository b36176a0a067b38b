package workloads

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
)

// agrees fails the test if what the room has kept of hosts is not what is stored.
func (s *stage) agrees() {
	s.Helper()
	kept, err := s.sites.all(context.Background(), s.base)
	if err != nil {
		s.Fatal(err)
	}
	i := 0
	if err := s.store.View(context.Background(), func(tx core.Tx) error {
		return core.EachHost(tx, func(h core.Host) error {
			if i >= len(kept) {
				s.Errorf("host %s is stored, and not kept", h.ID)
				return nil
			}
			if want := siteOf(kept[i].n, h); !reflect.DeepEqual(kept[i], want) {
				s.Errorf("of host %s is kept\n%+v, stored is\n%+v", h.ID, kept[i], want)
			}
			i++
			return nil
		})
	}); err != nil {
		s.Fatal(err)
	}
}

// TestSitesAreReadOnce kept hosts are read again only when it is uncertain what is stored.
func TestSitesAreReadOnce(t *testing.T) {
	var lost bool
	var all sites
	reads := 0
	store := core.Watch(storetest.NewMem(storetest.Faults{Lose: func() error {
		if lost {
			return errors.New("the answer got lost")
		}
		return nil
	}}), all.put)
	base := &core.Base{Store: counted{store, &reads}, Log: slog.New(slog.DiscardHandler)}
	put := func(id protocol.HostID, label string) error {
		return store.Update(t.Context(), func(tx core.Tx) error {
			return tx.Hosts.Put(core.Host{ID: id, Key: protocol.KeyID{id[0]}, State: core.HostApproved, Labels: []string{"is=" + label}})
		})
	}
	look := func(wantReads int, want ...string) {
		t.Helper()
		found, err := all.all(t.Context(), base)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range found {
			got = append(got, string(h.id)+" "+h.labels["is"])
		}
		if !reflect.DeepEqual(got, want) || reads != wantReads {
			t.Errorf("%q after %d reads, want %q after %d", got, reads, want, wantReads)
		}
	}
	if err := put("b", "1"); err != nil {
		t.Fatal(err)
	}
	look(1, "b 1")
	if err := errors.Join(put("a", "1"), put("b", "2")); err != nil {
		t.Fatal(err)
	}
	look(1, "a 1", "b 2")
	lost = true
	if err := put("a", "2"); err == nil {
		t.Error("a commit whose answer got lost is no error")
	}
	lost = false
	look(2, "a 2", "b 2")
	// Two Updates that end at the same time may tell in the wrong order.
	all.put(8, core.Host{ID: "a", Labels: []string{"is=4"}}, true)
	all.put(7, core.Host{ID: "a", Labels: []string{"is=3"}}, true)
	look(2, "a 4", "b 2")
}

// counted counts the reads of a store.
type counted struct {
	core.Store
	reads *int
}

func (c counted) View(ctx context.Context, fn func(core.Tx) error) error {
	*c.reads++
	return c.Store.View(ctx, fn)
}
