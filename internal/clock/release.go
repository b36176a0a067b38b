//go:build !hostlertest

package clock

import "time"

// Now returns the date.
func Now() time.Time { return time.Now() }

// Boot returns the time since boot, time in suspend included. No change of the
// date moves it.
func Boot() time.Duration { return kernelBoot() }

// After returns a channel that is closed when d has passed on the clock of Boot,
// and a function that releases what it holds, to be called once.
func After(d time.Duration) (alarm <-chan struct{}, stop func(), err error) { return kernelAfter(d) }

// Environ is what a process hands on to those that it starts with an
// environment of their own: in this build nothing.
func Environ() []string { return nil }
