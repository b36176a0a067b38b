//go:build unix

package term

import (
	"os"
	"os/signal"
	"syscall"
)

func (t tty) Resized() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	return c, func() { signal.Stop(c) }
}
