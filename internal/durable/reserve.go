package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// reserveBytes is enough for the ends of a few thousand actions.
const reserveBytes = 1 << 20

// Reserve is the path of a file that takes up space until a full disk must be
// written to: beside a database, so that what has happened can be written down, and
// what takes the room can be removed.
type Reserve string

// Whole reports whether the space is set aside.
func (r Reserve) Whole() bool {
	info, err := os.Stat(string(r))
	return err == nil && info.Size() == reserveBytes
}

// Fill makes the file whole. Its bytes are not zeros, which a file system might
// store as nothing.
func (r Reserve) Fill() error {
	if r.Whole() {
		return nil
	}
	f, err := os.OpenFile(string(r), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		part := bytes.Repeat([]byte("reserve "), 4096)
		for left := reserveBytes; left > 0 && err == nil; left -= len(part) {
			_, err = f.Write(part[:min(left, len(part))])
		}
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("setting space aside: %w", errors.Join(err, r.remove()))
	}
	return nil
}

// Spend frees the space. It reports false if that was done before.
func (r Reserve) Spend() bool { return os.Remove(string(r)) == nil }

func (r Reserve) remove() error {
	if err := os.Remove(string(r)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
