package guard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// character is a watchdog device of the kernel: see its Documentation/watchdog/watchdog-api.rst.
type character struct{ file *os.File }

// openWatchdog opens the device at a path, which starts its countdown. It is not inherited by
// programs that are started: while they had it open, it could not be given back.
func openWatchdog(path string) (device, error) {
	if err := isWatchdog(path); err != nil {
		return nil, fmt.Errorf("no watchdog: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("no watchdog: %w", err)
	}
	return &character{f}, nil
}

// isWatchdog says why there is none at a path. To open something else could do anything.
func isWatchdog(path string) error {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return &os.PathError{Op: "look at", Path: path, Err: err}
	}
	major, minor := unix.Major(s.Rdev), unix.Minor(s.Rdev)
	if s.Mode&unix.S_IFMT == unix.S_IFCHR {
		if major == 10 && minor == 130 { // the first one, also by drivers that are old
			return nil
		}
		kind, err := os.Readlink(fmt.Sprintf("/sys/dev/char/%d:%d/subsystem", major, minor))
		if err == nil && filepath.Base(kind) == "watchdog" {
			return nil
		}
	}
	return fmt.Errorf("%s is another device, or a file", path)
}

func (c *character) fd() int { return int(c.file.Fd()) }

// Support implements [device].
func (c *character) Support() (identity string, survives bool, err error) {
	info, err := unix.IoctlGetWatchdogInfo(c.fd())
	if err != nil {
		return "", false, os.NewSyscallError("ask what the watchdog can do", err)
	}
	identity, _, _ = strings.Cut(string(info.Identity[:]), "\x00")
	// Without this a close stops it, also that of a process which is killed.
	return identity, info.Options&unix.WDIOF_MAGICCLOSE != 0, nil
}

// SetTimeout implements [device].
func (c *character) SetTimeout(d time.Duration) (time.Duration, error) {
	if err := unix.IoctlSetPointerInt(c.fd(), unix.WDIOC_SETTIMEOUT, int(d.Seconds())); err != nil {
		return 0, os.NewSyscallError("set the time of the watchdog", err)
	}
	seconds, err := unix.IoctlGetInt(c.fd(), unix.WDIOC_GETTIMEOUT)
	return time.Duration(seconds) * time.Second, os.NewSyscallError("read the time of the watchdog", err)
}

// Feed implements [device]. It writes a letter that is not V: the kernel remembers a V that
// was written before a close which had nothing to stop, and then takes the death of the next
// program that has the device open for a wish to stop it. Only a write makes it forget.
func (c *character) Feed() error {
	_, err := c.file.WriteString("f")
	return err
}

// Disarm implements [device]. The call tells, other than a close, whether it was stopped. A
// driver that does not know the call is stopped by a V and the close.
func (c *character) Disarm() error {
	err := unix.IoctlSetPointerInt(c.fd(), unix.WDIOC_SETOPTIONS, unix.WDIOS_DISABLECARD)
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) {
		_, err = c.file.WriteString("V")
	}
	if err != nil {
		return fmt.Errorf("stop the watchdog: %w", err)
	}
	return c.file.Close()
}

// Leave implements [device].
func (c *character) Leave() error { return c.file.Close() }
