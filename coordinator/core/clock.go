package core

import "sync"

// lives is the clock by which invites, tokens and orders that wait grow old. It
// is the date, but for one thing: while the process runs it is never slower than
// the time since boot. So setting the date back gives no code a longer
// life; and a date that is put right after a start without one counts at once.
type lives struct {
	mu     sync.Mutex
	at     int64 // milliseconds of the date
	bootMS int64 // when it was at that
}

// now returns the clock's milliseconds, which are those of the date or more.
func (l *lives) now(dateMS, bootMS int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at != 0 {
		dateMS = max(dateMS, l.at+bootMS-l.bootMS)
	}
	l.at, l.bootMS = dateMS, bootMS
	return dateMS
}

// Over reports whether a life has ended. One that is to begin only, because the
// date went back over a restart, counts as over: it is unknown how long it has
// lasted.
func Over(createdMS, expiresMS, lifeMS int64) bool {
	return expiresMS <= lifeMS || createdMS > lifeMS
}
