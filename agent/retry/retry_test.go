package retry

import (
	"testing"
	"time"
)

func TestFailedStarts(t *testing.T) {
	var a Attempts
	var broken bool
	for i, want := range []struct {
		low, high time.Duration
		broken    bool
	}{
		{time.Second, 2 * time.Second, false},
		{2 * time.Second, 4 * time.Second, false},
		{4 * time.Second, 8 * time.Second, false},
		{8 * time.Second, 16 * time.Second, false},
		{16 * time.Second, 32 * time.Second, true},
	} {
		now := time.Duration(i) * time.Hour
		lowest, _ := a.Failed(now, 0)
		highest, _ := a.Failed(now, 1)
		if lowest.NotBefore-now != want.low || highest.NotBefore-now != want.high {
			t.Errorf("failure %d: %v to %v, want %v to %v", i+1, lowest.NotBefore-now, highest.NotBefore-now, want.low, want.high)
		}
		if a, broken = a.Failed(now, 0.5); broken != want.broken {
			t.Errorf("failure %d: broken %v", i+1, broken)
		}
	}
	if a = a.Up(time.Minute); a.Failures != 0 {
		t.Error("a start that succeeded forgives the failures before it")
	}
}

func TestCrashes(t *testing.T) {
	var a Attempts
	now := time.Hour
	if b := a.Down(now, 0); b != a {
		t.Error("what never ran has not crashed")
	}
	for n, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 9: 256 * time.Second, 10: 5 * time.Minute, 40: 5 * time.Minute} {
		a := Attempts{crashes: n - 1, upSince: now - time.Second}
		if got := a.Down(now, 1).NotBefore - now; got != want {
			t.Errorf("crash %d: %v, want %v", n, got, want)
		}
	}
	a = Attempts{crashes: 7}.Up(now)
	if a = a.Up(now + healthy - 1); a.crashes != 7 {
		t.Error("forgiven too early")
	}
	if b := a.Up(now + healthy); b.crashes != 0 {
		t.Error("ten minutes of health were not counted")
	}
	if b := a.Down(now+healthy, 1); b.crashes != 1 {
		t.Errorf("the first crash after health is the first: %d", b.crashes)
	}
	if b := a.Down(now+time.Second, 1).Down(now+2*time.Second, 1); b.crashes != 8 {
		t.Errorf("one end was counted %d times", b.crashes-7)
	}
}
