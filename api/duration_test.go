package api

import (
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "5m": 5 * time.Minute, "0": 0, "8h": 8 * time.Hour, "7d": 168 * time.Hour, "1h30m": 90 * time.Minute, "500ms": 500 * time.Millisecond} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "d", "-5m", "-1d", "1.5d", "5 m", "5min", "99999999999d", "4000000000d", "7D"} {
		if got, err := ParseDuration(text); err == nil || !strings.Contains(err.Error(), "90s, 5m, 8h or 7d") {
			t.Errorf("%q is %v, %v; want an error that shows the forms", text, got, err)
		}
	}
}
