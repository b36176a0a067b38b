package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// durationForms are the forms that are accepted, for errors and help.
const durationForms = "want a number with a unit, as in 90s, 5m, 8h or 7d"

// parseDuration reads "90s", "1h30m" or "7d". A number without a unit is an
// error: whoever guesses, guesses wrong some day.
func parseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil || n > math.MaxInt64/uint64(24*time.Hour) {
			return 0, fmt.Errorf("%q is no duration: %s", s, durationForms)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || s == "0" {
		return 0, fmt.Errorf("%q is no duration: %s", s, durationForms)
	}
	return d, nil
}

// durationFlag is a duration on the command line; "none" is allowed where
// noneOK is set, and is then none. It is not shorter than least, nor longer than
// most, if that is set.
type durationFlag struct {
	d            time.Duration
	noneOK, none bool
	least, most  time.Duration
	text         string
}

// limitFlag is that of a command on a host: what is shorter, or longer, nobody is
// asked to do.
func limitFlag() durationFlag {
	return durationFlag{noneOK: true, least: protocol.MinTimeout, most: protocol.MaxTimeout}
}

func (f *durationFlag) String() string { return f.text }
func (f *durationFlag) Type() string   { return "duration" }

func (f *durationFlag) Set(s string) error {
	if f.noneOK && s == "none" {
		f.d, f.none, f.text = 0, true, s
		return nil
	}
	d, err := parseDuration(s)
	if err == nil && d == 0 {
		err = fmt.Errorf("%q is nothing: %s", s, durationForms)
	}
	if err == nil && (d < f.least || f.most > 0 && d > f.most) {
		err = fmt.Errorf("%q is out of bounds: want %s to %s", s, shortDuration(f.least), shortDuration(f.most))
	}
	if err != nil {
		if f.noneOK {
			err = fmt.Errorf("%w, or none", err)
		}
		return err
	}
	f.d, f.none, f.text = d, false, s
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
		return fmt.Errorf("%q is no number of things: want 0 or more", s)
	}
	*f.n = int(n)
	return nil
}

// selector selects by labels: "site=lab,tier!=db". All terms must hold.
type selector struct{ terms []labelTerm }

type labelTerm struct {
	key, value string
	not        bool
}

func (s *selector) String() string {
	var all []string
	for _, t := range s.terms {
		op := "="
		if t.not {
			op = "!="
		}
		all = append(all, t.key+op+t.value)
	}
	return strings.Join(all, ",")
}

func (s *selector) Type() string { return "k=v,k!=v" }

func (s *selector) Set(text string) error {
	for _, part := range strings.Split(text, ",") {
		k, v, ok := strings.Cut(part, "=")
		k, not := strings.CutSuffix(k, "!")
		if !ok || k == "" {
			return fmt.Errorf("%q selects nothing: want k=v or k!=v, joined by commas", part)
		}
		s.terms = append(s.terms, labelTerm{k, v, not})
	}
	return nil
}

// match reports whether labels, each "k=v", are selected.
func (s *selector) match(labels []string) bool {
	return !slices.ContainsFunc(s.terms, func(t labelTerm) bool {
		return slices.Contains(labels, t.key+"="+t.value) == t.not
	})
}

// ref names a container: HOST/NAME, HOST/podman:NAME, or on a host NAME alone.
type ref struct {
	host    protocol.HostID // empty on the host itself
	runtime string          // empty: whichever has it
	name    string
}

func (r ref) String() string {
	if r.name == "" { // the host alone
		return cmp.Or(string(r.host), "this host")
	}
	s := r.name
	if r.runtime != "" {
		s = r.runtime + ":" + s
	}
	if r.host != "" {
		s = string(r.host) + "/" + s
	}
	return s
}

// parseRef reads the name of a container.
func parseRef(s string, local bool) (ref, error) {
	host, name, ok := strings.Cut(s, "/")
	switch {
	case local && ok:
		return ref{}, fmt.Errorf("%q names a host: on the host itself a container is named by NAME alone", s)
	case local:
		host, name = "", s
	case !ok:
		return ref{}, fmt.Errorf("%q is no container: want HOST/NAME", s)
	}
	r := ref{name: name}
	if rt, n, ok := strings.Cut(name, ":"); ok {
		if rt != "lxc" && rt != "podman" {
			return ref{}, fmt.Errorf("%q is no container: %q is no runtime, want lxc or podman", s, rt)
		}
		r.runtime, r.name = rt, n
	}
	if !local {
		var err error
		if r.host, err = parseHost(host); err != nil {
			return ref{}, err
		}
	}
	if r.name == "" {
		return ref{}, fmt.Errorf("%q is no container: its name is missing", s)
	}
	return r, nil
}

func parseHost(s string) (protocol.HostID, error) {
	h, err := protocol.ParseHostID(s)
	switch {
	case err == nil:
		return h, nil
	case strings.Contains(s, "/"):
		return "", fmt.Errorf("%q is no host, but may be a container of one", s)
	}
	return "", fmt.Errorf("%q is no host: its id has 1 to 63 of a-z, 0-9 and inner hyphens", s)
}

// parseName reads what a container is to be called.
func parseName(s string) (protocol.ContainerName, error) {
	n, err := protocol.ParseContainerName(s)
	if err != nil {
		return "", usage("", "%q is no name for a container: want 1 to 63 of a-z, 0-9 and inner hyphens", s)
	}
	return n, nil
}

// checkPairs accepts K=V with a K.
func checkPairs(flag string, pairs []string) error {
	for _, p := range pairs {
		if strings.IndexByte(p, '=') < 1 {
			return fmt.Errorf("--%s %q: want NAME=VALUE", flag, p)
		}
	}
	return nil
}

// ago says how long ago a time was, or how soon it will be, in one unit.
func ago(t, now time.Time) string {
	d := now.Sub(t)
	form := "%s ago"
	if d < 0 {
		d, form = -d, "in %s"
	}
	if d < time.Second {
		return "now"
	}
	return fmt.Sprintf(form, roughly(d))
}

// roughly is a duration in its largest unit.
func roughly(d time.Duration) string {
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

// size is a number of bytes as people read it.
func size(n int64) string {
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
