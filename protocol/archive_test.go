package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

// TestDecodeArchive takes what fits into a report, and says no more than it holds.
func TestDecodeArchive(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	sum := func(name string, bytes int) string {
		return fmt.Sprintf(`{"name":%q,"bytes":%d,"sha256":"%s"}`, name, bytes, digest)
	}
	text := func(files int, sums ...string) string {
		return fmt.Sprintf(`{"sha256":"%s","files":%d,"bytes":5,"list":"%s","sums":[%s]}`, digest, files, digest, strings.Join(sums, ","))
	}
	many := strings.Split(strings.Repeat(sum("a", 1)+";", protocol.MaxSums), ";")[:protocol.MaxSums]
	for what, test := range map[string]struct {
		text string
		ok   bool
	}{
		"one":                      {text(1, sum("a", 5)), true},
		"as many as there may be":  {text(100, many...), true},
		"more than that":           {text(100, append(many, sum("b", 1))...), false},
		"more than there are":      {text(1, sum("a", 2), sum("b", 3)), false},
		"a long name":              {text(1, sum(strings.Repeat("a", protocol.MaxSumNames+1), 5)), false},
		"less than nothing":        {text(1, sum("a", -5)), false},
		"fewer than none":          {text(-1), false},
		"something else beside it": {`{"sha256":"` + digest + `","other":1}`, false},
	} {
		if _, err := protocol.DecodeArchive([]byte(test.text)); (err == nil) != test.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}
