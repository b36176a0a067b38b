package a

import (
	"context"
	"time"
)

func poll(ctx context.Context) {
	time.Sleep(time.Second) // want
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
}
