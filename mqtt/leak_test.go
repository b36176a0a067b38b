package mqtt_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/broker"
	"github.com/hostler-io/hostler/broker/brokertest"
)

// TestReconnectsLeaveNothing breaks a connection a thousand times: neither the
// client nor the broker keeps a goroutine of any but the last.
func TestReconnectsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up, down inbox
		s := brokertest.New(t, broker.Config{Ingest: up.ingest})
		c := newClient(t, config(s, "web1"))
		start(t, func(ctx context.Context) error { return c.Run(ctx, session(&down)) })
		time.Sleep(time.Minute) // as after each reconnect: what the broker does its work with is at rest
		synctest.Wait()
		before := goroutines(t)
		const times = 1000
		for range times {
			if n := s.Broker().Disconnect(brokertest.Host("web1")); n != 1 {
				t.Fatalf("%d connections were cut, want 1", n)
			}
			time.Sleep(time.Minute) // more than any pause before the next attempt
			synctest.Wait()
			up.take()
			down.take()
		}
		if after := goroutines(t); after != before {
			t.Errorf("%d goroutines after %d reconnects, %d before", after, times, before)
		}
	})
}

// goroutines counts those of the bubble. What tests before have left outside of it
// may be ending still.
func goroutines(t *testing.T) int {
	t.Helper()
	stacks := make([]byte, 1<<20)
	n := runtime.Stack(stacks, true)
	here := strings.Count(string(stacks[:n]), ", synctest bubble ")
	if here == 0 || n == len(stacks) {
		t.Fatalf("%d goroutines in %d bytes: they cannot be counted", here, n)
	}
	return here
}
