package rundir

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file is the small part of JSON that the contract needs: one flat object
// of strings, integers, booleans, string lists, string tables and nested
// objects of the same. encoding/json would treble the supervisor's size.

// An encoder appends one object, beginning with its version.
type encoder struct {
	b []byte
}

func newEncoder(b []byte) *encoder {
	e := &encoder{append(b, '{')}
	e.b = append(e.b, `"version":`...)
	e.b = strconv.AppendInt(e.b, Version, 10)
	return e
}

func (e *encoder) key(k string) {
	e.b = append(e.b, ',')
	e.b = appendString(e.b, k)
	e.b = append(e.b, ':')
}

func (e *encoder) str(k, v string) { e.key(k); e.b = appendString(e.b, v) }

func (e *encoder) int(k string, v int64) { e.key(k); e.b = strconv.AppendInt(e.b, v, 10) }

func (e *encoder) bool(k string, v bool) { e.key(k); e.b = strconv.AppendBool(e.b, v) }

func (e *encoder) strs(k string, v []string) {
	e.key(k)
	e.b = append(e.b, '[')
	for i, s := range v {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.b = appendString(e.b, s)
	}
	e.b = append(e.b, ']')
}

func (e *encoder) table(k string, v map[string]string) {
	e.key(k)
	e.b = append(e.b, '{')
	for i, name := range slices.Sorted(maps.Keys(v)) {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.b = appendString(e.b, name)
		e.b = append(e.b, ':')
		e.b = appendString(e.b, v[name])
	}
	e.b = append(e.b, '}')
}

// ints appends an object of integers, in the order given.
func (e *encoder) ints(k string, names []string, values ...int64) {
	e.key(k)
	e.b = append(e.b, '{')
	for i, name := range names {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.b = appendString(e.b, name)
		e.b = append(e.b, ':')
		e.b = strconv.AppendInt(e.b, values[i], 10)
	}
	e.b = append(e.b, '}')
}

func (e *encoder) end() []byte { return append(e.b, '}', '\n') }

// seal is end for what lies on a disk: with a sum.
func (e *encoder) seal(from int) []byte {
	sealed := AppendSum(append(e.b[from:], '}'))
	return append(append(e.b[:from], sealed...), '\n')
}

func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// fields are the decoders of an object, by name. All are required but those that
// were added since the first programs: they stand here behind optional, and are
// written only when they say something, so that both sides of an upgrade
// understand each other as long as nobody uses them.
type fields map[string]func(*decoder) error

const optional = "?"

func strField(p *string) func(*decoder) error {
	return func(d *decoder) (err error) { *p, err = d.str(); return err }
}

func strsField(p *[]string) func(*decoder) error {
	return func(d *decoder) (err error) { *p, err = d.strs(); return err }
}

func tableField(p *map[string]string) func(*decoder) error {
	return func(d *decoder) (err error) { *p, err = d.table(); return err }
}

func boolField(p *bool) func(*decoder) error {
	return func(d *decoder) (err error) { *p, err = d.bool(); return err }
}

func intField[T int | int64 | uint32](p *T) func(*decoder) error {
	return func(d *decoder) error {
		v, err := d.int()
		*p = T(v)
		if int64(*p) != v {
			return d.fail("number out of range")
		}
		return err
	}
}

func objectField(f fields) func(*decoder) error {
	return func(d *decoder) error { return d.object(f) }
}

// parseSealed is parse for what lay on a disk.
func parseSealed(b []byte, f fields) error {
	object, err := CheckSum(b)
	if err != nil {
		return err
	}
	return parse(object, f)
}

// parse decodes one object of this version and nothing after it.
func parse(b []byte, f fields) error {
	if !utf8.Valid(b) {
		return formatError("invalid UTF-8")
	}
	var version int64
	f["version"] = func(d *decoder) (err error) {
		if version, err = d.int(); err == nil && version != Version {
			return ErrVersion
		}
		return err
	}
	d := &decoder{b: b}
	if err := d.object(f); err != nil {
		return err
	}
	if d.space(); d.i != len(d.b) {
		return d.fail("data after the object")
	}
	return nil
}

// A decoder reads JSON from b at i.
type decoder struct {
	b []byte
	i int
}

func (d *decoder) fail(what string) error {
	return formatError(what + " at byte " + strconv.Itoa(d.i))
}

// A formatError is an ErrFormat that says what is wrong.
type formatError string

func (e formatError) Error() string { return ErrFormat.Error() + ": " + string(e) }
func (e formatError) Unwrap() error { return ErrFormat }

func (d *decoder) space() {
	for d.i < len(d.b) {
		switch d.b[d.i] {
		case ' ', '\t', '\n', '\r':
			d.i++
		default:
			return
		}
	}
}

// take consumes c, after space, and reports whether it was there.
func (d *decoder) take(c byte) bool {
	d.space()
	if d.i < len(d.b) && d.b[d.i] == c {
		d.i++
		return true
	}
	return false
}

// list decodes what stands between two brackets, element by element.
func (d *decoder) list(from, to byte, element func() error) error {
	if !d.take(from) {
		return d.fail("expected " + string(rune(from)))
	}
	if d.take(to) {
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if d.take(to) {
			return nil
		}
		if !d.take(',') {
			return d.fail("expected a comma")
		}
	}
}

func (d *decoder) name() (string, error) {
	k, err := d.str()
	if err == nil && !d.take(':') {
		err = d.fail("expected a colon")
	}
	return k, err
}

func (d *decoder) object(f fields) error {
	seen, required := make(map[string]bool, len(f)), len(f)
	for k := range f {
		if k[:len(optional)] == optional {
			required--
		}
	}
	err := d.list('{', '}', func() error {
		k, err := d.name()
		if err != nil {
			return err
		}
		decode, need := f[k]
		if !need {
			decode = f[optional+k]
		}
		if decode == nil || seen[k] || strings.HasPrefix(k, optional) {
			return d.fail("unknown or repeated field " + strconv.Quote(k))
		}
		seen[k] = true
		if need {
			required--
		}
		return decode(d)
	})
	if err == nil && required != 0 {
		return d.fail("missing field")
	}
	return err
}

func (d *decoder) table() (map[string]string, error) {
	m := map[string]string{}
	err := d.list('{', '}', func() error {
		k, err := d.name()
		if err != nil {
			return err
		}
		if _, ok := m[k]; ok {
			return d.fail("repeated name")
		}
		m[k], err = d.str()
		return err
	})
	return m, err
}

func (d *decoder) strs() ([]string, error) {
	v := []string{}
	err := d.list('[', ']', func() error {
		s, err := d.str()
		v = append(v, s)
		return err
	})
	return v, err
}

func (d *decoder) bool() (bool, error) {
	d.space()
	rest := d.b[d.i:]
	switch {
	case len(rest) >= 4 && string(rest[:4]) == "true":
		d.i += 4
		return true, nil
	case len(rest) >= 5 && string(rest[:5]) == "false":
		d.i += 5
		return false, nil
	}
	return false, d.fail("expected true or false")
}

// int decodes an integer without fraction, exponent or leading zeros.
func (d *decoder) int() (int64, error) {
	d.space()
	from := d.i
	for d.i < len(d.b) && (d.b[d.i] == '-' || d.b[d.i] >= '0' && d.b[d.i] <= '9') {
		d.i++
	}
	text := string(d.b[from:d.i])
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(v, 10) != text {
		return 0, d.fail("expected an integer")
	}
	return v, nil
}

func (d *decoder) str() (string, error) {
	if !d.take('"') {
		return "", d.fail("expected a string")
	}
	var out []byte
	for d.i < len(d.b) {
		c := d.b[d.i]
		d.i++
		switch {
		case c == '"':
			return string(out), nil
		case c < 0x20:
			return "", d.fail("control character in a string")
		case c != '\\':
			out = append(out, c)
		default:
			var err error
			if out, err = d.escape(out); err != nil {
				return "", err
			}
		}
	}
	return "", d.fail("unfinished string")
}

// escape decodes what follows a backslash. Of \u it takes control characters
// only: that is all the encoder writes, everything else stands for itself.
func (d *decoder) escape(out []byte) ([]byte, error) {
	if d.i == len(d.b) {
		return nil, d.fail("unfinished string")
	}
	c := d.b[d.i]
	d.i++
	switch c {
	case '"', '\\', '/':
		return append(out, c), nil
	case 'u':
		if d.i+4 <= len(d.b) {
			v, err := strconv.ParseUint(string(d.b[d.i:d.i+4]), 16, 16)
			if err == nil && v < 0x20 {
				d.i += 4
				return append(out, byte(v)), nil
			}
		}
	}
	return nil, d.fail("unsupported escape")
}
