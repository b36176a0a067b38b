package drill

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// What a row comes to.
const (
	kept   = "as promised"
	broken = "not as promised"
)

// Row is what was promised of one thing, and what was seen of it.
type Row struct {
	What     string `json:"what"`
	Promised string `json:"promised"`
	Seen     string `json:"seen"`
	Verdict  string `json:"verdict"`
}

// plan is what a drill does, and what the host has before it.
type plan struct {
	host       string
	fault      protocol.Fault
	lasts      time.Duration
	containers []container
}

// container is one that Hostler looks after, before the drill.
type container struct {
	name     string
	ctid     string
	forecast api.OfflineForecast
	run      run
	lease    *api.Lease // of a unique one that this host holds
}

// run tells one run of a container from the next.
type run struct {
	pid   int
	ended time.Time // the newest end that its host remembers
}

// sight is what was seen of a drill. Times are of one clock.
type sight struct {
	begins, ends time.Time // as the host has said
	away, back   time.Time // zero if that was not seen
	// leases are how long they were good for when the host was cut off, by the id of the
	// container, and moved who held them later, if that was another host.
	leases     map[string]time.Duration
	moved      map[string]move
	containers map[string]found // by name; one that could not be looked at is not there
	unseen     string           // why containers could not be looked at
	raised     []string         // alerts of the host that were not there before
	left       []string         // those of them that are there at the end
}

type move struct {
	to string
	at time.Time
}

// found is a container after the drill.
type found struct {
	run    run
	causes []string // of the ends since
}

const (
	// early is how much sooner than said a drill may seem to end: its beginning is known
	// by the answer, which takes its time.
	early = 5 * time.Second
	// comeBack is how long after a drill a host may take to answer: it tries to connect at
	// least every 10 s, and each try takes up to 20 s.
	comeBack = time.Minute
	// closely is how far the end of a lease and that of a drill are apart at least for it to
	// be known which is first. A kill and its proof take a part of it.
	closely = 20 * time.Second
)

// judge holds what was seen against what was promised.
func judge(p plan, s sight) []Row {
	rows := []Row{hostRow(p, s)}
	for _, c := range p.containers {
		want := promise(p, c, s.leases)
		row := Row{What: c.name, Promised: want.text, Seen: cmp.Or(s.unseen, "it is gone"), Verdict: broken}
		if f, ok := s.containers[c.name]; ok {
			row.Seen = sayRun(c, f)
			if want.holds(c, f) {
				row.Verdict = kept
			}
		}
		rows = append(rows, row)
		if c.lease != nil {
			rows = append(rows, elsewhere(p, c, s))
		}
	}
	for _, a := range s.raised {
		row := Row{What: "alert " + a, Promised: "is cleared when the host is back", Seen: "raised, and cleared", Verdict: kept}
		if slices.Contains(s.left, a) {
			row.Seen, row.Verdict = "raised, and still there", broken
		}
		rows = append(rows, row)
	}
	return rows
}

func hostRow(p plan, s sight) Row {
	r := Row{What: p.host, Promised: hostPromise(p), Verdict: broken}
	after := s.back.Sub(s.begins).Round(time.Second)
	switch {
	case s.back.IsZero():
		r.Seen = fmt.Sprintf("no answer until %s after the end", comeBack)
	case s.back.Before(s.ends.Add(-early)):
		r.Seen = fmt.Sprintf("it answered after %s, before the end", after)
	case s.back.After(s.ends.Add(comeBack)):
		r.Seen = fmt.Sprintf("it answered only after %s", after)
	case p.fault == protocol.FaultPartition && s.away.IsZero():
		r.Seen = "it was never away"
	default:
		r.Seen, r.Verdict = fmt.Sprintf("back after %s", after), kept
		if !s.away.IsZero() {
			r.Seen = fmt.Sprintf("shown as away after %s, %s", max(0, s.away.Sub(s.begins)).Round(time.Second), r.Seen)
		}
	}
	return r
}

func hostPromise(p plan) string {
	if p.fault == protocol.FaultPartition {
		return fmt.Sprintf("is cut off for %s, and is back by itself", p.lasts)
	}
	return fmt.Sprintf("its agent stands still for %s, and goes on by itself", p.lasts)
}

// promised is what becomes of a container, for people, and how it shows.
type promised struct {
	text  string
	holds func(container, found) bool
}

func sameRun(c container, f found) bool  { return c.run == f.run }
func endedRun(c container, f found) bool { return c.run != f.run }
func anyRun(container, found) bool       { return true }
func noRun(_ container, f found) bool    { return f.run.pid == 0 }

// promise is what a container is to do. leases are those at the beginning of the drill.
func promise(p plan, c container, leases map[string]time.Duration) promised {
	stops, err := time.ParseDuration(c.forecast.StopsIn)
	switch {
	case c.run.pid == 0 && c.forecast.Then == "running":
		return promised{"does not run, and may be started", anyRun}
	case c.run.pid == 0:
		return promised{"stays stopped", noRun}
	case c.lease != nil && !c.lease.Keeps:
		return ofLease(p, leases[c.ctid])
	case c.forecast.StopsIn != "" && err == nil && p.fault == protocol.FaultStopAgent:
		return promised{"goes on; its contract may stop it only when the agent goes on", anyRun}
	case c.forecast.StopsIn != "" && err == nil && p.lasts-stops < closely:
		return promised{fmt.Sprintf("may stop after %s by its contract, at about the end", stops), anyRun}
	case c.forecast.StopsIn != "" && err == nil:
		return promised{fmt.Sprintf("stops after %s by its contract, and starts when the host is back", stops), func(_ container, f found) bool {
			return slices.Contains(f.causes, "contract")
		}}
	}
	return promised{"goes on", sameRun}
}

func ofLease(p plan, left time.Duration) promised {
	switch {
	case p.lasts+closely < left:
		return promised{fmt.Sprintf("goes on: its lease is good for %s", left.Round(time.Second)), sameRun}
	case p.lasts > left+closely:
		return promised{fmt.Sprintf("stops when its lease ends, after %s", left.Round(time.Second)), endedRun}
	}
	return promised{fmt.Sprintf("may stop: its lease ends after %s, at about the end", left.Round(time.Second)), anyRun}
}

// elsewhere is what other hosts do with a unique container. Whether one of them can take
// it is for the placement to say, so that it stays is always right; that two run never is.
func elsewhere(p plan, c container, s sight) Row {
	left := s.leases[c.ctid].Round(time.Second)
	r := Row{What: c.name + " elsewhere", Seen: "it started nowhere else", Verdict: kept}
	m, moved := s.moved[c.ctid]
	var not string // why it must not have moved
	switch {
	case c.lease.Data == "local":
		r.Promised, not = "starts nowhere else: its data are on this host", "its data are here"
	case c.lease.Keeps:
		r.Promised, not = "starts nowhere else: it goes on without a lease", "nothing has shown that it does not run here"
	default:
		r.Promised = fmt.Sprintf("starts on another host only when its lease has ended, after %s", left)
	}
	if !moved {
		return r
	}
	after := m.at.Sub(s.begins)
	r.Seen = fmt.Sprintf("%s holds it, after %s", m.to, after.Round(time.Second))
	f, seen := s.containers[c.name]
	switch {
	case not != "":
		r.Seen, r.Verdict = r.Seen+", though "+not, broken
	case after < s.leases[c.ctid]:
		r.Seen, r.Verdict = r.Seen+", before its lease had ended", broken
	case seen && f.run.pid != 0:
		r.Seen, r.Verdict = r.Seen+", and it runs here too", broken
	}
	return r
}

// sayRun says what was seen of a container.
func sayRun(c container, f found) string {
	switch {
	case c.run == f.run && f.run.pid == 0:
		return "it did not run"
	case c.run == f.run:
		return "it went on"
	}
	text := "it ended"
	if len(f.causes) > 0 {
		text += " (" + term.Printable(strings.Join(f.causes, ", ")) + ")"
	}
	if f.run.pid != 0 {
		return text + ", and runs again"
	}
	return text + ", and does not run"
}

// faults is how many rows are not as promised.
func faults(rows []Row) (n int) {
	for _, r := range rows {
		if r.Verdict != kept {
			n++
		}
	}
	return n
}
