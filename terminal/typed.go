package terminal

import (
	"strings"
	"unicode/utf8"
)

// MaxWho is how long the name of who types may be, in bytes.
const MaxWho = 255

// Typed is what a person types in a session, and who that is: what an order to a host
// carries of it.
type Typed struct {
	Who    string // as audit logs name people, 1 to MaxWho bytes
	Packet []byte
}

// AppendTyped appends the encoded t to b. A Who that is too long is cut.
func AppendTyped(b []byte, t Typed) []byte {
	who := t.Who[:min(len(t.Who), MaxWho)]
	return append(append(append(b, byte(len(who))), who...), t.Packet...)
}

// ParseTyped decodes what AppendTyped has made, and returns [ErrFormat] for anything else.
// Packet is a part of b.
func ParseTyped(b []byte) (Typed, error) {
	if len(b) < 2 || b[0] == 0 || len(b) <= 1+int(b[0]) {
		return Typed{}, ErrFormat
	}
	t := Typed{Who: string(b[1 : 1+b[0]]), Packet: b[1+b[0]:]}
	if !utf8.ValidString(t.Who) || strings.IndexByte(t.Who, 0) >= 0 {
		return Typed{}, ErrFormat
	}
	return t, nil
}
