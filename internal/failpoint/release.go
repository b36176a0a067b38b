//go:build !hostlertest

package failpoint

// Before does nothing in this build.
func Before(Step) {}

// After does nothing in this build.
func After(Step) {}

// Environ is what a process hands on to those that it starts with an
// environment of their own: in this build nothing.
func Environ() []string { return nil }
