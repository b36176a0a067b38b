package storetest_test

import (
	"errors"
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
)

func TestMem(t *testing.T) {
	storetest.Run(t, func(*testing.T) core.Store {
		return storetest.NewMem(storetest.Faults{Repeat: func() bool { return false }})
	})
}

func TestMemThatRepeats(t *testing.T) {
	storetest.Run(t, func(*testing.T) core.Store {
		return storetest.NewMem(storetest.Faults{Repeat: func() bool { return true }})
	})
}

func TestFaults(t *testing.T) {
	var refuse, lose error
	var repeat bool
	m := storetest.NewMem(storetest.Faults{
		Refuse: func() error { return refuse },
		Lose:   func() error { return lose },
		Repeat: func() bool { return repeat },
	})
	runs := 0
	put := func(name string) error {
		return m.Update(t.Context(), func(tx core.Tx) error { runs++; return tx.Values.Put(name, nil) })
	}
	there := func(name string) bool {
		return m.View(t.Context(), func(tx core.Tx) error { _, err := tx.Values.Get(name); return err }) == nil
	}
	if err := put("well"); err != nil || !there("well") || runs != 1 {
		t.Errorf("without faults: %v, %d runs", err, runs)
	}
	refuse = errors.New("disk is full")
	if err := put("refused"); !errors.Is(err, refuse) || there("refused") {
		t.Errorf("refused: %v, there: %v", err, there("refused"))
	}
	refuse, lose = nil, errors.New("connection lost")
	if err := put("lost"); !errors.Is(err, lose) || !there("lost") {
		t.Errorf("applied with an error: %v, there: %v", err, there("lost"))
	}
	lose, repeat, runs = nil, true, 0
	if err := put("repeated"); err != nil || !there("repeated") || runs != 2 {
		t.Errorf("repeated: %v, %d runs", err, runs)
	}
}
