package hostlink

import (
	"sync"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// inbound is a message that a host has sent.
type inbound struct {
	channel protocol.Channel
	topic   string
	payload []byte
}

// What of one host may wait for its transaction, in messages and bytes. An
// honest host has at most a window of each stream and of the chunks of a few
// commands under way; what comes beyond is dropped and will come again. Chunks
// are counted for themselves: no output keeps a report out. So is what a
// transaction has under way already, which waited within the same bounds.
const (
	maxInbox      = 4 * stream.Window
	maxInboxBytes = 4 << 20
	maxChunkBytes = 2 * protocol.ChunkWindow
	// A host sends the next message of samples when it has the answer to the one before.
	maxSampleBytes = 4 * protocol.MaxMessage
)

// inbox holds messages of one host until its worker takes them, in order. The
// worker ends by itself, so an idle host costs no goroutine. Its methods may be
// called from any goroutine, and never wait.
type inbox struct {
	limit int             // bytes that may wait
	take  func([]inbound) // called by the worker alone

	mu      sync.Mutex
	waiting []inbound
	bytes   int // payloads of waiting
	working bool
}

// put queues a message, and begins a worker with start if there is none. It
// reports false if the message was dropped: there are too many, or it is the end.
func (b *inbox) put(in inbound, start func(func()) bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	full := len(b.waiting) >= maxInbox || b.bytes+len(in.payload) > b.limit
	if full || !b.working && !start(b.work) {
		return false
	}
	b.bytes += len(in.payload)
	b.waiting, b.working = append(b.waiting, in), true
	return true
}

// work takes messages until none is left.
func (b *inbox) work() {
	for {
		b.mu.Lock()
		batch := b.waiting
		b.waiting, b.bytes = nil, 0
		b.working = len(batch) > 0
		b.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		b.take(batch)
	}
}
