package guard

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Reboot is what a guard tells of whether it can restart the machine.
type Reboot struct {
	// Ready tells that it restarts the machine if a kill fails.
	Ready bool `json:"ready,omitempty"`
	// Error is why it cannot although it should.
	Error string `json:"error,omitempty"`
}

// Why says why it is not ready.
func (r Reboot) Why() string {
	return cmp.Or(r.Error, earlierGuard+"restarts nothing"+renewGuard)
}

// rebootAfter is how long after a deadline the machine is restarted if a container is not
// dead. It is less than one try to kill takes, so that a first try that fails is enough.
const rebootAfter = 4 * time.Second

// RebootWithin is how long after a deadline the machine is restarted at the latest: a try may
// begin just before rebootAfter is over.
const RebootWithin = rebootAfter + killLimit + time.Second

// restart is what restarts the machine. It is open from the time on at which it may be
// needed: a machine that hangs may open no file any more.
type restart struct {
	open func() (io.WriteCloser, error)
	log  *slog.Logger

	mu      sync.Mutex
	trigger io.WriteCloser // nil: none is open
	told    Reboot
}

// want has it ready, or not. Why it is not ready is logged when it changes.
func (r *restart) want(ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !ready:
		if r.trigger != nil {
			_ = r.trigger.Close() // nothing was written
		}
		r.trigger, r.told = nil, Reboot{}
	case r.trigger == nil:
		trigger, err := r.open()
		if err != nil {
			err = fmt.Errorf("the guard cannot restart this machine: %w", err)
			if err.Error() != r.told.Error {
				r.log.Error("this machine goes on if a kill fails", "error", err)
			}
			r.told = Reboot{Error: err.Error()}
			return
		}
		r.trigger, r.told = trigger, Reboot{Ready: true}
	}
}

func (r *restart) state() Reboot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told
}

// now restarts the machine because of a container that does not die; with an empty name it
// does nothing.
func (r *restart) now(overdue string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if overdue == "" || r.trigger == nil {
		return
	}
	r.log.Error("this machine is restarted: a container whose lease has ended does not die", "container", overdue)
	if _, err := io.WriteString(r.trigger, "b"); err != nil {
		r.log.Error("this machine cannot be restarted; it is tried again", "error", err)
	}
}
