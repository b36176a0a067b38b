package broker

import (
	"crypto/x509"
	"fmt"
	"strings"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

// rules say who may do what on the topics of one fleet. They are pure.
//
//	            publishes                     reads
//	host        up, below its own id          down, below its own id; fleet/#
//	coordinator down, the fleet's, the mirror everything
//	viewer      nothing                       everything
//	others      nothing                       nothing
type rules struct{ fleet protocol.FleetName }

// mayPublish reports whether name may publish to topic.
func (r rules) mayPublish(name san.Name, topic string) bool {
	if name.Kind == san.Coordinator && protocol.IsPlain(r.fleet, topic) {
		return !strings.ContainsAny(topic, "+#")
	}
	t, err := protocol.ParseTopic(topic)
	if err != nil || t.Fleet != r.fleet {
		return false
	}
	switch name.Kind {
	case san.Host:
		return t.Channel.Direction() == protocol.Up && string(t.Host) == name.ID
	case san.Coordinator:
		d := t.Channel.Direction()
		return d == protocol.Down || d == protocol.Fleet
	}
	return false
}

// mayRead reports whether name may have the messages of a topic, or of all topics
// that a filter matches. Names that start with $ are the broker's own and shared
// subscriptions; no client gets either. All other topics of this broker belong to
// the fleet, because nothing else can be published.
func (r rules) mayRead(name san.Name, filter string) bool {
	if strings.HasPrefix(filter, "$") {
		return false
	}
	switch name.Kind {
	case san.Viewer, san.Coordinator:
		return true
	case san.Host:
		id := protocol.HostID(name.ID)
		if filter == protocol.FleetFilter(r.fleet) || filter == protocol.HostFilter(r.fleet, id, protocol.ChannelIn) {
			return true
		}
		t, err := protocol.ParseTopic(filter) // a topic without wildcards
		if err != nil || t.Fleet != r.fleet {
			return false
		}
		d := t.Channel.Direction()
		return d == protocol.Fleet || d == protocol.Down && t.Host == id
	}
	return false
}

// mayWill reports whether name may leave a will on topic. Only a host's first
// connection has one: it tells that the host was lost.
func (r rules) mayWill(name san.Name, bulk bool, topic string) bool {
	return name.Kind == san.Host && !bulk &&
		topic == protocol.HostTopic(r.fleet, protocol.HostID(name.ID), protocol.ChannelPresence).String()
}

// isState reports whether a channel carries state, of which the newest message
// is worth more than all before it. State is never held back by a rate limit:
// a lease that is dropped because of the reports before it would end a workload.
func isState(c protocol.Channel) bool {
	t, ok := protocol.TypeOf(c)
	return ok && protocol.ClassOf(t) == protocol.ClassState
}

// bulkSuffix marks the second connection of a host in its client id.
const bulkSuffix = "~bulk"

// nameOf returns whom a certificate speaks for.
func nameOf(cert *x509.Certificate) (san.Name, error) {
	uris := make([]string, len(cert.URIs))
	for i, u := range cert.URIs {
		uris[i] = u.String()
	}
	return san.ParseAll(uris)
}

// checkClientID says whether name may present itself with the MQTT client id, and
// whether that is a host's bulk connection. Only hosts are bound to an id: what a
// viewer calls itself means nothing here, because connections are told apart by
// certificate first.
func checkClientID(name san.Name, clientID string) (bulk bool, err error) {
	switch name.Kind {
	case san.Host:
		id, bulk := strings.CutSuffix(clientID, bulkSuffix)
		if id != name.ID {
			return false, fmt.Errorf("client id %.100q does not belong to %v", clientID, name)
		}
		return bulk, nil
	case san.Viewer, san.Coordinator:
		return false, nil
	}
	return false, fmt.Errorf("%v has no business with a broker", name)
}
