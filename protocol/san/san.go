// Package san is the name in the TLS certificates of Hostler, and who may bear it.
package san

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hostler-io/hostler/protocol"
)

// ErrName tells that a name in a TLS certificate is none of Hostler's.
var ErrName = errors.New("not a Hostler name")

// Kind is what the holder of a TLS certificate may do on the wire. It is
// no [protocol.Role]: roles belong to signing keys, and what is signed needs no trust
// in the connection that carried it.
type Kind string

// The kinds of holders.
const (
	Host        Kind = "host"        // a host's agent
	Viewer      Kind = "viewer"      // reads everything on the broker, publishes nothing
	Hop         Kind = "hop"         // a broker at a site that forwards to the next
	Coordinator Kind = "coordinator" // a coordinator, as server or as client of a broker
	Broker      Kind = "broker"      // an external broker
)

// Name is the name in the one URI of a TLS certificate that Hostler reads:
//
//	hostler:host/<id>  hostler:viewer/<name>  hostler:hop/<id>
//	hostler:coordinator  hostler:broker
//
// The common name is never looked at: it is a free text, and a requester who may ask
// for a viewer called web1 would otherwise speak as host web1.
type Name struct {
	Kind Kind
	ID   string // a DNS label; empty for coordinator and broker
}

// scheme starts every name of ours.
const scheme = "hostler:"

// String returns the URI.
func (s Name) String() string {
	if s.ID == "" {
		return scheme + string(s.Kind)
	}
	return scheme + string(s.Kind) + "/" + s.ID
}

// Parse parses a URI of the forms above and of no other.
func Parse(uri string) (Name, error) {
	rest, ok := strings.CutPrefix(uri, scheme)
	kind, id, named := strings.Cut(rest, "/")
	s := Name{Kind: Kind(kind), ID: id}
	switch s.Kind {
	case Host, Viewer, Hop:
		ok = ok && named && label(id)
	case Coordinator, Broker:
		ok = ok && !named
	default:
		ok = false
	}
	if !ok {
		return Name{}, fmt.Errorf("name %.100q: %w", uri, ErrName)
	}
	return s, nil
}

// ParseAll picks the one name of ours out of all URIs of a certificate. Other
// schemes are other people's business; two names of ours are refused, because
// two readers might each take another one.
func ParseAll(uris []string) (Name, error) {
	var found Name
	for _, u := range uris {
		if !strings.HasPrefix(u, scheme) {
			continue
		}
		s, err := Parse(u)
		if err != nil {
			return Name{}, err
		}
		if found != (Name{}) {
			return Name{}, fmt.Errorf("names %q and %q: %w: a certificate has one", found, s, ErrName)
		}
		found = s
	}
	if found == (Name{}) {
		return Name{}, fmt.Errorf("%w: the certificate has no URI that starts with %q", ErrName, scheme)
	}
	return found, nil
}

// label reports whether an id has the form of a host's.
func label(id string) bool {
	_, err := protocol.ParseHostID(id)
	return err == nil
}
