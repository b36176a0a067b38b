// Package clock is where the programs of Hostler look when they want the date,
// or the time since boot with suspend counted. How long something took, and
// timeouts of connections, they measure with package time: no one can set that.
//
// The date serves people: it dates what they read, certificates and signatures,
// and it counts the lives of invites and of orders that wait. The time since
// boot decides: leases, start budgets, limits of commands.
//
// Programs built with the tag hostlertest add to both what a file says, which
// the variable [Variable] of their environment names: two durations, the date's
// first, as in "-480000h 1h"; without the second, or without the file, nothing is
// added. It is read at each look, so that both can be changed under a process
// that runs: a step of the date, or a suspend. In all other programs nothing of
// this is left.
package clock

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Variable names the file with what is added to the clocks.
const Variable = "HOSTLER_CLOCK"

// BootMS returns the milliseconds since boot, time in suspend included
// (CLOCK_BOOTTIME).
func BootMS() int64 { return Boot().Milliseconds() }

// kernelBoot is the kernel's clock.
func kernelBoot() time.Duration {
	var ts unix.Timespec
	// The clock exists on every kernel since 2.6.39; there is no other failure.
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano())
}

// kernelAfter waits on a timerfd: the runtime's own timers stand still in
// suspend.
func kernelAfter(d time.Duration) (<-chan struct{}, func(), error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), "timerfd")
	when := unix.ItimerSpec{Value: unix.NsecToTimespec(max(d, 1).Nanoseconds())}
	if err := unix.TimerfdSettime(fd, 0, &when, nil); err != nil {
		f.Close()
		return nil, nil, err
	}
	alarm, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		var count [8]byte
		if _, err := f.Read(count[:]); err == nil {
			close(alarm)
		}
	}()
	return alarm, func() { f.Close(); <-over }, nil
}
