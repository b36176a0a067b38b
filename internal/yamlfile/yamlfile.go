// Package yamlfile reads the files that people write in YAML, of which JSON is a part,
// and says in plain words what is wrong with them.
//
// Anchors, aliases and tags are refused, so no file is larger than it looks. It is pure.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hostler-io/hostler/internal/brief"
)

// maxErrors is how many mistakes of a file are told.
const maxErrors = 20

// Document returns the content of the only document in a file of at most limit bytes.
func Document(b []byte, limit int) (*yaml.Node, error) {
	if len(b) > limit {
		return nil, fmt.Errorf("it has %d bytes, at most %d are read", len(b), limit)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	var doc yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, inWords(err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document")
	}
	return doc.Content[0], nil
}

// syntax says what the errors of the library mean for the author of a file.
var syntax = []struct{ text, means string }{
	{"mapping values are not allowed", `a ":" stands where no member can begin: check the indentation, and put a text with a ":" in quotes`},
	{"expected node content", "a value is missing, or it begins with a character that has a meaning in YAML: put it in quotes"},
	{"expected ',' or ']'", `a list lacks a "," or its closing "]"`},
	{"expected ',' or '}'", `an object lacks a "," or its closing "}"`},
	{"expected '-' indicator", "this is not indented like the other entries of its list"},
	{"expected key", "this is not indented like the other members of its object"},
	{"expected ':'", `a member lacks its ":"`},
	{"tab character", "a tab stands where only spaces are taken: indent with spaces"},
	{"cannot start any token", "a value begins with a tab or with a character that has a meaning in YAML: put it in quotes"},
	{"end of stream", "a text in quotes does not end"},
	{"unknown escape", `a \ in double quotes has a meaning in YAML: use single quotes`},
	{"alphabetic or numeric", "anchors and aliases are not taken: write the value out"},
	{"anchor", "anchors and aliases are not taken: write the value out"},
}

// encoding are errors of the library about a file that is no text.
var encoding = regexp.MustCompile(`control characters|UTF-8|UTF-16|Unicode|byte order`)

var lineOf = regexp.MustCompile(`line [0-9]+: `)

// inWords is a syntax error of the library in our words.
func inWords(err error) error {
	if encoding.MatchString(err.Error()) {
		return errors.New("it is not a text in UTF-8")
	}
	means := "this cannot be read as YAML"
	for _, s := range syntax {
		if strings.Contains(err.Error(), s.text) {
			means = s.means
			break
		}
	}
	line := lineOf.FindString(err.Error())
	if line == "" {
		line = "line 1: " // the library names all lines but the first
	}
	return errors.New(line + means)
}

// Decode reads a file of at most limit bytes into v, a pointer to a struct whose fields
// have the tag yaml. The error has a line for each mistake.
func Decode(b []byte, limit int, v any) error {
	n, err := Document(b, limit)
	if err != nil {
		return err
	}
	var c checker
	if c.check(n, reflect.TypeOf(v).Elem(), "the file"); len(c.wrong) > 0 {
		slices.SortStableFunc(c.wrong, func(a, b mistake) int { return a.line - b.line })
		return c.err()
	}
	if err := n.Decode(v); err != nil {
		return errors.New("this cannot be read: look at the example in the help")
	}
	return nil
}

type mistake struct {
	line int
	text string
}

// checker holds a document to the type that it is for.
type checker struct{ wrong []mistake }

func (c *checker) fail(n *yaml.Node, format string, args ...any) {
	c.wrong = append(c.wrong, mistake{n.Line, fmt.Sprintf(format, args...)})
}

func (c *checker) err() error {
	var lines []string
	for _, m := range c.wrong[:min(len(c.wrong), maxErrors)] {
		lines = append(lines, fmt.Sprintf("line %d: %s", m.line, m.text))
	}
	if len(c.wrong) > maxErrors {
		lines = append(lines, fmt.Sprintf("and %d mistakes more", len(c.wrong)-maxErrors))
	}
	return errors.New(strings.Join(lines, "\n"))
}

// check looks at a value that is to become a t, and is called what.
func (c *checker) check(n *yaml.Node, t reflect.Type, what string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if why := Refused(n); why != "" {
		c.fail(n, "%s", why)
		return
	}
	switch want, kind := wants(t), kindOf(t); {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		c.fail(n, "%s has no value: want %s", what, want)
	case n.Kind != kind || kind == yaml.ScalarNode && n.Decode(reflect.New(t).Interface()) != nil:
		c.fail(n, "%s: want %s", what, want)
	case kind == yaml.SequenceNode:
		for _, e := range n.Content {
			c.check(e, t.Elem(), "an entry of "+what)
		}
	case kind == yaml.MappingNode:
		c.members(n, t, what)
	}
}

// members looks at the members of an object.
func (c *checker) members(n *yaml.Node, t reflect.Type, what string) {
	known := make(map[string]reflect.Type)
	var names []string
	if t.Kind() == reflect.Struct {
		for _, f := range reflect.VisibleFields(t) {
			if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "" {
				known[name] = f.Type
				names = append(names, name)
			}
		}
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		of, ok := known[key.Value]
		if t.Kind() == reflect.Map {
			of, ok = t.Elem(), true
		}
		switch why := Refused(key); {
		case why != "":
			c.fail(key, "%s", why)
		case key.Kind != yaml.ScalarNode || key.Tag == "!!null":
			c.fail(key, "the name of a member is a word")
		case seen[key.Value]:
			c.fail(key, "%.40q is listed twice", key.Value)
		case !ok:
			c.fail(key, "%s", unknown(key.Value, names))
		default:
			c.check(value, of, key.Value)
		}
		seen[key.Value] = true
	}
}

// unknown says which members there are instead of one.
func unknown(name string, known []string) string {
	text := fmt.Sprintf("unknown member %.40q", name)
	if near := brief.Nearest(name, known); near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	}
	return text + "; known are " + strings.Join(known, ", ")
}

// Refused says why a value is not taken that makes a file mean more than it says. It is
// empty for others.
func Refused(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.AliasNode:
		return "aliases are not taken: write it out"
	case n.Anchor != "":
		return "anchors are not taken: write it out"
	case n.Style&yaml.TaggedStyle != 0:
		return "tags are not taken"
	case n.Tag == "!!merge":
		return "<< is not taken: write it out"
	}
	return ""
}

func kindOf(t reflect.Type) yaml.Kind {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return yaml.MappingNode
	case reflect.Slice:
		return yaml.SequenceNode
	}
	return yaml.ScalarNode
}

// wants is what a t looks like in a file.
func wants(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object, as in {NAME: VALUE}"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return "a list of objects, each after a dash"
		}
		return "a list, as in [a, b]"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	}
	return "a text"
}
