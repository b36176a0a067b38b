//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/sqldb"
)

// auditVerdict is what hostler audit verify finds.
type auditVerdict struct {
	OK      bool   `json:"ok"`
	Log     string `json:"log"`
	To      uint64 `json:"to"`
	Records int    `json:"records"`
	Faults  []struct {
		Kind   string `json:"kind"`
		From   uint64 `json:"from"`
		To     uint64 `json:"to"`
		Detail string `json:"detail"`
	} `json:"faults"`
}

func (v auditVerdict) names(kind string, n uint64) bool {
	for _, f := range v.Faults {
		if f.Kind == kind && f.From <= n && n <= f.To {
			return true
		}
	}
	return false
}

// TestAuditIsTamperedWith changes the coordinator's database behind its back:
// verification names what was changed, from the API and from an exported file,
// and a log whose end was cut off is found by the host that has seen it.
func TestAuditIsTamperedWith(t *testing.T) {
	w := newWorld(t)
	w.addHost(t, "edge-01", false)
	for range 3 {
		w.done(t, w.submit(t, "edge-01", "true"))
	}
	db := w.path("coordinator/store.db")
	first := show[auditVerdict](t, w, "audit", "verify")
	if !first.OK || first.Records < 10 || first.To != uint64(first.Records) {
		t.Fatalf("an honest log: %+v", first)
	}
	records := show[[]api.AuditRecord](t, w, "audit", "ls", "--verb", "action.request", "--host", "edge-01")
	if len(records) != 3 || records[0].Actor != "token:admin" || records[0].From != "127.0.0.1" || records[0].Digest == "" {
		t.Fatalf("requests: %+v", records)
	}
	n := records[1].N
	// The command that watches the log prints each new record.
	grown := w.start(t, "hostler", "audit", "verify", "--watch", "-o", "csv", "--no-headers")
	until(t, &grown.out.change, "it has verified the log", func() bool { return len(grown.out.lines()) == 1 })
	w.done(t, w.submit(t, "edge-01", "true"))
	until(t, &grown.out.change, "it has verified the log again", func() bool { return len(grown.out.lines()) > 1 })
	grown.end(t, kill)
	w.cli(t, "audit", "verify", w.path("none"), "--watch").exits(t, 2, "which grows")
	// The host hears of the newest checkpoint, and brings it to its next hello.
	w.done(t, w.submit(t, "edge-01", "true"))
	w.must(t, "audit", "export", w.path("honest.jsonl"))
	w.coordinator.end(t, term)
	w.must(t, "audit", "verify", w.path("honest.jsonl"), "--fleet", w.fleet)
	copyFile(t, db, w.path("honest.db"))

	for name, c := range map[string]struct{ sql, kind string }{
		"changed":                {`UPDATE audit SET record = CAST(replace(CAST(record AS TEXT), '"verb":"action.request"', '"verb":"action.nothing"') AS BLOB) WHERE n = N`, "changed"},
		"removed":                {`DELETE FROM audit WHERE n = N`, "missing"},
		"swapped":                {`UPDATE audit SET n = -1 WHERE n = N; UPDATE audit SET n = N WHERE n = N + 1; UPDATE audit SET n = N + 1 WHERE n = -1`, "changed"},
		"sealed again by nobody": {`UPDATE seal SET checkpoint = CAST(replace(CAST(checkpoint AS TEXT), '"h":"', '"h":"0') AS BLOB) WHERE n = (SELECT min(n) FROM seal WHERE n >= N)`, "forged"},
	} {
		tamper(t, db, strings.ReplaceAll(c.sql, "N", fmt.Sprint(n)))
		w.startCoordinator(t)
		v := w.cli(t, "audit", "verify", "-o", "json").exits(t, 1)
		if got := decode[auditVerdict](t, v.stdout); !got.names(c.kind, n) {
			// A checkpoint seals its records; it is named by the last of them.
			if c.kind != "forged" || len(got.Faults) == 0 || got.Faults[0].Kind != "forged" {
				t.Errorf("%s: want %s of record %d, found %+v", name, c.kind, n, got.Faults)
			}
		}
		w.coordinator.end(t, term)
		restore(t, w.path("honest.db"), db)
	}

	// A log without its last records and checkpoints is whole by itself. This machine has seen
	// a longer log, and so has the host. The command that watches says so, and ends.
	tamper(t, db, strings.ReplaceAll(`DELETE FROM seal WHERE n >= N; DELETE FROM audit WHERE n > (SELECT max(n) FROM seal)`, "N", fmt.Sprint(n)))
	w.startCoordinator(t)
	got := decode[auditVerdict](t, w.cli(t, "audit", "verify", "--watch", "-o", "json").exits(t, 1).stdout)
	if !got.names("cut", first.To) && !got.names("rolled_back", first.To) {
		t.Errorf("a log whose end was cut off: %+v", got.Faults)
	}
	w.event(t, 0, "the host proves it", func(e api.Event) bool { return e.Type == "coordinator.recovery" })
}

// TestHostsAuditIsVerified exports a host's log through the coordinator: it verifies
// with the fleet's list of hosts, and one changed byte is found where it is. What the host
// itself exports verifies while the coordinator is down, by the list in a file.
func TestHostsAuditIsVerified(t *testing.T) {
	w := newWorld(t)
	h := w.addHost(t, "edge-01", false)
	w.done(t, w.submit(t, "edge-01", "true"))
	log := w.path("edge-01.jsonl")
	w.must(t, "audit", "export", "--host", "edge-01", log)
	v := show[auditVerdict](t, w, "audit", "verify", log)
	if !v.OK || v.Log != "host:edge-01" || v.Records < 2 {
		t.Fatalf("an honest log: %+v", v)
	}
	honest, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	own := w.path("own.jsonl")
	write(t, own, h.spawn(t, "export", "audit", "export").finish(t).exits(t, 0).stdout)
	roster := w.path("roster")
	status, list := w.ask(t, http.MethodGet, "/v1/roster", "")
	if status != http.StatusOK {
		t.Fatalf("GET /v1/roster: status %d: %s", status, list)
	}
	write(t, roster, list)
	w.coordinator.end(t, term)
	if v := show[auditVerdict](t, w, "audit", "verify", own, "--roster", roster); !v.OK || v.Log != "host:edge-01" {
		t.Errorf("exported by the host, and verified without a coordinator: %+v", v)
	}
	if r := w.cli(t, "audit", "verify", own); r.code == 0 {
		t.Errorf("without the list of hosts it is verified all the same: %s", r.stdout)
	}
	w.startCoordinator(t)
	before, after, _ := strings.Cut(string(honest), `"verb":"action.`)
	write(t, log, before+`"verb":"bction.`+after)
	got := decode[auditVerdict](t, w.cli(t, "audit", "verify", log, "-o", "json").exits(t, 1).stdout)
	if n := strings.Count(before, "\n"); !got.names("changed", uint64(n)) { // a checkpoint stands first
		t.Errorf("a changed record: %+v", got.Faults)
	}
}

// decode reads what a program has printed.
func decode[T any](t testing.TB, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return v
}

// tamper changes a coordinator's database as whoever knows how it is kept can:
// the checksums of its pages are right afterwards.
func tamper(t testing.TB, path, sql string) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), sqldb.Config{Path: path, ApplicationID: 0x486f7343, Migrations: os.DirFS("../coordinator/sqlstore/schema")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(t.Context(), func(tx *sqldb.Tx) error {
		for statement := range strings.SplitSeq(sql, ";") {
			if _, err := tx.Exec(statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, string(b))
}

// restore puts a database back as it was, with nothing that was written beside
// it since.
func restore(t testing.TB, from, to string) {
	t.Helper()
	for _, beside := range []string{"-wal", "-shm"} {
		if err := os.Remove(to + beside); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	src, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	if _, err := io.Copy(dst, src); err != nil {
		t.Fatal(err)
	}
}
