package protocol

import "errors"

// Expect is what a receiver knows before it looks at a message.
type Expect struct {
	Fleet     FleetID
	FleetName FleetName
	Self      Party   // who receives: a host's party, or the coordinator
	Keys      Keyring // who owns which key
	Ring      uint64  // number of the ring held
	// Topic is the topic on which the message came. Documents that come without
	// one leave it empty and name Type instead; they have no receiver, ring or
	// freshness of the envelope's own. A will is opened on the topic that it is
	// to be published on.
	Topic string
	Type  Type
	// Fresh remembers what was seen before. It is asked last, and only about
	// messages that passed everything else; nil for documents.
	Fresh Freshness
}

// Freshness judges whether an authentic message is new. One object serves one
// conversation and is called for one message at a time.
type Freshness interface {
	// Fresh is check 11: [ErrStale], [ErrChallenge], [ErrHeard] or [ErrFork].
	Fresh(t Topic, h *Header) error
	// Term is check 12: [ErrTerm] or [ErrStore].
	Term(h *Header) error
}

// Message is an opened message. Its bytes alias what was opened.
type Message struct {
	Topic      Topic // zero for things without a topic
	Key        KeyID
	Principal  Principal
	Header     Header
	Body       []byte
	Attachment []byte
}

// Open verifies and reads one message. Its checks run in this order, and the
// first that fails gives the one [Code] that is returned:
//
//	1 size cap of the topic's class       7 I-JSON, strict header
//	2 grammar of the envelope             8 type, fleet, from, to, action
//	3 topic                               9 attachment
//	4 key known, not revoked, its role   10 ring number
//	5 form of the signature              11 freshness
//	6 signature over the body            12 term, store
//
// On [ErrRing] alone the returned message is complete but for checks 11 and
// 12: a machine that fetches rings needs to know whom it came from. The payload is
// read by [Message.Decode].
func Open(raw []byte, x Expect) (Message, error) {
	m, err := openMessage(raw, x)
	if err != nil && !errors.Is(err, ErrRing) {
		return Message{}, err
	}
	return m, err
}

func openMessage(raw []byte, x Expect) (Message, error) {
	topic, topicErr := Topic{}, error(nil)
	typ := x.Type
	if x.Topic != "" {
		// The topic tells the size that applies; a topic that is none gets the
		// smallest, and its own refusal only in its turn.
		if topic, topicErr = ParseTopic(x.Topic); topicErr == nil {
			typ, topicErr = x.route(topic)
		}
	}
	rule := rules[typ]
	if x.Topic == "" && rule.class != ClassDocument {
		topicErr = refuse(ErrTopic, "type %.40q travels on a topic only", typ)
	}
	if limit := rule.limit(); len(raw) > limit {
		return Message{}, refuse(ErrSize, "%d bytes, at most %d are allowed", len(raw), limit)
	}
	env, err := Split(raw)
	if err != nil {
		return Message{}, err
	}
	if topicErr != nil {
		return Message{}, topicErr
	}
	m := Message{Topic: topic, Key: env.Key, Body: env.Body, Attachment: env.Attachment}
	if m.Principal, err = x.authenticate(env, rule, topic); err != nil {
		return Message{}, err
	}
	if m.Header, err = readHeader(env.Body, rule); err != nil {
		return Message{}, err
	}
	if err := x.match(&m, typ, rule); err != nil {
		return Message{}, err
	}
	if err := checkAttachment(&m, rule); err != nil {
		return Message{}, err
	}
	if rule.class == ClassDocument {
		return m, nil
	}
	if m.Header.Ring > x.Ring {
		return m, refuse(ErrRing, "it names ring %d, ring %d is held", m.Header.Ring, x.Ring)
	}
	return m, x.fresh(&m)
}

func (x Expect) fresh(m *Message) error {
	if err := x.Fresh.Fresh(m.Topic, &m.Header); err != nil {
		return err
	}
	return x.Fresh.Term(&m.Header)
}

// limit is the size cap of a type; what is no type gets that of a message.
func (r typeRule) limit() int {
	if r.max == 0 {
		return MaxMessage
	}
	return r.max
}

// route is check 3: the topic belongs to this fleet and is one that this
// receiver takes.
func (x Expect) route(t Topic) (Type, error) {
	typ, ok := TypeOf(t.Channel)
	if !ok {
		return "", refuse(ErrTopic, "channel %q carries no message", t.Channel)
	}
	if t.Fleet != x.FleetName {
		return typ, refuse(ErrTopic, "it is of fleet %q", t.Fleet)
	}
	host, isHost := x.Self.Host()
	switch t.Channel.Direction() {
	case Up:
		if x.Self != Coordinator {
			return typ, refuse(ErrTopic, "channel %q goes to the coordinator", t.Channel)
		}
	case Down:
		if !isHost || t.Host != host {
			return typ, refuse(ErrTopic, "channel %q goes to host %q", t.Channel, t.Host)
		}
	}
	return typ, nil
}

// authenticate is checks 4, 5 and 6.
func (x Expect) authenticate(env Envelope, rule typeRule, t Topic) (Principal, error) {
	p, ok := x.Keys.Principal(env.Key)
	switch {
	case !ok:
		return p, refuse(ErrUnknownKey, "key %s", env.Key)
	case p.Revoked:
		return p, refuse(ErrRevokedKey, "key %s", env.Key)
	case !p.Can(rule.roles...):
		return p, refuse(ErrRole, "key %s is of role %q", env.Key, p.Roles)
	case t.Channel.Direction() == Up && p.Host != t.Host:
		return p, refuse(ErrWrongHost, "key %s is of host %q", env.Key, p.Host)
	}
	if err := p.Key.CheckForm(env.Sig); err != nil {
		return p, refuse(ErrSignatureForm, "%s", err)
	}
	if err := p.Key.Verify(env.Sig, env.Body); err != nil {
		return p, refuse(ErrSignature, "key %s", env.Key)
	}
	return p, nil
}

// match is check 8: what the signed header says is what topic, key and
// receiver say.
func (x Expect) match(m *Message, typ Type, rule typeRule) error {
	h := &m.Header
	switch {
	case h.Type != typ:
		return refuse(ErrType, "it is %.40q, want %q", h.Type, typ)
	case h.Fleet != x.Fleet:
		return refuse(ErrFleet, "it is of fleet %s", h.Fleet)
	}
	if rule.class == ClassDocument {
		return nil
	}
	from, to := Coordinator, x.Self
	if m.Topic.Channel.Direction() == Up {
		from = HostParty(m.Principal.Host)
	}
	if m.Topic.Channel.Direction() == Fleet {
		to = Everybody
	}
	switch {
	case h.From != from:
		return refuse(ErrFrom, "it names %.80q, its signer is %q", h.From, from)
	case h.To != to:
		return refuse(ErrTo, "it is to %.80q, this is %q", h.To, to)
	case h.Action != m.Topic.Action:
		return refuse(ErrAction, "it names action %s", h.Action)
	case h.Stream != rule.stream:
		return refuse(ErrType, "it is an item of stream %.40q, want %q", h.Stream, rule.stream)
	}
	return nil
}

// checkAttachment is check 9.
func checkAttachment(m *Message, rule typeRule) error {
	if rule.class != ClassChunk {
		if len(m.Attachment) != 0 {
			return refuse(ErrAttachment, "%d bytes follow a message that has none", len(m.Attachment))
		}
		return nil
	}
	if int64(len(m.Attachment)) != m.Header.Size {
		return refuse(ErrAttachment, "%d bytes follow, %d were signed", len(m.Attachment), m.Header.Size)
	}
	if Sum(m.Attachment) != m.Header.SHA256 {
		return refuse(ErrAttachment, "its digest is not the one that was signed")
	}
	return nil
}

// Decode reads the payload of a state message or document into v, whose first
// field is a [Header] for messages. Unknown members are refused, but for what a
// newer host may tell. It returns [ErrPayload].
func (m Message) Decode(v any) error {
	if err := decodeChecked(m.Body, v, rules[m.Header.Type].lax); err != nil {
		return refuse(ErrPayload, "%s", err)
	}
	return validate(v)
}

// DecodeItem reads the item of an item message into v. What it refuses is to
// be stored as rejected and receipted: nothing may block a stream.
func (m Message) DecodeItem(v any) error {
	if err := DecodeJSON(m.Header.Item, v, rules[m.Header.Type].lax); err != nil {
		return refuse(ErrPayload, "%s", err)
	}
	return validate(v)
}

// validate runs the rules that a type sets beyond its form.
func validate(v any) error {
	if c, ok := v.(interface{ check() error }); ok {
		if err := c.check(); err != nil {
			return refuse(ErrPayload, "%s", err)
		}
	}
	return nil
}
