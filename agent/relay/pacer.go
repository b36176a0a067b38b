package relay

import (
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// pacer finds out how far the sender of a stream may be ahead: what passes the
// line in inputAhead, as the newest measurement has it. So a window grows in each
// round trip until it fills the line, and never queues more than that before a
// lease's grant. It is pure.
type pacer struct {
	window int64
	// A measurement begins when a credit is told and ends when something comes
	// that only this credit has allowed: so it sees a whole round trip at least.
	began time.Time // zero if there is none
	from  int64     // what had come when it began
	until int64     // behind this it ends
}

const (
	// inputAhead is the time that what is on its way may take.
	inputAhead = 2 * time.Second
	// firstWindow is the most that a stream begins with: a fast line shows itself
	// in one round trip, a slow one must not be filled before it did.
	firstWindow = 64 << 10
)

// begin takes what is known of the line from the other direction, in bytes a
// second.
func (p *pacer) begin(second int64) {
	p.window = min(clampWindow(second*int64(inputAhead/time.Second)), firstWindow)
}

func clampWindow(n int64) int64 { return min(max(n, 2*protocol.LeastChunk), protocol.MaxInputWindow) }

// told begins a measurement, unless one is under way: a credit is told when next
// is the offset of what comes next and limit is how far credits had allowed.
func (p *pacer) told(next, limit int64, now time.Time) {
	if p.began.IsZero() {
		p.began, p.from, p.until = now, next, limit
	}
}

// arrived ends a measurement with what comes: all before next is there.
func (p *pacer) arrived(next int64, now time.Time) {
	if p.began.IsZero() || next <= p.until {
		return
	}
	passed := max(now.Sub(p.began), time.Microsecond)
	p.window = clampWindow(int64(float64(next-p.from) * float64(inputAhead) / float64(passed)))
	p.began = time.Time{}
}
