package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestLockSoon: whoever is killed may still have a child on its way to another
// program that holds the lock.
func TestLockSoon(t *testing.T) {
	s := state(t.TempDir())
	held, err := s.lock(lockRun)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.lockSoon(t.Context(), lockRun, 2*lockRetry); !errors.Is(err, errLocked) {
		t.Errorf("while it is held: %v, want %v", err, errLocked)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.lockSoon(ctx, lockRun, time.Hour); !errors.Is(err, errLocked) {
		t.Errorf("when nobody waits any more: %v, want %v", err, errLocked)
	}
	time.AfterFunc(2*lockRetry, func() { held.Close() })
	f, err := s.lockSoon(t.Context(), lockRun, time.Minute)
	if err != nil {
		t.Fatalf("when it was given back: %v", err)
	}
	f.Close()
}
