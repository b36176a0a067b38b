package loop

import "time"

// Timer is a deadline of the loop. It belongs to the loop.
type Timer struct {
	loop *Loop
	due  time.Duration // by the loop's clock; 0 is never
	do   func()
}

// Timer returns a deadline that is not set. Of those that are due at the same time
// the one that was made first is done first.
func (l *Loop) Timer(do func()) *Timer {
	t := &Timer{loop: l, do: do}
	l.timers = append(l.timers, t)
	return t
}

// In makes it due after a pause, unless it is due earlier already.
func (t *Timer) In(pause time.Duration) {
	if at := t.loop.Now() + pause; t.due == 0 || at < t.due {
		t.due = at
	}
}

// At makes it due at a time of the loop's clock, whenever it was due before.
func (t *Timer) At(at time.Duration) { t.due = max(1, at) }

// Stop makes it never due.
func (t *Timer) Stop() { t.due = 0 }

// never is a pause without end, for a loop that has nothing to wait for.
const never = time.Hour

// Wake returns a channel that delivers when the next deadline is due; [Loop.OnTime]
// must follow. It is asked for in each turn anew.
func (l *Loop) Wake() <-chan time.Time {
	next := l.Now() + never
	for _, t := range l.timers {
		if t.due != 0 {
			next = min(next, t.due)
		}
	}
	pause := max(0, next-l.Now())
	if l.wake == nil {
		l.wake = time.NewTimer(pause)
	} else {
		l.wake.Reset(pause)
	}
	return l.wake.C
}

// OnTime does everything that is due.
func (l *Loop) OnTime() {
	now := l.Now()
	for _, t := range l.timers {
		if t.due == 0 || t.due > now {
			continue
		}
		t.due = 0
		t.do()
	}
}

// Newest puts v into a channel of one place, instead of the value that waits there. It
// never waits.
func Newest[T any](ch chan T, v T) {
	for {
		select {
		case ch <- v:
			return
		default:
		}
		select {
		case <-ch:
		default:
		}
	}
}
