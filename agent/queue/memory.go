package queue

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// txn is the transaction of one step, or of a look at the queue.
type txn struct {
	*sqldb.Tx
	memory   *memory      // nil in a look
	refusing *atomic.Bool // see [Queue.refusing]
}

// memory holds what almost every step reads and changes: where the streams stand and
// how many actions were accepted. The rows are the truth: a step that is undone, or
// fails, empties the memory. Steps run one after the other, and write what they have
// changed here at their end.
type memory struct {
	places   map[protocol.Stream]streamEnds // nil: not read yet
	accepted uint64

	// Of the step that runs.
	moved    []protocol.Stream
	counted  bool
	evidence []byte // nil: not changed
	records  [][]byte
	happened bool // see [txn.whatHappened]
	pushed   []pushed

	steps uint64 // how many there were, undone ones too
}

// streamEnds are where a stream stands: its newest item, and the newest that is freed.
type streamEnds struct{ at, freed protocol.Position }

// pushed is an item on its way up.
type pushed struct {
	stream protocol.Stream
	h      protocol.Digest
	Row
}

// forget empties the memory. It is called on the goroutine of steps.
func (m *memory) forget() { *m = memory{steps: m.steps + 1} }

// load reads what is not known.
func (tx txn) load() error {
	m := tx.memory
	if m.places != nil {
		return nil
	}
	if err := tx.QueryRow(`SELECT accept_seq FROM self`).Scan(&m.accepted); err != nil {
		return err
	}
	places, err := readPlaces(tx)
	m.places = places
	return err
}

func readPlaces(tx txn) (map[protocol.Stream]streamEnds, error) {
	places := make(map[protocol.Stream]streamEnds)
	for r, err := range tx.Query(`SELECT stream, n, h, freed_n, freed_h FROM streams`) {
		if err != nil {
			return nil, err
		}
		var p streamEnds
		var s protocol.Stream
		var h, freedH string
		if err := r.Scan(&s, &p.at.N, &h, &p.freed.N, &freedH); err != nil {
			return nil, err
		}
		p.at.Stream, p.freed.Stream = s, s
		if p.at.H, err = protocol.ParseDigest(h); err != nil {
			return nil, err
		}
		if p.freed.H, err = protocol.ParseDigest(freedH); err != nil {
			return nil, err
		}
		places[s] = p
	}
	return places, nil
}

// position returns the newest and the freed position of a stream, without store.
func position(tx txn, s protocol.Stream) (at, freed protocol.Position, err error) {
	var places map[protocol.Stream]streamEnds
	if tx.memory == nil {
		places, err = readPlaces(tx)
	} else {
		err = tx.load()
		places = tx.memory.places
	}
	p, ok := places[s]
	if err == nil && !ok {
		err = sqldb.ErrNoRows
	}
	if err != nil {
		return at, freed, fmt.Errorf("stream %s: %w", s, err)
	}
	return p.at, p.freed, nil
}

// move sets where a stream stands, within a step.
func move(tx txn, at, freed protocol.Position) error {
	if err := tx.load(); err != nil {
		return err
	}
	m, s := tx.memory, at.Stream
	at.Store, freed.Store = protocol.StoreID{}, protocol.StoreID{} // are those of the queue
	m.places[s] = streamEnds{at, freed}
	if !slices.Contains(m.moved, s) {
		m.moved = append(m.moved, s)
	}
	return nil
}

// acceptSeq counts an action that is accepted, within a step.
func acceptSeq(tx txn) (uint64, error) {
	if err := tx.load(); err != nil {
		return 0, err
	}
	tx.memory.accepted++
	tx.memory.counted = true
	return tx.memory.accepted, nil
}

// atOnce is how many rows one statement writes at most: statements are kept prepared.
const atOnce = 8

// rows are the places of so many rows of so many arguments, by how many there are.
func rows(width int) (texts [atOnce + 1]string) {
	var all []string
	for n := 1; n <= atOnce; n++ {
		places := make([]string, width)
		for i := range places {
			places[i] = fmt.Sprintf("$%d", (n-1)*width+i+1)
		}
		all = append(all, "("+strings.Join(places, ", ")+")")
		texts[n] = strings.Join(all, ", ")
	}
	return texts
}

var rowsOf1, rowsOf4, rowsOf5 = rows(1), rows(4), rows(5)

// settle writes what a step has changed in memory. It is called at its end, and by
// what reads those rows before.
func (tx txn) settle() error {
	m := tx.memory
	if err := tx.writeRecords(); err != nil {
		return err
	}
	for some := range slices.Chunk(m.moved, atOnce) {
		var args []any
		for _, s := range some {
			p := m.places[s]
			args = append(args, string(s), p.at.N, p.at.H.String(), p.freed.N, p.freed.H.String())
		}
		_, err := tx.Exec(`INSERT INTO streams (stream, n, h, freed_n, freed_h) VALUES `+rowsOf5[len(some)]+
			` ON CONFLICT (stream) DO UPDATE SET n = excluded.n, h = excluded.h, freed_n = excluded.freed_n, freed_h = excluded.freed_h`, args...)
		if err != nil {
			return err
		}
	}
	m.moved = nil
	if !m.counted && m.evidence == nil {
		return nil
	}
	_, err := tx.Exec(`UPDATE self SET accept_seq = $1, evidence = coalesce($2, evidence)`, m.accepted, m.evidence)
	m.counted, m.evidence = false, nil
	return err
}

// end writes what a step has left to be written, and returns what it has made of the
// streams, for when it is durable: nil places for nothing.
func (tx txn) end() (step uint64, places map[protocol.Stream]streamEnds, items []pushed, err error) {
	m := tx.memory
	m.steps++
	if len(m.moved) > 0 {
		places = maps.Clone(m.places)
	}
	items, m.pushed = m.pushed, nil
	for some := range slices.Chunk(items, atOnce) {
		var args []any
		for _, p := range some {
			args = append(args, string(p.stream), p.N, p.h.String(), p.Item)
		}
		if _, err := tx.Exec(`INSERT INTO outbox (stream, n, h, item) VALUES `+rowsOf4[len(some)], args...); err != nil {
			return 0, nil, nil, err
		}
	}
	err = tx.settle()
	m.happened = false
	return m.steps, places, items, err
}

// known is a copy of where the streams stand on the disk. It saves reading what this
// process has just written. Its methods may be called from any goroutine.
type known struct {
	mu     sync.Mutex
	step   uint64 // after which the places are these
	places map[protocol.Stream]streamEnds
	items  map[protocol.Stream]map[uint64]pushed // the newest of each stream up
}

// wrote takes what a step has made durable.
func (k *known) wrote(step uint64, places map[protocol.Stream]streamEnds, items []pushed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if step > k.step && places != nil {
		k.step, k.places = step, places
	}
	if k.items == nil {
		k.items = make(map[protocol.Stream]map[uint64]pushed)
	}
	for _, p := range items {
		if k.items[p.stream] == nil {
			k.items[p.stream] = make(map[uint64]pushed)
		}
		k.items[p.stream][p.N] = p
		delete(k.items[p.stream], p.N-stream.Window)
	}
	for s, of := range k.items {
		for n := range of {
			if n <= k.places[s].freed.N {
				delete(of, n)
			}
		}
	}
}

// rows returns the items first to last of a stream, if all of them are known.
func (k *known) rows(s protocol.Stream, first, last uint64) ([]Row, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []Row
	for n := first; n <= last; n++ {
		p, ok := k.items[s][n]
		if !ok {
			return nil, false
		}
		all = append(all, p.Row)
	}
	return all, true
}

// judge is [stream.Receipt] for a stream up whose place and items are known.
func (k *known) judge(store protocol.StoreID, have protocol.Position, freed protocol.Position) (_ stream.Covers, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.places[have.Stream]
	if !ok {
		return 0, false
	}
	if freed.N < p.freed.N {
		freed = p.freed
	}
	p.at.Store, freed.Store = store, store
	verdict := stream.Receipt(p.at, freed, have, func(n uint64) (protocol.Digest, bool) {
		item, there := k.items[have.Stream][n]
		ok = there
		return item.h, there
	})
	return verdict, ok
}
