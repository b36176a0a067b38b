package clock_test

import (
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/clock"
)

func TestAfter(t *testing.T) {
	began := clock.Boot()
	alarm, stop, err := clock.After(20 * time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	<-alarm
	if took := clock.Boot() - began; took < 20*time.Millisecond {
		t.Errorf("it rang after %s", took)
	}
}

func TestStopped(t *testing.T) {
	alarm, stop, err := clock.After(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	select {
	case <-alarm:
		t.Error("a wait that was stopped has rung")
	default:
	}
}
