package terminal_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/terminal"
)

func TestTyped(t *testing.T) {
	for _, want := range []terminal.Typed{
		{Who: "pia", Packet: []byte{0}},
		{Who: strings.Repeat("ä", 127), Packet: []byte("\x00\xff")},
	} {
		got, err := terminal.ParseTyped(terminal.AppendTyped(nil, want))
		if err != nil || got.Who != want.Who || !bytes.Equal(got.Packet, want.Packet) {
			t.Errorf("%q became %q, %v", want, got, err)
		}
	}
	for _, b := range []string{"", "\x00", "\x00x", "\x03pia", "\x04pia", "\x01\xffx", "\x01\x00x"} {
		if _, err := terminal.ParseTyped([]byte(b)); !errors.Is(err, terminal.ErrFormat) {
			t.Errorf("%q: %v", b, err)
		}
	}
}

func FuzzParseTyped(f *testing.F) {
	f.Add(terminal.AppendTyped(nil, terminal.Typed{Who: "pia", Packet: []byte("x")}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		typed, err := terminal.ParseTyped(raw)
		if err != nil {
			return
		}
		if again := terminal.AppendTyped(nil, typed); !bytes.Equal(raw, again) {
			t.Fatalf("%q became %q", raw, again)
		}
	})
}
