package facts

import (
	"slices"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/alerts"
	"github.com/hostler-io/hostler/metrics"
)

// TestFacts: what waits has an age on the boot clock, a certificate a rest of life, and a
// container as many restarts as were seen within an hour, whatever the date says.
func TestFacts(t *testing.T) {
	unsent := uint64(0)
	end := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	f := Facts{Unsent: func() uint64 { return unsent }, Certificate: func() (time.Time, time.Time) { return end.Add(-20 * 24 * time.Hour), end }}
	now, date := 100*time.Hour, end.Add(-10*24*time.Hour)
	value := func(pid int, container string, m metrics.Metric) float64 {
		t.Helper()
		c := containers.Container{InitPID: pid, Foreign: true}
		c.Name = "web"
		for _, v := range f.Values(now, date, []containers.Container{c}) {
			if v.Series == (metrics.Series{Container: container, Metric: m}) {
				return v.Mean
			}
		}
		return -1
	}
	if got := value(7, "", metrics.Certificate); got != 10*24*3600 {
		t.Errorf("the certificate lives %v s", got)
	}
	for _, jump := range []int{-10, 20, -10} {
		date = date.AddDate(jump, 0, 0)
		if got := value(7, "", metrics.Certificate); got != 10*24*3600 {
			t.Errorf("after a jump of the clock by %d years the certificate lives %v s", jump, got)
		}
	}
	if got := value(7, "", metrics.QueueAge); got != 0 {
		t.Errorf("nothing waits, for %v s", got)
	}
	unsent = 3
	value(7, "", metrics.QueueAge)
	now += 90 * time.Second
	if got := value(7, "", metrics.QueueAge); got != 90 {
		t.Errorf("three items wait for %v s, want 90", got)
	}
	unsent = 0
	if got := value(7, "", metrics.QueueAge); got != 0 {
		t.Errorf("nothing waits any more, for %v s", got)
	}
	for n, pid := range []int{7, 8, 0, 9, 9} {
		now += 15 * time.Second
		if got, want := value(pid, "web", metrics.Restarts), []float64{0, 1, -1, 2, 2}[n]; got != want {
			t.Errorf("step %d: %v restarts, want %v", n, got, want)
		}
	}
	now += 2 * time.Hour
	if got := value(9, "web", metrics.Restarts); got != 0 {
		t.Errorf("two hours later: %v restarts", got)
	}
	// One of ours, of which each end is known, however many there were between two looks.
	ours := containers.Container{InitPID: 9}
	ours.Name = "db"
	for n, step := range []struct {
		before []time.Duration
		want   float64
	}{{[]time.Duration{3 * time.Hour, time.Minute}, 1}, {nil, 1}, {[]time.Duration{5 * time.Second, 4 * time.Second, 3 * time.Second}, 4}, {nil, 4}} {
		now += 15 * time.Second
		for _, ago := range step.before {
			ours.Ends = append(ours.Ends, queue.End{AtMS: date.Add(-ago).UnixMilli(), Code: n})
		}
		ours.Ends = ours.Ends[max(0, len(ours.Ends)-4):]
		all := f.Values(now, date, []containers.Container{ours})
		if got := all[len(all)-1].Mean; got != step.want {
			t.Errorf("step %d: %v restarts of one of ours, want %v", n, got, step.want)
		}
		date = date.AddDate(10, 0, 0) // no clock changes that
	}
	bare := Facts{}
	if got := bare.Values(now, date, nil); len(got) != 0 {
		t.Errorf("a host without a coordinator: %v", got)
	}
}

// TestBootIn1970: until the clock is set, it is no earlier than the certificate says.
func TestBootIn1970(t *testing.T) {
	var c calendar
	floor := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	real := floor.AddDate(0, 0, 30)
	for i, step := range []struct{ wall, want time.Time }{
		{time.Unix(9, 0), floor}, {time.Unix(69, 0), floor.Add(time.Minute)}, {real, real}, {real.AddDate(10, 0, 0), real.Add(time.Minute)},
	} {
		if got := c.today(time.Duration(i)*time.Minute, step.wall, floor); !got.Equal(step.want) {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
	if got := c.today(time.Hour, real, real.AddDate(1, 0, 0)); !got.Equal(real.AddDate(1, 0, 0)) {
		t.Errorf("a newer certificate: %s", got)
	}
}

// TestFactsOfTheAgent: that a container is broken, that the host accepts nothing new, and what
// the spool has lost within an hour, raises alerts by rules, with no coordinator that answers.
func TestFactsOfTheAgent(t *testing.T) {
	degraded, lost := false, uint64(5) // since the process started, before the first look
	f := Facts{Degraded: func() bool { return degraded }, Lost: func() uint64 { return lost }}
	var rules []alerts.Rule
	for _, text := range []string{"* broken=yes/30s:critical", "host degraded=yes/15s spool-loss=10/15s"} {
		some, err := alerts.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, some...)
	}
	judge := alerts.New(rules, nil)
	var ours, theirs containers.Container
	ours.Name, theirs.Name, theirs.Foreign = "web", "other", true
	now := 100 * time.Hour
	look := func(want ...string) {
		t.Helper()
		now += metrics.Interval
		sample := metrics.Sample{Span: metrics.Interval, Values: f.Values(now, time.Time{}, []containers.Container{ours, theirs})}
		var got []string
		for _, c := range judge.Judge(sample) {
			mark := "-"
			if c.Raised {
				mark = "+"
			}
			got = append(got, mark+c.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("at %s: %q, want %q", now, got, want)
		}
	}
	const web, host, spool = "measured.broken.critical/web/", "measured.degraded.warning//", "measured.spool-loss.warning//"
	look()
	ours.Broken = "it does not start"
	look()
	degraded, lost = true, 11
	look("+"+web, "+"+host, "+"+spool)
	ours.Broken, degraded = "", false
	look("-" + host)
	look("-" + web)
	for now < 101*time.Hour+metrics.Interval {
		look()
	}
	if got := f.losses.seen; len(got) != 2 || got[0].lines != 5 || got[1].lines != 6 {
		t.Errorf("within an hour were lost %+v", got)
	}
	look("-" + spool) // the first five are longer ago
	for range 2 {
		look()
	}
	if got := f.losses.seen; len(got) != 0 {
		t.Errorf("after an hour are kept %+v", got)
	}
}

// TestBackupAge: a backup that appears is new and ages by the boot clock, whatever dates
// say; a container without one is known to have none once the host has looked.
func TestBackupAge(t *testing.T) {
	var f Facts
	now, date := 100*time.Hour, time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	var c containers.Container
	c.Name, c.Backups = "web", true
	age := func() time.Duration {
		for _, v := range f.Values(now, date, []containers.Container{c}) {
			if v.Metric == metrics.BackupAge {
				return time.Duration(v.Mean) * time.Second
			}
		}
		return -1
	}
	if c.Backups = false; age() != -1 {
		t.Error("the host has not looked yet")
	}
	c.Backups, c.Backup, c.BackupNumber, c.BackupMS = true, "b1", 1, date.Add(-50*time.Hour).UnixMilli()
	if got := age(); got != 50*time.Hour {
		t.Errorf("one of before the agent began is %s old", got)
	}
	for _, years := range []int{10, -20, 10} {
		now, date = now+time.Hour, date.AddDate(years, 0, 0)
		if got := age(); got != now-50*time.Hour {
			t.Errorf("after a jump of the clock by %d years it is %s old at %s", years, got, now)
		}
	}
	date = date.AddDate(-10, 0, 0)
	if c.Backup, c.BackupNumber, c.BackupMS = "b2", 2, date.UnixMilli(); age() != 0 {
		t.Error("one that has appeared is not new")
	}
	if c.Backup, c.BackupNumber, c.BackupMS = "", 0, 0; age() != never {
		t.Error("there is none any more")
	}
	if c.Backup, c.BackupNumber, c.BackupMS = "b3", 3, date.UnixMilli(); age() != 0 {
		t.Error("the first one after that is not new")
	}
}

// TestBackupAgeOfOlderOnes: a backup that was there before is as old as its date, when one
// that was newer was removed, and when it is found at a target; a new one at a target is new.
func TestBackupAgeOfOlderOnes(t *testing.T) {
	var f Facts
	now, date := 100*time.Hour, time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	start := date
	var c containers.Container
	c.Name, c.Backups = "web", true
	for n, step := range []struct {
		pass   time.Duration
		backup string
		number uint64
		made   time.Duration // after the start
		want   time.Duration
	}{
		{0, "nas:n2", 2, -10 * time.Hour, 10 * time.Hour},
		{time.Hour, "nas:n1", 1, -50 * time.Hour, 51 * time.Hour}, // n2 was removed
		{time.Hour, "nas:n3", 2, 2 * time.Hour, 0},
		{time.Hour, "o7", 7, 3 * time.Hour, 0},
		{time.Hour, "nas:n3", 2, 2 * time.Hour, 2 * time.Hour},        // o7 was removed
		{20 * time.Hour, "away:a1", 1, 4 * time.Hour, 20 * time.Hour}, // made there earlier, and verified just now
		{time.Hour, "nas:n4", 3, 25 * time.Hour, 0},
		{time.Hour, "nas:n5", 4, -1000 * time.Hour, 0}, // the clock went back
		{time.Hour, "nas:n6", 0, 10000 * time.Hour, 0}, // its date is to come
		{time.Hour, "", 0, 0, never},
		{time.Hour, "nas:n1", 1, -50 * time.Hour, 79 * time.Hour},
	} {
		now, date = now+step.pass, date.Add(step.pass)
		c.Backup, c.BackupNumber, c.BackupMS = step.backup, step.number, start.Add(step.made).UnixMilli()
		got := time.Duration(-1)
		for _, v := range f.Values(now, date, []containers.Container{c}) {
			if v.Metric == metrics.BackupAge {
				got = time.Duration(v.Mean) * time.Second
			}
		}
		if got != step.want {
			t.Errorf("step %d: %s is %s old, want %s", n, step.backup, got, step.want)
		}
	}
}
