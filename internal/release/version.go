package release

import "strings"

// Compare orders two versions as dpkg does: negative if a is older than b. Parts of
// digits count as numbers, and ~ stands before everything, the end included: 1.0~rc1
// is older than 1.0.
func Compare(a, b string) int {
	ea, a := epoch(a)
	eb, b := epoch(b)
	if c := compareNumbers(ea, eb); c != 0 {
		return c
	}
	ua, ra := revision(a)
	ub, rb := revision(b)
	if c := comparePart(ua, ub); c != 0 {
		return c
	}
	return comparePart(ra, rb)
}

func epoch(v string) (epoch, rest string) {
	if e, rest, ok := strings.Cut(v, ":"); ok {
		return e, rest
	}
	return "", v
}

func revision(v string) (upstream, revision string) {
	if i := strings.LastIndexByte(v, '-'); i >= 0 {
		return v[:i], v[i+1:]
	}
	return v, ""
}

func comparePart(a, b string) int {
	for a != "" || b != "" {
		for notDigit(a) || notDigit(b) {
			if c := weight(a) - weight(b); c != 0 {
				return c
			}
			a, b = a[1:], b[1:]
		}
		na, nb := digits(a), digits(b)
		if c := compareNumbers(a[:na], b[:nb]); c != 0 {
			return c
		}
		a, b = a[na:], b[nb:]
	}
	return 0
}

func notDigit(s string) bool { return s != "" && !isDigit(s[0]) }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// weight orders what is no digit: ~ before the end, the end before letters, letters
// before the rest.
func weight(s string) int {
	switch {
	case s == "" || isDigit(s[0]):
		return 0
	case s[0] == '~':
		return -1
	case 'a' <= s[0]|0x20 && s[0]|0x20 <= 'z':
		return int(s[0])
	}
	return int(s[0]) + 256
}

func digits(s string) (n int) {
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n
}

// compareNumbers compares numbers of any length.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
