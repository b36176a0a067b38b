package main

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTailIsWaitedForWhileItMoves: the end of a long output over a slow line
// comes in one answer that takes minutes.
func TestTailIsWaitedForWhileItMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		var moved atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			w := &counter{w: new(bytes.Buffer), moved: &moved}
			for range 30 {
				<-time.After(20 * time.Second)
				if _, err := w.Write([]byte("x")); err != nil || ctx.Err() != nil {
					t.Errorf("given up although it moves: %v, %v", err, context.Cause(ctx))
				}
			}
			<-ctx.Done() // and then nothing comes
		}()
		begun := time.Now()
		watchTail(done, &moved, stop)
		if took := time.Since(begun); context.Cause(ctx) != errTail || took < 10*time.Minute+tail/2 || took > 10*time.Minute+2*tail {
			t.Errorf("ended by %v after %v", context.Cause(ctx), took)
		}
	})
}
