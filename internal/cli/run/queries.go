package run

import (
	"io"
	"regexp"
	"strings"
)

// maxSequence is the longest control sequence that a playback passes on. Titles are
// shorter, and so are the pictures of most programs.
const maxSequence = 1 << 20

// unasked passes on what a program printed, without the control sequences that a
// terminal answers or that make it report keys, focus and the mouse. In a playback no
// program takes the answers: the user's shell would read them as typed. A sequence may
// come in several pieces. Its forms are those of ECMA-48 and of xterm's ctlseqs.
type unasked struct {
	w    io.Writer
	held strings.Builder // a sequence that has not ended
	in   sequence
}

// sequence is the part of a control sequence that the next character belongs to.
type sequence byte

const (
	plain   sequence = iota
	escape           // after ESC
	named            // after ESC and an intermediate character, as of ESC ( B
	control          // CSI: up to a final character from @ to ~
	text             // OSC, DCS, APC, PM and SOS: up to ST, or BEL
	textEnd          // after an ESC within them
)

const (
	enq = '\x05' // asks a terminal to identify itself
	bel = '\a'
	can = '\x18' // ends a sequence, which is void
	sub = '\x1a' // the same
	esc = '\x1b'
)

// The 8-bit forms of ESC and a character from @ to _.
const firstC1, lastC1, c1ToSeven = 0x80, 0x9f, 0x40

func (u *unasked) WriteString(s string) error {
	var out strings.Builder
	for _, r := range s {
		if r >= firstC1 && r <= lastC1 {
			u.next(&out, esc)
			r -= c1ToSeven
		}
		u.next(&out, r)
	}
	_, err := io.WriteString(u.w, out.String())
	return err
}

// next takes a character, and moves to out what is complete.
func (u *unasked) next(out *strings.Builder, r rune) {
	switch {
	case r == can || r == sub:
		u.held.Reset()
		u.in = plain
	case r == esc && u.in == text:
		u.hold(r)
		u.in = textEnd
	case r == esc: // what came before it is void
		u.held.Reset()
		u.hold(r)
		u.in = escape
	case u.in == text:
		u.hold(r)
		if r == bel {
			u.end(out)
		}
	case u.in == textEnd && r == '\\':
		u.hold(r)
		u.end(out)
	case u.in == textEnd: // the string is void, and its ESC begins another sequence
		u.held.Reset()
		u.hold(esc)
		u.in = escape
		u.next(out, r)
	case r == enq:
	case u.in == plain || r < ' ': // which a terminal obeys within a sequence
		out.WriteRune(r)
	default:
		u.hold(r)
		u.continued(out, r)
	}
}

// continued takes a printable character of a sequence that is no string.
func (u *unasked) continued(out *strings.Builder, r rune) {
	switch {
	case u.in == escape && r == '[':
		u.in = control
	case u.in == escape && strings.ContainsRune("]PX^_", r):
		u.in = text
	case u.in != control && r <= '/':
		u.in = named
	case u.in != control || r >= '@':
		u.end(out)
	}
}

func (u *unasked) hold(r rune) {
	if u.held.Len() <= maxSequence {
		u.held.WriteRune(r)
	}
}

// end passes the sequence on that is complete now.
func (u *unasked) end(out *strings.Builder) {
	if s := u.held.String(); len(s) <= maxSequence && !answered.MatchString(s) {
		out.WriteString(s)
	}
	u.held.Reset()
	u.in = plain
}

// answered finds the sequences that a terminal answers, or that switch on its reports.
var answered = regexp.MustCompile(`^\x1b(?s:` + strings.Join([]string{
	`Z`,                   // DECID
	`\[[>=]?[0-9;]*c`,     // DA
	`\[[?>]?[0-9;]*n`,     // DSR
	`\[[>0-9;]*t`,         // the window's state and size, and what moves it
	`\[[0-9;]*x`,          // DECREQTPARM
	`\[\??[0-9;]*\$p`,     // DECRQM
	`\[>[0-9;]*q`,         // XTVERSION
	`\[\?[0-9;]*[uS]`,     // the keyboard's protocol, and graphics
	`\[[0-9;]*\*y`,        // DECRQCRA
	`\[[0-9;]*[$&][uw]`,   // DECRQTSR, DECRQUPSS, DECRQPSR
	`\[[0-9;]*['"+][|vx]`, // DECRQLP, DECRQDE, DECRQPKFM
	`\[#R`,                // XTREPORTCOLORS
	`\[\?(?:[0-9]+;)*(?:9|100[0-7]|101[56]|2004|2031|2048)(?:;[0-9]+)*h`, // the mouse, focus, pasting, colours, size
	`\](?:.*;)?\?(?:;.*)?(?:\a|\x1b\\)`,                                  // colours and the clipboard, which OSC asks for by "?"
	`P[0-9;]*[$+].*`,                                                     // DECRQSS and XTGETTCAP
	`_.*`,                                                                // APC: kitty answers to pictures
}, "|") + `)$`)
