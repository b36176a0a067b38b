package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/hostler-io/hostler/agent/join"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/upgrade"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/blob"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner/rundir"
)

// state is the agent's directory.
type state string

func (s state) path(name string) string { return filepath.Join(string(s), name) }

func (s state) identity() string     { return s.path("identity.pgp") }          // the host's OpenPGP key
func (s state) tlsKey() string       { return s.path("tls.key") }               // the key of its TLS certificate
func (s state) membership() string   { return s.path("membership.json") }       // the enrolment, see join.Record
func (s state) again() string        { return s.path("membership-again.json") } // the enrolment of a member that joins again
func (s state) queueFile() string    { return s.path("queue.db") }
func (s state) queueMade() string    { return s.path("queue.made") } // there was a queue, so it must be there
func (s state) runs() string         { return s.path("runs") }
func (s state) inputs() string       { return s.path("inputs") } // what commands read, until they have ended
func (s state) metrics() string      { return s.path("metrics") }
func (s state) sink() string         { return s.path("sink") } // samples that wait for the database
func (s state) images() string       { return s.path("images") }
func (s state) backups() string      { return s.path("backups") }
func (s state) locks() string        { return s.path("ct") }
func (s state) leaving() string      { return s.path("leaving") } // leave was begun, and must be finished
func (s state) upgrade() upgrade.Dir { return upgrade.Dir(s.path("upgrade")) }

// policy is what the host knows of policies in a fleet. It outlives a leave: or
// a person who makes the host join again would rid it of its policy.
func (s state) policy(fleet protocol.FleetID) string {
	return s.path("policy-" + fleet.String() + ".json")
}

// needsRoot refuses a command to a user other than root: without the rights to read what
// belongs to the agent it would tell that nothing is there.
func needsRoot(command string, uid int) error {
	if uid == 0 {
		return nil
	}
	return fmt.Errorf("%w: user %d may not read what belongs to the agent; run it as root: sudo hostler-agent %s", errRefused, uid, command)
}

// prepare makes the directory, and finishes what leave has begun.
func (s state) prepare() error {
	err := os.MkdirAll(string(s), 0o700)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("make the state directory: %w; run it as root", err)
	}
	if err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	if _, err := os.Stat(s.leaving()); err == nil {
		return s.forget()
	}
	return nil
}

// The locks of the state directory.
const (
	lockRun  = "lock"      // held by run, and by commands that must not meet it
	lockJoin = "join.lock" // held by who makes the enrolment
)

// errLocked tells that another process holds a lock.
var errLocked = errors.New("another hostler-agent is at work in this state directory")

// lock takes a lock that ends with the process at the latest.
func (s state) lock(name string) (*durable.Lock, error) {
	l, err := durable.TryLock(s.path(name))
	if errors.Is(err, durable.ErrLocked) {
		return nil, fmt.Errorf("%s: %w", s, errLocked)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the state directory: %w", err)
	}
	return l, nil
}

// lockPatience is how long run waits for the agent that it replaces. One that
// was killed is not quite gone while a child that it had just forked has not
// become another program: the child holds the lock as well.
const (
	lockPatience = 5 * time.Second
	lockRetry    = 20 * time.Millisecond
	// leavePatience is how long leave waits in the same way; a person looks on.
	leavePatience = time.Second
)

// lockSoon takes a lock that may be held for a moment still.
func (s state) lockSoon(ctx context.Context, name string, patience time.Duration) (*durable.Lock, error) {
	given, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		f, err := s.lock(name)
		if err == nil || !errors.Is(err, errLocked) {
			return f, err
		}
		t := time.NewTimer(lockRetry)
		select {
		case <-t.C:
		case <-given.Done():
			t.Stop()
			return nil, err
		}
	}
}

// keys are the host's own keys, made at the first start.
func (s state) keys(host string) (*certs.Identity, *certs.TLSKey, error) {
	id, err := durable.LoadOr(certs.LoadIdentity, s.identity(), func() (*certs.Identity, error) {
		return certs.CreateIdentity(s.identity(), "hostler host "+host)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("the host's key: %w", err)
	}
	key, err := durable.LoadOr(certs.LoadTLSKey, s.tlsKey(), func() (*certs.TLSKey, error) { return certs.CreateTLSKey(s.tlsKey()) })
	if err != nil {
		return nil, nil, fmt.Errorf("the host's TLS key: %w", err)
	}
	return id, key, nil
}

// openQueue opens the agent's memory, which the first start makes. Once it was
// made it must be there: an empty one would begin again what was done.
func (s state) openQueue(ctx context.Context, log *slog.Logger) (*queue.Queue, error) {
	cfg := queue.Config{Path: s.queueFile(), Log: log}
	q, err := queue.Open(ctx, cfg)
	_, noted := os.Stat(s.queueMade())
	first := errors.Is(noted, fs.ErrNotExist) // an agent that was killed here may have begun
	switch {
	case err == nil && first:
		return s.noteQueue(q)
	case errors.Is(err, queue.ErrUnfinished) && first:
		if err := queue.Remove(cfg); err != nil {
			return nil, err
		}
	case errors.Is(err, queue.ErrUnfinished):
		return nil, fmt.Errorf("the agent's memory is damaged: %w: what it had in %s-wal is gone\nRestore both files, or let the host leave and join again: hostler-agent leave", queue.ErrUnfinished, s.queueFile())
	case !errors.Is(err, fs.ErrNotExist):
		return q, err
	case !first:
		return nil, fmt.Errorf("the agent's memory is gone: %w\nRestore %s, or let the host leave and join again: hostler-agent leave", err, s.queueFile())
	}
	var id protocol.StoreID
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("draw the id of the queue: %w", err)
	}
	failpoint.Before(failpoint.QueueMade)
	if q, err = queue.Create(ctx, cfg, id); err != nil {
		return nil, err
	}
	q, err = s.noteQueue(q)
	failpoint.After(failpoint.QueueMade)
	return q, err
}

// noteQueue makes durable that there is a queue.
func (s state) noteQueue(q *queue.Queue) (*queue.Queue, error) {
	if err := durable.WriteFile(s.queueMade(), nil, 0o600, 0); err != nil {
		return nil, fmt.Errorf("note that the queue was made: %w", errors.Join(err, q.Close()))
	}
	return q, nil
}

// maxRecord bounds the enrolment, in bytes: rings of years fit. Agents of before
// wrote larger ones, of revoked keys that no ring names; up to maxGrownRecord
// these are read, and [newMembership] makes them small.
const (
	maxRecord      = 16 << 20
	maxGrownRecord = 256 << 20
)

// record reads the enrolment; fs.ErrNotExist if the host never joined.
func (s state) record() (join.Record, error) { return readRecord(s.membership()) }

func readRecord(path string) (join.Record, error) {
	var r join.Record
	b, err := durable.ReadFile(path, maxGrownRecord)
	if err != nil {
		return r, fmt.Errorf("read the enrolment: %w", err)
	}
	if b, err = rundir.CheckSum(b); err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return r, fmt.Errorf("%s is damaged: %w\nRestore it, or let the host leave and join again: hostler-agent leave", path, err)
	}
	return r, nil
}

// keep makes the enrolment durable.
func (s state) keep(r join.Record) error { return keepRecord(s.membership(), r) }

// keepAgain makes an enrolment durable that takes the place of another one when it
// has come to its end.
func (s state) keepAgain(r join.Record) error { return keepRecord(s.again(), r) }

func keepRecord(path string, r join.Record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the enrolment: %w", err)
	}
	failpoint.Before(failpoint.MembershipKept)
	if err := durable.WriteFile(path, rundir.AppendSum(b), 0o600, maxRecord); err != nil {
		return fmt.Errorf("keep the enrolment: %w", err)
	}
	failpoint.After(failpoint.MembershipKept)
	return nil
}

// forget removes everything that makes this host a member: keys, enrolment and
// memory. What runs goes on, as do containers, which are nobody's from now on.
func (s state) forget() error {
	failpoint.Before(failpoint.LeavingNoted)
	if err := durable.WriteFile(s.leaving(), nil, 0o600, 0); err != nil {
		return fmt.Errorf("begin to leave: %w", err)
	}
	failpoint.After(failpoint.LeavingNoted)
	memory, err := filepath.Glob(s.queueFile() + "*")
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	gone := append([]string{s.membership(), s.again(), s.identity(), s.tlsKey()}, memory...)
	for _, f := range append(gone, s.queueMade(), s.leaving()) {
		if err := durable.Remove(f); err != nil {
			return fmt.Errorf("leave: %w", err)
		}
	}
	return nil
}

// inputReserve is what payloads leave free on the disk: for the queue, for what
// commands write, and for the host.
const inputReserve = 64 << 20

// openPayloads opens what commands read.
func (s state) openPayloads() (*blob.Store, error) {
	return blob.Open(s.inputs(), failpoint.InputPlaced, inputReserve)
}
