// Package limit is the vocabulary of what a container may use at most; pure.
package limit

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Resource is a resource of the host whose use by a container can be limited.
type Resource string

// The resources.
const (
	CPU    Resource = "cpu"    // percent of one processor
	Memory Resource = "memory" // bytes
	PIDs   Resource = "pids"   // processes and threads
	CPUSet Resource = "cpuset" // processors
	Disk   Resource = "disk"
	Net    Resource = "net"
	IO     Resource = "io"
)

// Resources is how many resources there are.
const Resources = 7

// None as the value of a limit takes it away.
const None = "none"

// Limits are what a container may use at most, by resource, in their one way of writing:
// cpu in percent of one processor ("150%"), memory in bytes with a unit ("256MiB"), pids
// as a number, cpuset as processors ("0-1,4"), net in bits in a second in each direction
// ("10Mbit"), io in bytes in a second in each direction and at each disk ("10MiB"). [None]
// takes a limit away.
type Limits map[Resource]string

// A resource is limited by exactly one form of value, which is said to the user who writes
// another one.
var forms = map[Resource]struct {
	form  string
	parse func(string) (string, error)
}{
	CPU:    {"percent of one processor, such as 150%", parsePercent},
	Memory: {"bytes with a unit, such as 256MiB or 2GB", parseBytes},
	PIDs:   {"a number of processes, such as 200", parseCount},
	CPUSet: {"processors, such as 0-1 or 0,2", parseCPUs},
	Disk:   {"bytes with a unit, such as 5GiB", parseBytes},
	Net:    {"bits in a second with a unit, such as 10Mbit", parseRate},
	IO:     {"bytes in a second with a unit, such as 10MiB", parseBytes},
}

// Parse reads limits of the form RESOURCE=VALUE, each resource at most once.
func Parse(all []string) (Limits, error) {
	out := make(Limits, len(all))
	for _, text := range all {
		name, value, ok := strings.Cut(text, "=")
		known, is := forms[Resource(name)]
		switch {
		case !ok || !is:
			return nil, fmt.Errorf("limit %.60q: want RESOURCE=VALUE, where the resource is one of %s", text, strings.Join(resources(), ", "))
		case out[Resource(name)] != "":
			return nil, fmt.Errorf("limit %.60q: there is another one of %s", text, name)
		case value == None:
			out[Resource(name)] = None
			continue
		}
		exact, err := known.parse(value)
		if err != nil {
			return nil, fmt.Errorf("limit %.60q: %w; want %s, or %s", text, err, known.form, None)
		}
		out[Resource(name)] = exact
	}
	return out, nil
}

func resources() (names []string) {
	for r := range forms {
		names = append(names, string(r))
	}
	slices.Sort(names)
	return names
}

// Strings are the limits as RESOURCE=VALUE, sorted.
func (l Limits) Strings() (all []string) {
	for _, r := range slices.Sorted(maps.Keys(l)) {
		all = append(all, string(r)+"="+l[r])
	}
	return all
}

// With returns these limits with those of more in their place.
func (l Limits) With(more Limits) Limits {
	next := maps.Clone(l)
	if next == nil {
		next = make(Limits, len(more))
	}
	for r, v := range more {
		if next[r] = v; v == None {
			delete(next, r)
		}
	}
	return next
}

// Without returns these limits but for those of some resources.
func (l Limits) Without(not ...Resource) Limits {
	next := maps.Clone(l)
	for _, r := range not {
		delete(next, r)
	}
	return next
}

// Rate writes bits in a second as a whole number of the largest unit that allows one.
func Rate(n int64) string {
	for _, unit := range []string{"Gbit", "Mbit", "kbit"} {
		if size := rateUnits[unit]; n%size == 0 {
			return strconv.FormatInt(n/size, 10) + unit
		}
	}
	return strconv.FormatInt(n, 10) + "bit"
}

// Bytes writes an amount of memory or of files as a whole number of the largest unit that
// allows one.
func Bytes(n int64) string {
	for _, unit := range []string{"GiB", "MiB", "KiB"} {
		if size := byteUnits[unit]; n > 0 && n%size == 0 {
			return strconv.FormatInt(n/size, 10) + unit
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// Number is the number of a limit that has one, in the unit of its resource.
func Number(r Resource, value string) (n int64, err error) {
	if r == CPU {
		return strconv.ParseInt(strings.TrimSuffix(value, "%"), 10, 64)
	}
	if n, unit, ok := number(value); ok && r != CPUSet {
		if factor, known := byteUnits[unit]; known {
			return n * factor, nil
		}
		if factor, known := rateUnits[unit]; known {
			return n * factor, nil
		}
		return n, nil
	}
	return 0, fmt.Errorf("limit %s=%.40q has no number", r, value)
}

var (
	errNoUnit = errors.New("the unit is missing or unknown")
	errNumber = errors.New("the number is missing, or out of range")
)

var byteUnits = map[string]int64{
	"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

var rateUnits = map[string]int64{"bit": 1, "kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9}

// number takes a text apart into whole digits and the unit behind them.
func number(text string) (n int64, unit string, ok bool) {
	end := strings.IndexFunc(text, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		end = len(text)
	}
	n, err := strconv.ParseInt(text[:end], 10, 64)
	return n, text[end:], err == nil && n > 0 && (end == 1 || text[0] != '0')
}

func parsePercent(text string) (string, error) {
	n, unit, ok := number(text)
	switch {
	case ok && unit != "%":
		return "", errNoUnit
	case !ok || n > 100_000:
		return "", errNumber
	}
	return text, nil
}

func parseBytes(text string) (string, error) { return parseUnit(text, byteUnits) }
func parseRate(text string) (string, error)  { return parseUnit(text, rateUnits) }

func parseUnit(text string, units map[string]int64) (string, error) {
	n, unit, ok := number(text)
	factor, known := units[unit]
	switch {
	case ok && !known:
		return "", errNoUnit
	case !ok || n > math.MaxInt64/16/factor:
		return "", errNumber
	}
	return text, nil
}

func parseCount(text string) (string, error) {
	if n, unit, ok := number(text); !ok || unit != "" || n > 1<<22 {
		return "", errNumber
	}
	return text, nil
}

// maxCPU is the highest number that a processor may have.
const maxCPU = 8191

func parseCPUs(text string) (string, error) {
	last := -1
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, err1 := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		switch {
		case err1 != nil || err2 != nil || strconv.Itoa(a) != from || strconv.Itoa(b) != to || b > maxCPU:
			return "", errNumber
		case a <= last || b < a || isRange && a == b:
			return "", errors.New("processors go upwards, each once")
		}
		last = b
	}
	return text, nil
}
