package show

import (
	"strings"
	"unicode/utf8"
)

// long says what becomes of a column where the terminal is too narrow for the table.
type long int

const (
	whole   long = iota // an id, a name, a state, a number: it stays, and the line wraps
	cut                 // a text, which ends with … there
	below               // a text, which stands below its row, in lines that fit
	command             // as below, in one line, which can be copied
)

func longOf(word string) long {
	if strings.Contains(word, "$") {
		return command
	}
	return long(strings.Count(word, "~"))
}

// leastCut is the width below which no column is cut: less of a text says nothing.
const leastCut = 8

// fit makes the columns narrower where the terminal cannot show them, the widest first,
// and reports whether those that may stand below their rows have to. What goes to a file
// or a pipe, or was asked for as wide, stays as it is.
func (t *Table[T]) fit(columns []Column[T]) (folded bool) {
	room := 0
	if t.UI.OutTTY && t.View.Format.Word == "table" && t.UI.Width != nil {
		room = t.UI.Width()
	}
	if room <= 0 {
		return false
	}
	over := -len(gap) - room
	for i := range columns {
		over += t.Widths[i] + len(gap)
	}
	for i, c := range columns {
		if over > 0 && c.long >= below {
			folded = true
		}
		if folded && c.long >= below {
			over -= t.Widths[i] + len(gap)
		}
	}
	for ; over > 0; over-- {
		widest := -1
		for i, c := range columns {
			if c.long == cut && t.Widths[i] > max(leastCut, len(c.name)) && (widest < 0 || t.Widths[i] > t.Widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		t.Widths[widest]--
	}
	return folded
}

// fold writes the text of a column below its row.
func (c Column[T]) fold(text string, room int) string {
	if text == "" {
		return ""
	}
	head := "    " + c.name + ": "
	words := []string{text}
	if c.long == below {
		words = strings.Fields(text)
	}
	var b strings.Builder
	at := 0
	for i, word := range words {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
			b.WriteString(head)
			at = len(head)
		case at+1+n > room:
			b.WriteString("\n" + strings.Repeat(" ", len(head)))
			at = len(head)
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String() + "\n"
}
