package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/client"
)

// printAll prints things of one noun.
func printAll[T any](a *app, v *view, n noun[T], items []T) error {
	return (&table[T]{app: a, noun: n, view: v}).print(a.out, items)
}

// show prints what fetch returns, and with --watch goes on to print what
// changes until the user ends it.
func show[T any](ctx context.Context, a *app, v *view, n noun[T], fetch func(context.Context) ([]T, error)) error {
	t := &table[T]{app: a, noun: n, view: v}
	items, err := fetch(ctx)
	if err != nil {
		return err
	}
	if !v.watch {
		return t.print(a.out, items)
	}
	w := &watcher[T]{table: t, shown: map[string]string{}}
	for err = w.update(items); err == nil; err = w.update(items) {
		if items, err = w.next(ctx, fetch); err != nil {
			break
		}
	}
	return err
}

// showOne is show for a single thing.
func showOne[T any](ctx context.Context, a *app, v *view, n noun[T], fetch func(context.Context) (T, error)) error {
	return show(ctx, a, v, n, func(ctx context.Context) ([]T, error) {
		it, err := fetch(ctx)
		return []T{it}, err
	})
}

// watcher prints changes: on a terminal the whole again, elsewhere the lines
// that are new or different, so that a pipe sees each state once.
type watcher[T any] struct {
	table *table[T]
	shown map[string]string // what was printed last, by name
	away  bool              // the other end does not answer
}

func (w *watcher[T]) update(items []T) error {
	var changed []T
	now := make(map[string]string, len(items))
	for _, it := range items {
		b, err := encode(it, false)
		if err != nil {
			return err
		}
		name := w.table.noun.name(it)
		if now[name] = string(b); now[name] != w.shown[name] {
			changed = append(changed, it)
		}
	}
	gone := len(now) < len(w.shown)
	w.shown = now
	a := w.table.app
	if word := w.table.view.format.word; a.outTTY && !a.dumb() && (word == "table" || word == "wide") {
		// Relative times grow old, so a terminal is painted every time.
		fmt.Fprint(a.out, "\x1b[H\x1b[2J")
		w.table.headed, w.table.widths = false, nil
		return w.table.print(a.out, items)
	}
	if len(changed) == 0 && !gone && w.table.headed {
		return nil
	}
	return w.table.print(a.out, changed)
}

// next waits and asks again, for as long as it takes while nobody answers.
func (w *watcher[T]) next(ctx context.Context, fetch func(context.Context) ([]T, error)) ([]T, error) {
	for {
		if err := pause(ctx, w.table.app.every); err != nil {
			return nil, err
		}
		items, err := fetch(ctx)
		if err == nil {
			w.away = false
			return items, nil
		}
		if ctx.Err() != nil || !errors.Is(err, client.ErrUnreachable) {
			return nil, err
		}
		if !w.away {
			w.away = true
			w.table.app.say("hostler: no answer, trying again")
		}
	}
}

// pause waits, or returns errInterrupted.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return errInterrupted
	}
}
