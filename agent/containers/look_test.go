package containers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

// TestNextLook: a change after a time of rest is looked at in the same moment, of very many
// changes in a second a few are looked at, and the last one always is.
func TestNextLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		poke, began := make(chan struct{}, 1), make(chan time.Time, 1000)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			limit := rate.NewLimiter(rate.Every(lookEvery), lookBurst)
			for nextLook(ctx, poke, limit) {
				began <- time.Now()
			}
		}()
		change := func() time.Time {
			select {
			case poke <- struct{}{}:
			default:
			}
			return time.Now()
		}
		rest := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		for range 3 { // one shortly after the other
			at := change()
			rest(time.Millisecond)
			if got := <-began; !got.Equal(at) {
				t.Errorf("a change was looked at %s later", got.Sub(at))
			}
		}
		rest(time.Minute)
		var last time.Time
		for range 1000 {
			last = change()
			rest(time.Millisecond)
		}
		rest(time.Second)
		looks := len(began)
		var newest time.Time
		for range looks {
			newest = <-began
		}
		if most := lookBurst + int(time.Second/lookEvery) + 1; looks > most {
			t.Errorf("%d looks at 1000 changes in a second, want at most %d", looks, most)
		}
		if newest.Before(last) {
			t.Error("the last change was not looked at")
		}
		cancel()
		<-ended
	})
}
