package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/protocol"
)

// Faults decides at each Update of a [Mem] what goes wrong. The functions are
// called by one Update at a time; a nil one is one without faults, except Repeat.
type Faults struct {
	// Refuse is asked before the changes are kept: its error is returned, and
	// nothing was applied. So a disk is when it is full.
	Refuse func() error
	// Lose is asked after the changes were kept: its error is returned although
	// everything was applied. So a commit is whose answer got lost.
	Lose func() error
	// Repeat is asked before: if true, the function is run once for nothing and
	// then again, as a database does that retries. If Repeat is nil, every Update
	// does so: a function that changes memory inside Update then fails its tests.
	Repeat func() bool
}

// Mem is a [core.Store] in memory that can fail in both ways. It keeps its
// state for as long as it lives, so that a new coordinator on the same Mem is a
// coordinator after a restart.
type Mem struct {
	faults Faults

	update sync.Mutex // held for an Update, from its first read to its last word

	mu     sync.Mutex
	kept   state // what was committed; its tables are never changed, only replaced
	serial uint64
	closed bool
}

var _ core.Store = (*Mem)(nil)

// What a Mem says to what no Store allows.
var (
	errClosed   = fmt.Errorf("%w: store is closed", core.ErrUnavailable)
	errReadOnly = errors.New("change in a view")
)

// NewMem returns an empty store with an id of its own.
func NewMem(f Faults) *Mem {
	m := &Mem{faults: f}
	_, _ = rand.Read(m.kept.id[:]) // never fails
	return m
}

// Backup returns another store with what is kept now, as a copy of the files of
// one that was made then. It has no faults.
func (m *Mem) Backup() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Mem{kept: m.kept, serial: m.serial}
}

// ID implements [core.Store].
func (m *Mem) ID() protocol.StoreID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept.id
}

// Update implements [core.Store].
func (m *Mem) Update(ctx context.Context, fn func(core.Tx) error) error {
	m.update.Lock()
	defer m.update.Unlock()
	if m.faults.Repeat == nil || m.faults.Repeat() {
		if _, err := m.try(ctx, fn); err != nil {
			return err
		}
	}
	next, err := m.try(ctx, fn)
	if err != nil {
		return err
	}
	if m.faults.Refuse != nil {
		if err := m.faults.Refuse(); err != nil {
			return fmt.Errorf("not applied: %w", err)
		}
	}
	m.mu.Lock()
	m.kept = next
	m.mu.Unlock()
	if m.faults.Lose != nil {
		if err := m.faults.Lose(); err != nil {
			return fmt.Errorf("applied: %w", err)
		}
	}
	return nil
}

// try runs fn on the committed state and returns what it would make of it.
func (m *Mem) try(ctx context.Context, fn func(core.Tx) error) (state, error) {
	t, err := m.begin(ctx)
	if err != nil {
		return state{}, err
	}
	defer t.end()
	t.writable = true
	if err := fn(t.tables()); err != nil {
		return state{}, err
	}
	return t.state, nil
}

// View implements [core.Store].
func (m *Mem) View(ctx context.Context, fn func(core.Tx) error) error {
	t, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer t.end()
	return fn(t.tables())
}

// Close implements [core.Store].
func (m *Mem) Close() error {
	m.update.Lock()
	defer m.update.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

func (m *Mem) begin(ctx context.Context) (*memTx, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errClosed
	}
	m.serial++
	return &memTx{state: m.kept, serial: m.serial}, nil
}

// state is everything in a Mem.
type state struct {
	id         protocol.StoreID
	hosts      table[protocol.HostID, core.Host]
	invites    table[string, core.Invite]
	enrolments table[string, core.Enrolment]
	actions    table[protocol.ActionID, core.Action]
	streams    table[streamKey, core.StreamState]
	items      table[itemKey, core.Item]
	outputs    table[outputKey, core.OutputState]
	tokens     table[string, core.Token]
	viewers    table[string, core.Viewer]
	events     table[uint64, core.Event]
	audit      table[uint64, core.AuditRecord]
	seals      table[uint64, core.Seal]
	values     table[string, []byte]
	workloads  table[protocol.CTID, core.Workload]
	fences     table[string, fence.Op]
	asked      table[protocol.ActionID, uint64] // in which order actions were inserted
	lastAsked  uint64
	lastEvent  uint64
	lastAudit  uint64
}

type streamKey struct {
	host   protocol.HostID
	stream protocol.Stream
}

type itemKey struct {
	streamKey
	n uint64
}

type outputKey struct {
	action  protocol.ActionID
	attempt int
	fd      protocol.FD
}

// table is a map that a transaction copies before its first change, so that
// others keep what they see.
type table[K comparable, V any] struct {
	rows  map[K]V
	owner uint64 // serial of the transaction that may change rows
}

func (t *table[K, V]) change(by *memTx) map[K]V {
	if t.owner != by.serial {
		if t.rows = maps.Clone(t.rows); t.rows == nil {
			t.rows = make(map[K]V)
		}
		t.owner = by.serial
	}
	return t.rows
}

// memTx is one transaction: a state of its own that shares tables until it changes
// them. The types of the tables in memtables.go are other names for it.
type memTx struct {
	state
	serial   uint64
	writable bool
	ended    bool
}

func (t *memTx) end() { t.ended = true }

// read and write tell whether the transaction may.
func (t *memTx) read() error {
	if t.ended {
		return errors.New("transaction has ended")
	}
	return nil
}

func (t *memTx) write() error {
	if err := t.read(); err != nil {
		return err
	}
	if !t.writable {
		return errReadOnly
	}
	return nil
}

// tables are the tables as the transaction sees them.
func (t *memTx) tables() core.Tx {
	return core.Tx{
		Hosts: memHosts{t}, Enrolments: memEnrolments{t}, Actions: memActions{t}, Queue: memActions{t}, Streams: memStreams{t}, Outputs: memOutputs{t},
		Access: memAccess{t}, Events: memEvents{t}, Audit: memAudit{t}, Past: memPast{t}, Values: memValues{t}, Workloads: memWorkloads{t}, Fences: memFences{t},
	}
}
