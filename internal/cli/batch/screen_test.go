package batch

import (
	"bytes"
	"testing"
)

func TestLines(t *testing.T) {
	var out bytes.Buffer
	l := &lines{prefix: "h: ", w: &out}
	for _, b := range []byte("one\n\ntwo") {
		if n, err := l.Write([]byte{b}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := out.String(); got != "h: one\nh: \n" {
		t.Errorf("before the end: %q", got)
	}
	l.flush()
	if got := out.String(); got != "h: one\nh: \nh: two\n" {
		t.Errorf("%q", got)
	}
	out.Reset()
	if _, err := l.Write(bytes.Repeat([]byte("x"), 3*maxLine)); err != nil || len(l.held) > maxLine {
		t.Errorf("%d bytes of a line without end are held: %v", len(l.held), err)
	}
}
