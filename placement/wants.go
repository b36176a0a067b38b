package placement

import (
	"fmt"
	"strconv"
	"strings"
)

// Wants is what a workload asks of the hosts that may have it.
type Wants struct {
	Rules []Rule `json:"rules,omitempty"`
	// Near names other workloads by the names that people give them.
	Near     []Near `json:"near,omitempty"`
	Priority int    `json:"priority,omitzero"`
	// After names other workloads that are to run before this one is started: see [WaitsFor].
	After []string `json:"after,omitempty"`
	// Discovery says of which hosts it counts what they tell of the workload.
	Discovery []Discovery `json:"discovery,omitempty"`
}

// MaxWishes bounds the rules of one workload, and its wishes about other workloads.
const MaxWishes = 32

// Liking is the score of a wish that names none.
const Liking = 100

// Any reports whether there is a wish at all.
func (w *Wants) Any() bool {
	return len(w.Rules) > 0 || len(w.Near) > 0 || len(w.Discovery) > 0 || len(w.After) > 0 || w.Priority != 0
}

// Check refuses more wishes than there may be, and scores out of range.
func (w *Wants) Check() error {
	switch {
	case len(w.Rules) > MaxWishes || len(w.Near) > MaxWishes || len(w.Discovery) > MaxWishes || len(w.After) > MaxWishes:
		return fmt.Errorf("there are more than %d wishes about hosts or other workloads", MaxWishes)
	case w.Priority < -Infinity || w.Priority > Infinity:
		return fmt.Errorf("priority %d is out of range: use %d to %d", w.Priority, -Infinity, Infinity)
	}
	for _, r := range w.Rules {
		if r.Host == "" && len(r.Labels) == 0 {
			return fmt.Errorf("a wish about hosts names no host and no label")
		}
		if r.Score < -Infinity || r.Score > Infinity {
			return fmt.Errorf("score %d is out of range: use %d to %d", r.Score, -Infinity, Infinity)
		}
	}
	for _, n := range w.Near {
		if n.Workload == "" || n.Score == 0 || n.Score < -Infinity || n.Score > Infinity {
			return fmt.Errorf("wish to be near %.60q with score %d: name a workload, and a score of %d to %d that is not 0", n.Workload, n.Score, -Infinity, Infinity)
		}
	}
	for _, d := range w.Discovery {
		if d.Host == "" && len(d.Labels) == 0 {
			return fmt.Errorf("a rule of discovery names no host and no label")
		}
		if !d.Mode.known() {
			return fmt.Errorf("discovery %.40q: use always, exclusive or never", string(d.Mode))
		}
	}
	return nil
}

// ParseRule reads a wish about hosts, "site=lab" or "site=lab:50"; "host=edge-01" names a
// host. Without a score it is [Liking].
func ParseRule(text string) (Rule, error) {
	text, score, err := cutScore(text, Liking)
	if err != nil {
		return Rule{}, err
	}
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" || value == "" {
		return Rule{}, fmt.Errorf("%.60q: use LABEL=VALUE or host=HOST, with a score behind it if it matters more or less: site=lab:50", text)
	}
	return Term(key, value, score), nil
}

// Term is the rule with a score for the hosts with one label, or for one host if the
// label is "host".
func Term(key, value string, score int) Rule {
	if key == "host" {
		return Rule{Host: value, Score: score}
	}
	return Rule{Labels: map[string]string{key: value}, Score: score}
}

// ParseNear reads a wish about another workload, "db" or "db:50". Without a score it must
// be.
func ParseNear(text string) (Near, error) {
	name, score, err := cutScore(text, Infinity)
	if err == nil && name == "" {
		err = fmt.Errorf("%.60q: name a workload", text)
	}
	return Near{Workload: name, Score: score}, err
}

// cutScore cuts the score from the end of a wish.
func cutScore(text string, otherwise int) (string, int, error) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return text, otherwise, nil
	}
	n, err := strconv.Atoi(text[i+1:])
	if err != nil || n < 1 || n > Infinity {
		return "", 0, fmt.Errorf("%.60q: the score behind the colon is not a number from 1 to %d", text, Infinity)
	}
	return text[:i], n, nil
}
