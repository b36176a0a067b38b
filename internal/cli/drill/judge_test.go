package drill

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

// TestJudge holds what was seen against what was promised, one difference at a time.
func TestJudge(t *testing.T) {
	begins := time.Unix(1_000_000, 0)
	since := func(d time.Duration) time.Time { return begins.Add(d) }
	running := run{pid: 7, ended: time.Unix(1, 0)}
	again := run{pid: 8, ended: since(time.Minute)}
	const lasts = 3 * time.Minute
	goesOn := container{name: "web", ctid: "w", run: running, forecast: api.OfflineForecast{Then: "running"}}
	stops := container{name: "web", ctid: "w", run: running, forecast: api.OfflineForecast{Then: "stopped", StopsIn: "60s"}}
	late := container{name: "web", ctid: "w", run: running, forecast: api.OfflineForecast{Then: "stopped", StopsIn: "175s"}}
	off := container{name: "web", ctid: "w", forecast: api.OfflineForecast{Then: "stopped"}}
	due := container{name: "web", ctid: "w", forecast: api.OfflineForecast{Then: "running"}}
	unique := container{name: "db", ctid: "d", run: running, forecast: api.OfflineForecast{Then: "stopped"}, lease: &api.Lease{Data: "none"}}
	local, keeps := unique, unique
	local.lease, keeps.lease = &api.Lease{Data: "local"}, &api.Lease{Data: "none", Keeps: true}
	keeps.forecast.Then = "running"

	type change func(*plan, *sight)
	with := func(c container, f found) change {
		return func(p *plan, s *sight) {
			p.containers = []container{c}
			s.containers = map[string]found{c.name: f}
		}
	}
	and := func(all ...change) change {
		return func(p *plan, s *sight) {
			for _, c := range all {
				c(p, s)
			}
		}
	}
	left := func(d time.Duration) change { return func(_ *plan, s *sight) { s.leases["d"] = d } }
	moved := func(d time.Duration) change {
		return func(_ *plan, s *sight) { s.moved["d"] = move{"edge-02", since(d)} }
	}
	stopAgent := func(p *plan, _ *sight) { p.fault = protocol.FaultStopAgent }
	for _, c := range []struct {
		name   string
		change change
		broken string // the beginning of the row that is not as promised: what, and what was seen
	}{
		{"nothing there", func(*plan, *sight) {}, ""},
		{"not back", func(_ *plan, s *sight) { s.back = time.Time{} }, "edge-01: no answer until 1m0s after"},
		{"back early", func(_ *plan, s *sight) { s.back = since(time.Minute) }, "edge-01: it answered after 1m0s, before the end"},
		{"back late", func(_ *plan, s *sight) { s.back = since(lasts + 2*time.Minute) }, "edge-01: it answered only after 5m0s"},
		{"never away", func(_ *plan, s *sight) { s.away = time.Time{} }, "edge-01: it was never away"},
		{"a stopped agent that was not missed", and(stopAgent, func(_ *plan, s *sight) { s.away = time.Time{} }), ""},
		{"it goes on", with(goesOn, found{run: running}), ""},
		{"it was to go on", with(goesOn, found{run: again, causes: []string{"crash"}}), "web: it ended (crash), and runs again"},
		{"it is gone", func(p *plan, _ *sight) { p.containers = []container{goesOn} }, "web: it is gone"},
		{"it stops by its contract", with(stops, found{run: again, causes: []string{"contract"}}), ""},
		{"it was to stop", with(stops, found{run: running}), "web: it went on"},
		{"it stops for another reason", with(stops, found{run: again, causes: []string{"crash"}}), "web: it ended (crash)"},
		{"it stops by its contract at the end, or not", with(late, found{run: running}), ""},
		{"a stopped agent keeps no contract", and(stopAgent, with(stops, found{run: running})), ""},
		{"it stays stopped", with(off, found{}), ""},
		{"it was to stay stopped", with(off, found{run: run{pid: 8}}), "web: it ended, and runs again"},
		{"it is to run", with(due, found{run: run{pid: 8}}), ""},
		{"its lease ends", and(left(time.Minute), with(unique, found{run: again, causes: []string{""}})), ""},
		{"its lease ends, and it goes on", and(left(time.Minute), with(unique, found{run: running})), "db: it went on"},
		{"its lease ends at about the end", and(left(lasts-time.Second), with(unique, found{run: running})), ""},
		{"its lease is good", and(left(lasts+time.Minute), with(unique, found{run: running})), ""},
		{"its lease is good, and it stops", and(left(lasts+time.Minute), with(unique, found{run: again})), "db: it ended"},
		{"it moves", and(left(time.Minute), moved(2*time.Minute), with(unique, found{run: run{ended: since(time.Minute)}})), ""},
		{"it moves too soon", and(left(time.Minute), moved(59*time.Second), with(unique, found{run: run{ended: since(time.Minute)}})), "db elsewhere: edge-02 holds it, after 59s, before"},
		{"it moves, and runs here", and(left(time.Minute), moved(2*time.Minute), with(unique, found{run: again})), "db elsewhere: edge-02 holds it, after 2m0s, and it runs here too"},
		{"it moves without its data", and(left(time.Minute), moved(2*time.Minute), with(local, found{run: run{ended: since(time.Minute)}})), "db elsewhere: edge-02 holds it, after 2m0s, though"},
		{"it moves though it keeps on", and(left(time.Minute), moved(2*time.Minute), with(keeps, found{run: running})), "db elsewhere: edge-02 holds it, after 2m0s, though"},
		{"it keeps on", and(left(time.Minute), with(keeps, found{run: running})), ""},
		{"alerts go", func(_ *plan, s *sight) { s.raised = []string{"offline"} }, ""},
		{"alerts stay", func(_ *plan, s *sight) { s.raised, s.left = []string{"offline"}, []string{"offline"} }, "alert offline: raised, and still there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := plan{host: "edge-01", fault: protocol.FaultPartition, lasts: lasts}
			s := sight{begins: begins, ends: since(lasts), away: since(6 * time.Second), back: since(lasts + 4*time.Second), leases: map[string]time.Duration{}, moved: map[string]move{}}
			c.change(&p, &s)
			rows := judge(p, s)
			var got string
			for _, r := range rows {
				if r.Verdict != kept {
					got += r.What + ": " + r.Seen
				}
			}
			if c.broken == "" && got != "" || !strings.HasPrefix(got, c.broken) || faults(rows) > 1 {
				t.Errorf("not as promised is %q, want %q: %+v", got, c.broken, rows)
			}
		})
	}
}

// TestPresence: a host that is online has no reason, and none is shown.
func TestPresence(t *testing.T) {
	for want, in := range map[string][2]string{"online": {"online", ""}, "late (socket lost 5 s ago)": {"late", "socket lost 5 s ago"}} {
		if got := presence(in[0], in[1]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
