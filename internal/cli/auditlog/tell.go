package auditlog

import (
	"fmt"
	"strings"

	"github.com/hostler-io/hostler/protocol"
)

// tell says in a line what a message says. parts is how many envelopes it has.
func tell(v verdict, parts int) string {
	if v.Type == "" {
		return v.Detail
	}
	if line, ok := tellItem(v); ok {
		return line
	}
	body := []byte(v.bodyText)
	switch protocol.Type(v.Type) {
	case protocol.TypePresence:
		return tellBody(body, tellPresence)
	case protocol.TypeHeartbeat:
		return tellBody(body, tellHeartbeat)
	case protocol.TypeLease:
		return tellBody(body, func(l protocol.Lease) string { return fmt.Sprintf("lease %d, holds %d", l.Number, len(l.Held)) })
	case protocol.TypeGrant:
		return tellBody(body, func(g protocol.Grant) string {
			return fmt.Sprintf("granted for %d s, %d held", g.TTLms/1000, len(g.Held))
		})
	case protocol.TypeReceipt:
		return tellBody(body, func(r protocol.Receipt) string { return "receipt of " + positions(r.Have) + wants(r.Want) })
	case protocol.TypeAck:
		return tellBody(body, func(a protocol.Ack) string { return "receipt of " + positions(a.Have) })
	case protocol.TypeOut, protocol.TypeIn, protocol.TypeSamples:
		return tellBody(body, func(h protocol.Header) string {
			return fmt.Sprintf("%d bytes of %s at %d, action %s", h.Size, h.FD, h.Offset, h.Action)
		})
	case protocol.TypeCoordinator:
		return tellBody(body, func(c protocol.CoordinatorState) string {
			if !c.Online {
				return "goodbye of the coordinator"
			}
			return "the coordinator is online, term " + c.Term.String()
		})
	case protocol.TypeRing:
		return fmt.Sprintf("the rings of the fleet, in %d envelope(s)", parts)
	case protocol.TypeRevoked:
		return "the keys and certificates that are revoked"
	}
	return v.Type
}

// tellBody reads a body as a T. Unknown members are let through: it is for people.
func tellBody[T any](body []byte, say func(T) string) string {
	var v T
	if err := protocol.DecodeJSON(body, &v, true); err != nil {
		return "it cannot be read: " + err.Error()
	}
	return say(v)
}

func tellItem(v verdict) (string, bool) {
	item := []byte(v.itemText)
	switch protocol.Type(v.Type) {
	case protocol.TypeReport:
		return tellBody(item, tellReport), true
	case protocol.TypeAlert:
		return tellBody(item, tellAlert), true
	case protocol.TypeOrder:
		return tellBody(item, tellOrder), true
	case protocol.TypeControl:
		return tellBody(item, tellControl), true
	}
	return "", false
}

func tellPresence(p protocol.Presence) string {
	switch p.Kind {
	case protocol.PresenceHello:
		return fmt.Sprintf("hello of start %d, connection %d", p.Seq.Inc, p.Seq.Conn)
	case protocol.PresenceOnline:
		return "online"
	case protocol.PresenceWill:
		return "the broker has lost its connection"
	case protocol.PresenceGoodbye:
		return "goodbye"
	}
	return string(p.Kind)
}

func tellHeartbeat(h protocol.Heartbeat) string {
	line := fmt.Sprintf("heartbeat %d, page %d of %d: %d container(s), %d alert(s)", h.AsOf, h.Part, h.Parts, len(h.Containers), len(h.Alerts))
	if h.Base != 0 {
		line += fmt.Sprintf(", changes since heartbeat %d", h.Base)
	}
	if h.Host != nil {
		line += fmt.Sprintf(", agent %s, load %.2f", h.Host.Version, float64(h.Host.Load1000)/1000)
	}
	return line
}

func tellReport(r protocol.Report) string {
	words := []string{"action", r.Action.String(), string(r.State)}
	if r.Action.IsZero() {
		return "the policy in force"
	}
	if r.Reason != "" {
		words = append(words, "("+string(r.Reason)+")")
	}
	if r.Exit != nil {
		words = append(words, fmt.Sprintf("exit %d", r.Exit.Code))
	}
	if r.Detail != "" {
		words = append(words, "– "+r.Detail)
	}
	return strings.Join(words, " ")
}

func tellAlert(a protocol.Alert) string {
	if !a.Raised {
		return "cleared " + a.ID
	}
	return fmt.Sprintf("raised %s %s: %s", a.Severity, a.ID, a.Text)
}

func tellOrder(o protocol.OrderItem) string {
	what := "action"
	if spec, err := protocol.DecodeSpec(o.Spec); err == nil {
		if what = string(spec.Kind); spec.Name != "" {
			what += " of " + string(spec.Name)
		}
	}
	return fmt.Sprintf("%s %s for %s", what, o.Action, o.Requester)
}

func tellControl(c protocol.ControlItem) string {
	switch {
	case c.Order != nil:
		return string(c.Verb) + " " + tellOrder(*c.Order)
	case !c.Action.IsZero():
		return string(c.Verb) + " " + c.Action.String()
	}
	return string(c.Verb)
}

func positions(all []protocol.Position) string {
	if len(all) == 0 {
		return "nothing"
	}
	var words []string
	for _, p := range all {
		words = append(words, fmt.Sprintf("%s %d", p.Stream, p.N))
	}
	return strings.Join(words, ", ")
}

func wants(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return "; wants " + strings.Join(all, ", ")
}
