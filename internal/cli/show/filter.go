package show

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/term"
)

// Filters choose things by their members: all of them have to hold.
type Filters []filter

// filter compares a member of the JSON of a thing with a text.
type filter struct {
	member, text string
	not          bool
}

// FilterFlag adds the option of a list that chooses by any member.
func FilterFlag(cmd *cobra.Command) *Filters {
	f := &Filters{}
	cmd.Flags().Var(f, "filter", "only those whose member, as -o json names it, is this: MEMBER=VALUE or MEMBER!=VALUE; of a list, one of it; repeatable")
	return f
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

// Choose returns the things that all filters choose.
func Choose[T any](f *Filters, items []T) ([]T, error) {
	known := members(reflect.TypeFor[T]())
	for _, x := range *f {
		if !slices.Contains(known, x.member) {
			slices.Sort(known)
			return nil, term.Usage("--filter takes: "+strings.Join(slices.Compact(known), ", "), "there is no member %q", x.member)
		}
	}
	return slices.DeleteFunc(items, func(it T) bool {
		return slices.ContainsFunc(*f, func(x filter) bool { return matches(member[T](x.member)(it), x.text) == x.not })
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
