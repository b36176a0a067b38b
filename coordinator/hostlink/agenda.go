package hostlink

import (
	"sync"
	"time"
)

// agenda is what waits to be done with one host until it is there and the store
// takes it. Its methods may be called from any goroutine, and never wait.
type agenda struct {
	mu        sync.Mutex
	unsent    bool  // actions may wait for a number
	numbering bool  // they are being given theirs
	held      bool  // one waits for its turn in a batch
	toAsk     bool  // the host is to be asked about open actions; see askAgain
	whyMS     int64 // boot clock when the host was last asked why something waits, or will be
}

// number has the actions that wait looked at with the next turn.
func (a *agenda) number() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unsent = true
}

// hold notes that an action waits for its turn.
func (a *agenda) hold() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = true
}

// numberHeld is number if an action waits for its turn.
func (a *agenda) numberHeld() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unsent, a.held = a.unsent || a.held, false
}

// ask has the host asked about its open actions with the next turn.
func (a *agenda) ask() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.toAsk = true
}

// take returns what is to be done and clears it: a caller that does not succeed notes
// it again. What is numbered counts as waiting until numbered is called.
func (a *agenda) take() (ask, number bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ask, number = a.toAsk, a.unsent
	a.toAsk, a.unsent = false, false
	a.numbering = a.numbering || number
	return ask, number
}

func (a *agenda) numbered() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.numbering = false
}

// empty reports that no action waits for its number.
func (a *agenda) empty() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.unsent && !a.numbering
}

// askEvery is how often a host is asked why something waits, at the most, in
// milliseconds: looking costs it a row of its disk.
const askEvery = 200

// whyIn returns when the host may be asked why something waits, one question
// behind the other: false if that is further off than patience.
func (a *agenda) whyIn(bootMS int64, patience time.Duration) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := bootMS
	if a.whyMS != 0 {
		at = max(bootMS, a.whyMS+askEvery)
	}
	pause := time.Duration(at-bootMS) * time.Millisecond
	if pause > patience {
		return 0, false
	}
	a.whyMS = at
	return pause, true
}
