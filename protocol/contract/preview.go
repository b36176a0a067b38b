package contract

import (
	"fmt"
	"time"
)

// Workload is a container, as far as it decides whether it runs.
type Workload struct {
	Name     string
	Intended string // running or stopped; empty for one that is not looked after
	Class    string
	Broken   string // why it is not started any more
	Offline  string
	// Lease says of a unique container why no lease lets it run; empty if one does. Up
	// tells that it runs.
	Lease string
	Up    bool
}

// The states of [Workload.Intended] and of a [Forecast].
const (
	Running = "running"
	Stopped = "stopped"
)

// MayStart says why a container must not be started on a host that was cut off for away;
// empty if it may. Whatever its contract, a unique one wants a lease.
func (w Workload) MayStart(away time.Duration) string {
	if w.Class == Unique {
		return w.Lease
	}
	o, err := Parse(w.Offline)
	if err != nil {
		return fmt.Sprintf("its offline contract cannot be read (%s): set another one", err)
	}
	return o.Spent(away)
}

// Wanted is what a container should be on a host that was cut off for away, and why that
// is not what its user intends, if it is not.
func (w Workload) Wanted(away time.Duration) (state, why string) {
	if w.Intended != Running {
		return Stopped, ""
	}
	if w.Class == Unique && w.Up && w.Offline == Keep {
		return Running, "" // it goes on without a lease
	}
	if why = w.MayStart(away); why != "" {
		return Stopped, why
	}
	return Running, ""
}

// Forecast is what becomes of a container.
type Forecast struct {
	Name    string
	Offline string
	// Then is what it is at the end: running or stopped. Why says why, unless its user
	// wants it so.
	Then string
	Why  string
	// Stops tells that its contract stops it, after StopsIn from now.
	Stops   bool
	StopsIn time.Duration
}

// Preview is what becomes of containers, in their order, if a host that was cut off for
// away hears nothing for another period, and, if reboot is set, restarts at the end of
// it. Those that are not looked after are left out: nothing is decided about them.
//
// It runs the decision ahead that the host makes itself, and knows nothing beyond it.
func Preview(all []Workload, away, period time.Duration, reboot bool) []Forecast {
	out := []Forecast{}
	for _, w := range all {
		if w.Intended == "" {
			continue
		}
		f := Forecast{Name: w.Name, Offline: w.Offline}
		if w.Class == Unique && w.Lease == "" && period > 0 {
			w.Lease = "its lease ends when the host is cut off"
			w.Up = w.Up && !reboot
		}
		f.Then, f.Why = w.Wanted(away + period)
		if now, _ := w.Wanted(away); now == Running {
			if o, err := Parse(w.Offline); err == nil {
				left, forever := o.Left(away)
				f.Stops, f.StopsIn = !forever && left <= period, left
			}
		}
		if w.Broken != "" && f.Then == Running {
			f.Then, f.Why = Stopped, "it is broken and left alone until it is reset: "+w.Broken
		}
		if f.Then == Running && reboot {
			f.Why = "it is started again after the reboot"
		}
		if !f.Stops {
			f.StopsIn = 0
		}
		out = append(out, f)
	}
	return out
}
