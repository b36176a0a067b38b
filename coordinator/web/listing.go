package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
)

// Listing chooses a part of a list. It is alike for all of them: each answers with the
// cursor of what comes next, as long as there may be more.
type Listing struct {
	Cursor string    `query:"cursor" maxLength:"128" doc:"Only what comes behind the page that was answered with this Hostler-Next-Cursor"`
	Label  string    `query:"label" maxLength:"1024" example:"site=lab,tier!=db" doc:"Only what has these labels; an action has those of its host"`
	State  []string  `query:"state" maxItems:"8" doc:"Only what is in one of these states, separated by commas"`
	Since  time.Time `query:"since" doc:"Only what is not older: by its making, of a host by when it was last heard of"`
	Until  time.Time `query:"until" doc:"Only what is older"`
	Fields []string  `query:"fields" maxItems:"64" example:"id,state" doc:"Only these members of each element, separated by commas, also where the schema requires others; left out: all"`
}

// listed is a page of a list.
type listed[A any] struct {
	Next string `header:"Hostler-Next-Cursor" doc:"Where the next page begins; left out: there is nothing more"`
	Body []A
}

// source is a list that can be read from a place on.
type source[R, A any] struct {
	// read returns up to n records behind a cursor, in order; fewer are the last.
	read func(ctx context.Context, cursor string, n int) ([]R, error)
	// cursor is the place behind a record.
	cursor func(R) string
	// show renders a record.
	show func(R) A
	// labels and states of a record, and the words that a state may have; nil if it
	// has none.
	labels func(R) []string
	states func(R) []string
	words  []string
	// at is when a record was made, Unix milliseconds.
	at func(R) int64
}

// filter returns what a record must pass.
func (s *source[R, A]) filter(l *Listing) (func(R) bool, error) {
	var selector api.Selector
	if l.Label != "" {
		if s.labels == nil {
			return nil, fmt.Errorf("%w: label: what is listed here has no labels", core.ErrInvalid)
		}
		if err := selector.Set(l.Label); err != nil {
			return nil, fmt.Errorf("%w: label: %w", core.ErrInvalid, err)
		}
	}
	for _, word := range l.State {
		if !slices.Contains(s.words, word) {
			return nil, fmt.Errorf("%w: %.40q is no state of what is listed here: want %s", core.ErrInvalid, word, strings.Join(s.words, ", "))
		}
	}
	known := memberNames(reflect.TypeFor[A]())
	for _, name := range l.Fields {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%w: fields: %.40q is no member of what is listed here: want %s", core.ErrInvalid, name, strings.Join(known, ", "))
		}
	}
	return func(r R) bool {
		return (l.Label == "" || selector.Match(s.labels(r))) &&
			(l.State == nil || slices.ContainsFunc(s.states(r), func(w string) bool { return slices.Contains(l.State, w) })) &&
			(l.Since.IsZero() || s.at(r) >= l.Since.UnixMilli()) && (l.Until.IsZero() || s.at(r) < l.Until.UnixMilli())
	}, nil
}

// memberNames are the names that JSON has for the members of a type.
func memberNames(t reflect.Type) (all []string) {
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			all = append(all, name)
		}
	}
	return all
}

// onlyFields leaves of each element of a list the members that were asked for. What is no
// list has no such parameter.
func onlyFields(ctx huma.Context, _ string, v any) (any, error) {
	fields := ctx.Query("fields")
	if list := reflect.ValueOf(v); fields == "" || list.Kind() != reflect.Slice {
		return v, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	all := []map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, err
	}
	for _, element := range all {
		maps.DeleteFunc(element, func(name string, _ json.RawMessage) bool { return !slices.Contains(strings.Split(fields, ","), name) })
	}
	return all, nil
}

// pageStep is how many records are read at a time.
const pageStep = 1000

// page returns up to limit records that pass the filter.
func (s *source[R, A]) page(ctx context.Context, l *Listing, limit int) (*listed[A], error) {
	passes, err := s.filter(l)
	if err != nil {
		return nil, err
	}
	out := &listed[A]{Body: []A{}}
	for from, step := l.Cursor, limit+1; ; step = pageStep {
		records, err := s.read(ctx, from, step)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if passes(r) {
				if len(out.Body) == limit {
					return out, nil
				}
				out.Body, out.Next = append(out.Body, s.show(r)), s.cursor(r)
			}
			from = s.cursor(r)
		}
		if len(records) < step {
			out.Next = ""
			return out, nil
		}
	}
}

// small reads from a list that is held in memory as a whole. Its order is that of the
// making of its records, which do not move when others go.
func (s source[R, A]) small(id func(R) string, all func(context.Context) ([]R, error)) *source[R, A] {
	s.cursor = func(r R) string { return fmt.Sprintf("%015d.%s", s.at(r), id(r)) }
	s.read = func(ctx context.Context, cursor string, n int) ([]R, error) {
		records, err := all(ctx)
		records = slices.DeleteFunc(slices.Clone(records), func(r R) bool { return s.cursor(r) <= cursor })
		slices.SortFunc(records, func(a, b R) int { return cmp.Compare(s.cursor(a), s.cursor(b)) })
		return records[:min(n, len(records))], err
	}
	return &s
}

// Limit1000 is the length of a page of what is small.
type Limit1000 struct {
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"1000" doc:"The most that one page holds"`
}

// standing are the states of what ends by time or by a person.
func standing(revokedMS, expiresMS, nowMS int64) []string {
	switch {
	case revokedMS > 0:
		return []string{"revoked"}
	case expiresMS > 0 && expiresMS <= nowMS:
		return []string{"expired"}
	}
	return []string{"active"}
}

func standings() []string { return []string{"active", "expired", "revoked"} }
