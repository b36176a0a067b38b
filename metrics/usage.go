package metrics

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
)

// maxEntries is where looking at a directory ends: it would take minutes.
const maxEntries = 2_000_000

// ErrLarge tells that a directory has too many files to be counted.
var ErrLarge = errors.New("too many files to count")

// Usage returns the bytes and the files that a directory takes on its file system.
// Nothing is opened but directories, and what is mounted below is left out; what has
// several names counts once. Files that appear or go meanwhile may be missed.
func Usage(ctx context.Context, root string) (bytes, files int64, err error) {
	type inode struct{ dev, ino uint64 }
	seen := make(map[inode]bool) // those with several names
	var dev uint64
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil {
			if path == root {
				return err
			}
			return nil // it is gone, or may not be looked at
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil
		}
		if path == root {
			dev = uint64(st.Dev)
		}
		if uint64(st.Dev) != dev {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if st.Nlink > 1 && !d.IsDir() {
			id := inode{uint64(st.Dev), st.Ino}
			if seen[id] {
				return nil
			}
			seen[id] = true
		}
		const block = 512 // of st_blocks, whatever the file system's own are
		bytes += st.Blocks * block
		if files++; files > maxEntries {
			return ErrLarge
		}
		return nil
	})
	return bytes, files, err
}
