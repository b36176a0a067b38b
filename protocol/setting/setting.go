// Package setting reads what is written of the settings of containers: how they are
// made, and what may be changed of them later. It is pure.
package setting

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/limit"
	"github.com/hostler-io/hostler/protocol/mount"
	"github.com/hostler-io/hostler/protocol/port"
)

// Bounds of settings, in bytes and in numbers.
const (
	maxText    = 32 << 10 // of all variables, or of a command
	maxLabel   = 256      // of a label, with its name
	MaxChanges = 64       // that are made at once
)

// The keys that can be changed: this one, and those that begin with one of the others.
const (
	hostnameKey = "hostname"
	labelKey    = "label."
	limitKey    = "limit."
)

// fixed are settings that are decided when a container is made.
var fixed = []string{"class", "command", "env", "image", "mounts", "name", "network", "privileged", "runtime", "volumes"}

// New is what a new container is asked for with, in the words of the command line.
type New struct {
	Template string          `json:"template,omitzero"`
	Class    string          `json:"class,omitzero"`
	Offline  string          `json:"offline,omitzero"`
	Labels   []string        `json:"labels,omitempty"`
	Limits   []string        `json:"limits,omitempty"`
	Env      []string        `json:"env,omitempty"`
	Command  []string        `json:"command,omitempty"`
	Expose   []string        `json:"expose,omitempty"`
	Volumes  []string        `json:"volumes,omitempty"`
	Mounts   []string        `json:"mounts,omitempty"`
	Health   *contract.Check `json:"health,omitempty"` // nil is none
	contract.Schedules
}

// Check tells what is wrong with it, but for its labels.
func (n *New) Check() error {
	if err := CheckTemplate(n.Template); err != nil && n.Template != "" {
		return fmt.Errorf("template: %w", err)
	}
	if err := contract.CheckClass(n.Class, n.Offline); err != nil {
		return err
	}
	change := contract.Change{Class: n.Class, Offline: n.Offline, Health: n.Health, Schedules: n.Schedules}
	if err := change.Check(); err != nil {
		return err
	}
	if n.Health != nil && n.Health.Off {
		return errors.New("health: a new container has no check that could be off")
	}
	if _, err := limit.Parse(n.Limits); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	if err := CheckEnv(n.Env); err != nil {
		return fmt.Errorf("env: %w", err)
	}
	if err := CheckCommand(n.Command); err != nil {
		return fmt.Errorf("command: %w", err)
	}
	if _, err := port.ParseAll(n.Expose); err != nil {
		return fmt.Errorf("expose: %w", err)
	}
	if _, err := mount.Parse(n.Volumes, n.Mounts); err != nil {
		return err
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

var wellFormedHostname = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Changes are changes of settings that are made together, or not at all.
type Changes struct {
	// Limits has [limit.None] for those that are taken away.
	Limits limit.Limits
	// Hostname is the name that the container is to call itself, empty for its own; nil
	// leaves it as it is.
	Hostname *string
	labels   map[string]string
	gone     []string // names of labels
}

// Parse reads changes, each KEY=VALUE, or a KEY alone to take its setting away. A key is
// label.NAME, limit.RESOURCE or hostname.
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
		case key == hostnameKey:
			if set && !wellFormedHostname.MatchString(value) {
				return c, fmt.Errorf("hostname %.60q: want 1 to 63 of a-z, 0-9 and inner hyphens", value)
			}
			c.Hostname = &value
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
	case key == hostnameKey:
		return nil
	case strings.HasPrefix(key, limitKey) && key != limitKey, strings.HasPrefix(key, labelKey) && key != labelKey:
		return nil
	case key == "image":
		return errors.New("another image comes by hostler ct upgrade, which keeps the rest")
	case slices.Contains(fixed, first):
		return fmt.Errorf("setting %.60q is fixed when a container is made; make the container anew", key)
	}
	return fmt.Errorf("there is no setting %.60q; want label.NAME, hostname, or limit.RESOURCE such as limit.memory", key)
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
