package protocol

import (
	"fmt"
	"strings"
)

// TTY is the terminal of an interactive session, as it is at the start. Later
// sizes come with what is typed.
type TTY struct {
	Rows int    `json:"rows"` // of the window, in characters
	Cols int    `json:"cols"`
	Term string `json:"term,omitzero"` // the value of TERM; empty is "dumb"
	// Record keeps a recording of what the terminal prints. A host may record without
	// being asked.
	Record bool `json:"record,omitzero"`
}

// maxWindow is the largest size of a window, in characters.
const maxWindow = 1<<16 - 1

func (t *TTY) validate() error {
	if t.Rows < 1 || t.Rows > maxWindow || t.Cols < 1 || t.Cols > maxWindow {
		return fmt.Errorf("tty: a window of %d by %d characters is not between 1 by 1 and %d by %d", t.Rows, t.Cols, maxWindow, maxWindow)
	}
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-"
	if len(t.Term) > maxWord || strings.Trim(t.Term, allowed) != "" {
		return fmt.Errorf("tty: %.70q is no type of a terminal", t.Term)
	}
	return nil
}

// Interactive reports whether the action is a session that people type in.
func (k Kind) Interactive() bool { return k == KindAttach || k == KindContainerAttach }

// MaxWho is how long the name of who types may be, in bytes.
const MaxWho = 255

// Typed is the attachment of an in/1 chunk of the stream [TTY]: what somebody types
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
		return Typed{}, refuse(ErrPayload, "%d bytes are nothing that somebody types", len(b))
	}
	t := Typed{Who: string(b[1 : 1+b[0]]), Packet: b[1+b[0]:]}
	if err := checkText(t.Who); err != nil {
		return Typed{}, refuse(ErrPayload, "who: %s", err)
	}
	return t, nil
}
