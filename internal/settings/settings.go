// Package settings reads the configuration of a program that serves.
//
// What is in force comes in layers, each over the one before:
//
//	defaults → FILE.toml → FILE.d/*.toml in order of their names →
//	HOSTLER_<SECTION>_<KEY> of the environment
//
// A program keeps its configuration in a struct with the tags of
// [github.com/pelletier/go-toml/v2], filled with the defaults, and lists the
// settings in it by name. [Load] brings the layers into the struct and tells of
// each setting where it came from; what the values mean, and which of them go
// together, is checked by the program afterwards.
package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/hostler-io/hostler/internal/durable"
)

// maxFile bounds each file, in bytes.
const maxFile = 1 << 20

// A Setting is one setting by name, and where its value is kept.
type Setting struct {
	// Name is the key in a file, after the name of its section and a dot if it
	// is in one.
	Name string
	// Get returns the value as it is shown.
	Get func() string
	// Set takes the value from a text.
	Set func(string) error
}

// variable is the setting's name in the environment.
func (s Setting) variable() string {
	return "HOSTLER_" + strings.ToUpper(strings.ReplaceAll(s.Name, ".", "_"))
}

// Text is a setting whose value is taken as it stands.
func Text(name string, p *string) Setting {
	return Setting{name, func() string { return *p }, func(s string) error { *p = s; return nil }}
}

// Number is a whole number.
func Number(name string, p *int) Setting {
	return Setting{name, func() string { return strconv.Itoa(*p) }, func(s string) (err error) {
		*p, err = strconv.Atoi(s)
		return err
	}}
}

// Flag is true or false.
func Flag(name string, p *bool) Setting {
	return Setting{name, func() string { return strconv.FormatBool(*p) }, func(s string) (err error) {
		*p, err = strconv.ParseBool(s)
		return err
	}}
}

// List is a list of texts, as a text with commas between them.
func List(name string, p *[]string) Setting {
	return Setting{name, func() string { return strings.Join(*p, ",") }, func(s string) error { *p = strings.Split(s, ","); return nil }}
}

// Origin tells where settings came from, by their names: the path of a file, or
// $NAME of a variable. What it does not have is a default.
type Origin map[string]string

// Source is where configuration comes from.
type Source struct {
	// Path is the file that was named, which must be there. Empty: Default is
	// read, if it is there.
	Path    string
	Default string
	// Environ has the environment as NAME=VALUE, of which the last one counts.
	Environ []string
}

// Load brings what a source has into target, a pointer to a struct, whose
// settings are all. A key of a file that target does not have is an error.
func Load(from Source, target any, all []Setting) (Origin, error) {
	path, named := from.Path, from.Path != ""
	if !named {
		path = from.Default
	}
	more, err := filepath.Glob(strings.TrimSuffix(path, ".toml") + ".d/*.toml")
	if err != nil {
		return nil, fmt.Errorf("find configuration beside %s: %w", path, err)
	}
	slices.Sort(more)
	o := Origin{}
	for _, f := range append([]string{path}, more...) {
		if err := o.file(f, target, all); err != nil && (named || !errors.Is(err, fs.ErrNotExist)) {
			return nil, err
		}
	}
	return o, o.environment(from.Environ, all)
}

// file takes what one file says.
func (o Origin) file(path string, target any, all []Setting) error {
	b, err := durable.ReadFile(path, maxFile)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if err := decode(path, b, target, names(all)); err != nil {
		return err
	}
	var set map[string]any
	if err := toml.Unmarshal(b, &set); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return o.note("", set, path, names(all))
}

// decode reads TOML into target, which has a place for everything in it.
func decode(path string, b []byte, target any, known []string) error {
	err := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields().Decode(target)
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		bad := &strict.Errors[0]
		line, _ := bad.Position()
		return fmt.Errorf("%s: line %d: %w", path, line, unknown(bad.Key(), known))
	}
	if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := bad.Position()
		what := plain(strings.TrimPrefix(bad.Error(), "toml: "))
		if key := strings.Join(bad.Key(), "."); key != "" {
			what = key + ": " + what
		}
		return fmt.Errorf("%s: line %d: %s", path, line, what)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// mismatch is how the library tells of a value of the wrong kind: in the words of
// a programmer, who knows the struct that it does not fit into.
var mismatch = regexp.MustCompile(`^cannot (?:decode TOML|store) (.+?) (?:into struct field .+ of type|into a Go value of type|into|in a) (.+)$`)

// plain tells of a value of the wrong kind in the words of whoever wrote it.
func plain(what string) string {
	m := mismatch.FindStringSubmatch(what)
	if m == nil {
		return what
	}
	want := "a table ([NAME] above its settings)"
	switch t := m[2]; {
	case t == "string":
		want = `a text ("…")`
	case t == "bool":
		want = "true or false"
	case strings.HasPrefix(t, "int"), strings.HasPrefix(t, "uint"):
		want = "a whole number"
	case t == "[]string":
		want = `a list of texts (["…", "…"])`
	case strings.HasPrefix(t, "[]"), t == "slice":
		want = "a list of tables ([[NAME]] above each one's settings)"
	}
	is := m[1]
	switch {
	case is == "string":
		is = "a text"
	case strings.HasSuffix(is, "array"):
		is = "a list"
	case strings.HasSuffix(is, "array table"):
		is = "a list of tables"
	case strings.HasSuffix(is, "table"):
		is = "a table"
	case is == "integer":
		is = "a whole number"
	default:
		is = "a " + is // boolean, float, datetime and local ones
	}
	return "want " + want + ", not " + is
}

// unknown says that there is no such setting, and which there are beside it.
func unknown(key, known []string) error {
	beside := known
	if table := key[:max(0, len(key)-1)]; len(table) > 0 {
		prefix := strings.Join(table, ".") + "."
		beside = slices.DeleteFunc(slices.Clone(known), func(s string) bool { return !strings.HasPrefix(s, prefix) })
	}
	if len(beside) == 0 {
		beside = known
	}
	return fmt.Errorf("unknown setting: %s\nknown are: %s", strings.Join(key, "."), strings.Join(beside, ", "))
}

// Strict reads a text that is no configuration but written as one, such as a
// policy, into target, a pointer to a struct of tables, lists and values. Each
// name has one spelling; what target has no place for is an error. name is how
// errors call the text.
func Strict(name string, text []byte, target any) error {
	t := reflect.TypeOf(target).Elem()
	known := fields("", t)
	if err := decode(name, text, target, known); err != nil {
		return err
	}
	var set map[string]any
	if err := toml.Unmarshal(text, &set); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if wrong := misspelt("", set, t); wrong != "" {
		return fmt.Errorf("%s: %w", name, unknown(strings.Split(wrong, "."), known))
	}
	return nil
}

// fields lists the names in a struct, those of its tables included.
func fields(prefix string, t reflect.Type) []string {
	var all []string
	for f := range t.Fields() {
		if tag := f.Tag.Get("toml"); tag == "" || tag == "-" {
			continue // no setting
		}
		name, inner := prefix+f.Tag.Get("toml"), f.Type
		if inner.Kind() == reflect.Slice && inner.Elem().Kind() == reflect.Struct {
			all = append(all, fields(name+".", inner.Elem())...)
			continue
		}
		all = append(all, name)
	}
	return all
}

// misspelt returns the first name that the library has taken for another one.
func misspelt(prefix string, v any, t reflect.Type) string {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if wrong := misspelt(prefix, e, t.Elem()); wrong != "" {
				return wrong
			}
		}
	case map[string]any:
		switch t.Kind() {
		case reflect.Struct:
		case reflect.Map:
			return "" // names of its own
		default:
			list := strings.TrimSuffix(prefix, ".")
			return "[" + list + "], which is a list: [[" + list + "]]"
		}
		for name, inner := range v {
			i := slices.IndexFunc(slices.Collect(t.Fields()), func(f reflect.StructField) bool { return f.Tag.Get("toml") == name })
			if i < 0 {
				return prefix + name
			}
			if wrong := misspelt(prefix+name+".", inner, t.Field(i).Type); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// note writes down that a file has set these. The library takes names in any
// case; here each setting has one spelling, so that it is shown and looked for
// under that.
func (o Origin) note(prefix string, set map[string]any, path string, known []string) error {
	for k, v := range set {
		name := prefix + k
		section, ok := v.(map[string]any)
		if ok && slices.ContainsFunc(known, func(s string) bool { return strings.HasPrefix(s, name+".") }) {
			if err := o.note(name+".", section, path, known); err != nil {
				return err
			}
			continue
		}
		if ok || !slices.Contains(known, name) {
			return fmt.Errorf("%s: %w", path, unknown(strings.Split(name, "."), known))
		}
		o[name] = path
	}
	return nil
}

// environment takes what variables say.
func (o Origin) environment(environ []string, all []Setting) error {
	for _, s := range all {
		for _, kv := range environ {
			v, ok := strings.CutPrefix(kv, s.variable()+"=")
			if !ok {
				continue
			}
			if err := s.Set(v); err != nil {
				return fmt.Errorf("$%s: %w", s.variable(), err)
			}
			o[s.Name] = "$" + s.variable()
		}
	}
	return nil
}

func names(all []Setting) []string {
	var out []string
	for _, s := range all {
		out = append(out, s.Name)
	}
	return out
}

// Show writes every setting on a line of its own, and after it where it came
// from unless the origin is nil.
func Show(w io.Writer, all []Setting, from Origin) error {
	for _, s := range all {
		line := s.Name + " = " + s.Get()
		if where := from[s.Name]; where != "" {
			line += "   # " + where
		} else if from != nil {
			line += "   # default"
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return fmt.Errorf("show the settings: %w", err)
		}
	}
	return nil
}
