package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// Run runs the suite. open returns a new, empty store, which the suite closes.
func Run(t *testing.T, open func(t *testing.T) core.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, core.Store)
	}{
		{"Update", testUpdate},
		{"UpdatesAreSerializable", testSerializable},
		{"View", testView},
		{"Context", testContext},
		{"Hosts", testHosts},
		{"HostsPaging", testHostsPaging},
		{"Invites", testInvites},
		{"Enrolments", testEnrolments},
		{"Actions", testActions},
		{"ActionsList", testActionsList},
		{"ActionsFind", testActionsFind},
		{"ActionsDue", testActionsDue},
		{"Streams", testStreams},
		{"Items", testItems},
		{"Output", testOutput},
		{"Tokens", testTokens},
		{"Viewers", testViewers},
		{"Past", testPast},
		{"Events", testEvents},
		{"Audit", testAudit},
		{"Seals", testSeals},
		{"Values", testValues},
		{"Workloads", testWorkloads},
		{"Fences", testFences},
		{"NumbersThatDoNotFit", testNumbers},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			c.test(t, s)
		})
	}
	t.Run("IDsDiffer", func(t *testing.T) {
		a, b := open(t), open(t)
		if a.ID().IsZero() || a.ID() == b.ID() {
			t.Errorf("ids of two stores: %v and %v", a.ID(), b.ID())
		}
		for _, s := range []core.Store{a, b} {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("Closed", func(t *testing.T) { testClosed(t, open(t)) })
}

// update and view fail the test when the store does. A fatal error is raised here
// and not in fn, which may run on another goroutine.
func update(t *testing.T, s core.Store, fn func(core.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func view(t *testing.T, s core.Store, fn func(core.Tx) error) {
	t.Helper()
	if err := s.View(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// updateFails wants the error.
func updateFails(t *testing.T, s core.Store, want error, fn func(core.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// equal compares records; nil and empty lists are the same.
func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// missing wants each look-up to end in ErrNotFound.
func missing(t *testing.T, s core.Store, lookUps map[string]func(core.Tx) error) {
	t.Helper()
	for name, lookUp := range lookUps {
		if err := s.View(t.Context(), lookUp); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("%s of what is not there: %v, want ErrNotFound", name, err)
		}
	}
}

// Ids that are in order of their argument.

func actionID(n int) protocol.ActionID {
	return protocol.NewActionID(1_700_000_000_000+int64(n), seed(n))
}

func ctid(n int) protocol.CTID { return protocol.NewCTID(1_700_000_000_000+int64(n), seed(n)) }

func keyID(n int) (k protocol.KeyID) {
	binary.BigEndian.PutUint64(k[:], uint64(n)+1)
	return k
}

func storeID(n int) (s protocol.StoreID) {
	binary.BigEndian.PutUint64(s[:], uint64(n)+1)
	return s
}

func seed(n int) (b [10]byte) {
	sum := protocol.Sum(fmt.Append(nil, n))
	copy(b[:], sum[:])
	return b
}

func values[T any](get func() (T, error), into *T) error {
	v, err := get()
	*into = v
	return err
}

func testUpdate(t *testing.T, s core.Store) {
	mine := errors.New("mine")
	put := func(name string) func(core.Tx) error {
		return func(tx core.Tx) error { return tx.Values.Put(name, []byte(name)) }
	}
	update(t, s, put("a"))
	updateFails(t, s, mine, func(tx core.Tx) error {
		if err := put("b")(tx); err != nil {
			return err
		}
		if _, err := tx.Values.Get("b"); err != nil { // a transaction sees its own changes
			return err
		}
		return mine
	})
	missing(t, s, map[string]func(core.Tx) error{
		"value of an undone update": func(tx core.Tx) error { _, err := tx.Values.Get("b"); return err },
	})
	// An error that the function gets over undoes nothing.
	update(t, s, func(tx core.Tx) error {
		if _, err := tx.Hosts.Get("none"); !errors.Is(err, core.ErrNotFound) {
			return fmt.Errorf("no host: %w", err)
		}
		if err := tx.Actions.Insert(action(1)); err != nil {
			return err
		}
		if err := tx.Actions.Insert(action(1)); !errors.Is(err, core.ErrExists) {
			return fmt.Errorf("second insert: %w", err)
		}
		return put("c")(tx)
	})
	view(t, s, func(tx core.Tx) error {
		_, aerr := tx.Values.Get("a")
		_, cerr := tx.Values.Get("c")
		_, err := tx.Actions.Get(actionID(1))
		return errors.Join(aerr, cerr, err)
	})
}

// Every increment of a value read before is there in the end.
func testSerializable(t *testing.T, s core.Store) {
	const callers, each = 8, 25
	increment := func(tx core.Tx) error {
		old, err := tx.Values.Get("n")
		if err != nil && !errors.Is(err, core.ErrNotFound) {
			return err
		}
		return tx.Values.Put("n", append(old, '+'))
	}
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				if err := s.Update(t.Context(), increment); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var sum []byte
	view(t, s, func(tx core.Tx) error {
		return values(func() ([]byte, error) { return tx.Values.Get("n") }, &sum)
	})
	if len(sum) != callers*each {
		t.Errorf("%d increments were kept, want %d", len(sum), callers*each)
	}
}

func testView(t *testing.T, s core.Store) {
	err := s.View(t.Context(), func(tx core.Tx) error { return tx.Values.Put("a", nil) })
	if err == nil {
		t.Error("a view made a change")
	}
	view(t, s, func(tx core.Tx) error {
		for range 2 { // once before and once after an update that it does not see
			if _, err := tx.Values.Get("a"); !errors.Is(err, core.ErrNotFound) {
				return fmt.Errorf("a view of the state before: %w", err)
			}
			update := func(tx core.Tx) error { return tx.Values.Put("a", nil) }
			if err := s.Update(t.Context(), update); err != nil {
				return err
			}
		}
		return nil
	})
	var kept core.Tx
	view(t, s, func(tx core.Tx) error { kept = tx; return nil })
	if _, err := kept.Values.Get("a"); err == nil {
		t.Error("a transaction was used after its end")
	}
}

func testContext(t *testing.T, s core.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	never := func(core.Tx) error { t.Error("ran with a context that had ended"); return nil }
	for name, run := range map[string]func(context.Context, func(core.Tx) error) error{"Update": s.Update, "View": s.View} {
		if err := run(ctx, never); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with an ended context: %v", name, err)
		}
	}
}

func testClosed(t *testing.T, s core.Store) {
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	never := func(core.Tx) error { t.Error("ran on a closed store"); return nil }
	for name, run := range map[string]func(context.Context, func(core.Tx) error) error{"Update": s.Update, "View": s.View} {
		if err := run(t.Context(), never); !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("%s of a closed store: %v, want ErrUnavailable", name, err)
		}
	}
}

func testNumbers(t *testing.T, s core.Store) {
	h := host(1)
	h.AcceptSeq = math.MaxUint64
	updateFails(t, s, core.ErrInvalid, func(tx core.Tx) error { return tx.Hosts.Put(h) })
	a := action(1)
	a.AcceptSeq = math.MaxInt64 + 1
	updateFails(t, s, core.ErrInvalid, func(tx core.Tx) error { return tx.Actions.Insert(a) })
	st := core.StreamState{Host: "h", Pos: protocol.Position{Stream: protocol.StreamReport, N: math.MaxUint64}}
	updateFails(t, s, core.ErrInvalid, func(tx core.Tx) error { return tx.Streams.Put(st) })

	a.AcceptSeq = math.MaxInt64
	update(t, s, func(tx core.Tx) error { return tx.Actions.Insert(a) })
	var got core.Action
	view(t, s, func(tx core.Tx) error {
		return values(func() (core.Action, error) { return tx.Actions.Get(a.ID) }, &got)
	})
	equal(t, "the largest number", got.AcceptSeq, uint64(math.MaxInt64))
}
