//go:build integration

package integration

import (
	"strings"
	"syscall"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// recordingOf is the account of a session's recording, when it has ended.
func (w *world) recordingOf(t testing.TB, id string) api.Output {
	t.Helper()
	w.ended(t, id)
	for _, o := range w.action(t, id).Output {
		if o.FD == "recording" {
			return o
		}
	}
	t.Fatalf("action %s has no recording", id)
	return api.Output{}
}

// newestAction is the id of the newest action there.
func (w *world) newestAction(t testing.TB, where ...string) string {
	t.Helper()
	return strings.TrimSpace(w.must(t, append(where, "action", "ls", "-o", "name", "--limit", "1")...))
}

// TestRecordings records sessions, and plays them when their host is gone.
func TestRecordings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", false)
	const told = "hostler: this session is recorded"

	p := w.sit(t, "attach", "edge-01", "--record")
	p.sees(told)
	p.shell()
	id := w.session(t)
	w.cli(t, "action", "replay", id).exits(t, 1, "has not ended")
	p.types("echo spo''ken; read secret\r")
	p.sees("spoken\r\n")
	p.types("sesame\rexit 3\r") // without echo
	p.exits(3)
	account := w.recordingOf(t, id)
	if len(account.SHA256) != 64 || account.Bytes == 0 || account.Ended != "" {
		t.Errorf("the recording is %+v", account)
	}
	ends := show[[]api.AuditRecord](t, w, "audit", "ls", "--verb", "action.exit", "--host", "edge-01")
	if len(ends) != 1 || ends[0].Detail["recording"] != account.SHA256 {
		t.Errorf("the audit log has of its end: %+v", ends)
	}

	plain := w.sit(t, "run", "-t", "edge-01", "--", "true")
	plain.exits(0)
	if strings.Contains(plain.screen.String(), told) {
		t.Error("a session that nobody records says that it is recorded")
	}
	w.cli(t, "action", "replay", w.newestAction(t)).exits(t, 3, "it was not recorded")
	w.cli(t, "run", "--record", "edge-01", "--", "true").exits(t, 125, "--record is for sessions: add -t")

	// A host that demands it, of which somebody of its own asks.
	h.agent.end(t, syscall.SIGTERM)
	write(t, h.config(), read(t, h.config())+"[sessions]\nrecord = true\nrecord_mib = 1\nunrecorded = \"end\"\n")
	h.start(t)
	q := w.sit(t, "--socket", h.socket(), "run", "-t", "--", "sh", "-c", "echo of the host itself")
	q.sees(told)
	q.exits(0)
	local := w.newestAction(t, "--socket", h.socket())
	if out := w.must(t, "--socket", h.socket(), "action", "replay", local, "--speed", "1000"); out != "of the host itself\r\n" {
		t.Errorf("on the host it plays %q", out)
	}
	full := w.sit(t, "run", "-t", "edge-01", "--", "sh", "-c", "head -c 4000000 /dev/zero | tr '\\000' x; echo; exec sleep 98765")
	full.sees("the recording of this session has ended: it has come to its limit")
	full.exits(129)
	full.sees("because it could not be recorded any longer (sessions.unrecorded of its host)")
	long := w.newestAction(t)
	if account := w.recordingOf(t, long); account.Bytes < 900_000 || account.Bytes > 1<<20 || !strings.Contains(account.Ended, "limit") {
		t.Errorf("the recording is %+v", account)
	}

	// All of it is here, whether or not the host is.
	w.must(t, "action", "replay", long, "--raw")
	w.must(t, "action", "replay", id, "--raw")
	h.agent.end(t, syscall.SIGTERM)
	out := w.must(t, "action", "replay", id, "--speed", "1000")
	if !strings.Contains(out, "spoken\r\n") || strings.Contains(out, "sesame") {
		t.Errorf("it plays %q", out)
	}
	if raw := w.must(t, "action", "replay", id, "--raw"); !strings.HasPrefix(raw, `{"version":2,"width":80,"height":24,`) || int64(len(raw)) != account.Bytes {
		t.Errorf("the recording is %q", raw)
	}
	if n := len(w.cli(t, "action", "replay", long, "--speed", "1000").exits(t, 0, "the recording ended before the session:").stdout); n < 900_000 {
		t.Errorf("of the long one %d bytes are played", n)
	}
}
