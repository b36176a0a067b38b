package commands

import (
	"context"
	"sync"
	"time"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner/rundir"
)

// How often a supervisor is told what was acknowledged. Its command waits when half
// of what it keeps of a stream was not acknowledged, which is far more than
// tellAfter.
const (
	tellAfter = 4 << 20 // bytes
	tellAgain = 5 * time.Second
	// tellFor is how long a supervisor that does not answer is waited for.
	tellFor = 5 * time.Second
)

// Acknowledged is how far each follower of a command has its output for certain.
// The supervisor hears of it, so that a command in mode stream goes on, at the pace
// of the slowest follower: each of them was promised all of it. One goroutine
// tells the supervisor, in order: followers do not wait for a supervisor that does
// not answer. It is safe for concurrent use.
type Acknowledged struct {
	run  Run
	news chan struct{} // one place: there is something to tell

	mu      sync.Mutex
	remote  [2]int64            // at the coordinator, which follows for all of its readers
	heard   [2]time.Time        // when its newest credit came
	readers map[*Follower]int64 // on the host itself, with offset
	told    [2]int64
	toldAt  [2]time.Time
}

// Follower is one reader on the host itself that the command waits for.
type Follower struct {
	acks *Acknowledged
	fd   protocol.FD
}

func newAcknowledged(r Run) *Acknowledged {
	return &Acknowledged{run: r, news: make(chan struct{}, 1), readers: make(map[*Follower]int64)}
}

// Credit takes what the coordinator has.
func (t *Acknowledged) Credit(c protocol.Credit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := Index(c.FD)
	t.remote[i], t.heard[i] = max(t.remote[i], c.Offset), time.Now()
	t.noted()
}

// Follow adds a reader of a stream, which needs all of it from an offset on. Leave
// must follow.
func (t *Acknowledged) Follow(fd protocol.FD, offset int64) *Follower {
	f := &Follower{t, fd}
	f.At(offset)
	return f
}

// At notes that the reader needs nothing before an offset any more.
func (f *Follower) At(offset int64) {
	f.acks.mu.Lock()
	defer f.acks.mu.Unlock()
	f.acks.readers[f] = offset
	f.acks.noted()
}

// Leave forgets the reader.
func (f *Follower) Leave() {
	f.acks.mu.Lock()
	defer f.acks.mu.Unlock()
	delete(f.acks.readers, f)
}

// noted has the supervisor told, if that is due. It is called with mu held.
func (t *Acknowledged) noted() {
	if t.due(t.least()) {
		select {
		case t.news <- struct{}{}:
		default: // it is told of that already
		}
	}
}

// serve tells the supervisor until the end of the command, or of ctx.
func (t *Acknowledged) serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.run.Done():
			return
		case <-t.news:
			t.tell(ctx)
		}
	}
}

// tell tells the supervisor. If it does not hear that, it is told the next time.
func (t *Acknowledged) tell(ctx context.Context) {
	t.mu.Lock()
	now := t.least()
	due := t.due(now)
	for i := range now {
		if due && now[i] != rundir.NotTaken {
			t.toldAt[i] = time.Now()
		}
	}
	t.mu.Unlock()
	if !due {
		return
	}
	ctx, stop := context.WithTimeout(ctx, tellFor)
	defer stop()
	if t.run.Credit(ctx, now[0], now[1]) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = [2]int64{max(now[0], t.told[0]), max(now[1], t.told[1])}
}

// due reports whether there is something to tell. It is called with mu held.
func (t *Acknowledged) due(now [2]int64) bool {
	for i, at := range now {
		if at != rundir.NotTaken && (at-t.told[i] >= tellAfter || time.Since(t.toldAt[i]) >= tellAgain) {
			return true
		}
	}
	return false
}

// least is what all followers have. A stream without followers does not wait:
// [rundir.NotTaken]. It is called with mu held.
func (t *Acknowledged) least() [2]int64 {
	least := [2]int64{rundir.NotTaken, rundir.NotTaken}
	for i, heard := range t.heard {
		if !heard.IsZero() && time.Since(heard) < protocol.OutputPatience {
			least[i] = t.remote[i]
		}
	}
	for f, at := range t.readers {
		if i := Index(f.fd); least[i] == rundir.NotTaken || at < least[i] {
			least[i] = at
		}
	}
	return least
}

// Streams are the output streams of a command, by their index.
var Streams = [...]protocol.FD{protocol.Stdout, protocol.Stderr, protocol.Recording}

// Index is the index of a stream in [Streams].
func Index(fd protocol.FD) int {
	switch fd {
	case protocol.Recording:
		return 2
	case protocol.Stderr:
		return 1
	}
	return 0
}
