package auditlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
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

func verdictNoun() show.Noun[verdict] {
	return show.NounOf("key", "signature key signer topic type from to ring++ term++ seq++ stream++ n++ action++ item++ body++", show.Cells[verdict]{
		"signature": func(v verdict) any {
			if v.OK {
				return "good"
			}
			return "BAD: " + v.Detail
		},
		"ring": func(v verdict) any { return blank(v.Ring) },
		"n":    func(v verdict) any { return blank(v.N) },
		"item": func(v verdict) any { return v.itemText },
		"body": func(v verdict) any { return v.bodyText },
	})
}

// blank shows no zero.
func blank(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func (a *commands) verifyCommand() *cobra.Command {
	var roster string
	cmd := &cobra.Command{
		Use: "verify [FILE]", Short: "Verify messages that were captured from a topic", Args: term.AtMost(1),
		Long: `Verifies messages, as captured from the broker, from a file or from standard
input: one envelope, or messages behind their topics as mosquitto_sub -v prints
them, also those of several lines or with bytes of any kind. It names the lines that
it cannot judge. It says who signed each, by the rings that this machine keeps and the list
of hosts that the coordinator signs, and what stands in its header.

Everything is checked that an agent checks, but for freshness: whether a message
was heard before, only its receiver knows. It exits with 1 if one is bad, or if there
is something else in between.`,
		Example: `  hostler verify order
  mosquitto_sub … -t 'hostler/v1/#' -v >captured; hostler verify captured
  hostler verify order --roster roster -o json`,
	}
	fleet, v := a.FleetFlag(cmd), show.FormatFlags(cmd)
	cmd.Flags().StringVar(&roster, "roster", "", "the signed list of hosts, from a file instead of the coordinator")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		raw, err := a.readInput(args)
		if err != nil {
			return term.Cannot("read the messages", err)
		}
		messages, left := splitCapture(raw)
		if len(messages) == 0 && len(left) == 1 && left[0].last == 1 {
			messages, left = []captured{{"", bytes.TrimRight(raw, "\r\n")}}, nil
		}
		if len(messages) == 0 {
			return term.Usage("hostler verify --help", "there is no message to verify")
		}
		keys, err := a.VerifyKeys(cmd.Context(), *fleet, roster)
		if err != nil {
			return term.Cannot("find the keys to verify with", err)
		}
		var verdicts []verdict
		bad := 0
		for _, c := range messages {
			d := c.judge(keys)
			if verdicts = append(verdicts, d); !d.OK {
				bad++
			}
		}
		if len(verdicts) > 1 {
			v.One = false
		}
		if err := show.Print(a.UI, v, verdictNoun(), verdicts); err != nil {
			return err
		}
		strange := false
		for _, u := range left {
			strange = strange || u.why != emptyMessage
			a.Say("hostler: %s cannot be judged: %s", u, u.why)
		}
		if bad > 0 {
			a.Say("hostler: %d of %d message(s) are bad", bad, len(verdicts))
		}
		if bad > 0 || strange {
			return term.Exit(term.ExitFailed)
		}
		return nil
	}
	return cmd
}

func (a *commands) readInput(args []string) ([]byte, error) {
	if len(args) == 1 && args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return conn.ReadAll(f, args[0], maxCapture)
	}
	return conn.ReadAll(a.In, "standard input", maxCapture)
}

// maxCapture bounds what is verified at once, in bytes.
const maxCapture = 64 << 20

// captured is one message as it was found.
type captured struct {
	topic string // empty if it was not captured along
	raw   []byte
}

// unjudged are lines of a capture that are no message of a fleet.
type unjudged struct {
	first, last int // from 1
	why         string
}

const (
	noMessage    = "no topic of a fleet and no envelope begins there"
	emptyMessage = "the message is empty and unsigned: it removes a retained one"
)

// splitCapture cuts what was captured into messages. An attachment is as long as the
// header before it says, whatever its bytes are; documents of several lines are one
// envelope to a line.
func splitCapture(b []byte) (all []captured, left []unjudged) {
	line := 1
	skip := func(n int, why string) {
		if k := len(left) - 1; k >= 0 && left[k].last == line-1 && left[k].why == why {
			left[k].last = line
		} else {
			left = append(left, unjudged{line, line, why})
		}
		line, b = line+1, b[n:]
	}
	for len(b) > 0 {
		whole := len(b)
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			whole = i + 1
		}
		topic, text := topicOfLine(b[:whole])
		switch plain := bytes.TrimRight(text, "\r\n"); {
		case topic != "" && (len(plain) == 0 || string(plain) == "(null)"): // as mosquitto_sub prints it
			skip(whole, emptyMessage)
		case topic == "" && !isEnvelope(plain):
			skip(whole, noMessage)
		default:
			start := whole - len(text)
			raw, n := messageOf(text, b[start:])
			all = append(all, captured{topic, raw})
			line, b = line+bytes.Count(b[:start+n], []byte("\n")), b[start+n:]
		}
	}
	return all, left
}

// topicOfLine cuts the topic off that stands in front of a message.
func topicOfLine(line []byte) (topic string, text []byte) {
	word, rest, ok := bytes.Cut(line, []byte(" "))
	if _, err := protocol.ParseTopic(string(word)); ok && err == nil {
		return string(word), rest
	}
	return "", line
}

func isEnvelope(line []byte) bool {
	_, err := protocol.Split(line)
	return err == nil
}

// attachmentSize is how many bytes the header of an envelope says to follow it.
func attachmentSize(envelope []byte) int {
	var h protocol.Header
	env, err := protocol.Split(envelope)
	if err != nil || protocol.DecodeJSON(env.Body, &h, true) != nil || h.Size < 0 || h.Size > maxCapture {
		return 0
	}
	return int(h.Size)
}

// messageOf returns the message that begins with a line, and how long it is with the
// line end that mosquitto_sub writes behind it.
func messageOf(line, rest []byte) (raw []byte, n int) {
	plain := bytes.TrimRight(line, "\r\n")
	size := attachmentSize(plain)
	if size == 0 {
		return plain, len(line)
	}
	n = min(len(line)+size, len(rest))
	raw = rest[:n]
	if n < len(rest) && rest[n] == '\n' {
		n++
	}
	return raw, n
}

// String names the lines.
func (u unjudged) String() string {
	if u.first == u.last {
		return fmt.Sprintf("line %d", u.first)
	}
	return fmt.Sprintf("lines %d to %d", u.first, u.last)
}

// judge opens a message as its receiver would.
func (c captured) judge(keys *certs.Keys) verdict {
	v := verdict{Topic: c.topic}
	env, err := protocol.Split(c.raw)
	if err != nil {
		return v.bad(err)
	}
	v.Key, v.Signer = env.Key.String(), signer(keys, env.Key)
	// The header is shown whether or not it can be believed: the user wants to
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
		return "an unknown key"
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
		protocol.ChannelAck, protocol.ChannelOut, protocol.ChannelSamples, protocol.ChannelOrder, protocol.ChannelControl, protocol.ChannelGrant,
		protocol.ChannelReceipt, protocol.ChannelIn, protocol.ChannelCoordinator,
	} {
		if t, ok := protocol.TypeOf(c); !ok || t != h.Type {
			continue
		}
		if c.Direction() == protocol.Fleet {
			return protocol.FleetTopic(fleet, c).String()
		}
		t := protocol.HostTopic(fleet, host, c)
		if c.PerAction() {
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

func (anyTime) Term(*protocol.Header) error { return nil }
