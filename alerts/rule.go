// Package alerts decides when something that is measured is worth telling: by rules with
// a threshold, over a time, and with a distance between raising and clearing. It is pure:
// samples come in, changes of alerts come out, and time is the time that samples cover.
//
// Nothing is looked at that no rule names.
package alerts

import (
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
	unit   string         // of the threshold
	words  string         // for the text of an alert
	max    float64        // no larger threshold makes sense
}

var quantities = map[string]quantity{
	"cpu":         {metrics.CPU, "", "%", "processor time", 100_000},
	"ram":         {metrics.Memory, metrics.MemoryMax, "%", "memory", 100},
	"swap":        {metrics.Swap, metrics.SwapMax, "%", "swap", 100},
	"disk":        {metrics.Disk, metrics.DiskMax, "%", "disk", 100},
	"inodes":      {metrics.Inodes, metrics.InodesMax, "%", "inodes", 100},
	"load":        {metrics.Load1, "", "", "load", 100_000},
	"tasks":       {metrics.Tasks, "", "", "processes", 1 << 22},
	"psi-cpu":     {metrics.WaitCPU, "", "%", "waiting for processors", 100},
	"psi-memory":  {metrics.WaitMemory, "", "%", "waiting for memory", 100},
	"psi-io":      {metrics.WaitIO, "", "%", "waiting for disks", 100},
	"temperature": {metrics.Heat, "", "", "temperature", 200},
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
	number, hasUnit := strings.CutSuffix(rest, "%")
	if hasUnit != (q.unit == "%") {
		if q.unit == "%" {
			return r, fmt.Errorf("the threshold %q has no unit; write %s%%", rest, rest)
		}
		return r, fmt.Errorf("the threshold %q is a percentage; %s is a number", rest, name)
	}
	var err error
	if r.Threshold, err = strconv.ParseFloat(number, 64); err != nil || math.IsNaN(r.Threshold) || r.Threshold <= 0 || r.Threshold > q.max {
		return r, fmt.Errorf("the threshold %q is not above 0 and at most %g", rest, q.max)
	}
	return r, nil
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
	s := r.Target + " " + r.Quantity + "=" + strconv.FormatFloat(r.Threshold, 'f', -1, 64) + quantities[r.Quantity].unit + "/" + r.Window.String()
	if r.Severity != Warning {
		s += ":" + string(r.Severity)
	}
	return s
}

// clears is below what a raised alert ends: a tenth under the threshold, so that a value
// that wavers around it raises one alert and not many.
func (r Rule) clears() float64 { return r.Threshold * 0.9 }
