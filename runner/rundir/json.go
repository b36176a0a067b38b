package rundir

import (
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// This file is the small part of JSON that the contract needs: one flat object
// of strings, integers, booleans, string lists, string tables and nested
// objects of the same. encoding/json would treble the supervisor's size.

// fields are the members of an object, by which it is encoded and decoded.
type fields []field

// A field is a member: value is where its value is, or the fields of an object.
type field struct {
	name  string
	value any
}

// added is the value of a member that was added since the first programs. It may be
// missing, and is written only when it says something, so that both sides of an
// upgrade understand each other as long as nobody uses it.
type added struct{ value any }

// versionOf is the value of the member that tells the version of an object.
type versionOf struct{}

func versioned(f fields) fields { return append(fields{{"version", versionOf{}}}, f...) }

// encode appends an object of this version.
func encode(b []byte, f fields) []byte { return appendValue(b, versioned(f)) }

// seal is encode for what lies on a disk: with a sum.
func seal(b []byte, f fields) []byte { return append(append(b, AppendSum(encode(nil, f))...), '\n') }

func appendValue(b []byte, value any) []byte {
	switch v := value.(type) {
	case versionOf:
		return strconv.AppendInt(b, Version, 10)
	case added:
		return appendValue(b, v.value)
	case *string:
		return appendString(b, *v)
	case *bool:
		return strconv.AppendBool(b, *v)
	case *int:
		return strconv.AppendInt(b, int64(*v), 10)
	case *int64:
		return strconv.AppendInt(b, *v, 10)
	case *uint32:
		return strconv.AppendUint(b, uint64(*v), 10)
	case *[]string:
		return appendAll(b, '[', ']', *v, appendString)
	case *map[string]string:
		return appendAll(b, '{', '}', slices.Sorted(maps.Keys(*v)), func(b []byte, name string) []byte {
			return appendString(append(appendString(b, name), ':'), (*v)[name])
		})
	case fields:
		said := slices.DeleteFunc(slices.Clone(v), func(m field) bool { return !m.says() })
		return appendAll(b, '{', '}', said, func(b []byte, m field) []byte { return appendValue(append(appendString(b, m.name), ':'), m.value) })
	}
	return b
}

// says reports whether a member is to be written.
func (m field) says() bool {
	a, ok := m.value.(added)
	if !ok {
		return true
	}
	switch v := a.value.(type) {
	case *string:
		return *v != ""
	case *bool:
		return *v
	case *int64:
		return *v != 0
	}
	return true
}

func appendAll[T any](b []byte, open, end byte, all []T, each func([]byte, T) []byte) []byte {
	b = append(b, open)
	for i, v := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = each(b, v)
	}
	return append(b, end)
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

// unseal decodes what seal has made, of at most limit bytes.
func unseal(b []byte, limit int, f fields) (seen map[string]bool, err error) {
	if len(b) > limit {
		return nil, ErrTooLarge
	}
	object, err := CheckSum(b)
	if err != nil {
		return nil, err
	}
	return parse(object, f)
}

// parse decodes one object of this version and nothing after it, and tells which
// members it has.
func parse(b []byte, f fields) (seen map[string]bool, err error) {
	if !utf8.Valid(b) {
		return nil, formatError("invalid UTF-8")
	}
	d := &decoder{b: b}
	if seen, err = d.object(versioned(f)); err != nil {
		return nil, err
	}
	if d.space(); d.i != len(d.b) {
		return nil, d.fail("data after the object")
	}
	return seen, nil
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

func (d *decoder) object(f fields) (map[string]bool, error) {
	seen := make(map[string]bool, len(f))
	err := d.list('{', '}', func() error {
		k, err := d.name()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(f, func(m field) bool { return m.name == k })
		if i < 0 || seen[k] {
			return d.fail("unknown or repeated field " + strconv.Quote(k))
		}
		seen[k] = true
		return d.value(f[i].value)
	})
	for _, m := range f {
		if _, late := m.value.(added); err == nil && !late && !seen[m.name] {
			err = d.fail("missing field")
		}
	}
	return seen, err
}

// value decodes the value of a member.
func (d *decoder) value(to any) (err error) {
	switch v := to.(type) {
	case versionOf:
		var version int64
		if version, err = d.int(); err == nil && version != Version {
			return ErrVersion
		}
	case added:
		return d.value(v.value)
	case *string:
		*v, err = d.str()
	case *bool:
		*v, err = d.bool()
	case *int:
		return number(d, v)
	case *int64:
		*v, err = d.int()
	case *uint32:
		return number(d, v)
	case *[]string:
		*v, err = d.strs()
	case *map[string]string:
		*v, err = d.table()
	case fields:
		_, err = d.object(v)
	}
	return err
}

func number[T int | uint32](d *decoder, to *T) error {
	v, err := d.int()
	*to = T(v)
	if int64(*to) != v {
		return d.fail("number out of range")
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
