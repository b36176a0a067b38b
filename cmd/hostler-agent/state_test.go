package main

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent/join"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// TestOneBitOfTheMembership turns each bit of what makes the host a member: it is
// refused, with what to do.
func TestOneBitOfTheMembership(t *testing.T) {
	s := state(t.TempDir())
	if err := s.keep(join.Record{Host: "edge-01", Ring: 2, Pin: []byte{1, 2, 3}, Addresses: []string{"192.0.2.1:8443"}, Brokers: []string{"192.0.2.1:8883"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.record(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(s.membership())
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(raw) {
		raw[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(s.membership(), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := s.record(); err == nil || !strings.Contains(err.Error(), "join again") {
			t.Fatalf("bit %d turned: it is taken as %+v, %v", bit, r, err)
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
}

// TestNeedsRoot: a user who may not look is told so, and not that nothing was found.
func TestNeedsRoot(t *testing.T) {
	if err := needsRoot("fsck", 0); err != nil {
		t.Errorf("root: %v", err)
	}
	if err := needsRoot("fsck", 65534); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "sudo hostler-agent fsck") {
		t.Errorf("a user: %v", err)
	}
}

// TestLockSoon: an agent that was killed may have left a child, on its way to another
// program, that still holds the lock.
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

// TestOpenQueue: an agent that was killed while it made its memory makes it
// again; one that had one must not do without.
func TestOpenQueue(t *testing.T) {
	s := state(t.TempDir())
	log := slog.New(slog.DiscardHandler)
	reopen := func() (protocol.StoreID, error) {
		q, err := s.openQueue(t.Context(), log)
		if err != nil {
			return protocol.StoreID{}, err
		}
		return q.Store(), q.Close()
	}
	first, err := reopen()
	if err != nil {
		t.Fatal(err)
	}
	unmake := func() { // as it is before its first rows are there
		t.Helper()
		db, err := sql.Open("sqlite", "file:"+s.queueFile()+"?vfs=hostler") // with sums of pages
		if err == nil {
			_, err = db.Exec(`DELETE FROM self; DELETE FROM streams`)
			err = errors.Join(err, db.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(s.queueMade()); err != nil {
		t.Fatal(err)
	}
	if again, err := reopen(); err != nil || again != first {
		t.Errorf("made and not noted: store %s, %v, want %s", again, err, first)
	}
	if _, err := os.Stat(s.queueMade()); err != nil {
		t.Errorf("it is still not noted: %v", err)
	}
	unmake()
	if _, err := reopen(); !errors.Is(err, queue.ErrUnfinished) || !strings.Contains(err.Error(), "hostler-agent leave") || strings.Contains(err.Error(), "sql:") {
		t.Errorf("noted and empty: %v, want %v and what to do", err, queue.ErrUnfinished)
	}
	if err := os.Remove(s.queueMade()); err != nil {
		t.Fatal(err)
	}
	second, err := reopen()
	if err != nil || second == first {
		t.Errorf("never finished: store %s, %v, want a new one", second, err)
	}
	if err := os.Remove(s.queueFile()); err != nil {
		t.Fatal(err)
	}
	if _, err := reopen(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("noted and gone: %v, want %v", err, fs.ErrNotExist)
	}
}
