package protocol_test

import (
	"errors"
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
