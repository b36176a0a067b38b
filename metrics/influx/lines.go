package influx

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/hostler-io/hostler/metrics"
)

// Measurements are named after what has the values: the host or a container, and what
// of it.
const (
	ofHost      = "hostler_host"
	ofContainer = "hostler_container"
)

// partNames is how the parts of a metric appear in lines.
type partNames struct{ suffix, tag string }

// parts are keyed by [metrics.Info.Part].
var parts = map[string]partNames{
	"mount point": {"_fs", "mount"},
	"disk":        {"_io", "disk"},
	"interface":   {"_net", "interface"},
	"zone":        {"_zone", "zone"},
}

// maxTag bounds the value of a tag. InfluxDB refuses more than 64 KiB, and mount points
// have at most 4 KiB.
const maxTag = 1024

// Lines writes a sample in the line protocol of InfluxDB: one line for each thing that
// was measured, with its quantities as fields and the time in milliseconds. It returns
// how many lines these are. A value that is no number is left out.
func Lines(b []byte, s metrics.Sample, tags map[string]string) ([]byte, int) {
	type line struct{ container, part, kind string }
	var order []line
	fields := make(map[line][]metrics.Value)
	for _, v := range s.Values {
		info, known := metrics.InfoOf(v.Metric)
		if !known || math.IsNaN(v.Mean) || math.IsInf(v.Mean, 0) {
			continue
		}
		l := line{v.Container, v.Part, info.Part}
		if v.Part == "" {
			l.kind = ""
		}
		if fields[l] == nil {
			order = append(order, l)
		}
		fields[l] = append(fields[l], v)
	}
	n := 0
	for _, l := range order {
		p, known := parts[l.kind]
		if l.kind != "" && !known {
			continue
		}
		measurement := ofHost
		of := maps.Clone(tags)
		if of == nil {
			of = make(map[string]string)
		}
		if l.container != "" {
			measurement = ofContainer
			of["container"] = l.container
		}
		if l.kind != "" {
			of[p.tag] = l.part
		}
		b = appendLine(b, measurement+p.suffix, of, fields[l], s.At.UnixMilli())
		n++
	}
	return b, n
}

func appendLine(b []byte, measurement string, tags map[string]string, fields []metrics.Value, atMS int64) []byte {
	b = append(b, measurement...)
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		if v := tagValue(tags[k]); v != "" {
			b = append(b, ',')
			b = append(append(append(b, k...), '='), v...)
		}
	}
	for i, f := range fields {
		if i == 0 {
			b = append(b, ' ')
		} else {
			b = append(b, ',')
		}
		b = append(append(b, f.Metric...), '=')
		b = strconv.AppendFloat(b, f.Mean, 'f', -1, 64)
	}
	b = strconv.AppendInt(append(b, ' '), atMS, 10)
	return append(b, '\n')
}

// escaped are the characters that end the value of a tag.
var escaped = strings.NewReplacer(",", `\,`, "=", `\=`, " ", `\ `)

// tagValue is a text as the value of a tag. Characters that cannot be printed end a line
// or are no text, and a backslash would escape what follows it: both are replaced.
func tagValue(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\\':
			return '/'
		case !unicode.IsPrint(r):
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s[:min(len(s), maxTag)], "\uFFFD"))
	return escaped.Replace(s)
}
