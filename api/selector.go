package api

import (
	"fmt"
	"slices"
	"strings"
)

// Selector selects by labels: "site=lab,tier!=db". All terms must hold.
type Selector struct{ Terms []LabelTerm }

// LabelTerm is a label that must be there, or with Not must not be.
type LabelTerm struct {
	Key, Value string
	Not        bool
}

func (s *Selector) String() string {
	var all []string
	for _, t := range s.Terms {
		op := "="
		if t.Not {
			op = "!="
		}
		all = append(all, t.Key+op+t.Value)
	}
	return strings.Join(all, ",")
}

// Type names the form, for help.
func (s *Selector) Type() string { return "k=v,k!=v" }

// Set adds the terms of a text. A k==v is a k=v, as kubectl has it.
func (s *Selector) Set(text string) error {
	for _, part := range strings.Split(text, ",") {
		k, v, ok := strings.Cut(part, "=")
		k, not := strings.CutSuffix(k, "!")
		if !not {
			v = strings.TrimPrefix(v, "=")
		}
		if !ok || k == "" {
			return fmt.Errorf("%q is not a selector: use k=v or k!=v, joined by commas", part)
		}
		s.Terms = append(s.Terms, LabelTerm{k, v, not})
	}
	return nil
}

// Match reports whether labels, each "k=v", are selected.
func (s *Selector) Match(labels []string) bool {
	return !slices.ContainsFunc(s.Terms, func(t LabelTerm) bool {
		return slices.Contains(labels, t.Key+"="+t.Value) == t.Not
	})
}
