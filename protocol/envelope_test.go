package protocol_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

// TestSealTakesBodiesOnOneLine holds that nothing is signed that receivers
// would cut elsewhere than the sender meant.
func TestSealTakesBodiesOnOneLine(t *testing.T) {
	s := newFakeKey("coordinator")
	for _, body := range []string{"", "{", "[]", `"a"`, "{\n}", "{\"a\":1}\n", "{\r}", "{\"a\":\r\n1}", " {}", "{} "} {
		if b, err := protocol.Seal(s, []byte(body), nil); !errors.Is(err, protocol.ErrGrammar) {
			t.Errorf("%q is sealed as %q, %v; want ErrGrammar", body, b, err)
		}
	}
	for _, attachment := range []string{"", "\n", "a\n{}\n"} {
		b, err := protocol.Seal(s, []byte(`{"a":1}`), []byte(attachment))
		if err != nil {
			t.Fatal(err)
		}
		e, err := protocol.Split(b)
		if err != nil || string(e.Body) != `{"a":1}` || string(e.Attachment) != attachment {
			t.Errorf("with %q: %q, %q, %v", attachment, e.Body, e.Attachment, err)
		}
	}
}

// TestSealBehind: what lies behind the room is sealed like any attachment, be the
// envelope shorter than the room or longer.
func TestSealBehind(t *testing.T) {
	s := newFakeKey("coordinator")
	for _, attachment := range []string{"", "\n", "a\n{}\n"} {
		for _, size := range []int{1, protocol.SealRoom} {
			body := `{"a":"` + strings.Repeat("b", size) + `"}`
			buf := append(make([]byte, protocol.SealRoom), attachment...)
			b, err := protocol.SealBehind(s, []byte(body), buf)
			if err != nil {
				t.Fatal(err)
			}
			e, err := protocol.Split(b)
			if err != nil || string(e.Body) != body || string(e.Attachment) != attachment || (e.Attachment == nil) != (attachment == "") {
				t.Errorf("%d with %q: %q, %q, %v", size, attachment, e.Body, e.Attachment, err)
			}
		}
	}
	if b, err := protocol.SealBehind(s, []byte("{\n}"), make([]byte, protocol.SealRoom)); !errors.Is(err, protocol.ErrGrammar) {
		t.Errorf("sealed as %q, %v; want ErrGrammar", b, err)
	}
}
