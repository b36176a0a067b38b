package lxc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
)

// The files of a container's log, in its directory. The monitor renames the console's
// to its name with ".1" when it has grown to a megabyte.
const (
	consoleBefore = container.ConsoleLog + ".1"
	startLog      = "lxc.log"
)

const (
	// maxConsole bounds what is read of one file: twice what the monitor lets it grow to.
	maxConsole = 4 << 20
	// followEvery is how often a log that is followed is looked at.
	followEvery = 200 * time.Millisecond
)

// Log implements container.Logger. Lines have no time there, and the log goes on over
// restarts of the container, so that one who follows it is not told of its end.
func (r *Runtime) Log(ctx context.Context, name string, q container.LogQuery, stdout, _ io.Writer) error {
	if err := container.CheckReference(name); err != nil {
		return fmt.Errorf("lxc log: %w: %w", container.ErrNotFound, err)
	}
	dir := filepath.Join(r.cfg.LXCPath, name)
	if _, err := os.Stat(filepath.Join(dir, "config")); err != nil {
		return fmt.Errorf("lxc log %q: %w", name, container.ErrNotFound)
	}
	if !q.Since.IsZero() {
		return fmt.Errorf("lxc log %q: %w: LXC does not note when a line was printed; ask without since", name, container.ErrUnsupported)
	}
	if err := (console{dir}).copy(ctx, q, stdout); err != nil {
		return fmt.Errorf("lxc log %q: %w", name, err)
	}
	return nil
}

// console is the directory of a container, as far as its log is concerned.
type console struct{ dir string }

func (c console) copy(ctx context.Context, q container.LogQuery, to io.Writer) error {
	if q.Runtime {
		text, _, err := c.read(startLog, 0)
		if err == nil {
			_, err = to.Write(lastLines(text, q.Tail))
		}
		return err
	}
	before, _, err := c.read(consoleBefore, 0)
	if err != nil {
		return err
	}
	now, file, err := c.read(container.ConsoleLog, 0)
	if err != nil {
		return err
	}
	if _, err := to.Write(lastLines(append(before, now...), q.Tail)); err != nil || !q.Follow {
		return err
	}
	return c.follow(ctx, file, int64(len(now)), to)
}

// follow copies what is added to the log until ctx ends.
func (c console) follow(ctx context.Context, file uint64, at int64, to io.Writer) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		text, now, err := c.read(container.ConsoleLog, at)
		if err != nil {
			return err
		}
		if now != file {
			// It was renamed, or begun anew: what was added to it before that comes first.
			if rest, was, err := c.read(consoleBefore, at); err == nil && was == file {
				if _, err := to.Write(rest); err != nil {
					return err
				}
			}
			if text, now, err = c.read(container.ConsoleLog, 0); err != nil {
				return err
			}
			file, at = now, 0
		}
		if _, err := to.Write(text); err != nil {
			return err
		}
		at += int64(len(text))
	}
}

// read returns a file from an offset on, and its inode; nothing of one that is not there.
// What the container prints is in there, but it reaches nothing of this directory itself.
func (c console) read(name string, from int64) (text []byte, inode uint64, err error) {
	f, err := os.OpenFile(filepath.Join(c.dir, name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, 0, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, 0, fmt.Errorf("%s is no file", name)
	}
	text, err = io.ReadAll(io.NewSectionReader(f, max(from, st.Size-maxConsole), maxConsole))
	return text, st.Ino, err
}

// lastLines returns the last n lines of a text.
func lastLines(text []byte, n int) []byte {
	end := len(bytes.TrimSuffix(text, []byte("\n")))
	for at := end; n > 0; n-- {
		at = bytes.LastIndexByte(text[:at], '\n')
		if at < 0 {
			return text
		}
		end = at + 1
	}
	if end >= len(text) || n < 0 {
		return nil
	}
	return text[end:]
}
