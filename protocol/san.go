package protocol

import (
	"errors"
	"fmt"
	"strings"
)

// ErrSAN tells that a name in a TLS certificate is none of Hostler's.
var ErrSAN = errors.New("not a Hostler name")

// SANKind is what the holder of a TLS certificate may do on the wire. It is
// no [Role]: roles belong to signing keys, and what is signed needs no trust
// in the connection that carried it.
type SANKind string

// The kinds of holders.
const (
	SANHost        SANKind = "host"        // a host's agent
	SANViewer      SANKind = "viewer"      // reads everything on the broker, publishes nothing
	SANHop         SANKind = "hop"         // a broker at a site that forwards to the next
	SANCoordinator SANKind = "coordinator" // a coordinator, as server or as client of a broker
	SANBroker      SANKind = "broker"      // an external broker
)

// SAN is the name in the one URI of a TLS certificate that Hostler reads:
//
//	hostler:host/<id>  hostler:viewer/<name>  hostler:hop/<id>
//	hostler:coordinator  hostler:broker
//
// The common name is never looked at: it is a free text, and whoever may ask
// for a viewer called web1 would otherwise speak as host web1.
type SAN struct {
	Kind SANKind
	ID   string // a DNS label; empty for coordinator and broker
}

// sanScheme starts every name of ours.
const sanScheme = "hostler:"

// String returns the URI.
func (s SAN) String() string {
	if s.ID == "" {
		return sanScheme + string(s.Kind)
	}
	return sanScheme + string(s.Kind) + "/" + s.ID
}

// ParseSAN parses a URI of the forms above and of no other.
func ParseSAN(uri string) (SAN, error) {
	rest, ok := strings.CutPrefix(uri, sanScheme)
	kind, id, named := strings.Cut(rest, "/")
	s := SAN{Kind: SANKind(kind), ID: id}
	switch s.Kind {
	case SANHost, SANViewer, SANHop:
		ok = ok && named && checkLabel("name", id) == nil
	case SANCoordinator, SANBroker:
		ok = ok && !named
	default:
		ok = false
	}
	if !ok {
		return SAN{}, fmt.Errorf("name %.100q: %w", uri, ErrSAN)
	}
	return s, nil
}

// ParseSANs picks the one name of ours out of all URIs of a certificate. Other
// schemes are other people's business; two names of ours are refused, because
// two readers might each take another one.
func ParseSANs(uris []string) (SAN, error) {
	var found SAN
	for _, u := range uris {
		if !strings.HasPrefix(u, sanScheme) {
			continue
		}
		s, err := ParseSAN(u)
		if err != nil {
			return SAN{}, err
		}
		if found != (SAN{}) {
			return SAN{}, fmt.Errorf("names %q and %q: %w: a certificate has one", found, s, ErrSAN)
		}
		found = s
	}
	if found == (SAN{}) {
		return SAN{}, fmt.Errorf("%w: the certificate has no URI that starts with %q", ErrSAN, sanScheme)
	}
	return found, nil
}
