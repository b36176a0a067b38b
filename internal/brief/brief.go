// Package brief is how an error repeats what was sent: with enough to find it by and no
// more, and with the word that was probably meant.
package brief

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Most is how many characters of what was sent an error repeats at the most.
const Most = 200

// Text returns the text of an error without what is too long in it: what stands in
// quotes, what has no space in it, and each of the inputs or the value of one of the
// form name=value, wherever the text repeats it. Everything else is words of ours.
func Text(text string, inputs ...string) string {
	text = Inputs(text, inputs...)
	if len(text) <= Most { // also in characters
		return text
	}
	var b strings.Builder
	for text != "" {
		n := token(text)
		b.WriteString(cut(text[:n]))
		text = text[n:]
	}
	return b.String()
}

// Inputs returns the text of an error without what is too long of the inputs alone, for
// a text with long lists of ours.
func Inputs(text string, inputs ...string) string {
	for _, input := range inputs {
		text = without(text, input)
		if _, value, ok := strings.Cut(input, "="); ok {
			text = without(text, value)
		}
	}
	return text
}

// without shortens an input in a text, as it is and as it is quoted.
func without(text, input string) string {
	if utf8.RuneCountInString(input) <= Most {
		return text
	}
	text = strings.ReplaceAll(text, input, cut(input))
	quoted := strconv.Quote(input)
	return strings.ReplaceAll(text, quoted, cut(quoted))
}

// token returns the length of what comes first in a text: something in quotes, a word,
// or space.
func token(text string) int {
	first, size := utf8.DecodeRuneInString(text)
	if first == '"' {
		for i := size; i < len(text); i++ {
			switch text[i] {
			case '\\':
				i++
			case '"':
				return i + 1
			}
		}
		return size // it ends nothing
	}
	space := unicode.IsSpace(first)
	for i, r := range text {
		if i > 0 && (unicode.IsSpace(r) != space || r == '"') {
			return i
		}
	}
	return len(text)
}

// cut returns the beginning of s if it is too long, and how long it is. What began with
// a quote ends with one.
func cut(s string) string {
	all := utf8.RuneCountInString(s)
	if all <= Most {
		return s
	}
	end := fmt.Sprintf("… (%d characters)", all)
	if s[0] == '"' {
		end = "…\"" + end[len("…"):]
	}
	keep := Most - utf8.RuneCountInString(end)
	for i := range s {
		if keep == 0 {
			return s[:i] + end
		}
		keep--
	}
	return s // it is longer
}
