// Package setting reads what is written of the settings of containers: how they are
// made, and what may be changed of them later. It is pure.
package setting

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/hostler-io/hostler/protocol/limit"
)

// Bounds of settings, in bytes and in numbers.
const (
	maxText    = 32 << 10 // of all variables, or of a command
	maxLabel   = 256      // of a label, with its name
	MaxChanges = 64       // that are made at once
)

// The keys that can be changed begin with one of these.
const (
	labelKey = "label."
	limitKey = "limit."
)

// fixed are settings that are decided when a container is made.
var fixed = []string{"class", "command", "env", "hostname", "image", "name", "privileged", "runtime"}

// CheckNew accepts the limits, the variables and the command of a new container.
func CheckNew(limits, env, command []string) error {
	if _, err := limit.Parse(limits); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	if err := CheckEnv(env); err != nil {
		return fmt.Errorf("env: %w", err)
	}
	if err := CheckCommand(command); err != nil {
		return fmt.Errorf("command: %w", err)
	}
	return nil
}

// CheckEnv accepts variables of the form NAME=VALUE, each in one line and once.
func CheckEnv(env []string) error {
	seen, size := make(map[string]bool, len(env)), 0
	for _, e := range env {
		name, _, ok := strings.Cut(e, "=")
		switch {
		case !ok || name == "" || strings.ContainsFunc(name, unicode.IsSpace):
			return fmt.Errorf("%.60q is not of the form NAME=VALUE", e)
		case strings.ContainsAny(e, "\n\x00"):
			return fmt.Errorf("%.60q has more than one line, or a byte that is zero", e)
		case seen[name]:
			return fmt.Errorf("%.60q is given twice; give it once", name)
		}
		seen[name] = true
		size += len(e)
	}
	if size > maxText {
		return fmt.Errorf("the variables have %d bytes, want at most %d", size, maxText)
	}
	return nil
}

// CheckCommand accepts a program and its arguments, or nothing.
func CheckCommand(argv []string) error {
	size := 0
	for _, a := range argv {
		if strings.IndexByte(a, 0) >= 0 {
			return fmt.Errorf("the argument %.60q has a byte that is zero", a)
		}
		size += len(a) + 1
	}
	switch {
	case len(argv) > 0 && argv[0] == "":
		return fmt.Errorf("the program is missing")
	case size > maxText:
		return fmt.Errorf("the command has %d bytes, want at most %d", size, maxText)
	}
	return nil
}

// Changes are changes of settings that are made together, or not at all.
type Changes struct {
	// Limits has [limit.None] for those that are taken away.
	Limits limit.Limits
	labels map[string]string
	gone   []string // names of labels
}

// Parse reads changes, each KEY=VALUE, or a KEY alone to take its setting away. A key is
// label.NAME or limit.RESOURCE.
func Parse(all []string) (c Changes, err error) {
	if n := len(all); n == 0 || n > MaxChanges {
		return c, fmt.Errorf("%d settings, want 1 to %d", n, MaxChanges)
	}
	seen := make(map[string]bool)
	var limits []string
	c.labels = make(map[string]string)
	for _, text := range all {
		key, value, set := strings.Cut(text, "=")
		if seen[key] {
			return c, fmt.Errorf("setting %.60q is given twice; give it once", key)
		}
		seen[key] = true
		if err := checkKey(key); err != nil {
			return c, err
		}
		name, label := strings.CutPrefix(key, labelKey)
		switch {
		case !label && set:
			limits = append(limits, strings.TrimPrefix(text, limitKey))
		case !label:
			limits = append(limits, strings.TrimPrefix(key, limitKey)+"="+limit.None)
		case !set:
			c.gone = append(c.gone, name)
		default:
			if err := checkLabel(name, value); err != nil {
				return c, err
			}
			c.labels[name] = value
		}
	}
	c.Limits, err = limit.Parse(limits)
	return c, err
}

// checkKey accepts the keys that can be changed.
func checkKey(key string) error {
	first, _, _ := strings.Cut(key, ".")
	switch {
	case strings.HasPrefix(key, limitKey) && key != limitKey, strings.HasPrefix(key, labelKey) && key != labelKey:
		return nil
	case slices.Contains(fixed, first):
		return fmt.Errorf("setting %.60q is fixed when a container is made; make the container anew", key)
	}
	return fmt.Errorf("there is no setting %.60q; want label.NAME, or limit.RESOURCE such as limit.memory", key)
}

func checkLabel(name, value string) error {
	odd := func(r rune) bool { return r == ',' || unicode.IsControl(r) }
	if len(name)+len(value) > maxLabel || strings.ContainsFunc(name, unicode.IsSpace) || strings.ContainsFunc(name+value, odd) {
		return fmt.Errorf("label %.60q: want NAME=VALUE of at most %d bytes without commas, in one line", name+"="+value, maxLabel)
	}
	return nil
}

// Labelled returns labels, each NAME=VALUE, as they are after the changes, sorted.
func (c Changes) Labelled(labels []string) []string {
	all := make(map[string]string)
	for _, l := range labels {
		name, value, _ := strings.Cut(l, "=")
		all[name] = value
	}
	for _, name := range c.gone {
		delete(all, name)
	}
	maps.Copy(all, c.labels)
	var out []string
	for name, value := range all {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// maxTemplate is the length of a reference to an image with a digest.
const maxTemplate = 255

// CheckTemplate accepts what can be a template's name or a reference to an image. The
// runtime judges it more closely.
func CheckTemplate(s string) error {
	if len(s) > maxTemplate {
		return fmt.Errorf("it has %d characters, want at most %d", len(s), maxTemplate)
	}
	for i, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && strings.IndexByte("-_.:/@", c) >= 0:
		default:
			return fmt.Errorf("%q is neither a template nor an image: want letters, digits and, not at the beginning, any of -_.:/@", s)
		}
	}
	return nil
}
