//go:build linux && cgo

package helper

import (
	"path/filepath"

	golxc "github.com/lxc/go-lxc"

	"github.com/hostler-io/hostler/container"
)

// consoleSize is how much of what a container prints is kept, twice: the file that is
// written, and the one before.
const consoleSize = "1MB"

// keepConsole has the monitor of a container write what it prints on its console to a
// file in its directory, unless its configuration says otherwise. It is said at each
// start, so that containers of earlier versions have a log, too.
func keepConsole(c *golxc.Container, dir string) error {
	if file := c.ConfigItem("lxc.console.logfile"); len(file) > 0 && file[0] != "" {
		return nil
	}
	return apply(c, []setting{
		{"lxc.console.logfile", filepath.Join(dir, container.ConsoleLog)},
		{"lxc.console.size", consoleSize},
		{"lxc.console.rotate", "1"},
	})
}
