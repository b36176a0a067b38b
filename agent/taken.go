package agent

import (
	"context"
	"sync"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner/rundir"
)

// How often a supervisor is told of what was taken. It waits when half of what it
// keeps of a stream has not been taken, which is far more than tellAfter.
const (
	tellAfter = 4 << 20 // bytes
	tellAgain = 5 * time.Second
	// tellFor is how long one that does not answer is waited for.
	tellFor = 5 * time.Second
)

// taken is how far those who follow a command have its output for certain. Its
// supervisor hears of it, so that a command in mode stream goes on: with the
// slowest of them, for each of them was promised all of it. It is told by one
// goroutine, in order: those who follow do not wait for a supervisor that does not
// answer. It is safe for concurrent use.
type taken struct {
	run  Run
	news chan struct{} // one place: there is something to tell

	mu      sync.Mutex
	remote  [2]int64                      // at the coordinator, which follows for all of its readers
	heard   [2]time.Time                  // its newest credit
	readers map[*outputReader]protocol.FD // on the host itself, with offset
	at      map[*outputReader]int64
	told    [2]int64
	toldAt  [2]time.Time
}

func newTaken(r Run) *taken {
	return &taken{run: r, news: make(chan struct{}, 1), readers: make(map[*outputReader]protocol.FD), at: make(map[*outputReader]int64)}
}

// credit takes the coordinator's word.
func (t *taken) credit(c protocol.Credit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := index(c.FD)
	t.remote[i], t.heard[i] = max(t.remote[i], c.Offset), time.Now()
	t.noted()
}

// read notes that a reader on the host needs nothing before an offset any more.
func (t *taken) read(r *outputReader, offset int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readers[r], t.at[r] = r.fd, offset
	t.noted()
}

// leave forgets a reader.
func (t *taken) leave(r *outputReader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.readers, r)
	delete(t.at, r)
}

// noted has the supervisor told, if it is worth while. It is called with mu held.
func (t *taken) noted() {
	if t.due(t.least()) {
		loop.Newest(t.news, struct{}{})
	}
}

// serve tells the supervisor until the end of the command, or of ctx.
func (t *taken) serve(ctx context.Context) {
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

// tell tells the supervisor. One that does not hear it is told the next time.
func (t *taken) tell(ctx context.Context) {
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
func (t *taken) due(now [2]int64) bool {
	for i, at := range now {
		if at != rundir.NotTaken && (at-t.told[i] >= tellAfter || time.Since(t.toldAt[i]) >= tellAgain) {
			return true
		}
	}
	return false
}

// least is what all who follow have. A stream that nobody follows waits for
// nobody: [rundir.NotTaken]. It is called with mu held.
func (t *taken) least() [2]int64 {
	least := [2]int64{rundir.NotTaken, rundir.NotTaken}
	for i, heard := range t.heard {
		if !heard.IsZero() && time.Since(heard) < protocol.OutputPatience {
			least[i] = t.remote[i]
		}
	}
	for r, fd := range t.readers {
		if i := index(fd); least[i] == rundir.NotTaken || t.at[r] < least[i] {
			least[i] = t.at[r]
		}
	}
	return least
}

// index is the place of a stream among those that go up.
func index(fd protocol.FD) int {
	switch fd {
	case protocol.Recording:
		return 2
	case protocol.Stderr:
		return 1
	}
	return 0
}
