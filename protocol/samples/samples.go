// Package samples is what travels of the samples of a host that reaches no database of
// measurements: lines of the line protocol of InfluxDB without the tags that say whose
// they are, compressed. [Pack] makes the attachment of a message on the host, [Unpack]
// reads it at the coordinator, which adds those tags by the key that has signed.
package samples

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Feature is the word of a host that sends its samples to the coordinator. Only such a
// host is told that they are taken, because others do not know that member of a receipt.
const Feature = "samples"

// Sizes in bytes.
const (
	// MaxText is the most that the lines of one message take.
	MaxText = 128 << 10
	// MaxPacked is the most that they take compressed: with its envelope the message is
	// no larger than those of a host's main connection, so that it delays a lease no more.
	MaxPacked = 28 << 10
	maxKey    = 64
	// maxValue is the most that the value of a tag takes, with a backslash for each
	// character.
	maxValue = 2 << 10
	// maxTime is in the year 2248, the last that a database takes in nanoseconds being 2262.
	maxTime = 1 << 43
)

// ErrSamples is that an attachment is not what [Pack] makes.
var ErrSamples = errors.New("malformed samples")

// Pack compresses as many of the lines, from the first on, as fit into so many bytes, and
// one in any case. It returns how many bytes of the text that are.
func Pack(lines []byte, most int) (packed []byte, taken int, err error) {
	for taken = min(len(lines), MaxText); ; taken /= 2 {
		first := bytes.IndexByte(lines, '\n') + 1
		taken = max(bytes.LastIndexByte(lines[:taken], '\n')+1, first)
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write(lines[:taken])
		if err = errors.Join(err, w.Close()); err != nil {
			return nil, 0, err
		}
		switch {
		case b.Len() <= min(most, MaxPacked), taken == first && b.Len() <= MaxPacked:
			return b.Bytes(), taken, nil
		case taken == first:
			return nil, 0, fmt.Errorf("%w: one line takes %d bytes", ErrSamples, b.Len())
		}
	}
}

// Unpack reads what came, and returns its lines with tags, whose values need no escape,
// and how many lines these are. A line that has one of these tags already is refused, and
// everything with it.
func Unpack(packed []byte, tags map[string]string) (lines []byte, count int, err error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrSamples, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, MaxText+1))
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("%w: %w", ErrSamples, err)
	case len(text) == 0 || len(text) > MaxText || text[len(text)-1] != '\n':
		return nil, 0, fmt.Errorf("%w: %d bytes are not 1 to %d with a line feed behind them", ErrSamples, len(text), MaxText)
	}
	own := make([]string, 0, len(tags))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		own = append(own, k+"="+tags[k])
	}
	for line := range strings.Lines(string(text)) {
		if lines, err = appendLine(lines, strings.TrimSuffix(line, "\n"), tags, own); err != nil {
			return nil, 0, fmt.Errorf("%w: line %d: %w", ErrSamples, count+1, err)
		}
		count++
	}
	return lines, count, nil
}

// appendLine writes a line anew, of the parts that were read of it.
func appendLine(b []byte, line string, tags map[string]string, own []string) ([]byte, error) {
	series, rest, ok := cut(line, ' ')
	fields, at, more := strings.Cut(rest, " ")
	if !ok || !more {
		return nil, errors.New("it has no three parts")
	}
	measurement, rest, tagged := strings.Cut(series, ",")
	if tagged && rest == "" || !isKey(measurement) || !strings.HasPrefix(measurement, "hostler_") {
		return nil, fmt.Errorf("%.80q is no measurement of a host", measurement)
	}
	all := slices.Clone(own)
	for before := ""; rest != ""; {
		var tag string
		tag, rest, ok = cut(rest, ',')
		key, value, _ := strings.Cut(tag, "=")
		if _, taken := tags[key]; taken || !isKey(key) || key <= before || !isValue(value) || ok && rest == "" {
			return nil, fmt.Errorf("%.80q is no tag that may stand there", tag)
		}
		all, before = append(all, tag), key
	}
	slices.Sort(all)
	for field := range strings.SplitSeq(fields, ",") {
		key, value, _ := strings.Cut(field, "=")
		if !isKey(key) || !isNumber(value) {
			return nil, fmt.Errorf("%.80q is no field", field)
		}
	}
	if ms, err := strconv.ParseInt(at, 10, 64); err != nil || ms < 0 || ms > maxTime || strconv.FormatInt(ms, 10) != at {
		return nil, fmt.Errorf("%.40q is no time in milliseconds", at)
	}
	b = append(b, measurement...)
	for _, tag := range all {
		b = append(append(b, ','), tag...)
	}
	return append(append(append(append(append(b, ' '), fields...), ' '), at...), '\n'), nil
}

// cut is [strings.Cut] at the first separator behind no backslash.
func cut(s string, sep byte) (before, after string, found bool) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case sep:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

func isKey(s string) bool {
	if s == "" || len(s) > maxKey || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// isValue reports whether s is the value of a tag as it stands in a line: text, with a
// backslash before each comma, equals sign and space, and before nothing else.
func isValue(s string) bool {
	escaped := false
	for _, r := range s {
		special := r == ',' || r == '=' || r == ' '
		switch {
		case special != escaped, !unicode.IsPrint(r):
			return false
		}
		escaped = r == '\\'
	}
	return s != "" && len(s) <= maxValue && !escaped && utf8.ValidString(s)
}

func isNumber(s string) bool {
	v, err := strconv.ParseFloat(s, 64)
	return err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) && strings.Trim(s, "0123456789.-") == ""
}
