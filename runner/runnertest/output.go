package runnertest

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
)

// outputCases: what a command reads and writes arrives byte for byte.
func outputCases() []Case {
	return []Case{
		{"no output", testNoOutput},
		{"both streams", testBothStreams},
		{"no newline at the end", testNoNewline},
		{"one line of 20 MiB", testLongLine},
		{"binary data", testBinary},
		{"stdin", testStdin},
		{"flood past the cap", testFlood},
		{"endless flood", testEndlessFlood},
		{"full disk", testFullDisk},
		{"following", testFollowing},
	}
}

func testNoOutput(t *testing.T, e *env) {
	exit := e.do(t, e.spec(":"))
	if exit.Stdout != (rundir.Stream{}) || exit.Stderr != (rundir.Stream{}) {
		t.Errorf("%+v", exit)
	}
	e.wantOutput(t, rundir.Stdout, nil)
	e.wantOutput(t, rundir.Stderr, nil)
}

func testBothStreams(t *testing.T, e *env) {
	exit := e.do(t, e.spec("echo out; echo errors >&2"))
	if exit.Stdout.Bytes != 4 || exit.Stderr.Bytes != 7 {
		t.Errorf("%+v", exit)
	}
	e.wantOutput(t, rundir.Stdout, []byte("out\n"))
	e.wantOutput(t, rundir.Stderr, []byte("errors\n"))
}

func testNoNewline(t *testing.T, e *env) {
	e.do(t, e.spec("printf 'a\nb'"))
	e.wantOutput(t, rundir.Stdout, []byte("a\nb"))
}

func testLongLine(t *testing.T, e *env) {
	const size = 20 << 20
	exit := e.do(t, e.spec(`head -c "$1" /dev/zero | tr '\0' a`, "20971520"))
	if exit.Stdout.Bytes != size || exit.Stdout.DroppedBytes != 0 {
		t.Errorf("%+v", exit)
	}
	e.wantOutput(t, rundir.Stdout, bytes.Repeat([]byte{'a'}, size))
}

// noise returns n bytes of every value.
func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b) // never fails
	return b
}

func testBinary(t *testing.T, e *env) {
	spec := e.spec("cat; cat /etc/passwd >&2")
	data := noise(1<<20 + 17)
	spec.Stdin = e.stdin(t, data)
	e.do(t, spec)
	e.wantOutput(t, rundir.Stdout, data)
}

func testStdin(t *testing.T, e *env) {
	e.do(t, e.spec("cat; echo end"))
	e.wantOutput(t, rundir.Stdout, []byte("end\n"))
}

// Of a stream above the cap the head and the tail are right to the byte, the
// dropped middle is counted to the byte, and the disk holds no more than the cap.
func testFlood(t *testing.T, e *env) {
	const limit = 1 << 20
	data := noise(5<<20 + 4321)
	spec := e.spec("cat >&2")
	spec.CapBytes, spec.Stdin = limit, e.stdin(t, data)
	exit := e.do(t, spec)
	s := exit.Stderr
	if s.Bytes != int64(len(data)) || s.LostBytes != 0 || s.DroppedBytes == 0 || s.Bytes-s.DroppedBytes > limit {
		t.Fatalf("%+v", s)
	}
	o, err := e.runner.Output(e.action, 1, rundir.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if size, err := o.Size(); err != nil || size != s.Bytes {
		t.Errorf("Size = %d, %v", size, err)
	}
	got, gaps := readAround(t, o)
	if len(gaps) != 1 || gaps[0] != (runner.DroppedError{From: s.DroppedAt, To: s.DroppedAt + s.DroppedBytes}) {
		t.Fatalf("gaps %v, want the one of %+v", gaps, s)
	}
	want := append(bytes.Clone(data[:gaps[0].From]), data[gaps[0].To:]...)
	if !bytes.Equal(got, want) {
		t.Error("what is kept differs from what was written")
	}
	var st unix.Stat_t
	if err := unix.Stat(e.dir().Path("stderr"), &st); err != nil || st.Blocks*512 > limit+64<<10 {
		t.Errorf("%d bytes on disk, %v", st.Blocks*512, err)
	}
}

// readAround reads a stream to its end, around what was dropped.
func readAround(t *testing.T, o *runner.Output) (got []byte, gaps []runner.DroppedError) {
	t.Helper()
	buf := make([]byte, 100_000)
	for at := int64(0); ; {
		n, err := o.ReadAt(buf, at)
		got = append(got, buf[:n]...)
		at += int64(n)
		if gap, ok := errors.AsType[*runner.DroppedError](err); ok {
			if gap.From != at || gap.To <= gap.From {
				t.Fatalf("gap %+v at %d", gap, at)
			}
			gaps = append(gaps, *gap)
			at = gap.To
		} else if err == io.EOF {
			return got, gaps
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func testEndlessFlood(t *testing.T, e *env) {
	spec := e.spec("yes hostler")
	spec.CapBytes, spec.TimeoutMS = 1<<20, sometime
	exit := e.do(t, spec)
	s := exit.Stdout
	if !exit.TimedOut || s.Bytes <= 1<<20 || s.LostBytes != 0 || s.Bytes-s.DroppedBytes > 1<<20 {
		t.Errorf("%+v", exit)
	}
	o, err := e.runner.Output(e.action, 1, rundir.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	got, gaps := readAround(t, o)
	if len(gaps) != 1 || int64(len(got)) != s.Bytes-s.DroppedBytes {
		t.Fatalf("%d bytes and gaps %v of %+v", len(got), gaps, s)
	}
	line := []byte("hostler\n") // eight bytes, as many as divide both offsets
	if !bytes.Equal(got[:gaps[0].From], bytes.Repeat(line, int(gaps[0].From/8))) ||
		!bytes.HasPrefix(got[gaps[0].From:], line) {
		t.Error("what is kept differs from what was written")
	}
}

// A full disk loses output, which is counted, but neither the command nor its end.
func testFullDisk(t *testing.T, e *env) {
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	small := newEnvAt(t, e.Harness, root)
	exit := small.do(t, small.spec(`head -c 3000000 /dev/zero | tr '\0' a; exit 4`))
	s := exit.Stdout
	if exit.Code != 4 || s.Bytes != 3_000_000 || s.LostBytes == 0 || s.DroppedBytes != 0 {
		t.Fatalf("%+v", exit)
	}
	o, err := small.runner.Output(small.action, 1, rundir.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	got, gaps := readAround(t, o)
	want := runner.DroppedError{From: s.Bytes - s.LostBytes, To: s.Bytes}
	if int64(len(got)) != want.From || len(gaps) != 1 || gaps[0] != want {
		t.Errorf("%d bytes, gaps %v, want %+v", len(got), gaps, want)
	}
}

func testFollowing(t *testing.T, e *env) {
	run := e.start(t, e.spec(`for i in 1 2 3; do echo line $i; sleep 0.05; done; echo ready; sleep "$1"`, e.mark()))
	follow(t, run, "line 1\nline 2\nline 3\nready\n")
	select {
	case <-run.Done():
		t.Error("the run is over")
	default:
	}
	if err := run.Cancel(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case <-run.Changed():
	default:
		t.Error("Changed is open after the end")
	}
}
