package queue

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// reserveBytes is set aside so that what ended on a full disk can still be
// written down: the ends of a few thousand actions.
const reserveBytes = 1 << 20

// reserve is a file beside the database that takes up space until it is needed.
type reserve string

func (r reserve) whole() bool {
	info, err := os.Stat(string(r))
	return err == nil && info.Size() == reserveBytes
}

// fill makes the file whole. Its bytes are not zeros, which a file system might
// store as nothing.
func (r reserve) fill() error {
	if r.whole() {
		return nil
	}
	f, err := os.OpenFile(string(r), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = f.Write(bytes.Repeat([]byte("reserve "), reserveBytes/8))
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("setting space aside: %w: %w", ErrDisk, errors.Join(err, r.remove()))
	}
	return nil
}

// spend frees the space. It reports false if that was done before.
func (r reserve) spend() bool { return os.Remove(string(r)) == nil }

func (r reserve) remove() error {
	if err := os.Remove(string(r)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
