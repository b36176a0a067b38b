package supervise

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
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

// BootClock is the kernel's CLOCK_BOOTTIME.
type BootClock struct{}

// Now returns the time since boot.
func (BootClock) Now() time.Duration { return rundir.BootClock() }

// After waits on a timerfd: the runtime's own timers stand still in suspend.
func (BootClock) After(d time.Duration) (<-chan struct{}, func(), error) {
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
