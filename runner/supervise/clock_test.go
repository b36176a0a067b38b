package supervise

import (
	"testing"
	"time"
)

func TestBootClock(t *testing.T) {
	var c BootClock
	before := c.Now()
	alarm, stop, err := c.After(20 * time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	<-alarm
	stop()
	if passed := c.Now() - before; passed < 20*time.Millisecond {
		t.Errorf("rang after %v", passed)
	}
	alarm, stop, err = c.After(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	select {
	case <-alarm:
		t.Error("rang although it was stopped")
	default:
	}
}
