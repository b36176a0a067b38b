package protocol

import (
	"fmt"
	"slices"
	"strings"
)

// topicRoot starts every topic. The number changes together with the envelope's v.
const topicRoot = "hostler/v1/"

// Channel is the part of a topic that tells what travels there, in its words.
type Channel string

// The channels. Those of a host go up (to the coordinator) or down (to the
// host); those of the fleet are retained and read by all.
const (
	ChannelPresence  Channel = "presence"  // up, retained; also the will
	ChannelHeartbeat Channel = "heartbeat" // up
	ChannelLease     Channel = "lease"     // up
	ChannelReport    Channel = "report"    // up
	ChannelAlert     Channel = "alert"     // up
	ChannelAck       Channel = "ack"       // up
	ChannelOut       Channel = "out"       // up, one topic per action
	ChannelSamples   Channel = "samples"   // up, one topic per message

	ChannelOrder   Channel = "order"   // down
	ChannelControl Channel = "control" // down
	ChannelGrant   Channel = "grant"   // down
	ChannelReceipt Channel = "receipt" // down
	ChannelIn      Channel = "in"      // down, one topic per action

	ChannelCoordinator Channel = "coordinator" // fleet, retained
	ChannelRing        Channel = "ring"        // fleet, retained
	ChannelRevoked     Channel = "revoked"     // fleet, retained
)

// channels are all of them.
var channels = []Channel{
	ChannelPresence, ChannelHeartbeat, ChannelLease, ChannelReport, ChannelAlert, ChannelAck, ChannelOut, ChannelSamples,
	ChannelOrder, ChannelControl, ChannelGrant, ChannelReceipt, ChannelIn, ChannelCoordinator, ChannelRing, ChannelRevoked,
}

// channelOf returns the channel of a word, empty if there is none. It is no part of the word,
// which is one of a packet: a map that has it as a key would keep the whole packet.
func channelOf(word string) Channel {
	if i := slices.Index(channels, Channel(word)); i >= 0 {
		return channels[i]
	}
	return ""
}

// Direction tells who publishes to a channel.
type Direction int

// The directions. The zero value is invalid.
const (
	Up    Direction = iota + 1 // the host to the coordinator
	Down                       // the coordinator to the host
	Fleet                      // the coordinator to all, retained
)

// Direction returns who publishes to the channel, or 0 if there is no such
// channel.
func (c Channel) Direction() Direction {
	switch c {
	case ChannelPresence, ChannelHeartbeat, ChannelLease, ChannelReport, ChannelAlert, ChannelAck, ChannelOut, ChannelSamples:
		return Up
	case ChannelOrder, ChannelControl, ChannelGrant, ChannelReceipt, ChannelIn:
		return Down
	case ChannelCoordinator, ChannelRing, ChannelRevoked:
		return Fleet
	}
	return 0
}

// Retained reports whether the broker keeps the newest message of the channel.
func (c Channel) Retained() bool { return c == ChannelPresence || c.Direction() == Fleet }

// PerAction reports whether the channel has one topic for each id: of an action, or of
// a message of samples.
func (c Channel) PerAction() bool {
	return c == ChannelOut || c == ChannelIn || c == ChannelSamples
}

// Topic is a parsed MQTT topic of Hostler. Topics are built and taken apart
// here and nowhere else.
type Topic struct {
	Fleet   FleetName
	Channel Channel
	Host    HostID   // empty for a channel of the fleet
	Action  ActionID // zero but for [Channel.PerAction]
}

// HostTopic returns the topic of a channel of one host that is not per action.
func HostTopic(fleet FleetName, host HostID, c Channel) Topic {
	return Topic{Fleet: fleet, Channel: c, Host: host}
}

// FleetTopic returns the topic of a channel of the fleet.
func FleetTopic(fleet FleetName, c Channel) Topic { return Topic{Fleet: fleet, Channel: c} }

// HostFilter returns the subscription of a host: everything that comes down to
// it. Fleet-wide documents are a filter of their own, [FleetFilter].
func HostFilter(fleet FleetName, host HostID, c Channel) string {
	t := HostTopic(fleet, host, c).String()
	if c.PerAction() {
		return strings.TrimSuffix(t, ActionID{}.String()) + "+"
	}
	return t
}

// FleetFilter returns the subscription to all retained documents of the fleet.
func FleetFilter(fleet FleetName) string { return topicRoot + string(fleet) + "/fleet/#" }

// String returns the topic as MQTT carries it.
func (t Topic) String() string {
	if t.Channel.Direction() == Fleet {
		return topicRoot + string(t.Fleet) + "/fleet/" + string(t.Channel)
	}
	s := topicRoot + string(t.Fleet) + "/host/" + string(t.Host) + "/" + string(t.Channel)
	if t.Channel.PerAction() {
		s += "/" + t.Action.String()
	}
	return s
}

// PlainTopic returns the topic on which the coordinator mirrors something of a host as
// JSON without a signature. It is no topic of messages: [ParseTopic] refuses it.
func PlainTopic(fleet FleetName, host HostID, what string) string {
	return plainRoot(fleet) + "host/" + string(host) + "/" + what
}

// IsPlain reports whether a topic is of the plain mirror of a fleet.
func IsPlain(fleet FleetName, topic string) bool { return strings.HasPrefix(topic, plainRoot(fleet)) }

func plainRoot(fleet FleetName) string { return topicRoot + string(fleet) + "/plain/" }

// maxTopic bounds what is looked at: the longest topic has two labels and an
// action id.
const maxTopic = len(topicRoot) + 2*MaxLabel + len("/host//heartbeat/") + 36

// ParseTopic takes a topic apart. It accepts exactly what [Topic.String] makes;
// anything else is [ErrTopic]. Names of the fleet and of the host are parts of s.
func ParseTopic(s string) (Topic, error) {
	bad := func(why string) (Topic, error) {
		return Topic{}, fmt.Errorf("%w: %.80q: %s", ErrTopic, s, why)
	}
	rest, ok := strings.CutPrefix(s, topicRoot)
	if !ok || len(s) > maxTopic {
		return bad("it is not a topic of this protocol")
	}
	parts := strings.Split(rest, "/")
	if len(parts) < 3 {
		return bad("it has too few levels")
	}
	fleet, err := ParseFleetName(parts[0])
	if err != nil {
		return bad(err.Error())
	}
	if parts[1] == "fleet" && len(parts) == 3 && channelOf(parts[2]).Direction() == Fleet {
		return FleetTopic(fleet, channelOf(parts[2])), nil
	}
	if parts[1] != "host" || len(parts) < 4 {
		return bad("it names no channel of a host or of the fleet")
	}
	host, err := ParseHostID(parts[2])
	if err != nil {
		return bad(err.Error())
	}
	t := Topic{Fleet: fleet, Host: host, Channel: channelOf(parts[3])}
	d := t.Channel.Direction()
	if d != Up && d != Down {
		return bad("there is no such channel")
	}
	if !t.Channel.PerAction() {
		if len(parts) != 4 {
			return bad("it has too many levels")
		}
		return t, nil
	}
	if len(parts) != 5 {
		return bad("it needs an action id as its last level")
	}
	if t.Action, err = ParseActionID(parts[4]); err != nil {
		return bad(err.Error())
	}
	return t, nil
}
