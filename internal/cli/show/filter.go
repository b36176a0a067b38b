package show

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/internal/cli/term"
)

// Filters choose things by their members: all of them have to hold.
type Filters []filter

// filter compares a member of the JSON of a thing with a text.
type filter struct {
	member, text string
	not          bool
}

func (f *Filters) String() string {
	var all []string
	for _, x := range *f {
		op := "="
		if x.not {
			op = "!="
		}
		all = append(all, x.member+op+x.text)
	}
	return strings.Join(all, ",")
}

// Type implements [pflag.Value].
func (f *Filters) Type() string { return "MEMBER=VALUE" }

// Set implements [pflag.Value].
func (f *Filters) Set(s string) error {
	member, text, ok := strings.Cut(s, "=")
	member, not := strings.CutSuffix(member, "!")
	if !ok || member == "" {
		return fmt.Errorf("%q is not of the form MEMBER=VALUE", s)
	}
	*f = append(*f, filter{member, text, not})
	return nil
}

// choose returns the things that all filters choose.
func choose[T any](f Filters, items []T) ([]T, error) {
	if len(f) == 0 {
		return items, nil
	}
	known := members(reflect.TypeFor[T]())
	for _, x := range f {
		if !slices.Contains(known, x.member) {
			slices.Sort(known)
			return nil, term.Usage("--filter takes: "+strings.Join(slices.Compact(known), ", "), "there is no member %q", x.member)
		}
	}
	return slices.DeleteFunc(slices.Clone(items), func(it T) bool {
		return slices.ContainsFunc(f, func(x filter) bool { return matches(member[T](x.member)(it), x.text) == x.not })
	}), nil
}

// members are the names that JSON has for the members of a thing.
func members(t reflect.Type) (all []string) {
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" && tag != "-" {
			all = append(all, tag)
		}
	}
	return all
}

// matches reports whether a member is a text, or a list that has it.
func matches(v any, text string) bool {
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range r.Len() {
			if matches(r.Index(i).Interface(), text) {
				return true
			}
		}
		return false
	case reflect.Pointer:
		return !r.IsNil() && matches(r.Elem().Interface(), text) || r.IsNil() && text == ""
	}
	return fmt.Sprint(v) == text
}
