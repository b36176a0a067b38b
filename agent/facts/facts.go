// Package facts tells what the agent knows of itself and of its containers, and no counter of
// the kernel tells: as values of a sample, by which rules of alerts are judged. It is pure:
// what is known at a time of the boot clock goes in, and values come out.
package facts

import (
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/metrics"
)

// Facts remembers what facts of a time rest on. It is for one goroutine. The functions are
// set before the first call of [Facts.Values]; nil is a fact that this host does not have.
type Facts struct {
	// Unsent is how many reports and alerts wait for a receipt, and Certificate from when
	// until when the host's certificate is good.
	Unsent      func() uint64
	Certificate func() (from, until time.Time)
	// Degraded tells whether nothing new is accepted.
	Degraded func() bool
	// Lost is how many lines of samples the spool has lost since the process started or was
	// reloaded.
	Lost func() uint64

	calendar calendar
	losses   losses

	waits time.Duration // boot clock, since when something has waited; 0 is nothing
	ends  map[string]ends
	saved map[string]saved // by the ids of containers
}

// saved is the newest good backup of a container, and the time of the boot clock at which
// it was made.
type saved struct {
	name   string
	number uint64
	madeMS int64
	at     time.Duration
}

// never is the age of the newest good backup of a container that has none.
const never = 10 * 365 * 24 * time.Hour

// age is that of the newest good backup. One that was made while the agent looks is new,
// whatever its date says: its number is higher than that of the last one, in the same
// directory. Any other that appears is as old as its date: at the first look, when a newer
// one was removed, or at another target. One that is dated after the last one was made
// since, so that it is no older than that.
func (s *saved) age(c containers.Container, first bool, now time.Duration, today func(floor time.Time) time.Time) time.Duration {
	if c.Backup != s.name || c.BackupNumber != s.number {
		made, last := time.UnixMilli(c.BackupMS), *s
		s.name, s.number, s.madeMS = c.Backup, c.BackupNumber, c.BackupMS
		floor := made
		if last.name != "" {
			floor = time.UnixMilli(min(c.BackupMS, last.madeMS))
		}
		dated := func() time.Duration { return now - max(0, min(never, today(floor).Sub(made))) }
		switch {
		case c.Backup == "":
		case !first && targetOf(c.Backup) == targetOf(last.name) && c.BackupNumber > last.number:
			s.at = now
		case last.name != "" && c.BackupMS > last.madeMS:
			s.at = max(last.at, dated())
		default:
			s.at = dated()
		}
	}
	if s.name == "" {
		return never
	}
	return now - s.at
}

// targetOf is the target at which a backup lies; empty is the host itself.
func targetOf(backup string) string {
	target, _, there := strings.Cut(backup, ":")
	if !there {
		return ""
	}
	return target
}

// losses are those of the spool within an hour: how many lines, and the time of the boot
// clock at which they were seen.
type losses struct {
	total uint64 // as it was last told
	seen  []loss // the oldest first; one for a sample at most
}

type loss struct {
	lines uint64
	at    time.Duration
}

// take takes how many there are in all, and returns how many of them are of the last hour.
func (l *losses) take(total uint64, now time.Duration) (lines uint64) {
	if total > l.total {
		l.seen = append(l.seen, loss{total - l.total, now})
	}
	l.total = total
	l.seen = slices.DeleteFunc(l.seen, func(o loss) bool { return now-o.at > countedFor })
	for _, o := range l.seen {
		lines += o.lines
	}
	return lines
}

// ends are the times that a container has ended, and what was seen of it last.
type ends struct {
	init  int             // first process of a foreign one, which leaves no word of its ends
	last  queue.End       // of one of ours
	at    time.Duration   // boot clock, when it was last seen
	since []time.Duration // boot clock, when it ended
}

// take takes what is known of a container at a time. The ends of before the first look are
// dated by the wall clock, as nothing else can; the others are as old as the look.
func (e *ends) take(c containers.Container, now time.Duration, date time.Time) {
	first := e.at == 0
	if c.Foreign && !first && e.init != c.InitPID {
		e.since = append(e.since, now)
	}
	for _, end := range c.Ends[slices.Index(c.Ends, e.last)+1:] {
		switch age := date.Sub(time.UnixMilli(end.AtMS)); {
		case !first:
			e.since = append(e.since, now)
		case age >= 0 && age <= countedFor:
			e.since = append(e.since, now-age)
		}
		e.last = end
	}
	for len(e.since) > maxRestarts || len(e.since) > 0 && now-e.since[0] > countedFor {
		e.since = e.since[1:]
	}
	e.init, e.at = c.InitPID, now
}

// countedFor is the time in which restarts and losses are counted, and maxRestarts how many
// are.
const (
	countedFor  = time.Hour
	maxRestarts = 10_000
)

// Values are the facts at a time of the boot clock. date is the wall clock.
func (f *Facts) Values(now time.Duration, date time.Time, known []containers.Container) (all []metrics.Value) {
	set := func(container string, m metrics.Metric, v float64) {
		all = append(all, metrics.Value{Series: metrics.Series{Container: container, Metric: m}, Mean: v, Max: v})
	}
	if f.Unsent != nil {
		if f.Unsent() == 0 {
			f.waits = 0
		} else if f.waits == 0 {
			f.waits = now
		}
		age := time.Duration(0)
		if f.waits != 0 {
			age = now - f.waits
		}
		set("", metrics.QueueAge, age.Seconds())
	}
	if f.Certificate != nil {
		if from, until := f.Certificate(); !until.IsZero() {
			set("", metrics.Certificate, until.Sub(f.calendar.today(now, date, from)).Seconds())
		}
	}
	so := func(is bool) float64 {
		if is {
			return 1
		}
		return 0
	}
	if f.Degraded != nil {
		set("", metrics.Degraded, so(f.Degraded()))
	}
	if f.Lost != nil {
		set("", metrics.SpoolLoss, float64(f.losses.take(f.Lost(), now)))
	}
	for _, c := range known {
		if !c.Foreign {
			set(c.Name, metrics.Broken, so(c.Broken != ""))
		}
	}
	kept := make(map[string]saved, len(known))
	for _, c := range known {
		if !c.Backups || c.Foreign {
			continue
		}
		id := c.CTID.String()
		s, known := f.saved[id]
		age := s.age(c, !known, now, func(floor time.Time) time.Time { return f.calendar.today(now, date, floor) })
		kept[id] = s
		set(c.Name, metrics.BackupAge, age.Seconds())
	}
	f.saved = kept
	seen := make(map[string]ends, len(known))
	for _, c := range known {
		if c.InitPID == 0 {
			continue
		}
		e := f.ends[c.Name]
		e.take(c, now, date)
		seen[c.Name] = e
		set(c.Name, metrics.Restarts, float64(len(e.since)))
	}
	for name, e := range f.ends { // one that is between two starts
		if _, ok := seen[name]; !ok && now-e.at <= countedFor {
			seen[name] = e
		}
	}
	f.ends = seen
	return all
}

// calendar is the date by the boot clock, which cannot be set. The wall clock is read once,
// as soon as it is not before the newest date that is known. Later jumps of the wall clock
// change nothing.
type calendar struct {
	date time.Time
	at   time.Duration // boot clock of date
	wall bool          // date is by the wall clock
}

// today returns the date, which is not before floor.
func (c *calendar) today(now time.Duration, wall, floor time.Time) time.Time {
	today := c.date.Add(now - c.at)
	switch {
	case !c.wall && !wall.Before(floor):
		c.date, c.at, c.wall = wall, now, true
	case today.Before(floor):
		c.date, c.at = floor, now
	default:
		return today
	}
	return c.date
}
