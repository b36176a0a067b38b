package show

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/term"
)

// Print prints things of one noun.
func Print[T any](a *term.UI, v *View, n Noun[T], items []T) error {
	return (&Table[T]{UI: a, Noun: n, View: v}).Print(a.Out, items)
}

// Items prints what fetch returns, and with --watch goes on to print what
// changes until the user ends it.
func Items[T any](ctx context.Context, a *term.UI, v *View, n Noun[T], fetch func(context.Context) ([]T, error)) error {
	t := &Table[T]{UI: a, Noun: n, View: v}
	items, err := fetch(ctx)
	if err != nil {
		return err
	}
	if !v.Watch {
		t.tellNone(items)
		return t.Print(a.Out, items)
	}
	w := &watcher[T]{table: t}
	for err = w.update(items); err == nil; err = w.update(items) {
		if items, err = w.next(ctx, fetch); err != nil {
			break
		}
	}
	return err
}

// tellNone says that there is nothing, if the noun has words for that.
func (t *Table[T]) tellNone(items []T) {
	if len(items) == 0 && t.Noun.None != "" {
		t.UI.Say("%s", t.Noun.None)
	}
}

// Item is Items for a single thing.
func Item[T any](ctx context.Context, a *term.UI, v *View, n Noun[T], fetch func(context.Context) (T, error)) error {
	return Items(ctx, a, v, n, func(ctx context.Context) ([]T, error) {
		it, err := fetch(ctx)
		return []T{it}, err
	})
}

// watcher prints changes: on a terminal the whole again, elsewhere the lines
// that are new or different, so that a pipe sees each state once.
type watcher[T any] struct {
	table *Table[T]
	shown map[string]string // what was printed last, by name; nil before the first time
	away  bool              // the other end does not answer
}

func (w *watcher[T]) update(items []T) error {
	var changed []T
	now := make(map[string]string, len(items))
	for _, it := range items {
		b, err := Encode(it, false)
		if err != nil {
			return err
		}
		name := w.table.Noun.Name(it)
		if now[name] = string(b); now[name] != w.shown[name] {
			changed = append(changed, it)
		}
	}
	gone, news := len(now) < len(w.shown), w.shown == nil || len(w.shown) > 0
	w.shown = now
	a, word := w.table.UI, w.table.View.Format.Word
	painted := a.OutTTY && !a.Dumb() && (word == "table" || word == "wide")
	if painted {
		// Relative times grow old, so a terminal is painted every time.
		fmt.Fprint(a.Out, "\x1b[H\x1b[2J")
		w.table.headed, w.table.Widths = false, nil
	}
	if news || painted && a.ErrTTY {
		w.table.tellNone(items)
	}
	if painted {
		return w.table.Print(a.Out, items)
	}
	if len(changed) == 0 && !gone && w.table.headed {
		return nil
	}
	return w.table.Print(a.Out, changed)
}

// next waits and asks again, for as long as it takes while no answer comes.
func (w *watcher[T]) next(ctx context.Context, fetch func(context.Context) ([]T, error)) ([]T, error) {
	for {
		if err := term.Pause(ctx, w.table.UI.Every); err != nil {
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
			w.table.UI.Say("hostler: no answer, trying again")
		}
	}
}
