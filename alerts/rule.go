// Package alerts decides when something that is measured is worth telling: by rules with
// a threshold, over a time, and with a distance between raising and clearing. It is pure:
// samples come in, changes of alerts come out, and time is the time that samples cover.
//
// Nothing is looked at that no rule names.
package alerts

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostler-io/hostler/metrics"
)

// Severity is how bad an alert is.
type Severity string

// The severities.
const (
	Warning  Severity = "warning"
	Critical Severity = "critical"
)

// Host and Every are targets beside the names of containers: the host itself, and each
// container by itself.
const (
	Host  = "host"
	Every = "*"
)

// Rule says when a quantity is too large.
type Rule struct {
	Target    string // Host, Every or the name of a container
	Quantity  string // a key of the table of quantities
	Threshold float64
	// Window is for how long the quantity has to be above the threshold, without a
	// break, and then below [Rule.clears].
	Window   time.Duration
	Severity Severity
}

// quantity is what a rule may name.
type quantity struct {
	metric metrics.Metric
	of     metrics.Metric // the value is a share of this metric, in percent; empty is the value itself
	unit   string         // of the threshold: %, s (a time), yes (it is so, or not), or a number
	words  string         // for the text of an alert
	max    float64        // no larger threshold makes sense
	none   bool           // 0 is a threshold: what is counted should not happen at all
	below  bool           // it is too small, and not too large
	where  owner
	lacks  string // of one that is of hosts only, why no container has it
}

// owner says whose quantity it is.
type owner int

const (
	anywhere owner = iota
	hostOnly
	containerOnly
	coordinatorOnly // it is judged by the coordinator, of hosts
)

const year = 365 * 24 * 3600

// yes is the unit of what is so or not, and its threshold. The value is 1 while it is so,
// and 0 else: half of it is between, and between raising and clearing.
const (
	yes       = "yes"
	yesAmount = 0.5
)

var quantities = map[string]quantity{
	"cpu":        {metric: metrics.CPU, unit: "%", words: "processor time", max: 100_000},
	"ram":        {metric: metrics.Memory, of: metrics.MemoryMax, unit: "%", words: "memory", max: 100},
	"swap":       {metric: metrics.Swap, of: metrics.SwapMax, unit: "%", words: "swap", max: 100},
	"disk":       {metric: metrics.Disk, of: metrics.DiskMax, unit: "%", words: "disk", max: 100},
	"tasks":      {metric: metrics.Tasks, words: "processes", max: 1 << 22},
	"psi-cpu":    {metric: metrics.WaitCPU, unit: "%", words: "waiting for processors", max: 100},
	"psi-memory": {metric: metrics.WaitMemory, unit: "%", words: "waiting for memory", max: 100},
	"psi-io":     {metric: metrics.WaitIO, unit: "%", words: "waiting for disks", max: 100},
	"inodes": {metric: metrics.Inodes, of: metrics.InodesMax, unit: "%", words: "inodes", max: 100, where: hostOnly,
		lacks: "no container has a limit of its files, for they lie in a file system of the host, which counts them together"},
	"load": {metric: metrics.Load1, words: "load", max: 100_000, where: hostOnly,
		lacks: "Linux keeps no load average of a container; for a container use psi-cpu, psi-io or tasks"},
	"temperature": {metric: metrics.Heat, words: "temperature", max: 200, where: hostOnly, lacks: "no container has a sensor of its own"},
	"restarts":    {metric: metrics.Restarts, words: "restarts within an hour", max: 10_000, none: true, where: containerOnly},
	"broken":      {metric: metrics.Broken, unit: yes, words: "broken", where: containerOnly},
	"backup-age":  {metric: metrics.BackupAge, unit: "s", words: "age of the newest good backup", max: year, where: containerOnly},
	"degraded":    {metric: metrics.Degraded, unit: yes, words: "degraded", where: hostOnly},
	"queue-age":   {metric: metrics.QueueAge, unit: "s", words: "waiting for the coordinator's receipt", max: year, where: hostOnly},
	"spool-loss":  {metric: metrics.SpoolLoss, words: "number of lines lost from the spool within an hour", max: 1e9, none: true, where: hostOnly},
	"certificate": {metric: metrics.Certificate, unit: "s", words: "life of the certificate", max: year, below: true, where: hostOnly},
	"clock":       {unit: "s", words: "clock offset", max: year, where: coordinatorOnly},
	"offline":     {unit: "s", words: "silence", max: year, where: coordinatorOnly},
}

// DefaultWindow is the window of a rule that names none: four samples.
const DefaultWindow = 4 * metrics.Interval

// maxWindow bounds a window.
const maxWindow = 24 * time.Hour

// MaxRules is how many rules a host takes.
const MaxRules = 256

// Parse reads the rules of one target: "web ram=80%/60s cpu=150%/5m:critical". The
// window is 60 s and the severity a warning where none is named.
func Parse(text string) ([]Rule, error) {
	words := strings.Fields(text)
	if len(words) < 2 {
		return nil, fmt.Errorf("%q is no rule: write TARGET QUANTITY=THRESHOLD[/TIME][:SEVERITY], for example web ram=80%%/60s", text)
	}
	var rules []Rule
	for _, w := range words[1:] {
		r, err := parse(words[0], w)
		if err != nil {
			return nil, fmt.Errorf("rule %q of %s: %w", w, words[0], err)
		}
		if slices.ContainsFunc(rules, func(o Rule) bool { return o.Quantity == r.Quantity && o.Severity == r.Severity }) {
			return nil, fmt.Errorf("rule %q of %s: there is another rule for %s with severity %s", w, words[0], r.Quantity, r.Severity)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func parse(target, word string) (Rule, error) {
	r := Rule{Target: target, Window: DefaultWindow, Severity: Warning}
	name, rest, ok := strings.Cut(word, "=")
	q, known := quantities[name]
	switch {
	case !ok:
		return r, fmt.Errorf("there is no threshold; write %s=…", name)
	case !known:
		return r, fmt.Errorf("the quantity %q is unknown; known are %s", name, strings.Join(Quantities(), ", "))
	}
	r.Quantity = name
	if err := q.applies(target); err != nil {
		return r, fmt.Errorf("%s %w", name, err)
	}
	if head, severity, ok := strings.Cut(rest, ":"); ok {
		if r.Severity, rest = Severity(severity), head; r.Severity != Warning && r.Severity != Critical {
			return r, fmt.Errorf("the severity %q is unknown; use warning or critical", severity)
		}
	}
	if head, window, ok := strings.Cut(rest, "/"); ok {
		var err error
		if r.Window, err = time.ParseDuration(window); err != nil || r.Window < metrics.Interval || r.Window > maxWindow {
			return r, fmt.Errorf("the time %q is not between %s and %s; write it as 60s or 5m", window, metrics.Interval, maxWindow)
		}
		rest = head
	}
	var err error
	r.Threshold, err = q.threshold(name, rest)
	return r, err
}

// applies refuses a target that the quantity does not belong to.
func (q quantity) applies(target string) error {
	switch {
	case q.lacks != "" && target != Host:
		return fmt.Errorf("is of a host, and not of a container: %s. For the host write host as the target", q.lacks)
	case (q.where == hostOnly || q.where == coordinatorOnly) && target != Host:
		return errors.New("is of a host, and not of a container; write host as the target")
	case q.where == containerOnly && target == Host:
		return errors.New("is of a container; name one as the target, or * for each")
	}
	return nil
}

// threshold reads what a value is held against.
func (q quantity) threshold(name, text string) (float64, error) {
	if q.unit == "s" {
		d, err := duration(text)
		if err != nil || d <= 0 || d.Seconds() > q.max {
			return 0, fmt.Errorf("the threshold %q is no time up to a year; write it as 30s, 10m, 6h or 14d", text)
		}
		return d.Seconds(), nil
	}
	if q.unit == yes {
		if text != yes {
			return 0, fmt.Errorf("%s is so or not, and %q is no threshold of it; write %s=yes", name, text, name)
		}
		return yesAmount, nil
	}
	number, hasUnit := strings.CutSuffix(text, "%")
	if hasUnit != (q.unit == "%") {
		if q.unit == "%" {
			return 0, fmt.Errorf("the threshold %q has no unit; write %s%%", text, text)
		}
		return 0, fmt.Errorf("the threshold %q is a percentage; %s is a number", text, name)
	}
	v, err := strconv.ParseFloat(number, 64)
	switch {
	case q.none && (err != nil || math.IsNaN(v) || math.Signbit(v) || v > q.max):
		return 0, fmt.Errorf("the threshold %q is not between 0 and %.0f", text, q.max)
	case !q.none && (err != nil || math.IsNaN(v) || v <= 0 || v > q.max):
		return 0, fmt.Errorf("the threshold %q is not above 0 and at most %g", text, q.max)
	}
	return v, nil
}

// duration reads a time, in days too.
func duration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// Quantities lists what rules may name.
func Quantities() []string {
	var all []string
	for name := range quantities {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// String writes a rule as Parse reads it.
func (r Rule) String() string {
	s := r.Target + " " + r.Quantity + "=" + r.limit() + "/" + r.Window.String()
	if r.Severity != Warning {
		s += ":" + string(r.Severity)
	}
	return s
}

// limit writes the threshold.
func (r Rule) limit() string {
	q := quantities[r.Quantity]
	switch q.unit {
	case "s":
		return time.Duration(r.Threshold * float64(time.Second)).String()
	case yes:
		return yes
	}
	return strconv.FormatFloat(r.Threshold, 'f', -1, 64) + q.unit
}

// clears is what a value has to reach so that a raised alert ends: a tenth on the good
// side of the threshold, so that a value that wavers around it raises one alert and not
// many.
func (r Rule) clears() float64 {
	if quantities[r.Quantity].below {
		return r.Threshold * 1.1
	}
	return r.Threshold * 0.9
}

// OfCoordinator reports whether the rule is judged by the coordinator, because no host
// can measure it.
func (r Rule) OfCoordinator() bool { return quantities[r.Quantity].where == coordinatorOnly }

// same reports whether two rules are about the same thing: then one of them is enough.
func (r Rule) same(o Rule) bool {
	return r.Target == o.Target && r.Quantity == o.Quantity && r.Severity == o.Severity
}

// Combine returns the rules of a host and those that the coordinator has for it. Where
// two name the same target, quantity and severity, the host's own counts; of two of the
// coordinator's, the one that raises sooner.
func Combine(own, given []Rule) []Rule {
	all := slices.Clone(own)
	for _, g := range given {
		n := slices.IndexFunc(all, g.same)
		switch {
		case n < 0:
			all = append(all, g)
		case n >= len(own) && g.sooner(all[n]):
			all[n] = g
		}
	}
	return all
}

// sooner reports whether the rule raises before another about the same thing.
func (r Rule) sooner(o Rule) bool {
	if r.Threshold == o.Threshold {
		return r.Window < o.Window
	}
	return (r.Threshold < o.Threshold) != quantities[r.Quantity].below
}
