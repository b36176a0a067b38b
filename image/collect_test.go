package image_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/image"
)

// TestCollect: images go by themselves, and what was made on a host stays.
func TestCollect(t *testing.T) {
	s := made(t, plainFile)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ticks := make(chan time.Time)
		looked, ended := 0, make(chan struct{})
		go func() {
			defer close(ended)
			s.Collect(ctx, image.Limits{Age: time.Nanosecond, Bytes: 1}, ticks, func(gone []image.Record, _ int64, err error) {
				if looked++; len(gone) > 0 || err != nil {
					t.Errorf("it removes %+v, %v", gone, err)
				}
			})
		}()
		ticks <- time.Now()
		ticks <- time.Now()
		cancel()
		<-ended
		if looked != 1 && looked != 2 {
			t.Errorf("it has looked %d times", looked)
		}
	})
	if all, err := s.List(); err != nil || len(all) != 1 {
		t.Errorf("it has %+v, %v", all, err)
	}
}
