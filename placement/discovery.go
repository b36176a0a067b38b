package placement

import (
	"fmt"
	"strings"
)

// Mode is whether it counts what a host tells of a workload.
type Mode string

// The modes. Where several rules fit a host, the first one of exclusive, never and always
// holds.
const (
	// Always is the mode of hosts that no rule fits.
	Always Mode = "always"
	// Exclusive: the workload may be on these hosts alone, and they alone count.
	Exclusive Mode = "exclusive"
	// Never: what these hosts tell does not count.
	Never Mode = "never"
)

func (m Mode) known() bool { return m == Always || m == Exclusive || m == Never }

// Discovery is a rule about what hosts tell of a workload.
type Discovery struct {
	Labels map[string]string `json:"labels,omitempty"` // of the host; all of them
	Host   string            `json:"host,omitempty"`
	Mode   Mode              `json:"mode"`
}

func (d Discovery) rule() Rule { return Rule{Labels: d.Labels, Host: d.Host} }

// ParseDiscovery reads a rule of discovery, "never:rack=7" or "exclusive:host=edge-01".
func ParseDiscovery(text string) (Discovery, error) {
	mode, term, _ := strings.Cut(text, ":")
	key, value, ok := strings.Cut(term, "=")
	if !ok || key == "" || value == "" || !Mode(mode).known() {
		return Discovery{}, fmt.Errorf("%.60q: use always, exclusive or never, a colon, and LABEL=VALUE or host=HOST: never:rack=7", text)
	}
	r := Term(key, value, 0)
	return Discovery{Labels: r.Labels, Host: r.Host, Mode: Mode(mode)}, nil
}

// String is the rule as it can be read again.
func (d Discovery) String() string {
	term := "host=" + d.Host
	for k, v := range d.Labels {
		term = k + "=" + v
	}
	return string(d.Mode) + ":" + term
}

// Discovers says whether it counts what a host tells of the workload.
func (w *Wants) Discovers(h *Host) Mode {
	never, exclusive := false, false
	for _, d := range w.Discovery {
		fits := d.rule().fits(h)
		switch {
		case fits && d.Mode == Exclusive:
			return Exclusive
		case d.Mode == Exclusive:
			exclusive = true
		case fits && d.Mode == Never:
			never = true
		}
	}
	if never || exclusive {
		return Never
	}
	return Always
}

// Only are the hosts to which exclusive rules bind the workload; empty if there are none.
func (w *Wants) Only() (all []Rule) {
	for _, d := range w.Discovery {
		if d.Mode == Exclusive {
			all = append(all, d.rule())
		}
	}
	return all
}
