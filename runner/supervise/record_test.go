package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/terminal"
)

// TestRecordingOnAFullDisk says once that it has ended, keeps what was recorded, and
// records nothing more.
func TestRecordingOnAFullDisk(t *testing.T) {
	dir := rundir.Dir(t.TempDir())
	r := newRecorder(dir, &rundir.Terminal{Rows: 24, Cols: 80, RecordBytes: 1 << 20}, "xterm", bootClock{})
	if notice := r.output([]byte("before")); notice != "" {
		t.Errorf("told %q", notice)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	kept := r.file
	r.file = full
	if notice := r.output([]byte("too much")); !strings.Contains(notice, "no space left on device") {
		t.Errorf("told %q", notice)
	}
	select {
	case <-r.lost:
	default:
		t.Error("whoever may end the session is not told")
	}
	r.file = kept
	r.resized(terminal.Size{Rows: 1, Cols: 1})
	if notice := r.output([]byte("after")); notice != "" {
		t.Errorf("told again: %q", notice)
	}
	if err := r.close(); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("it ends with %v", err)
	}
	b, err := os.ReadFile(filepath.Join(string(dir), "recording"))
	if err != nil || !strings.HasSuffix(string(b), `"before"]`+"\n") {
		t.Errorf("it holds %q, %v", b, err)
	}
}

// TestRecordingThatCannotBegin is one that has ended.
func TestRecordingThatCannotBegin(t *testing.T) {
	r := newRecorder(rundir.Dir(filepath.Join(t.TempDir(), "gone")), &rundir.Terminal{RecordBytes: 1}, "", bootClock{})
	if !strings.Contains(r.greeting(), "is not recorded: open ") {
		t.Errorf("who begins is told %q", r.greeting())
	}
	if notice := r.output([]byte("x")); notice != "" || r.err == nil || r.close() == nil {
		t.Errorf("told %q, %v", notice, r.err)
	}
}
