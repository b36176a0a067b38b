//go:build hostlertest

package clock

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestMoved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clock")
	t.Setenv(Variable, file)
	move := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	near := func(got, want time.Duration) {
		t.Helper()
		if d := (got - want).Abs(); d > time.Minute {
			t.Errorf("moved by %s, want %s", got, want)
		}
	}
	near(time.Until(Now()), 0)
	near(Boot()-kernelBoot(), 0)
	alarm, stop, err := After(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	move("-480000h 30m\n")
	near(time.Until(Now()), -480000*time.Hour)
	near(Boot()-kernelBoot(), 30*time.Minute)
	soon, stopSoon, err := After(5 * look)
	if err != nil {
		t.Fatal(err)
	}
	defer stopSoon()
	select {
	case <-alarm:
		t.Error("half an hour is no hour")
	case <-soon:
	}
	move("1h 61m")
	<-alarm
	if got := Environ(); len(got) != 1 || got[0] != Variable+"="+file {
		t.Errorf("handed on: %q", got)
	}
}
