// Package cmdline says what is wrong with a command line, in the same plain words for all
// programs.
package cmdline

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hostler-io/hostler/internal/brief"
)

// NoCommand says that a command has none of this name below it. near is the path of the
// command that was probably meant, if there is one: one that is looked for under this name,
// one of nearly this name, or one that the whole program has under it.
func NoCommand(cmd *cobra.Command, name string) (text, near string) {
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
		if slices.Contains(c.SuggestFor, name) {
			near = c.Name()
		}
	}
	if near = cmp.Or(near, brief.Nearest(name, known)); near != "" {
		near = cmd.CommandPath() + " " + near
	} else if i := slices.IndexFunc(cmd.Root().Commands(), func(c *cobra.Command) bool { return c.IsAvailableCommand() && c.Name() == name }); i >= 0 {
		near = cmd.Root().Commands()[i].CommandPath()
	}
	return fmt.Sprintf("%s has no command %q", cmd.CommandPath(), name), near
}

// Count says what is wrong with the number of arguments; it is empty if there are at least
// least and at most most. A negative most is no bound.
func Count(cmd *cobra.Command, args []string, least, most int) string {
	if len(args) >= least && (most < 0 || len(args) <= most) {
		return ""
	}
	n, bound := most, "at most "
	switch {
	case least == most:
		bound = ""
	case len(args) < least:
		n, bound = least, "at least "
	}
	wants := fmt.Sprintf("%s%d arguments", bound, n)
	switch n {
	case 0:
		wants = "no arguments"
	case 1:
		wants = bound + "1 argument"
	}
	got := "none"
	if len(args) > 0 {
		got = fmt.Sprintf("%d: %.60q", len(args), args)
	}
	return fmt.Sprintf("%s takes %s, got %s; usage: %s", cmd.CommandPath(), wants, got, cmd.UseLine())
}

// Flag says what is wrong with an option.
func Flag(cmd *cobra.Command, err error) string {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		text := bad.Unwrap().Error()
		if num, ok := errors.AsType[*strconv.NumError](bad); ok {
			text = fmt.Sprintf("%q is %s", bad.GetValue(), isNot(bad.GetFlag().Value.Type(), num))
		} else if strings.HasPrefix(text, "time: ") {
			text = fmt.Sprintf("%q is not a duration: want a number with a unit, as in 90s, 5m or 8h", bad.GetValue())
		}
		return "--" + bad.GetFlag().Name + ": " + text
	}
	if bad, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return "--" + bad.GetFlag().Name + " needs a value"
	}
	text := err.Error()
	if bad, ok := errors.AsType[*pflag.NotExistError](err); ok && strings.HasPrefix(text, "unknown flag") {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if near := brief.Nearest(bad.GetSpecifiedName(), known); near != "" {
			text += ", did you mean --" + near + "?"
		}
	}
	return text
}

// isNot says what the value of an option of some type is not.
func isNot(kind string, err *strconv.NumError) string {
	switch {
	case kind == "bool":
		return "not true or false"
	case errors.Is(err, strconv.ErrRange):
		return "out of range"
	case strings.HasPrefix(kind, "uint"):
		return "not a whole number of 0 or more"
	}
	return "not a whole number"
}
