package supervise

import (
	"time"

	"github.com/hostler-io/hostler/internal/clock"
)

// Clock is the clock of time limits. It counts on while the machine sleeps and
// is moved by nobody.
type Clock interface {
	// Now returns the time since boot.
	Now() time.Duration
	// After returns a channel that is closed when d has passed, and a function
	// that releases what it holds, to be called once.
	After(d time.Duration) (alarm <-chan struct{}, stop func(), err error)
}

// bootClock is the machine's.
type bootClock struct{}

func (bootClock) Now() time.Duration { return clock.Boot() }

func (bootClock) After(d time.Duration) (<-chan struct{}, func(), error) { return clock.After(d) }
