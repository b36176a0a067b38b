package wire_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/lxc/internal/wire"
)

// FuzzWire reads bytes as what either side of the pipe says: what is taken has
// the version, and is taken as the same again.
func FuzzWire(f *testing.F) {
	for _, seed := range []string{
		`{"Version":11}`, `{"Version":1}`, `{"Version":11,"Code":"failed","Reason":"no"}`, `{"Version":11,"LXCPath":"/var/lib/lxc","Timeout":1000}`,
		`{"Version":11,"Infos":[{"Name":"web","State":"running"}]}`, `{"version":1,"VERSION":2}`, `null`, `[]`, `{"Version":11}{}`, strings.Repeat("[", 1000),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if r, err := wire.ReadRequest(bufio.NewReader(bytes.NewReader(raw))); err == nil {
			again, err := json.Marshal(r)
			if err != nil || r.Version != wire.Version {
				t.Fatalf("%q is taken as a request of version %d: %v", raw, r.Version, err)
			}
			r2, err := wire.ReadRequest(bufio.NewReader(bytes.NewReader(again)))
			if err != nil {
				t.Fatalf("%q is taken, and not as %q: %s", raw, again, err)
			}
			if twice, err := json.Marshal(r2); err != nil || !bytes.Equal(again, twice) {
				t.Errorf("%q is %q, then %q: %v", raw, again, twice, err)
			}
		}
		if a, err := wire.DecodeAnswer(raw); err == nil {
			again, err := json.Marshal(a)
			if err != nil || a.Version != wire.Version || (a.Code != "") && a.Reason == "" {
				t.Fatalf("%q is taken as an answer: %+v, %v", raw, a, err)
			}
			if _, err := wire.DecodeAnswer(again); err != nil {
				t.Errorf("%q is taken, and not as %q: %s", raw, again, err)
			}
		}
	})
}
