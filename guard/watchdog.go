package guard

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"
)

// Watchdog is what a guard tells of the watchdog of the machine.
type Watchdog struct {
	// Path is that of the device which is open; empty if none is.
	Path string `json:"path,omitempty"`
	// Armed tells that the machine resets if the guard feeds the device no more.
	Armed bool `json:"armed,omitempty"`
	// Identity is what the driver calls itself.
	Identity string `json:"identity,omitempty"`
	// Error is why the device that is wanted is not armed, or was not when it was wanted last.
	Error string `json:"error,omitempty"`
}

// What is said of a guard that knows less than its client.
const (
	earlierGuard = "the guard that runs is of an earlier version and "
	renewGuard   = "; restart the machine, or stop the agent for three minutes while no unique container runs"
)

// Why says why it is not armed.
func (w Watchdog) Why() string { return cmp.Or(w.Error, earlierGuard+"knows no watchdog"+renewGuard) }

// Times of a watchdog. Together they are less than what a coordinator gives a host to kill
// what it holds: 15 s by default, and no less where it asks for watchdogs.
const (
	// resetAfter is how long the device waits for a feed before it resets the machine. It is
	// twice as long as one try to kill takes, and as coarse as devices count.
	resetAfter = 10 * time.Second
	// feedEvery is how far feeds are apart.
	feedEvery = time.Second
	// killPatience is how long after a deadline the guard feeds on although its container is
	// not dead.
	killPatience = 3 * time.Second
	// ResetWithin is how long after a deadline the machine is reset at the latest if what was
	// to be killed is not dead.
	ResetWithin = killPatience + resetAfter
)

// A guard that has died leaves the device to its second process for a moment. Meanwhile it
// is busy, and the next guard asks for it again.
const (
	busyTries = 50
	busyPause = 10 * time.Millisecond
)

// device is a watchdog that is open: it counts down until it is fed. Its methods are called
// by one goroutine at a time.
type device interface {
	// Support returns what the driver calls itself, and whether the countdown goes on when
	// the process that has the device open dies.
	Support() (identity string, survives bool, err error)
	// SetTimeout sets the countdown, and returns what the device then says that it is.
	SetTimeout(d time.Duration) (time.Duration, error)
	Feed() error
	// Disarm stops the countdown and closes the device. If the countdown cannot be stopped,
	// the device stays open, and Disarm returns the error.
	Disarm() error
	// Leave closes the device while it counts down.
	Leave() error
}

// dog is the watchdog of a guard. Open and armed are one thing: to open a device starts it.
type dog struct {
	open func(path string) (device, error) // nil: this process arms nothing
	log  *slog.Logger

	mu     sync.Mutex
	dev    device // nil: none is open
	told   Watchdog
	hungry bool   // the guard feeds it no more
	logged string // of what is wrong
}

// want has the device at a path armed, or with an empty path none. The caller has the lock.
func (d *dog) want(path string) {
	if d.open == nil {
		return
	}
	var err error
	if d.dev != nil && path != d.told.Path {
		err = d.disarm()
	}
	if err == nil && path != "" && !d.told.Armed {
		err = d.arm(path)
	}
	d.note(err)
}

// state returns what is known of the watchdog.
func (d *dog) state() Watchdog {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.told
}

// note notes what is wrong with the watchdog, and logs it once.
func (d *dog) note(err error) {
	d.told.Error = ""
	if err != nil {
		d.told.Error = err.Error()
	}
	if d.told.Error != d.logged && err != nil {
		d.log.Error("the watchdog of this machine is not as it should be", "error", err)
	}
	d.logged = d.told.Error
}

// disarm closes what is open. A device that cannot be stopped stays open, and is fed.
func (d *dog) disarm() error {
	if err := d.dev.Disarm(); err != nil {
		return fmt.Errorf("the watchdog %s cannot be stopped, so the guard goes on feeding it, and the end of the guard resets the machine: %w", d.told.Path, err)
	}
	d.dev, d.told = nil, Watchdog{}
	return nil
}

// arm opens a device if it is not open, and looks whether it does what is needed. One that
// does not is closed again.
func (d *dog) arm(path string) (err error) {
	if d.dev == nil {
		if d.dev, err = d.opened(path); err != nil {
			d.dev = nil
			return err
		}
		d.told, d.hungry = Watchdog{Path: path}, false
	}
	if d.told.Identity, err = fit(d.dev); err != nil {
		return errors.Join(fmt.Errorf("the watchdog %s is of no use: %w", path, err), d.disarm())
	}
	d.told.Armed = true
	return nil
}

func (d *dog) opened(path string) (dev device, err error) {
	for range busyTries {
		if dev, err = d.open(path); !errors.Is(err, syscall.EBUSY) {
			break
		}
		<-time.After(busyPause)
	}
	if errors.Is(err, syscall.EBUSY) {
		return nil, fmt.Errorf("another program has the watchdog %s open; systemd has if RuntimeWatchdogSec is set: %w", path, err)
	}
	return dev, err
}

// fit sets the time of a device, and says why it is not fit for a guard.
func fit(dev device) (identity string, err error) {
	identity, survives, err := dev.Support()
	if err != nil {
		return identity, err
	}
	if !survives {
		return identity, fmt.Errorf("its driver (%s) stops it when the process that feeds it dies", identity)
	}
	got, err := dev.SetTimeout(resetAfter)
	if err != nil {
		return identity, fmt.Errorf("its driver (%s) does not take %s: %w", identity, resetAfter, err)
	}
	if got != resetAfter {
		return identity, fmt.Errorf("its driver (%s) waits %s instead of %s", identity, got, resetAfter)
	}
	return identity, dev.Feed()
}

// feed feeds the device if one is open and nothing is overdue. It reports whether one is open.
func (d *dog) feed(overdue string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dev == nil {
		return false
	}
	if overdue != "" {
		if !d.hungry {
			d.log.Error("this machine is about to be reset: a container whose lease has ended does not die", "container", overdue, "watchdog", d.told.Path)
		}
		d.hungry = true
		return true
	}
	d.hungry = false
	if err := d.dev.Feed(); err != nil {
		d.note(fmt.Errorf("the watchdog %s takes no feed, so it resets the machine soon: %w", d.told.Path, err))
	}
	return true
}

// leash arms the watchdog that a new table asks for, and disarms it if nothing is held any
// more. It returns what it is then.
func (g *Guard) leash(t Table) Watchdog {
	g.dog.mu.Lock()
	defer g.dog.mu.Unlock()
	path := t.Watchdog
	if path == "" { // what is held now counts, not what was when the caller looked
		g.mu.Lock()
		if len(g.holds) > 0 {
			path = g.device
		}
		g.mu.Unlock()
	}
	g.dog.want(path)
	return g.dog.told
}

// overdue is a container that should have been dead for longer than a time; empty if there is
// none.
func (g *Guard) overdue(after time.Duration) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	for _, h := range g.holds {
		if now-h.UntilMS > after.Milliseconds() {
			return h.ID
		}
	}
	return ""
}

// callOff disarms the watchdog of a guard that is gone, by its second process, which has
// killed all that was held. If the next guard has the device, it is left to that one.
func (g *Guard) callOff(open func(string) (device, error)) error {
	g.mu.Lock()
	path := g.device
	g.mu.Unlock()
	if path == "" {
		return nil
	}
	dev, err := open(path)
	if errors.Is(err, syscall.EBUSY) {
		return nil
	}
	if err == nil {
		if err = dev.Disarm(); err != nil {
			err = errors.Join(err, dev.Leave())
		}
	}
	if err != nil {
		return fmt.Errorf("the watchdog %s cannot be stopped, so the machine is reset unless another guard begins: %w", path, err)
	}
	return nil
}
