package runnertest

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
)

// streamCases: a command that waits for those who follow it loses nothing, and
// takes no more of the disk than any other.
func streamCases() []Case {
	return []Case{
		{"waits for its followers", testWaits},
		{"waits over restarts", testWaitsOverRestarts},
		{"waits for nobody in the end", testWaitsForNobody},
		{"waits for no stream that nobody follows", testWaitsForOneStream},
		{"ends while it waits", testEndsWaiting},
	}
}

// streamCap is the cap of these cases, and streamed what the command writes.
const (
	streamCap = 1 << 20
	streamed  = 8<<20 + 4321
	ages      = 10 * time.Minute // longer than any test
)

// flow is a command that writes data and waits for that long.
func (e *env) flow(t *testing.T, data []byte, patience time.Duration) runner.Spec {
	spec := e.spec("cat >&2; echo end")
	spec.CapBytes, spec.WaitMS, spec.Stdin = streamCap, patience.Milliseconds(), e.stdin(t, data)
	return spec
}

// taker reads stderr as it comes, and gives credit for what it has.
type taker struct {
	e   *env
	out *runner.Output
	got []byte
}

func (e *env) taker(t *testing.T, r *runner.Runner) *taker {
	t.Helper()
	o, err := r.Output(e.action, 1, rundir.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return &taker{e: e, out: o}
}

// take reads until it has that much, or all if the run ends.
func (k *taker) take(t *testing.T, run *runner.Run, until int) {
	t.Helper()
	buf := make([]byte, 100_000)
	for len(k.got) < until {
		changed := run.Changed()
		n, err := k.out.ReadAt(buf[:min(len(buf), until-len(k.got))], int64(len(k.got)))
		k.got = append(k.got, buf[:n]...)
		if n > 0 {
			// The run may be over by now, and then there is nobody to tell.
			_ = run.Credit(t.Context(), rundir.NotTaken, int64(len(k.got)))
			k.wantSmall(t)
			continue
		}
		if !errors.Is(err, io.EOF) {
			t.Fatalf("at %d: %v", len(k.got), err)
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// wantSmall checks that the disk holds no more than the cap, and what one step
// may hold before it is dropped.
func (k *taker) wantSmall(t *testing.T) {
	t.Helper()
	var st unix.Stat_t
	err := unix.Stat(k.e.dir().Path(rundir.StreamFile(rundir.Stderr)), &st)
	if err == nil && st.Blocks*512 > streamCap+256<<10 {
		t.Errorf("%d bytes on disk, the cap is %d", st.Blocks*512, streamCap)
	}
}

// stalls waits until the command has come to stand, and returns where.
func (k *taker) stalls(t *testing.T, run *runner.Run) int64 {
	t.Helper()
	keep := rundir.NewKeep(streamCap, true)
	for {
		changed := run.Changed()
		size, err := k.out.Size()
		if err != nil {
			t.Fatal(err)
		}
		// Less than one read is left below what the credits allow.
		if room := keep.Room(int64(len(k.got))) - size; room < 2*256<<10 {
			if room < 0 {
				t.Fatalf("%d bytes were read, and nobody has taken more than %d", size, len(k.got))
			}
			return size
		}
		select {
		case <-changed:
		case <-run.Done():
			t.Fatal("the command did not wait")
		}
	}
}

// check holds what was taken against what was written.
func (k *taker) check(t *testing.T, data []byte, exit *rundir.Exit) {
	t.Helper()
	if !bytes.Equal(k.got, data) {
		t.Errorf("%d bytes were taken of %d, or they are others", len(k.got), len(data))
	}
	if want := (rundir.Stream{Bytes: int64(len(data))}); exit.Stderr != want || exit.Stdout != (rundir.Stream{Bytes: 4}) {
		t.Errorf("the account is %+v, want %+v", exit, want)
	}
}

func testWaits(t *testing.T, e *env) {
	data := noise(streamed)
	run := e.start(t, e.flow(t, data, ages))
	k := e.taker(t, e.runner)
	k.stalls(t, run)
	k.take(t, run, 3<<20)
	k.stalls(t, run)
	k.take(t, run, len(data))
	k.check(t, data, wait(t, run))
	e.wantOutput(t, rundir.Stdout, []byte("end\n"))
}

// The credit of an agent that was killed holds, and the next one goes on.
func testWaitsOverRestarts(t *testing.T, e *env) {
	data := noise(streamed)
	run := e.start(t, e.flow(t, data, ages))
	k := e.taker(t, e.runner)
	k.take(t, run, 2<<20)
	at := k.stalls(t, run)
	next := e.open(t)
	found, err := next.Recover(t.Context(), e.action, 1, e.boot)
	if err != nil || found.Verdict != runner.Adopted {
		t.Fatalf("%+v, %v", found, err)
	}
	again := e.taker(t, next)
	again.got = k.got
	if now := again.stalls(t, found.Run); now < at {
		t.Errorf("the command stood at %d, and now at %d", at, now)
	}
	again.take(t, found.Run, len(data))
	again.check(t, data, wait(t, found.Run))
}

// Whoever has gone is waited for, and when they do not come back the command
// goes on, and its output is kept like any other.
func testWaitsForNobody(t *testing.T, e *env) {
	data := noise(streamed)
	run := e.start(t, e.flow(t, data, 2*sometime*time.Millisecond))
	k := e.taker(t, e.runner)
	k.take(t, run, 2<<20)
	exit := wait(t, run)
	s := exit.Stderr
	if s.Bytes != int64(len(data)) || s.LostBytes != 0 || s.DroppedAt < 2<<20 || s.DroppedBytes == 0 {
		t.Fatalf("%+v", s)
	}
	got, gaps := readAround(t, k.out)
	if len(gaps) != 1 || gaps[0].To != s.DroppedAt+s.DroppedBytes || !bytes.Equal(got, append(bytes.Clone(data[:gaps[0].From]), data[gaps[0].To:]...)) {
		t.Errorf("%d bytes with the gaps %v are kept of %+v", len(got), gaps, s)
	}
	if !bytes.Equal(k.got, data[:len(k.got)]) {
		t.Error("what was taken differs from what was written")
	}
}

// Whoever follows stdout alone does not hold up what writes to stderr.
func testWaitsForOneStream(t *testing.T, e *env) {
	data := noise(streamed)
	run := e.start(t, e.flow(t, data, 100*time.Millisecond))
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			// It may not listen yet, and at the end it does not any more.
			_ = run.Credit(t.Context(), 0, rundir.NotTaken)
			select {
			case <-run.Done():
				return
			case <-t.Context().Done():
				return
			default:
			}
		}
	})
	exit := wait(t, run)
	wg.Wait()
	if s := exit.Stderr; s.Bytes != int64(len(data)) || s.LostBytes != 0 || s.DroppedBytes == 0 {
		t.Errorf("%+v", s)
	}
}

// The end of a command does not wait for its followers, and costs them nothing.
func testEndsWaiting(t *testing.T, e *env) {
	data := noise(streamed)
	spec := e.flow(t, data, ages)
	run := e.start(t, spec)
	k := e.taker(t, e.runner)
	k.take(t, run, 2<<20)
	k.stalls(t, run)
	if err := run.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	exit := wait(t, run)
	s := exit.Stderr
	if !exit.Cancelled || s.DroppedBytes != 0 || s.LostBytes != 0 {
		t.Fatalf("%+v", exit)
	}
	k.take(t, run, int(s.Bytes))
	if !bytes.Equal(k.got, data[:s.Bytes]) {
		t.Error("what was taken differs from what was written")
	}
}
