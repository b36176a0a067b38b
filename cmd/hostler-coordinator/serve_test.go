package main

import (
	"log/slog"
	"testing"
	"testing/synctest"
)

func TestRestartsAreAskedForWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEmbedded("", nil, nil, slog.New(slog.DiscardHandler))
		for range 3 {
			e.askRestart() // nobody restarts: the broker is on its way out
		}
		if n := len(e.restart); n != 1 {
			t.Errorf("%d restarts wait, want one for all who asked", n)
		}
	})
}
