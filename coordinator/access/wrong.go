package access

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/throttle"
)

// Wrong tokens are recorded in sum: one record tells of a window of time. The first is
// short, so that the log soon tells; while they go on, each is twice as long as the one
// before. So who guesses for a year adds 9,000 records of a million that are kept.
const (
	firstWindow = time.Minute
	lastWindow  = time.Hour
	// maxFrom is how many addresses a record names.
	maxFrom = 16
)

// wrongTokens counts tokens that were never made.
type wrongTokens struct {
	mu    sync.Mutex
	total uint64 // since the start
	lines throttle.Lines

	window time.Duration // 0 before the first
	begun  int64         // of the window, on the boot clock in milliseconds
	count  int           // in the window
	from   []string      // in it, the first few, in order
	more   bool          // there were others
}

// WrongToken counts a token that was never made, from an address. It is logged at most once
// a second, and recorded in sum.
func (r *Room) WrongToken(from string) {
	w, now := &r.wrong, r.base.Boot()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count == 0 && w.window == 0 {
		w.window, w.begun = firstWindow, now
	}
	w.total++
	w.count++
	if at, has := slices.BinarySearch(w.from, from); !has && len(w.from) < maxFrom {
		w.from = slices.Insert(w.from, at, from)
	} else if !has {
		w.more = true
	}
	if skipped, ok := w.lines.Pass(time.Duration(now) * time.Millisecond); ok {
		r.base.Log.Warn("wrong token", "from", from, "more", skipped)
	}
}

// WrongTokens returns how many wrong tokens came since the start.
func (r *Room) WrongTokens() uint64 {
	r.wrong.mu.Lock()
	defer r.wrong.mu.Unlock()
	return r.wrong.total
}

// RecordWrong records the wrong tokens of a window that is over. It is called each
// second. What it could not record is recorded with the next window.
func (r *Room) RecordWrong(ctx context.Context) error {
	detail := r.wrong.take(r.base.Boot())
	if detail == nil {
		return nil
	}
	err := r.base.Update(ctx, failpoint.AccessKept, func(tx core.Tx) error {
		return r.base.Audit(tx, core.Actor{Name: "coordinator"}, "token.wrong", "", detail)
	})
	if err != nil {
		r.wrong.putBack(detail)
	}
	return err
}

// take returns what a record of the window says if it is over, and begins the next one.
func (w *wrongTokens) take(nowMS int64) map[string]any {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.window == 0 || nowMS-w.begun < w.window.Milliseconds() {
		return nil
	}
	if w.count == 0 { // it has ended
		w.window = 0
		return nil
	}
	detail := map[string]any{"count": w.count, "from": w.from, "seconds": (nowMS - w.begun) / 1000}
	if w.more {
		detail["more"] = true
	}
	w.window, w.begun = min(2*w.window, lastWindow), nowMS
	w.count, w.from, w.more = 0, nil, false
	return detail
}

// putBack takes the count of a record back that was not made.
func (w *wrongTokens) putBack(detail map[string]any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count += detail["count"].(int)
	w.more = w.more || len(w.from) > 0 || detail["more"] == true
	w.from = detail["from"].([]string)
}
