// Package permit lets a unique container be started for a moment, and for no longer.
//
// The agent writes a permit before it starts the container, and takes it away when the
// container runs. What a runtime runs before each start of the container, whichever
// program has asked for that start, reads the permit: without one, or with one that has
// ended, the start fails. A permit ends by the boot clock and with the boot, so what a
// crash leaves behind is worth nothing soon.
package permit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/runner/rundir"
)

// ErrRefused is why a container is not started: nothing has allowed it.
var ErrRefused = errors.New("the container is unique, and only the agent starts it, under a lease; type: hostler ct start")

// permit is the content of the file.
type permit struct {
	Boot    string `json:"boot"`
	UntilMS int64  `json:"until_ms"` // by the boot clock
	Epoch   string `json:"epoch"`
}

// maxSize bounds the file.
const maxSize = 4 << 10

// Give writes a permit to path: until a time of the boot clock, in milliseconds, the
// container may be started under an epoch.
func Give(path, epoch string, until int64) error {
	boot, err := rundir.Boot()
	if err != nil {
		return fmt.Errorf("permit a start: %w", err)
	}
	b, err := json.Marshal(permit{boot, until, epoch})
	if err != nil {
		return err
	}
	return Place(path, string(b), 0o600)
}

// Place puts a small file at path, whole, in place of what was there. It does not wait
// for the disk: after a crash of the machine nothing that it says is true any more.
func Place(path, text string, mode fs.FileMode) error {
	f, err := rundir.WriteCapped(path+".new", []byte(text), 0, maxSize)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Remove takes a file away. No file is no error.
func Remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Epoch returns the epoch under which the container may be started now. If it may not, the
// error is [ErrRefused].
func Epoch(path string) (string, error) {
	b, err := rundir.ReadCapped(path, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return "", ErrRefused
	}
	if err != nil {
		return "", fmt.Errorf("%w: read the permit: %w", ErrRefused, err)
	}
	var p permit
	if err := json.Unmarshal(b, &p); err != nil {
		return "", fmt.Errorf("%w: read the permit: %w", ErrRefused, err)
	}
	boot, err := rundir.Boot()
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", ErrRefused, err)
	case p.Boot != boot:
		return "", fmt.Errorf("%w: the permit is of an earlier boot", ErrRefused)
	case clock.BootMS() >= p.UntilMS:
		return "", fmt.Errorf("%w: the permit has ended", ErrRefused)
	case p.Epoch == "":
		return "", fmt.Errorf("%w: the permit names no epoch", ErrRefused)
	}
	return p.Epoch, nil
}
