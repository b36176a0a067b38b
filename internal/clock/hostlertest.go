//go:build hostlertest

package clock

import (
	"os"
	"strings"
	"sync"
	"time"
)

// look is how often a wait looks whether the clock of Boot was moved.
const look = 20 * time.Millisecond

// Now returns the date, moved as the file says. It cannot be used to measure.
func Now() time.Time {
	wall, _ := offsets()
	return time.Now().Round(0).Add(wall)
}

// Boot returns the time since boot, moved as the file says.
func Boot() time.Duration {
	_, boot := offsets()
	return kernelBoot() + boot
}

// After returns a channel that is closed when d has passed on the clock of Boot,
// and a function that releases what it holds, to be called once.
func After(d time.Duration) (alarm <-chan struct{}, stop func(), err error) {
	if os.Getenv(Variable) == "" {
		return kernelAfter(d)
	}
	until := Boot() + d
	rung, stopped := make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		tick := time.NewTicker(look)
		defer tick.Stop()
		for Boot() < until {
			select {
			case <-stopped:
				return
			case <-tick.C:
			}
		}
		close(rung)
	})
	return rung, func() { close(stopped); wait.Wait() }, nil
}

// Environ is what a process hands on to those that it starts with an
// environment of their own: the file that moves its clocks.
func Environ() []string {
	if file, ok := os.LookupEnv(Variable); ok {
		return []string{Variable + "=" + file}
	}
	return nil
}

// offsets reads the file. One that cannot be understood is an error of the test
// that wrote it.
func offsets() (wall, boot time.Duration) {
	file := os.Getenv(Variable)
	if file == "" {
		return 0, 0
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, 0
	}
	words := strings.Fields(string(b))
	for i, to := range []*time.Duration{&wall, &boot} {
		if i >= len(words) {
			break
		}
		if *to, err = time.ParseDuration(words[i]); err != nil {
			panic(err)
		}
	}
	return wall, boot
}
