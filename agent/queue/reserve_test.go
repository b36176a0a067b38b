package queue_test

import (
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// TestFullDisk limits the size of files, as a full disk does for what grows.
func TestFullDisk(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	allow := func(bytes uint64) {
		t.Helper()
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: min(bytes, limit.Cur), Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "queue.db")
	q, err := queue.Create(t.Context(), queue.Config{Path: path}, store)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if err := q.SawTerm(t.Context(), protocol.Term{Ring: 1, Counter: 1}, theirs, nil); err != nil {
		t.Fatal(err)
	}
	aside := func() int64 {
		t.Helper()
		info, err := os.Stat(path + "-reserve")
		if errors.Is(err, fs.ErrNotExist) {
			return 0
		}
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	o := order(1)
	o.Begin = &queue.Change{}
	accept(t, q, o)

	allow(1)
	defer allow(limit.Cur)
	if _, _, err := acceptOrder(t.Context(), q, protocol.Position{}, order(2), now); !errors.Is(err, queue.ErrDisk) {
		t.Errorf("accepting: %v, want ErrDisk", err)
	}
	if aside() != 1<<20 {
		t.Errorf("%d bytes are set aside: they are for ends alone", aside())
	}
	if _, err := q.Finish(t.Context(), o.Action, queue.Step{Event: protocol.EventSucceed}, now); !errors.Is(err, queue.ErrDisk) {
		t.Errorf("finishing: %v, want ErrDisk", err)
	}
	if aside() != 0 {
		t.Error("what was set aside for an end was not used for it")
	}
	if q.Reserved() {
		t.Error("nobody is told that nothing is set aside")
	}
	allow(1 << 19) // the database has room, the reserve has not
	if _, err := q.Finish(t.Context(), o.Action, queue.Step{Event: protocol.EventSucceed}, now); err != nil {
		t.Errorf("finishing with some room: %v", err)
	}
	if err := q.Probe(t.Context()); !errors.Is(err, queue.ErrDisk) || aside() != 0 {
		t.Errorf("a disk without room for the reserve: %v, %d bytes set aside", err, aside())
	}
	allow(limit.Cur)
	if err := q.Probe(t.Context()); err != nil || aside() != 1<<20 || !q.Reserved() {
		t.Errorf("a disk with room: %v, %d bytes set aside", err, aside())
	}
	if act, err := q.Action(t.Context(), o.Action); err != nil || act.State != protocol.StateDone {
		t.Errorf("%+v, %v", act, err)
	}
	if _, err := q.Action(t.Context(), action(2)); !errors.Is(err, queue.ErrUnknown) {
		t.Errorf("what was not accepted is known: %v", err)
	}
}
