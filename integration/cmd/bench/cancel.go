package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// sleepers is a tree of twenty processes that would sleep for long.
const sleepers = "#!/bin/sh\n" + `for i in 1 2 3 4; do (for j in 1 2 3; do sleep 1000 & done; wait) & done; sleep 1000 & sleep 1000 & sleep 1000 & echo ready; wait`

// cancels is from the request of a cancel to its answer that nothing is left.
func (b *bench) cancels(ctx context.Context) error {
	script := b.fleet.path("sleepers")
	if err := os.WriteFile(script, []byte(sleepers), 0o700); err != nil {
		return err
	}
	return b.best(ctx, []row{{name: "cancel_p50_ms", unit: "ms", target: 20, floor: floors.roundtrip}}, func() ([]float64, error) {
		values := make([]float64, 40)
		for i := range values {
			took, err := b.cancelOnce(ctx, script)
			if err != nil {
				return nil, err
			}
			values[i] = float64(took) / float64(time.Millisecond)
		}
		return []float64{percentile(values, 50)}, nil
	})
}

func (b *bench) cancelOnce(ctx context.Context, script string) (time.Duration, error) {
	id, err := b.say(ctx, script)
	if err != nil {
		return 0, err
	}
	out, err := b.probe.follow(ctx, id, true)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		return 0, err
	}
	begun := time.Now()
	answer, err := b.probe.call(ctx, http.MethodPost, "/v1/actions/"+id+"/cancel?wait=30s", nil)
	took := time.Since(begun)
	if err != nil {
		return 0, err
	}
	var a struct{ State string }
	if err := json.Unmarshal(answer, &a); err != nil || a.State != string(protocol.StateCancelled) {
		return 0, fmt.Errorf("the cancelled action is %s: %w", a.State, err)
	}
	return took, nil
}
