package term

import (
	"testing"
	"time"
)

func TestDurationFlag(t *testing.T) {
	f := DurationFlag{noneOK: true}
	if err := f.Set("none"); err != nil || !f.None {
		t.Errorf("none: %v", err)
	}
	if err := f.Set("5m"); err != nil || f.None || f.Value != 5*time.Minute || f.String() != "5m" {
		t.Errorf("5m after none: %v, %+v", err, f)
	}
	for _, text := range []string{"0s", "0d"} {
		if err := new(DurationFlag).Set(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestAgoAndSize(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "now", 500 * time.Millisecond: "now", 5 * time.Second: "5s ago", 119 * time.Second: "119s ago", 5 * time.Minute: "5m ago",
		3 * time.Hour: "3h ago", 49 * time.Hour: "2d ago", -10 * time.Minute: "in 10m",
	} {
		if got := Ago(now.Add(-d), now); got != want {
			t.Errorf("%v before: %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0B", 1023: "1023B", 1024: "1.0KiB", 1536: "1.5KiB", 3 << 30: "3.0GiB", 1 << 62: "4096.0PiB"} {
		if got := Size(n); got != want {
			t.Errorf("%d bytes: %q, want %q", n, got, want)
		}
	}
}

// TestPrintable proves that a host cannot steer the terminal of an operator.
func TestPrintable(t *testing.T) {
	if got := Printable("a\x1b[31m\nb\x9bc\u202ed\té"); got != "a\uFFFD[31m b\uFFFDc\uFFFDd é" {
		t.Errorf("%q", got)
	}
}

func TestShortDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Second: "1s", 50 * time.Second: "50s", 90 * time.Second: "1m30s", time.Minute: "1m", 90 * time.Minute: "1h30m", 100 * time.Hour: "100h", time.Hour + time.Second: "1h0m1s",
	} {
		if got := shortDuration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
