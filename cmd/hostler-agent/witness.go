package main

import (
	"context"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/internal/witness"
)

// watchEnd begins to watch the first process of a container.
func watchEnd(pid int) (func(context.Context, func()) (queue.End, error), error) {
	p, err := witness.Watch(pid)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, gone func()) (queue.End, error) {
		w, err := p.Wait(ctx, gone)
		end := queue.End{Known: w.Known, OOM: w.OOM}
		switch s := w.Status; {
		case !w.Known:
		case s.Signaled():
			end.Signal = int(s.Signal())
		default:
			end.Code = s.ExitStatus()
		}
		return end, err
	}, nil
}
