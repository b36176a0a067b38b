package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// The picture of a session is drawn from the transcript of the README that tests run.
const (
	transcriptPath = "../../README.md"
	picturePath    = "../../doc/session.svg"
	pictureMark    = "<!-- in the picture -->\n```console\n"
)

// Measures of the picture, in pixels of a font of 14, and in seconds.
const (
	lineHeight, charWidth, margin, bar = 20, 8.43, 16, 34
	untilTyped, untilPrinted           = 0.9, 0.25
)

// TestPicture holds doc/session.svg to the transcript. With -update it draws the picture.
func TestPicture(t *testing.T) {
	page, err := os.ReadFile(transcriptPath)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i, rest := range strings.Split(string(page), pictureMark) {
		if i > 0 {
			block, _, _ := strings.Cut(rest, "```")
			lines = append(lines, strings.Split(strings.TrimSuffix(block, "\n"), "\n")...)
		}
	}
	if len(lines) < 10 {
		t.Fatalf("the transcript has %d lines of the picture", len(lines))
	}
	picture := draw(lines)
	if err := xml.Unmarshal(picture, new(struct{})); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(picturePath, picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(picturePath); err != nil || !bytes.Equal(old, picture) {
		t.Errorf("%s does not show the transcript (%v): run go test ./cmd/hostler -run TestPicture -update", picturePath, err)
	}
}

// draw makes a terminal in which the lines of a transcript appear one after the other.
// Where pictures do not move, all of them are there.
func draw(lines []string) []byte {
	columns := 0
	for _, l := range lines {
		columns = max(columns, utf8.RuneCountInString(l))
	}
	width, height := float64(columns)*charWidth+2*margin, len(lines)*lineHeight+bar+margin
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img" aria-label="A session with hostler in a terminal">
<style>
text { font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d6dbe3; white-space: pre }
.typed { fill: #ffffff; font-weight: bold }
.prompt { fill: #7ec699 }
.head { fill: #8fa3bf }
g { animation: show 1ms both }
@keyframes show { from { opacity: 0 } to { opacity: 1 } }
@media (prefers-reduced-motion: reduce) { g { animation: none } }
</style>
<rect width="100%%" height="100%%" rx="8" fill="#1b2130"/>
<circle cx="20" cy="17" r="6" fill="#e06c75"/><circle cx="40" cy="17" r="6" fill="#e5c07b"/><circle cx="60" cy="17" r="6" fill="#98c379"/>
`, width, height, width, height)
	at := 0.0
	for i, l := range lines {
		y := bar + (i+1)*lineHeight - 6
		if command, typed := strings.CutPrefix(l, "$ "); typed {
			at += untilTyped
			fmt.Fprintf(&b, `<g style="animation-delay:%.2fs"><text x="%d" y="%d" xml:space="preserve"><tspan class="prompt">$</tspan> <tspan class="typed">%s</tspan></text></g>`+"\n", at, margin, y, escaped(command))
			at += untilTyped
			continue
		}
		class := ""
		if l == strings.ToUpper(l) && strings.Contains(l, "  ") {
			class = ` class="head"`
		}
		fmt.Fprintf(&b, `<g style="animation-delay:%.2fs"><text x="%d" y="%d" xml:space="preserve"%s>%s</text></g>`+"\n", at, margin, y, class, escaped(l))
		at += untilPrinted
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes all
	return b.String()
}
