package protocol

import "github.com/hostler-io/hostler/protocol/data"

// MaxWho is how long the name of who types may be, in bytes.
const MaxWho = 255

// Typed is the attachment of an in/1 chunk of the stream [TTY]: what a person types
// in a session, as the package terminal describes it, and who that is.
type Typed struct {
	Who    string // as audit logs name people, 1 to MaxWho bytes
	Packet []byte
}

// AppendTyped appends the encoded t to b. A Who that is too long is cut.
func AppendTyped(b []byte, t Typed) []byte {
	who := t.Who[:min(len(t.Who), MaxWho)]
	return append(append(append(b, byte(len(who))), who...), t.Packet...)
}

// ParseTyped decodes what AppendTyped has made. Packet is a part of b.
func ParseTyped(b []byte) (Typed, error) {
	if len(b) < 2 || b[0] == 0 || len(b) <= 1+int(b[0]) {
		return Typed{}, refuse(ErrPayload, "%d bytes are no input of a terminal", len(b))
	}
	t := Typed{Who: string(b[1 : 1+b[0]]), Packet: b[1+b[0]:]}
	if err := data.CheckText(t.Who); err != nil {
		return Typed{}, refuse(ErrPayload, "who: %s", err)
	}
	return t, nil
}
