package queue_test

import (
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
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
	if err := q.Probe(t.Context(), now); !errors.Is(err, queue.ErrDisk) {
		t.Errorf("trying the disk: %v, want ErrDisk", err)
	}
	if _, err := finish(q, t.Context(), o.Action, queue.Step{Event: protocol.EventSucceed}, now); !errors.Is(err, queue.ErrDisk) {
		t.Errorf("finishing: %v, want ErrDisk", err)
	}
	if aside() != 0 {
		t.Error("what was set aside for an end was not used for it")
	}
	if err := q.Ready(); !errors.Is(err, queue.ErrDisk) || errors.Is(err, queue.ErrAudit) {
		t.Errorf("with nothing set aside the queue is ready: %v", err)
	}
	allow(1 << 19) // the database has room, the reserve has not
	if _, err := finish(q, t.Context(), o.Action, queue.Step{Event: protocol.EventSucceed}, now); err != nil {
		t.Errorf("finishing with some room: %v", err)
	}
	if err := q.Probe(t.Context(), now); !errors.Is(err, queue.ErrDisk) || aside() != 0 {
		t.Errorf("a disk without room for the reserve: %v, %d bytes set aside", err, aside())
	}
	allow(limit.Cur)
	if err := q.Probe(t.Context(), now); err != nil || aside() != 1<<20 || q.Ready() != nil {
		t.Errorf("a disk with room: %v, %d bytes set aside", err, aside())
	}
	if act, err := q.Action(t.Context(), o.Action); err != nil || act.State != protocol.StateDone {
		t.Errorf("%+v, %v", act, err)
	}
	if _, err := q.Action(t.Context(), action(2)); !errors.Is(err, queue.ErrUnknown) {
		t.Errorf("what was not accepted is known: %v", err)
	}
}

// TestRecordsOnFullDisk: records of what is done anyhow take the space that is set
// aside; those of what may be refused do not.
func TestRecordsOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	q, err := queue.Create(t.Context(), queue.Config{Path: filepath.Join(dir, "queue.db")}, store)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	r := audit.Record{Actor: "host", Verb: "container.correct-start", Detail: map[string]any{"name": strings.Repeat("x", 1000)}}
	if err := q.Audit().Record(t.Context(), r); !errors.Is(err, queue.ErrDisk) || q.Ready() != nil {
		t.Errorf("a record that may be refused: %v, reserved %v", err, q.Ready())
	}
	n := records(t, q)
	for q.Ready() == nil { // the log of the database has some room left at first
		if err := q.Audit().RecordDone(t.Context(), []audit.Record{r, r}); err != nil {
			t.Fatal(err)
		}
		if n += 2; n > 10_000 {
			t.Fatal("a full disk takes everything")
		}
	}
	if got := records(t, q); got != n {
		t.Errorf("%d records, want %d", got, n)
	}
}

// records counts the records of the audit log.
func records(t *testing.T, q *queue.Queue) (n int) {
	t.Helper()
	if _, _, err := q.Audit().Export(t.Context(), func([]byte) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}
