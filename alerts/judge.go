package alerts

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/metrics"
)

// prefix begins the id of every alert of this package, and of no other.
const prefix = "measured."

// Ours reports whether an alert of that id is raised and cleared by rules.
func Ours(id string) bool { return strings.HasPrefix(id, prefix) }

// maxAlerts bounds how many alerts are raised at a time: what is beyond has one cause.
const maxAlerts = 1000

// maxSpan is how far a sample may be from the one before, so that the time between them counts.
// After a longer gap, in which the host slept or could not measure, it counts as one sample.
const maxSpan = 2 * metrics.Interval

// Change raises or clears an alert. Its id stays the same as long as its cause.
type Change struct {
	ID       string
	Severity Severity
	Raised   bool
	Text     string
}

// Judge applies rules to samples. It is used by one goroutine.
type Judge struct {
	rules  []Rule
	raised map[string]bool
	watch  map[string]*watch
}

// watch is how long a series has been beyond its limit, and for how long it was not measured.
type watch struct {
	above, below, missing time.Duration
}

// KeptFor is how long a raised alert stays that is not measured any more: a container that is
// restarted again and again is not measured in between.
const KeptFor = 15 * time.Minute

// New returns a Judge. raised are the ids of alerts that an earlier one has raised; those
// that no rule is for any more are cleared with the first sample.
func New(rules []Rule, raised []string) *Judge {
	j := &Judge{rules: rules, raised: make(map[string]bool), watch: make(map[string]*watch)}
	for _, id := range raised {
		if Ours(id) {
			j.raised[id] = true
		}
	}
	return j
}

// Rules has the Judge go on with other rules. Alerts that none of them is for are
// cleared with the next sample.
func (j *Judge) Rules(rules []Rule) { j.rules = rules }

// Judge returns what a sample changes. A value that was not measured leaves its alert as it
// is, for the time of [KeptFor]; one of a container that is gone, or of a rule that is, is
// cleared.
func (j *Judge) Judge(s metrics.Sample) []Change {
	if len(j.rules) == 0 && len(j.raised) == 0 {
		return nil
	}
	values := make(map[metrics.Series]float64, len(s.Values))
	present := map[string]bool{"": true}
	for _, v := range s.Values {
		values[v.Series] = v.Mean
		present[v.Container] = true
	}
	span := s.Span
	if span > maxSpan { // nothing was measured in the gap
		span = metrics.Interval
	}
	var changes []Change
	alive := make(map[string]bool)
	for _, r := range j.rules {
		q := quantities[r.Quantity]
		for _, v := range s.Values {
			if v.Metric != q.metric || !r.applies(v.Container) || j.closer(r, v.Container) {
				continue
			}
			id := r.id(v.Series)
			value := v.Mean
			if q.of != "" {
				whole := values[metrics.Series{Container: v.Container, Metric: q.of, Part: v.Part}]
				if whole <= 0 {
					continue // it has no limit
				}
				value = 100 * v.Mean / whole
			}
			alive[id] = true
			if c, ok := j.step(id, r, v.Series, value, span); ok {
				changes = append(changes, c)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(j.raised)) {
		if !alive[id] && (!j.ruled(id) || !present[containerOf(id)] || j.missing(id, span) >= KeptFor) {
			delete(j.raised, id)
			changes = append(changes, Change{ID: id, Severity: severityOf(id), Text: "it is not measured any more, or no rule is for it"})
		}
	}
	maps.DeleteFunc(j.watch, func(id string, _ *watch) bool { return !alive[id] && !j.raised[id] })
	return changes
}

// watched returns what is known of the series of an alert.
func (j *Judge) watched(id string) *watch {
	w := j.watch[id]
	if w == nil {
		w = &watch{}
		j.watch[id] = w
	}
	return w
}

// missing takes that a series was not measured, and returns for how long it was not.
func (j *Judge) missing(id string, span time.Duration) time.Duration {
	w := j.watched(id)
	w.missing += span
	return w.missing
}

// step takes one value.
func (j *Judge) step(id string, r Rule, s metrics.Series, value float64, span time.Duration) (Change, bool) {
	w := j.watched(id)
	w.missing = 0
	bad, good := value > r.Threshold, value < r.clears() || value == 0
	if quantities[r.Quantity].below {
		bad, good = value < r.Threshold, value > r.clears()
	}
	switch {
	case bad:
		w.above += span
		w.below = 0
	case good:
		w.below += span
		w.above = 0
	default:
		w.above, w.below = 0, 0
	}
	c := Change{ID: id, Severity: r.Severity}
	switch {
	case !j.raised[id] && w.above >= r.Window && len(j.raised) < maxAlerts:
		j.raised[id], c.Raised = true, true
		c.Text = r.says(s, value, true)
	case j.raised[id] && w.below >= r.Window:
		delete(j.raised, id)
		c.Text = r.says(s, value, false)
	default:
		return c, false
	}
	return c, true
}

// says is the text of an alert that is raised, or cleared.
func (r Rule) says(s metrics.Series, value float64, raised bool) string {
	switch {
	case quantities[r.Quantity].unit == yes && raised:
		return fmt.Sprintf("%s has been %s for %s", cmp.Or(s.Container, "the host"), quantities[r.Quantity].words, r.Window)
	case quantities[r.Quantity].unit == yes:
		return fmt.Sprintf("%s has not been %s for %s", cmp.Or(s.Container, "the host"), quantities[r.Quantity].words, r.Window)
	case raised:
		return fmt.Sprintf("%s is %s, %s %s for %s", r.subject(s), r.amount(value), r.side(true), r.amount(r.Threshold), r.Window)
	case r.Threshold == 0: // no value is below it
		return fmt.Sprintf("%s is 0 again, for %s", r.subject(s), r.Window)
	}
	return fmt.Sprintf("%s is %s again, %s %s for %s", r.subject(s), r.amount(value), r.side(false), r.amount(r.clears()), r.Window)
}

// side says on which side of a limit a value is.
func (r Rule) side(bad bool) string {
	if bad != quantities[r.Quantity].below {
		return "above"
	}
	return "below"
}

// closer reports whether another rule of the same quantity and severity names the
// container by itself: it counts, and the one for each container does not.
func (j *Judge) closer(r Rule, container string) bool {
	return r.Target == Every && slices.ContainsFunc(j.rules, func(o Rule) bool {
		return o.Target == container && o.Quantity == r.Quantity && o.Severity == r.Severity
	})
}

func (r Rule) applies(container string) bool {
	switch r.Target {
	case Host:
		return container == ""
	case Every:
		return container != ""
	}
	return container == r.Target
}

// maxPart bounds what an alert says of a part, in bytes: a mount point may be long.
const maxPart = 100

// short is a part as ids and texts have it.
func short(part string) string {
	if len(part) > maxPart {
		sum := sha256.Sum256([]byte(part))
		part = part[:maxPart-20] + "…" + hex.EncodeToString(sum[:8])
	}
	return strings.ToValidUTF8(part, "\ufffd")
}

// id names the alert of a rule and a series: quantity and severity, the container or
// nothing, and the part.
func (r Rule) id(s metrics.Series) string {
	return prefix + r.Quantity + "." + string(r.Severity) + "/" + s.Container + "/" + short(s.Part)
}

func containerOf(id string) string {
	_, rest, _ := strings.Cut(id, "/")
	container, _, _ := strings.Cut(rest, "/")
	return container
}

func severityOf(id string) Severity {
	head, _, _ := strings.Cut(id, "/")
	return Severity(head[strings.LastIndexByte(head, '.')+1:])
}

// ruled reports whether a rule may have raised an alert.
func (j *Judge) ruled(id string) bool {
	return slices.ContainsFunc(j.rules, func(r Rule) bool {
		return strings.HasPrefix(id, prefix+r.Quantity+"."+string(r.Severity)+"/") && r.applies(containerOf(id))
	})
}

// subject says what is measured, of what.
func (r Rule) subject(s metrics.Series) string {
	text := quantities[r.Quantity].words
	if s.Part != "" {
		text += " " + short(s.Part)
	}
	if s.Container != "" {
		text += " of " + s.Container
	}
	return text
}

func (r Rule) amount(v float64) string {
	switch quantities[r.Quantity].unit {
	case "%":
		return fmt.Sprintf("%.0f%%", v)
	case "s":
		return spell(time.Duration(v * float64(time.Second)))
	}
	return fmt.Sprintf("%.4g", v)
}

// spell writes a time for people.
func spell(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d d", d/(24*time.Hour))
	}
	return d.Round(time.Second).String()
}
