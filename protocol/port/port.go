// Package port is the vocabulary of ports of containers that are reached by ports of
// their host; pure.
package port

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The protocols.
const (
	TCP = "tcp"
	UDP = "udp"
)

// Max is how many ports one container may expose: each costs three rules of the kernel.
const Max = 64

// Mapping is a port of the host that leads to a port of a container. The zero value
// is none.
type Mapping struct {
	Host      uint16
	Container uint16
	Protocol  string // [TCP] or [UDP]
}

// String returns the one form of a mapping: 8080:80/tcp.
func (m Mapping) String() string {
	return fmt.Sprintf("%d:%d/%s", m.Host, m.Container, m.Protocol)
}

// Outer is the port of the host, as people read it: 8080/tcp.
func (m Mapping) Outer() string { return strconv.Itoa(int(m.Host)) + "/" + m.Protocol }

// Clashes reports whether two mappings claim the same port of the host.
func (m Mapping) Clashes(o Mapping) bool { return m.Host == o.Host && m.Protocol == o.Protocol }

// MarshalText implements [encoding.TextMarshaler].
func (m Mapping) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (m *Mapping) UnmarshalText(text []byte) (err error) {
	*m, err = Parse(string(text))
	return err
}

// errForm says how a mapping is written.
var errForm = errors.New("want HOST-PORT:CONTAINER-PORT, and /tcp or /udp: 8080:80/tcp")

// Parse reads a mapping. Without a protocol it is one of TCP.
func Parse(text string) (Mapping, error) {
	ports, protocol, named := strings.Cut(text, "/")
	outer, inner, both := strings.Cut(ports, ":")
	if !named {
		protocol = TCP
	}
	m := Mapping{Protocol: protocol}
	var ok, ok2 bool
	m.Host, ok = number(outer)
	m.Container, ok2 = number(inner)
	if !both || !ok || !ok2 || protocol != TCP && protocol != UDP {
		return Mapping{}, fmt.Errorf("port %.60q: %w", text, errForm)
	}
	return m, nil
}

// ParseOuter reads a port of the host as [Mapping.Outer] writes it. Without a protocol it
// is one of TCP.
func ParseOuter(text string) (string, error) {
	number, _, _ := strings.Cut(text, "/")
	m, err := Parse(number + ":" + text)
	if err != nil {
		return "", fmt.Errorf("%.60q is no port of the host: want 8080/tcp or 53/udp", text)
	}
	return m.Outer(), nil
}

// Check accepts what [ParseAll] or, for each, [ParseOuter] reads.
func Check(all []string) error {
	_, err := ParseAll(all)
	for _, text := range all {
		outer, bad := ParseOuter(text)
		if len(all) > Max || bad != nil || outer != text {
			return err
		}
	}
	return nil
}

// number reads a port, in digits and without zeros before them.
func number(text string) (uint16, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil && n > 0 && strconv.FormatUint(n, 10) == text
}

// ParseAll reads mappings that one container may have together, and sorts them.
func ParseAll(all []string) ([]Mapping, error) {
	if len(all) > Max {
		return nil, fmt.Errorf("%d ports, want at most %d", len(all), Max)
	}
	var out []Mapping
	for _, text := range all {
		m, err := Parse(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, m.Clashes) {
			return nil, fmt.Errorf("port %s of the host is named twice", m.Outer())
		}
		out = append(out, m)
	}
	slices.SortFunc(out, Compare)
	return out, nil
}

// Compare orders mappings by their port of the host.
func Compare(a, b Mapping) int {
	if a.Host != b.Host {
		return int(a.Host) - int(b.Host)
	}
	return strings.Compare(a.Protocol, b.Protocol)
}
