package runner

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A watcher turns the changes in many directories into calls. One inotify
// instance serves all runs: an ordinary user may have only 128 of them.
type watcher struct {
	file *os.File

	mu   sync.Mutex
	next int
	subs map[int32]map[int]func(name string) // by watch descriptor
}

func newWatcher() (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("making an inotify instance: %w", err)
	}
	return &watcher{file: os.NewFile(uintptr(fd), "inotify"), subs: map[int32]map[int]func(string){}}, nil
}

// add calls changed with the name of each file that is made in dir, renamed into it
// or written to in it, until the returned function was called. A call with "" means that
// something was missed. The calls come from one goroutine and must not block.
func (w *watcher) add(dir string, changed func(name string)) (remove func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	raw, err := w.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var wd int
	var failure error
	err = raw.Control(func(fd uintptr) {
		wd, failure = unix.InotifyAddWatch(int(fd), dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_MODIFY|unix.IN_ONLYDIR)
	})
	if err = errors.Join(err, failure); err != nil {
		return nil, &os.PathError{Op: "watch", Path: dir, Err: err}
	}
	w.next++
	id, key := w.next, int32(wd)
	if w.subs[key] == nil {
		w.subs[key] = map[int]func(string){}
	}
	w.subs[key][id] = changed
	return func() { w.remove(key, id) }, nil
}

func (w *watcher) remove(wd int32, id int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.subs[wd], id)
	if len(w.subs[wd]) > 0 {
		return
	}
	delete(w.subs, wd)
	if raw, err := w.file.SyscallConn(); err == nil {
		// EINVAL: the directory has gone, and the watch with it.
		_ = raw.Control(func(fd uintptr) { _, _ = unix.InotifyRmWatch(int(fd), uint32(wd)) })
	}
}

// run delivers events until close.
func (w *watcher) run() error {
	buf := make([]byte, 64<<10)
	for {
		n, err := w.file.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		w.deliver(buf[:n])
	}
}

// deliver splits what the kernel wrote: struct inotify_event, each followed by
// a name that is padded with NUL.
func (w *watcher) deliver(b []byte) {
	for len(b) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(b))
		mask := binary.NativeEndian.Uint32(b[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		name := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:end], "\x00"))
		b = b[end:]
		for _, changed := range w.subscribers(wd, mask&unix.IN_Q_OVERFLOW != 0) {
			changed(name)
		}
	}
}

func (w *watcher) subscribers(wd int32, all bool) []func(string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var fns []func(string)
	for key, subs := range w.subs {
		if !all && key != wd {
			continue
		}
		for _, fn := range subs {
			fns = append(fns, fn)
		}
	}
	return fns
}

func (w *watcher) close() error { return w.file.Close() }
