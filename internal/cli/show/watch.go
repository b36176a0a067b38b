package show

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/term"
)

// Print prints things of one noun.
func Print[T any](a *term.UI, v *View, n Noun[T], items []T) error {
	return (&Table[T]{UI: a, Noun: n, View: v}).once(items)
}

// once prints things to the user, who is told if a path fits none of them: it may be
// misspelt.
func (t *Table[T]) once(items []T) error {
	err := t.Print(t.UI.Out, items)
	if err == nil && t.View.Format.Word == "jsonpath" && len(items) > 0 && t.selected == 0 {
		t.UI.Say("The path %s selects nothing; -o json shows what there is.", t.View.Format.path.expr)
	}
	return err
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
		return t.once(items)
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

// watcher prints changes: on a terminal the whole again, elsewhere the lines that are new or
// differ from what stands there, so that a pipe sees each state once.
type watcher[T any] struct {
	table *Table[T]
	shown map[string]string // what was printed last, by name; nil before the first time
	away  bool              // the other end does not answer
}

// ticking are the members that time alone changes: a change of them is no news.
var ticking = []string{"now", "lease_left_ms"}

func (w *watcher[T]) update(items []T) error {
	a, v := w.table.UI, w.table.View
	items, err := choose(v.filters, items)
	if err != nil {
		return err
	}
	if v.Limit > 0 && len(items) > v.Limit {
		items = items[:v.Limit]
	}
	var changed []T
	now := make(map[string]string, len(items))
	for _, it := range items {
		name := w.table.Noun.Name(it)
		if now[name], err = w.state(it); err != nil {
			return err
		}
		if now[name] != w.shown[name] {
			changed = append(changed, it)
		}
	}
	before := w.shown
	w.shown = now
	text := v.Format.Word == "table" || v.Format.Word == "wide"
	painted := text && a.OutTTY && !a.Dumb()
	if painted {
		// Relative times grow old, so a terminal is painted every time.
		fmt.Fprint(a.Out, "\x1b[H\x1b[2J")
		w.table.headed, w.table.Widths = false, nil
	}
	if before == nil || len(before) > 0 || painted && a.ErrTTY {
		w.table.tellNone(items)
	}
	if painted {
		return w.table.Print(a.Out, items)
	}
	w.tellGone(before, items)
	if len(changed) == 0 && w.table.headed {
		return nil
	}
	if text && v.One && len(before) > 0 && len(changed) > 0 {
		fmt.Fprintln(a.Out) // between two states of one thing
	}
	return w.table.Print(a.Out, changed)
}

// state is what of a thing can be seen in the form that is printed.
func (w *watcher[T]) state(it T) (string, error) {
	t, word := w.table, w.table.View.Format.Word
	if word != "json" && word != "yaml" && word != "name" {
		var b strings.Builder
		err := (&Table[T]{UI: t.UI, Noun: t.Noun, View: t.View, headed: true}).Print(&b, []T{it})
		return b.String(), err
	}
	b, err := Encode(it, false)
	if err != nil || !slices.ContainsFunc(ticking, func(m string) bool { return bytes.Contains(b, []byte(`"`+m+`":`)) }) {
		return string(b), err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return "", err
	}
	for _, m := range ticking {
		delete(members, m)
	}
	b, err = Encode(members, false)
	return string(b), err
}

// tellGone names what was in a list and is not any more. A list that is full may have
// dropped it for something newer.
func (w *watcher[T]) tellGone(before map[string]string, items []T) {
	v := w.table.View
	if v.One || v.Limit > 0 && len(items) >= v.Limit {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, there := w.shown[name]; !there {
			w.table.UI.Say("%s is no longer in the list", term.Printable(name))
		}
	}
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
