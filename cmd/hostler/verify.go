package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
)

// verdict is what was found out about one message.
type verdict struct {
	OK       bool   `json:"ok"`
	Code     string `json:"code,omitempty"` // why it is bad, as an agent would refuse it
	Detail   string `json:"detail,omitempty"`
	Key      string `json:"key,omitempty"`
	Signer   string `json:"signer,omitempty"`
	Topic    string `json:"topic,omitempty"`
	Type     string `json:"type,omitempty"`
	From     string `json:"from,omitempty"`
	To       string `json:"to,omitempty"`
	Ring     uint64 `json:"ring,omitempty"`
	Term     string `json:"term,omitempty"`
	Seq      string `json:"seq,omitempty"` // of a state message: start.connection.message
	Stream   string `json:"stream,omitempty"`
	N        uint64 `json:"n,omitempty"` // of an item
	Action   string `json:"action,omitempty"`
	Body     any    `json:"body,omitempty"`
	Item     any    `json:"item,omitempty"` // as it was signed within the body
	bodyText string
	itemText string
}

func verdictNoun() noun[verdict] {
	return noun[verdict]{
		name: func(v verdict) string { return v.Key },
		columns: []column[verdict]{
			{"signature", inTable, func(v verdict) any {
				if v.OK {
					return "good"
				}
				return "BAD: " + v.Detail
			}},
			{"key", inTable, func(v verdict) any { return v.Key }},
			{"signer", inTable, func(v verdict) any { return v.Signer }},
			{"topic", inTable, func(v verdict) any { return v.Topic }},
			{"type", inTable, func(v verdict) any { return v.Type }},
			{"from", inTable, func(v verdict) any { return v.From }},
			{"to", inTable, func(v verdict) any { return v.To }},
			{"ring", inShow, func(v verdict) any { return blank(v.Ring) }},
			{"term", inShow, func(v verdict) any { return v.Term }},
			{"seq", inShow, func(v verdict) any { return v.Seq }},
			{"stream", inShow, func(v verdict) any { return v.Stream }},
			{"n", inShow, func(v verdict) any { return blank(v.N) }},
			{"action", inShow, func(v verdict) any { return v.Action }},
			{"item", inShow, func(v verdict) any { return v.itemText }},
			{"body", inShow, func(v verdict) any { return v.bodyText }},
		},
	}
}

// blank shows no zero.
func blank(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func (a *app) verifyCommand() *cobra.Command {
	var roster string
	cmd := &cobra.Command{
		Use: "verify [FILE]", Short: "Verify messages that were captured from a topic", Args: atMost(1),
		Long: `Verifies messages, as captured from the broker, from a file or from standard
input: one envelope, or lines "TOPIC ENVELOPE" as mosquitto_sub -F '%t %p' prints
them. It says who signed each, by the rings that this machine keeps and the list
of hosts that the coordinator signs, and what stands in its header.

Everything is checked that an agent checks, but for freshness: whether a message
was heard before, only its receiver knows. It exits with 1 if one is bad.`,
		Example: `  hostler verify order
  mosquitto_sub … -t 'hostler/v1/#' -C 1 -F '%t %p' | hostler verify
  hostler verify order --roster roster -o json`,
	}
	fleet, v := a.fleetFlag(cmd), formatFlags(cmd)
	cmd.Flags().StringVar(&roster, "roster", "", "the signed list of hosts, from a file instead of the coordinator")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		raw, err := a.readInput(args)
		if err != nil {
			return cannot("read the messages", err)
		}
		captured := splitCapture(raw)
		if len(captured) == 0 {
			return usage("", "there is nothing to verify")
		}
		keys, err := a.verifyKeys(cmd.Context(), *fleet, roster)
		if err != nil {
			return cannot("find the keys to verify with", err)
		}
		var verdicts []verdict
		bad := 0
		for _, c := range captured {
			d := c.judge(keys)
			if verdicts = append(verdicts, d); !d.OK {
				bad++
			}
		}
		if len(verdicts) > 1 {
			v.one = false
		}
		if err := printAll(a, v, verdictNoun(), verdicts); err != nil {
			return err
		}
		if bad > 0 {
			a.say("hostler: %d of %d message(s) are bad", bad, len(verdicts))
			return exit(exitFailed)
		}
		return nil
	}
	return cmd
}

func (a *app) readInput(args []string) ([]byte, error) {
	if len(args) == 1 && args[0] != "-" {
		return readSmall(args[0])
	}
	return readAll(a.in, "standard input")
}

// verifyKeys is the book of keys: the rings, brought up to date if there is a
// coordinator to ask, and the hosts. Whatever comes from the network is signed
// itself, so that nobody on the way can lend a key to another.
func (a *app) verifyKeys(ctx context.Context, fleet, rosterFile string) (*certs.Keys, error) {
	f, chain, err := a.chooseFleet(fleet)
	if err != nil {
		return nil, err
	}
	var roster []byte
	if rosterFile != "" {
		roster, err = readSmall(rosterFile)
	} else {
		roster, chain, err = a.askRoster(ctx, f, chain)
	}
	if err != nil {
		return nil, err
	}
	keys := certs.NewKeys(chain)
	for line := range bytes.SplitSeq(roster, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		part, err := keys.OpenRoster(line)
		if err != nil {
			return nil, fmt.Errorf("roster: %w", err)
		}
		for _, h := range part.Hosts {
			key, err := certs.ParsePublicKey(h.Key)
			if err == nil {
				err = keys.SetHost(h.Host, key)
			}
			if err != nil {
				return nil, fmt.Errorf("roster: host %s: %w", h.Host, err)
			}
		}
	}
	return keys, nil
}

// askRoster gets the newest rings and the list of hosts. Without a coordinator
// what this machine keeps has to do, which verifies no host.
func (a *app) askRoster(ctx context.Context, f fleetFiles, chain *certs.Chain) ([]byte, *certs.Chain, error) {
	t, err := a.target()
	if err != nil {
		return nil, nil, err
	}
	if t.Address == "" || t.Fleet != string(f.name) || a.local {
		a.say("hostler: no coordinator of fleet %s to ask: messages of hosts cannot be verified", f.name)
		return nil, chain, nil
	}
	r, err := a.connect()
	if err != nil {
		return nil, nil, err
	}
	_, newest, err := a.fetchRings(ctx, r, string(f.name))
	if err != nil {
		return nil, nil, err
	}
	var roster []byte
	err = r.Get(ctx, "/v1/roster", nil, &roster)
	return roster, newest, err
}

// captured is one message as it was found.
type captured struct {
	topic string // empty if it was not captured along
	raw   []byte
}

// splitCapture cuts what was captured into messages.
func splitCapture(b []byte) []captured {
	b = bytes.TrimRight(b, "\r\n")
	if len(b) == 0 {
		return nil
	}
	lines := bytes.Split(b, []byte("\n"))
	var all []captured
	for _, line := range lines {
		line = bytes.TrimRight(line, "\r")
		topic, rest, ok := bytes.Cut(line, []byte(" "))
		if _, err := protocol.ParseTopic(string(topic)); ok && err == nil {
			all = append(all, captured{string(topic), rest})
			continue
		}
		if _, err := protocol.Split(line); err != nil && len(lines) > 1 {
			// What follows a line end belongs to the envelope before.
			return []captured{{"", b}}
		}
		all = append(all, captured{"", line})
	}
	return all
}

// judge opens a message as its receiver would.
func (c captured) judge(keys *certs.Keys) verdict {
	v := verdict{Topic: c.topic}
	env, err := protocol.Split(c.raw)
	if err != nil {
		return v.bad(err)
	}
	v.Key, v.Signer = env.Key.String(), signer(keys, env.Key)
	// The header is shown whether or not it can be believed: somebody wants to
	// know what was claimed.
	var h protocol.Header
	if err := protocol.DecodeJSON(env.Body, &h, true); err != nil {
		return v.bad(err)
	}
	v.header(&h, env.Body)
	ring := keys.Chain().Ring()
	if v.Topic == "" {
		v.Topic = topicOf(ring.Name, &h)
	}
	topic, typ := v.Topic, h.Type
	if t, err := protocol.ParseTopic(topic); err == nil && t.Fleet == ring.Name {
		// A document is opened without its topic, which only says what it is.
		switch t.Channel {
		case protocol.ChannelRing:
			topic, typ = "", protocol.TypeRing
		case protocol.ChannelRevoked:
			topic, typ = "", protocol.TypeRevoked
		}
	}
	x := protocol.Expect{
		Fleet: ring.Fleet, FleetName: ring.Name, Keys: keys, Ring: ring.Number,
		Topic: topic, Type: typ, Self: receiver(topic), Fresh: anyTime{},
	}
	if _, err := protocol.Open(c.raw, x); err != nil {
		return v.bad(err)
	}
	v.OK = true
	return v
}

func (v verdict) bad(err error) verdict {
	v.OK, v.Detail = false, err.Error()
	if code, ok := errors.AsType[protocol.Code](err); ok {
		v.Code = string(code)
	}
	return v
}

func (v *verdict) header(h *protocol.Header, body []byte) {
	v.Type, v.From, v.To, v.Ring = string(h.Type), string(h.From), string(h.To), h.Ring
	v.Stream, v.N = string(h.Stream), h.N
	v.bodyText, v.itemText = string(body), string(h.Item)
	if (h.Term != protocol.Term{}) {
		v.Term = fmt.Sprintf("%d.%d", h.Term.Ring, h.Term.Counter)
	}
	if (h.Seq != protocol.Seq{}) {
		v.Seq = fmt.Sprintf("%d.%d.%d", h.Seq.Inc, h.Seq.Conn, h.Seq.K)
	}
	if !h.Action.IsZero() {
		v.Action = h.Action.String()
	}
	_ = protocol.DecodeJSON(body, &v.Body, true) // it was decoded before
	if len(h.Item) > 0 && protocol.DecodeJSON(h.Item, &v.Item, true) != nil {
		v.Item = string(h.Item)
	}
}

// signer says whose a key is.
func signer(keys *certs.Keys, id protocol.KeyID) string {
	p, ok := keys.Principal(id)
	if !ok {
		return "nobody that is known"
	}
	var who []string
	for _, role := range p.Roles {
		s := string(role)
		if role == protocol.RoleHost {
			s += " " + string(p.Host)
		} else if p.Person != "" {
			s += " " + p.Person
		}
		who = append(who, s)
	}
	if p.Revoked {
		who = append(who, "revoked")
	}
	return strings.Join(who, ", ")
}

// topicOf returns the topic on which a message of that header travels, empty
// for a document.
func topicOf(fleet protocol.FleetName, h *protocol.Header) string {
	host, ok := h.From.Host()
	if !ok {
		host, _ = h.To.Host()
	}
	for _, c := range []protocol.Channel{
		protocol.ChannelPresence, protocol.ChannelHeartbeat, protocol.ChannelLease, protocol.ChannelReport, protocol.ChannelAlert,
		protocol.ChannelAck, protocol.ChannelOut, protocol.ChannelOrder, protocol.ChannelControl, protocol.ChannelGrant,
		protocol.ChannelReceipt, protocol.ChannelIn, protocol.ChannelCoordinator,
	} {
		if t, ok := protocol.TypeOf(c); !ok || t != h.Type {
			continue
		}
		if c.Direction() == protocol.Fleet {
			return protocol.FleetTopic(fleet, c).String()
		}
		t := protocol.HostTopic(fleet, host, c)
		if c == protocol.ChannelOut || c == protocol.ChannelIn {
			t.Action = h.Action
		}
		return t.String()
	}
	return ""
}

// receiver is who hears a topic.
func receiver(topic string) protocol.Party {
	t, err := protocol.ParseTopic(topic)
	switch {
	case err != nil || t.Channel.Direction() == protocol.Up:
		return protocol.Coordinator
	case t.Host != "":
		return protocol.HostParty(t.Host)
	}
	return protocol.Everybody
}

// anyTime judges no freshness.
type anyTime struct{}

func (anyTime) Fresh(protocol.Topic, *protocol.Header) error { return nil }
func (anyTime) Term(*protocol.Header) error                  { return nil }
