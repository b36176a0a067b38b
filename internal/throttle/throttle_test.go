package throttle_test

import (
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/throttle"
)

func TestLines(t *testing.T) {
	var l throttle.Lines
	for _, test := range []struct {
		now     time.Duration
		skipped int
		ok      bool
	}{
		{0, 0, true}, {1, 0, false}, {time.Second - 1, 0, false}, {time.Second, 2, true}, {5 * time.Second, 0, true},
	} {
		if skipped, ok := l.Pass(test.now); skipped != test.skipped || ok != test.ok {
			t.Errorf("at %s: %d, %t, want %d, %t", test.now, skipped, ok, test.skipped, test.ok)
		}
	}
}
