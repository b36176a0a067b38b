package core_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
)

// TestWatch relies on that the store runs each function twice.
func TestWatch(t *testing.T) {
	var told []string
	var newest uint64
	failing := false
	mem := storetest.NewMem(storetest.Faults{Refuse: func() error {
		if failing {
			return errors.New("the disk is full")
		}
		return nil
	}})
	s := core.Watch(mem, func(n uint64, h core.Host, sure bool) {
		if n <= newest {
			t.Errorf("put %d of %s comes after put %d", n, h.ID, newest)
		}
		newest = n
		told = append(told, fmt.Sprint(h.ID, " ", h.Reason, " ", sure))
	})
	put := func(id protocol.HostID, reason string) func(core.Tx) error {
		return func(tx core.Tx) error {
			return tx.Hosts.Put(core.Host{ID: id, Key: protocol.KeyID{id[0]}, State: core.HostApproved, Reason: reason})
		}
	}
	wants := func(want ...string) {
		t.Helper()
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		told = nil
	}
	if err := s.Update(t.Context(), func(tx core.Tx) error {
		return errors.Join(put("a", "1")(tx), put("b", "1")(tx), put("a", "2")(tx))
	}); err != nil {
		t.Fatal(err)
	}
	wants("a 1 true", "b 1 true", "a 2 true")
	refused := errors.New("refused")
	if err := s.Update(t.Context(), func(tx core.Tx) error { return errors.Join(put("a", "3")(tx), refused) }); !errors.Is(err, refused) {
		t.Errorf("a function that fails: %v", err)
	}
	wants()
	failing = true
	if err := s.Update(t.Context(), put("b", "4")); err == nil {
		t.Error("a commit that fails is no error")
	}
	wants("b 4 false")
}
