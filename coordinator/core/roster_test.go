package core_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
)

// TestHostsAreReadOnce: hosts that are kept are read again only when it is uncertain what is stored.
func TestHostsAreReadOnce(t *testing.T) {
	var lost bool
	all := core.Roster[string]{Of: func(h core.Host) string { return string(h.ID) + " " + h.Labels[0] }}
	reads := 0
	store := core.Watch(storetest.NewMem(storetest.Faults{Lose: func() error {
		if lost {
			return errors.New("the answer got lost")
		}
		return nil
	}}), all.Put)
	base := &core.Base{Store: counted{store, &reads}, Log: slog.New(slog.DiscardHandler)}
	put := func(id protocol.HostID, label string) error {
		return store.Update(t.Context(), func(tx core.Tx) error {
			return tx.Hosts.Put(core.Host{ID: id, Key: protocol.KeyID{id[0]}, State: core.HostApproved, Labels: []string{label}})
		})
	}
	look := func(wantReads int, want ...string) {
		t.Helper()
		got, err := all.All(t.Context(), base)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) || reads != wantReads {
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
	all.Put(8, core.Host{ID: "a", Labels: []string{"4"}}, true)
	all.Put(7, core.Host{ID: "a", Labels: []string{"3"}}, true)
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
