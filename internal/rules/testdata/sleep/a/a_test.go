package a

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestIt(t *testing.T) {
	time.Sleep(time.Second)   // want
	<-time.After(time.Second) // want
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Second)
		go func() { time.Sleep(time.Second) }()
		<-time.After(time.Second)
		pass()
	})
}

func TestOverAWrapper(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		<-time.After(time.Second)
		use(slow{})
	})
}

func inBubble(t *testing.T, test func(t *testing.T)) { synctest.Test(t, test) }

// pass is called in bubbles alone.
func pass() { time.Sleep(time.Second) }

// slow is used in bubbles alone.
type slow struct{}

func (slow) wait() { time.Sleep(time.Second) }

func use(w interface{ wait() }) { w.wait() }

func TestForReal(t *testing.T) {
	both()
	done := make(chan int)
	select {
	case <-done:
	case <-time.After(time.Second):
		t.Fatal("it does not end")
	}
	select {
	case <-done:
	case <-time.After(time.Second): // want
	}
	select {
	case <-time.After(time.Second): // want
		t.Fatal("it has nothing else to wait for")
	}
	timer, tick := time.NewTimer(time.Second), time.NewTicker(time.Second)
	<-timer.C // want
	<-tick.C  // want
	for range 3 {
		<-tick.C
	}
	elapse()
}

func TestBoth(t *testing.T) { inBubble(t, func(*testing.T) { both() }) }

// both is called outside of bubbles, too.
func both() { time.Sleep(time.Second) } // want

// elapse is in the table.
func elapse() { time.Sleep(time.Second) }

func bounded(ctx context.Context, done chan int) error {
	select {
	case <-done:
		return nil
	case <-time.After(time.Second):
		return ctx.Err()
	}
}
