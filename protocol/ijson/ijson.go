// Package ijson is the narrow form of JSON that Hostler signs and hashes, of which one
// text has one meaning for every parser.
//
// encoding/json alone would take {"exit":1,"EXIT":0} as 0, the last of two
// equal names, null as "keep what was there" and broken UTF-8 as U+FFFD: a
// person who approves a text with one parser would approve something else
// than the host runs with another.
package ijson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Limits of the form.
const (
	// MaxDepth is how deep arrays and objects may nest.
	MaxDepth = 16
	// MaxInteger is the largest magnitude of a number: 2^53−1, the largest
	// that every JSON implementation keeps exactly (RFC 7493, section 2.2).
	MaxInteger = 1<<53 - 1
)

// Check checks that b is one value of I-JSON in the narrow form: valid UTF-8 without
// lone surrogates or NUL, member names [a-z][a-z0-9_]* without duplicates, integers of
// at most [MaxInteger] and without fraction or exponent, no null, at most [MaxDepth]
// levels, and nothing after the value.
func Check(b []byte) error {
	s := scanner{b: b}
	if !utf8.Valid(b) {
		return fmt.Errorf("it is not UTF-8")
	}
	if err := s.value(1); err != nil {
		return err
	}
	s.space()
	if s.i != len(b) {
		return s.fail("something follows the value")
	}
	return nil
}

// Decode decodes what passed Check into v. A member that v does not know is an error,
// unless lax is set.
func Decode(b []byte, v any, lax bool) error {
	if lax { // as nearly all that comes: a decoder would copy it
		return json.Unmarshal(b, v)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// scanner walks over one JSON text. It keeps no copies.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) fail(why string) error { return fmt.Errorf("at byte %d: %s", s.i, why) }

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\t' || s.b[s.i] == '\n' || s.b[s.i] == '\r') {
		s.i++
	}
}

// peek returns the next byte that is not white space, or 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.i == len(s.b) {
		return 0
	}
	return s.b[s.i]
}

func (s *scanner) value(depth int) error {
	switch c := s.peek(); {
	case c == '{':
		return s.object(depth)
	case c == '[':
		return s.array(depth)
	case c == '"':
		return s.string()
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case s.word("true"), s.word("false"):
		return nil
	case s.word("null"):
		return s.fail("null has no meaning here; leave the member out")
	}
	return s.fail("a value is missing")
}

func (s *scanner) word(w string) bool {
	if bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		s.i += len(w)
		return true
	}
	return false
}

func (s *scanner) array(depth int) error {
	if depth > MaxDepth {
		return s.fail("it is nested too deeply")
	}
	s.i++
	if s.peek() == ']' {
		s.i++
		return nil
	}
	for {
		if err := s.value(depth + 1); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.i++
		case ']':
			s.i++
			return nil
		default:
			return s.fail("an array goes on with a comma or ends")
		}
	}
}

func (s *scanner) object(depth int) error {
	if depth > MaxDepth {
		return s.fail("it is nested too deeply")
	}
	s.i++
	if s.peek() == '}' {
		s.i++
		return nil
	}
	var seen memberNames
	for {
		if s.peek() != '"' {
			return s.fail("a member needs a name")
		}
		name, err := s.name()
		if err != nil {
			return err
		}
		if !seen.add(name) {
			return s.fail("a name stands twice in one object")
		}
		if s.peek() != ':' {
			return s.fail("a colon is missing")
		}
		s.i++
		if err := s.value(depth + 1); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.i++
		case '}':
			s.i++
			return nil
		default:
			return s.fail("an object goes on with a comma or ends")
		}
	}
}

// memberNames is the set of member names of one object. Objects of the protocol are
// small, so a short list is searched before a map is made; the map keeps an
// attacker's object of many names from costing its square.
type memberNames struct {
	few  [][]byte
	many map[string]struct{}
}

func (n *memberNames) add(name []byte) bool {
	if n.many != nil {
		_, dup := n.many[string(name)]
		n.many[string(name)] = struct{}{}
		return !dup
	}
	for _, f := range n.few {
		if bytes.Equal(f, name) {
			return false
		}
	}
	n.few = append(n.few, name)
	if len(n.few) == 32 {
		n.many = make(map[string]struct{}, 64)
		for _, f := range n.few {
			n.many[string(f)] = struct{}{}
		}
	}
	return true
}

// name reads a member name. Its alphabet has no escapes, so the bytes are the
// name, and no two names differ in case only.
func (s *scanner) name() ([]byte, error) {
	s.i++
	start := s.i
	for s.i < len(s.b) && s.b[s.i] != '"' {
		c := s.b[s.i]
		letter := c >= 'a' && c <= 'z'
		rest := c >= '0' && c <= '9' || c == '_'
		if !letter && (!rest || s.i == start) {
			return nil, s.fail("a name has other characters than a-z, 0-9 and _")
		}
		s.i++
	}
	if s.i == start || s.i == len(s.b) {
		return nil, s.fail("a name is empty or does not end")
	}
	s.i++
	return s.b[start : s.i-1], nil
}

func (s *scanner) string() error {
	s.i++
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return nil
		case c < 0x20:
			return s.fail("a control character stands in a string unescaped")
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		default:
			s.i++
		}
	}
	return s.fail("a string does not end")
}

func (s *scanner) escape() error {
	if s.i+1 == len(s.b) {
		return s.fail("a string does not end")
	}
	switch s.b[s.i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i += 2
		return nil
	case 'u':
	default:
		return s.fail("there is no such escape")
	}
	r, ok := s.hex4(s.i + 2)
	switch {
	case !ok:
		return s.fail("\\u needs four hexadecimal digits")
	case r == 0:
		return s.fail("NUL has no place in a string")
	case r >= 0xdc00 && r <= 0xdfff:
		return s.fail("a low surrogate stands alone")
	}
	s.i += 6
	if r < 0xd800 || r > 0xdbff {
		return nil
	}
	if low, ok := s.hex4(s.i + 2); !ok || s.b[s.i] != '\\' || s.b[s.i+1] != 'u' || low < 0xdc00 || low > 0xdfff {
		return s.fail("a high surrogate stands alone")
	}
	s.i += 6
	return nil
}

// hex4 reads the four digits of a \u escape that start at byte i.
func (s *scanner) hex4(i int) (r rune, ok bool) {
	if i+4 > len(s.b) {
		return 0, false
	}
	for _, c := range s.b[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

func (s *scanner) number() error {
	neg := s.b[s.i] == '-'
	if neg {
		s.i++
	}
	start, n := s.i, int64(0)
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		n = n*10 + int64(s.b[s.i]-'0')
		if n > MaxInteger {
			return s.fail("a number is larger than 2^53-1")
		}
		s.i++
	}
	switch {
	case s.i == start:
		return s.fail("a number needs digits")
	case s.b[start] == '0' && (s.i > start+1 || neg):
		return s.fail("a number starts with a zero too many")
	case s.i < len(s.b) && (s.b[s.i] == '.' || s.b[s.i] == 'e' || s.b[s.i] == 'E'):
		return s.fail("a number has a fraction or an exponent")
	}
	return nil
}
