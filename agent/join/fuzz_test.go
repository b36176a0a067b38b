package join

import (
	"encoding/json"
	"testing"
)

// FuzzRecord reads bytes as the membership that is kept over restarts: rings
// that a record brings are believed only as a chain from its pin.
func FuzzRecord(f *testing.F) {
	for _, seed := range []string{`{"host":"edge-07","state":"approved","ring":1,"pin":"AAAA","rings":["e30="]}`, `{"pin":"` + "AAAAAAAAAAAAAAAAAAAAAAAAAAA=" + `","rings":[""]}`, `{}`, `null`, `{"host":"../x"}`, `{"revoked":["x"]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var r Record
		if json.Unmarshal(raw, &r) != nil {
			return
		}
		if chain, err := r.Chain(); err == nil && (len(r.Rings) == 0 || chain == nil) {
			t.Errorf("%q vouches for a chain without rings", raw)
		}
	})
}
