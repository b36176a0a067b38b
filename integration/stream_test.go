//go:build integration

package integration

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// talker writes what nobody can guess to both streams until a file appears. Before
// that it keeps a copy, which has all of it whenever it is killed.
const talker = `say() { head -c $1 /dev/urandom >"$2.next"; cat "$2.next" >>"$2"; cat "$2.next"; }
while [ ! -e "$2" ]; do say $3 "$0"; say 700 "$1" >&2; sleep 0.02; done`

// talk is a command that writes all the while, and those who follow it.
type talk struct {
	w    *world
	h    *host
	id   string
	copy map[string]string // file by stream
	stop string
	taps []*tap
}

// tap is one follower of one stream: each time that it is killed it goes on where
// it was.
type tap struct {
	fd   string
	got  []byte // before the one that runs
	p    *process
	told string // what the last one said beside it
}

// startTalk starts a command that writes so many bytes up to fifty times a second.
// All of it must fit below the cap of a stream.
func (w *world) startTalk(t testing.TB, h *host, name string, size int) *talk {
	t.Helper()
	s := &talk{w: w, h: h, copy: map[string]string{"stdout": w.path(name + "-out"), "stderr": w.path(name + "-err")}, stop: w.path(name + "-stop")}
	write(t, s.copy["stdout"], "")
	write(t, s.copy["stderr"], "")
	s.id = strings.TrimSpace(w.must(t, "run", h.name, "--timeout", "1h", "--no-wait", "--", "sh", "-c", talker, s.copy["stdout"], s.copy["stderr"], s.stop, strconv.Itoa(size)))
	w.state(t, s.id, "RUNNING")
	for _, fd := range []string{"stdout", "stdout", "stderr"} {
		s.taps = append(s.taps, &tap{fd: fd})
		s.follow(t, s.taps[len(s.taps)-1])
	}
	return s
}

func (s *talk) follow(t testing.TB, f *tap) {
	t.Helper()
	f.p = s.w.start(t, "hostler", "action", "logs", s.id, "-f", "--stream", f.fd, "--offset", strconv.Itoa(len(f.got)))
}

// more waits until every follower has got so many bytes more.
func (s *talk) more(t testing.TB, n int) {
	t.Helper()
	for _, f := range s.taps {
		want := n
		if f.fd == "stderr" {
			want = n / 100
		}
		have := len(f.p.out.String())
		until(t, &f.p.out.change, fmt.Sprintf("%s of %s goes on behind byte %d", f.fd, s.id, len(f.got)+have), func() bool {
			return len(f.p.out.String()) >= have+want || f.p.ended()
		})
		if f.p.ended() {
			t.Fatalf("a follower has ended (%v) and said %s", f.p.err, f.p.talk.tail())
		}
	}
}

// kill kills some of the programs at the same moment and starts them again. The
// first follower survives whoever else is killed, unless all are.
func (s *talk) kill(t testing.TB, victims ...string) {
	t.Helper()
	w, h := s.w, s.h
	killed := func(v string) bool { return slices.Contains(victims, v) || slices.Contains(victims, "all") }
	var taps []*tap
	for i, f := range s.taps {
		if killed("followers") && (i > 0 || killed("agent") && killed("coordinator")) {
			taps = append(taps, f)
		}
	}
	if killed("agent") {
		h.agent.signal(t, kill)
	}
	if killed("coordinator") {
		w.coordinator.signal(t, kill)
	}
	for _, f := range taps {
		f.p.signal(t, kill)
	}
	for _, f := range taps {
		f.p.code(t)
		f.got = append(f.got, f.p.out.String()...)
	}
	if killed("coordinator") {
		w.coordinator.code(t)
		w.startCoordinator(t)
	}
	if killed("agent") {
		h.agent.code(t)
		h.startAlone(t)
	}
	for _, f := range taps {
		s.follow(t, f)
	}
}

// finish waits for the end of all followers, and holds what came to them, what the
// host has and what the coordinator has to each other. It returns it by stream.
func (s *talk) finish(t testing.TB) map[string][]byte {
	t.Helper()
	w := s.w
	for _, f := range s.taps {
		r := f.p.finish(t).exits(t, 0)
		f.got, f.told = append(f.got, r.stdout...), r.stderr
	}
	act := w.action(t, s.id)
	all := make(map[string][]byte)
	for _, o := range act.Output {
		there := []byte(read(t, s.h.path(fmt.Sprintf("runs/%s/%d/%s", s.id, act.Attempt, o.FD))))
		all[o.FD] = there
		if o.Dropped != 0 || o.Bytes != int64(len(there)) {
			t.Errorf("%s: the report tells of %d bytes and %d left out, and the host has %d", o.FD, o.Bytes, o.Dropped, len(there))
		}
		here, err := os.ReadFile(filepath.Join(w.path("coordinator/output"), s.id, fmt.Sprintf("%d.%s", act.Attempt, o.FD)))
		same(t, o.FD+" at the coordinator", here, there)
		if err != nil {
			t.Error(err)
		}
		for _, f := range s.taps {
			if f.fd == o.FD {
				same(t, o.FD+" at a follower", f.got, there)
			}
		}
		for _, offset := range []int{0, 1, len(there) / 3, len(there) - 1, len(there)} {
			again := w.must(t, "action", "logs", s.id, "--stream", o.FD, "--offset", strconv.Itoa(offset))
			same(t, fmt.Sprintf("%s from byte %d on", o.FD, offset), []byte(again), there[offset:])
		}
	}
	if len(all) != 2 {
		t.Errorf("the report tells of %d streams", len(all))
	}
	return all
}

// same compares bytes, and tells where they part.
func same(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	t.Errorf("%s: %d bytes with SHA-256 %x, want %d with %x; they part at byte %d", what, len(got), sha256.Sum256(got), len(want), sha256.Sum256(want), at)
}

// end lets the command end, and checks that everything it wrote is everywhere.
func (s *talk) end(t testing.TB) {
	t.Helper()
	write(t, s.stop, "")
	s.w.done(t, s.id)
	for fd, got := range s.finish(t) {
		same(t, fd+" on the host", got, []byte(read(t, s.copy[fd])))
	}
	t.Logf("%d bytes", len(read(t, s.copy["stdout"])))
}

// TestKilledMidStream kills everybody who carries a long stream, one after the
// other and all at once: no byte of it is lost, repeated or changed, at whoever
// follows, on the host, at the coordinator. Then its supervisor is killed, after
// which it is the same everywhere too, and it is said that its end may be missing.
func TestKilledMidStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", false)

	s := w.startTalk(t, h, "talk", 50_000)
	for _, victims := range []string{"followers", "agent", "coordinator", "agent followers", "all"} {
		s.more(t, 200_000)
		s.kill(t, strings.Fields(victims)...)
	}
	s.more(t, 200_000)
	s.end(t)

	s = w.startTalk(t, h, "cut", 50_000)
	s.more(t, 200_000)
	endProcess(w.supervisor(t, s.id))
	if got := w.ended(t, s.id)[s.id]; got != "FAILED interrupted" {
		t.Errorf("its supervisor was killed, and it is %s", got)
	}
	for fd, got := range s.finish(t) {
		if wrote := read(t, s.copy[fd]); !strings.HasPrefix(wrote, string(got)) {
			t.Errorf("%s: what is kept is no beginning of what was written", fd)
		}
	}
	const missing = "the last bytes of its output may be missing"
	if detail := w.action(t, s.id).Detail; !strings.Contains(detail, missing) {
		t.Errorf("its detail is %q", detail)
	}
	for _, f := range s.taps {
		if !strings.Contains(f.told, missing) {
			t.Errorf("who followed %s is told %q", f.fd, f.told)
		}
	}
	w.cli(t, "action", "logs", s.id, "-f").exits(t, 0, missing)
	w.quiet(t)
}

// supervisor is the process that supervises an action.
func (w *world) supervisor(t testing.TB, id string) int {
	t.Helper()
	relatives := w.relatives()
	all := slices.DeleteFunc(pids(relatives), func(p int) bool { return !strings.Contains(relatives[p], "/runs/"+id+"/") })
	if len(all) != 1 {
		t.Fatalf("supervisors of %s: %v", id, relatives)
	}
	return all[0]
}
