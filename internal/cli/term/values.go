package term

import (
	"github.com/spf13/pflag"

	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

// Total is the sum of all counts.
func Total(m map[string]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}

// DurationFlag is a duration on the command line; "none" is allowed where
// noneOK is set, and is then none. It is not shorter than least, nor longer than
// most, if that is set.
type DurationFlag struct {
	Value time.Duration
	// NoTime is what to do in place of giving no time at all, where there is something.
	NoTime       string
	noneOK, None bool
	least, most  time.Duration
	text         string
}

// LimitFlag is that of a command on a host: what is shorter, or longer, nobody is
// asked to do.
func LimitFlag() DurationFlag {
	return DurationFlag{noneOK: true, least: protocol.MinTimeout, most: protocol.MaxTimeout}
}

func (f *DurationFlag) String() string { return f.text }

// Type implements [pflag.Value].
func (f *DurationFlag) Type() string { return "duration" }

// Set implements [pflag.Value].
func (f *DurationFlag) Set(s string) error {
	if f.noneOK && s == "none" {
		f.Value, f.None, f.text = 0, true, s
		return nil
	}
	d, err := api.ParseDuration(s)
	if err == nil && d == 0 {
		err = fmt.Errorf("%q is too short", s)
		if f.NoTime != "" {
			err = fmt.Errorf("%w: %s", err, f.NoTime)
		}
	}
	if err == nil && (d < f.least || f.most > 0 && d > f.most) {
		err = fmt.Errorf("%q is out of range: use %s to %s", s, shortDuration(f.least), shortDuration(f.most))
	}
	if err != nil {
		if f.noneOK {
			err = fmt.Errorf("%w, or none", err)
		}
		return err
	}
	f.Value, f.None, f.text = d, false, s
	return nil
}

// shortDuration leaves out what is zero: 100h instead of 100h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// countFlag is a number of things on the command line.
type countFlag struct{ n *int }

func (f countFlag) Type() string { return "int" }

func (f countFlag) String() string {
	if f.n == nil { // asked for the zero value
		return "0"
	}
	return strconv.Itoa(*f.n)
}

func (f countFlag) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return fmt.Errorf("%q is not a count: use a whole number of 0 or more", s)
	}
	*f.n = int(n)
	return nil
}

// Ago says how long ago a time was, or how soon it will be, in one unit.
func Ago(t, now time.Time) string {
	d := now.Sub(t)
	form := "%s ago"
	if d < 0 {
		d, form = -d, "in %s"
	}
	if d < time.Second {
		return "now"
	}
	return fmt.Sprintf(form, Roughly(d))
}

// Roughly is a duration in its largest unit.
func Roughly(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Size is a number of bytes as people read it.
func Size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%dB", n)
	}
	f, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if f /= 1 << 10; f < 1<<10 {
			break
		}
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + unit
}

// Count returns the flag of a number of things, which goes to n.
func Count(n *int) pflag.Value { return countFlag{n} }
