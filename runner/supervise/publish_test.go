package supervise

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/hostler-io/hostler/runner/rundir"
)

// still is a clock on which waits end at once, after something has happened.
type still struct{ meanwhile func() }

func (still) Now() time.Duration { return 0 }
func (s still) After(time.Duration) (<-chan struct{}, func(), error) {
	s.meanwhile()
	over := make(chan struct{})
	close(over)
	return over, func() {}, nil
}

// TestEndIsWrittenWhenTheDiskTakesIt blocks the name of exit.json's draft, and
// frees it after a while. Until then the lock is held: whoever found it free
// would call the command interrupted.
func TestEndIsWrittenWhenTheDiskTakesIt(t *testing.T) {
	dir := rundir.Dir(t.TempDir())
	blocked := dir.Path(rundir.ExitFile + ".tmp")
	if err := os.Mkdir(blocked, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := take(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	waits := 0
	r := &run{lock: lock, exit: rundir.Exit{Code: 7}}
	r.Dir, r.Clock = dir, still{func() {
		if other, err := dir.Lock(); !errors.Is(err, rundir.ErrLocked) {
			other.Close()
			t.Errorf("the lock of a run without an end: %v, want %v", err, rundir.ErrLocked)
		}
		if waits++; waits == 5 {
			if err := os.Remove(blocked); err != nil {
				t.Error(err)
			}
		}
	}}
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	if x, err := dir.Exit(); err != nil || x.Code != 7 || waits != 5 {
		t.Errorf("after %d waits: %+v, %v", waits, x, err)
	}
}

// TestNobodyWaitsForARunThatIsGone removes the directory.
func TestNobodyWaitsForARunThatIsGone(t *testing.T) {
	dir := t.TempDir() + "/gone"
	r := &run{}
	r.Dir, r.Clock = rundir.Dir(dir), still{func() { t.Error("it waits") }}
	if err := r.publish(); !os.IsNotExist(err) {
		t.Errorf("%v, want %v", err, fs.ErrNotExist)
	}
}
