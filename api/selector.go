package api

import (
	"fmt"
	"slices"
	"strings"
)

// Selector selects by labels: "site=lab,tier!=db". All terms must hold.
type Selector struct{ Terms []labelTerm }

type labelTerm struct {
	key, value string
	not        bool
}

func (s *Selector) String() string {
	var all []string
	for _, t := range s.Terms {
		op := "="
		if t.not {
			op = "!="
		}
		all = append(all, t.key+op+t.value)
	}
	return strings.Join(all, ",")
}

// Type names the form, for help.
func (s *Selector) Type() string { return "k=v,k!=v" }

// Set adds the terms of a text.
func (s *Selector) Set(text string) error {
	for _, part := range strings.Split(text, ",") {
		k, v, ok := strings.Cut(part, "=")
		k, not := strings.CutSuffix(k, "!")
		if !ok || k == "" {
			return fmt.Errorf("%q is not a selector: use k=v or k!=v, joined by commas", part)
		}
		s.Terms = append(s.Terms, labelTerm{k, v, not})
	}
	return nil
}

// Match reports whether labels, each "k=v", are selected.
func (s *Selector) Match(labels []string) bool {
	return !slices.ContainsFunc(s.Terms, func(t labelTerm) bool {
		return slices.Contains(labels, t.key+"="+t.value) == t.not
	})
}
