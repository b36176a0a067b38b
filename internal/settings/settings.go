// Package settings reads the configuration of a program that serves.
//
// What is in force comes in layers, each over the one before:
//
//	defaults → FILE.toml → FILE.d/*.toml in order of their names →
//	HOSTLER_<SECTION>_<KEY> of the environment
//
// A program keeps its configuration in a struct with the tags of
// [github.com/pelletier/go-toml/v2], filled with the defaults: texts, numbers, flags
// and lists of texts, and structs of them as sections. Beside toml, each setting has the
// tags of [Describe]. [Load] brings the layers into
// the struct and tells of each setting where it came from; what the values mean, and
// which of them go together, is checked by the program afterwards.
package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
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

// setting is one setting by name, and where its value is kept.
type setting struct {
	name  string // the key in a file, after the name of its section and a dot if it is in one
	value any    // *string, *int, *uint32, *bool or *[]string
	tag   reflect.StructTag
}

// settingsOf lists the settings in a struct: its fields with the tag toml, and those
// of the structs in it, in their order.
func settingsOf(prefix string, v reflect.Value) []setting {
	var all []setting
	for f, value := range v.Fields() {
		name := prefix + f.Tag.Get("toml")
		switch {
		case name == prefix: // no setting
		case f.Type.Kind() == reflect.Struct:
			all = append(all, settingsOf(name+".", value)...)
		default:
			all = append(all, setting{name, value.Addr().Interface(), f.Tag})
		}
	}
	return all
}

// variable is the setting's name in the environment.
func (s setting) variable() string {
	return "HOSTLER_" + strings.ToUpper(strings.ReplaceAll(s.name, ".", "_"))
}

// get returns the value as it is shown.
func (s setting) get() string {
	switch p := s.value.(type) {
	case *int:
		return strconv.Itoa(*p)
	case *uint32:
		return strconv.FormatUint(uint64(*p), 10)
	case *bool:
		return strconv.FormatBool(*p)
	case *[]string:
		return strings.Join(*p, ",")
	}
	return *s.value.(*string)
}

// set takes the value from a text: of a list it has commas between the elements.
func (s setting) set(text string) (err error) {
	switch p := s.value.(type) {
	case *int:
		if *p, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
	case *uint32:
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return fmt.Errorf("%q is not a whole number from 0 to %d", text, uint32(math.MaxUint32))
		}
		*p = uint32(n)
	case *bool:
		if *p, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%q is not true or false", text)
		}
	case *[]string:
		*p = strings.Split(text, ",")
	case *string:
		*p = text
	}
	return nil
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

// Load brings what a source has into target, a pointer to a struct. A key of a file
// that target does not have is an error.
func Load(from Source, target any) (Origin, error) {
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
	var wrong []error
	for _, f := range append([]string{path}, more...) {
		if err := o.file(f, target); err != nil && (named || !errors.Is(err, fs.ErrNotExist)) {
			wrong = append(wrong, err)
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return o, o.environment(from.Environ, target)
}

// file takes what one file says.
func (o Origin) file(path string, target any) error {
	known := fields("", reflect.TypeOf(target).Elem())
	b, err := durable.ReadFile(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read configuration: %w; name another one with --config", err)
	}
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if err := decode(path, b, target, known); err != nil {
		return err
	}
	var set map[string]any
	if err := toml.Unmarshal(b, &set); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return o.note("", set, path, known)
}

// maxWrong bounds how many errors of a file are told.
const maxWrong = 20

// decode reads TOML into target, which has a place for everything in it. It tells of
// every setting that is unknown or has a value of the wrong kind. What is no TOML ends it.
func decode(path string, b []byte, target any, known []string) error {
	lines := bytes.Split(b, []byte("\n"))
	var all []error
	for len(all) < maxWrong {
		err := toml.NewDecoder(bytes.NewReader(bytes.Join(lines, []byte("\n")))).DisallowUnknownFields().Decode(target)
		if err == nil {
			break
		}
		if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok {
			for _, bad := range strict.Errors[:min(len(strict.Errors), maxWrong-len(all))] {
				line, _ := bad.Position()
				all = append(all, fmt.Errorf("%s: line %d: %w", path, line, unknown(bad.Key(), known)))
			}
			break
		}
		bad, ok := errors.AsType[*toml.DecodeError](err)
		if !ok {
			all = append(all, fmt.Errorf("%s: %w", path, err))
			break
		}
		line, _ := bad.Position()
		said := strings.TrimPrefix(bad.Error(), "toml: ")
		what := plain(said)
		if key := strings.Join(bad.Key(), "."); key != "" {
			what = key + ": " + what
		}
		all = append(all, fmt.Errorf("%s: line %d: %s", path, line, what))
		// The library ends at a value of the wrong kind. Without its line it goes on.
		if line < 1 || line > len(lines) || !mismatch.MatchString(said) || !bytes.Contains(lines[line-1], []byte("=")) {
			break
		}
		lines[line-1] = nil
	}
	return errors.Join(all...)
}

// mismatch is how the library tells of a value of the wrong kind: in the words of
// a programmer, who knows the struct that it does not fit into.
var mismatch = regexp.MustCompile(`^cannot (?:decode TOML|store) (.+?) (?:into struct field .+ of type|into a Go value of type|into|in a) (.+)$`)

// plain tells of a value of the wrong kind in the words of the configuration.
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

// unknown says that there is no such setting, and which one may be meant, or which there
// are beside it.
func unknown(key, known []string) error {
	name := strings.Join(key, ".")
	if meant := nearest(name, known); meant != "" {
		return fmt.Errorf("unknown setting: %s; perhaps %s is meant", name, meant)
	}
	beside := known
	if table := key[:max(0, len(key)-1)]; len(table) > 0 {
		prefix := strings.Join(table, ".") + "."
		beside = slices.DeleteFunc(slices.Clone(known), func(s string) bool { return !strings.HasPrefix(s, prefix) })
	}
	if len(beside) == 0 {
		beside = known
	}
	return fmt.Errorf("unknown setting: %s\nknown are: %s", name, strings.Join(beside, ", "))
}

// nearest is the name among those known, of a setting or of a section, that differs from
// one by the fewest letters; empty if none is near.
func nearest(name string, known []string) (found string) {
	least := 2 + len(name)/8 // letters
	for _, k := range known {
		section, _, _ := strings.Cut(k, ".")
		for _, candidate := range []string{k, section} {
			if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d < least || d == least && found == "" {
				least, found = d, candidate
			}
		}
	}
	if 2*least >= len(name) {
		return "" // as many letters are others
	}
	return found
}

// distance counts the letters that have to be put in, left out, changed or swapped with
// the next to make one text of another.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := range len(a) {
		rows[2][0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			rows[2][j+1] = min(rows[1][j+1]+1, rows[2][j]+1, rows[1][j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				rows[2][j+1] = min(rows[2][j+1], rows[0][j-1]+1)
			}
		}
		rows[0], rows[1], rows[2] = rows[1], rows[2], rows[0]
	}
	return rows[1][len(b)]
}

// Changed lists the settings that differ between two structs of the same type, to which
// it takes pointers: those whose change a reload takes, and those that take a restart.
func Changed(before, after any) (reload, restart []string) {
	were := settingsOf("", reflect.ValueOf(before).Elem())
	for i, s := range settingsOf("", reflect.ValueOf(after).Elem()) {
		switch {
		case reflect.DeepEqual(were[i].value, s.value):
		case s.tag.Get("takes") == "reload":
			reload = append(reload, s.name)
		default:
			restart = append(restart, s.name)
		}
	}
	return reload, restart
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
		name, inner := prefix+f.Tag.Get("toml"), f.Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		switch {
		case name == prefix: // no setting
		case inner.Kind() == reflect.Struct:
			all = append(all, fields(name+".", inner)...)
		default:
			all = append(all, name)
		}
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
func (o Origin) environment(environ []string, target any) error {
	for _, s := range settingsOf("", reflect.ValueOf(target).Elem()) {
		for _, kv := range environ {
			v, ok := strings.CutPrefix(kv, s.variable()+"=")
			if !ok {
				continue
			}
			if err := s.set(v); err != nil {
				return fmt.Errorf("$%s: %w", s.variable(), err)
			}
			o[s.name] = "$" + s.variable()
		}
	}
	return nil
}

// Misspelt tells which variables of an environment name no setting of target, a pointer to a
// struct, and one but for a few letters. Others may be meant for other programs.
func Misspelt(environ []string, target any) (told []string) {
	var known []string
	for _, s := range settingsOf("", reflect.ValueOf(target).Elem()) {
		known = append(known, strings.TrimPrefix(s.variable(), "HOSTLER_"))
	}
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		word, ours := strings.CutPrefix(name, "HOSTLER_")
		if !ours || slices.Contains(known, word) {
			continue
		}
		if near := nearest(word, known); near != "" {
			told = append(told, fmt.Sprintf("the variable %s is no setting; perhaps HOSTLER_%s is meant", name, near))
		}
	}
	return told
}

// Show writes every setting of a struct, a pointer to which it takes, on a line of its
// own, and after it where it came from unless the origin is nil.
func Show(w io.Writer, target any, from Origin) error {
	for _, s := range settingsOf("", reflect.ValueOf(target).Elem()) {
		line := s.name + " = " + s.get()
		if where := from[s.name]; where != "" {
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
