// Package batchfile reads files of operations, which are done one after another.
//
// A file is YAML, of which JSON is a part: a list of operations, or an object with
// such a list as operations. It is read strictly: a key that is not known, one that
// stands twice, or one that the operation does not take, is an error that names
// its line, and all errors of a file are told at once. It is pure.
package batchfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/yamlfile"
)

// maxDuration is the longest time that an operation may name.
const maxDuration = 1000 * 24 * time.Hour

// Bounds of a file.
const (
	MaxBytes      = 1 << 20
	MaxOperations = 1000
	maxErrors     = 20  // that are told at once
	maxMistakes   = 500 // that are looked for, so that the first of a file are told
)

// ErrInvalid tells that a file is not one of operations.
var ErrInvalid = errors.New("not a file of operations")

// Verb is what an operation does.
type Verb string

// The verbs. Each is the key whose value is where it is done.
const (
	Ping   Verb = "ping" // HOST
	Run    Verb = "run"  // HOST
	Push   Verb = "push" // HOST or HOST/NAME
	Pull   Verb = "pull" // HOST or HOST/NAME
	Exec   Verb = "exec" // HOST/NAME, as all that follow
	Create Verb = "create"
	Start  Verb = "start"
	Stop   Verb = "stop"
	Reset  Verb = "reset"
	Remove Verb = "rm"
)

// verbs says which keys go with a verb, beside those that go with all.
var verbs = []struct {
	verb Verb
	keys []string
}{
	{Ping, nil},
	{Run, []string{"argv", "as", "cwd", "env", "timeout", "exclusive"}},
	{Push, []string{"from", "to", "timeout"}},
	{Pull, []string{"from", "to", "timeout"}},
	{Exec, []string{"argv", "as", "cwd", "env", "timeout", "exclusive"}},
	{Create, []string{"template", "runtime", "class", "labels", "started", "privileged"}},
	{Start, nil},
	{Stop, []string{"grace"}},
	{Reset, nil},
	{Remove, []string{"grace"}},
}

// common are the keys of all operations.
func common() []string { return []string{"name", "wait"} }

// Operation is one of a file. What is not given is zero.
type Operation struct {
	Line  int
	Name  string // for people; unique in its file
	Verb  Verb
	Where string // HOST or HOST/NAME, as it is written
	// Wait is how long its end is waited for, its host being away included.
	Wait time.Duration

	Argv      []string
	User, Cwd string
	Env       []string // NAME=VALUE
	Timeout   time.Duration
	NoTimeout bool // timeout: none
	Exclusive bool

	// From and To say what is copied, and to where. What is on the host is
	// absolute; what is here may be relative to the directory of the file.
	From, To string

	Template, Runtime, Class string
	Labels                   []string // k=v
	Started                  bool     // start it too
	Privileged               bool
	Grace                    time.Duration
}

// Parse reads a file. The error wraps [ErrInvalid] and has a line for each thing
// that is wrong.
func Parse(b []byte) ([]Operation, error) {
	n, err := yamlfile.Document(b, MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	p := &parser{}
	all := p.file(n)
	if err := p.err(); err != nil {
		return nil, err
	}
	return all, nil
}

// parser collects what is wrong.
type parser struct {
	wrong []mistake
	more  bool // than are kept
}

type mistake struct {
	line int
	text string
}

func (p *parser) fail(n *yaml.Node, format string, args ...any) {
	m := mistake{n.Line, fmt.Sprintf(format, args...)}
	switch {
	case len(p.wrong) >= maxMistakes:
		p.more = true
	case !slices.Contains(p.wrong, m): // an object is looked at more than once
		p.wrong = append(p.wrong, m)
	}
}

// err has a line for each mistake, in the order of the file.
func (p *parser) err() error {
	if len(p.wrong) == 0 {
		return nil
	}
	slices.SortStableFunc(p.wrong, func(a, b mistake) int { return a.line - b.line })
	var lines []string
	for _, m := range p.wrong[:min(len(p.wrong), maxErrors)] {
		lines = append(lines, fmt.Sprintf("line %d: %s", m.line, m.text))
	}
	if p.more || len(p.wrong) > maxErrors {
		lines = append(lines, "and more is wrong")
	}
	return fmt.Errorf("%w: %s", ErrInvalid, strings.Join(lines, "\n"))
}

func (p *parser) file(n *yaml.Node) []Operation {
	list := n
	if n.Kind == yaml.MappingNode {
		list = nil
		for key, value := range p.members(n) {
			if key.Value != "operations" {
				p.fail(key, "unknown key %.40q: want operations", key.Value)
				continue
			}
			list = value
		}
		if list == nil {
			p.fail(n, "operations is missing")
			return nil
		}
	}
	if list.Kind != yaml.SequenceNode || !p.simple(list) {
		p.fail(list, "want a list of operations")
		return nil
	}
	switch {
	case len(list.Content) == 0:
		p.fail(list, "there are no operations")
	case len(list.Content) > MaxOperations:
		p.fail(list, "there are %d operations, at most %d are taken", len(list.Content), MaxOperations)
		return nil
	}
	all := make([]Operation, 0, len(list.Content))
	names := make(map[string]int)
	for _, n := range list.Content {
		o := p.operation(n)
		if first, ok := names[o.Name]; ok && o.Name != "" {
			p.fail(n, "the name %.60q is that of the operation in line %d", o.Name, first)
		}
		names[o.Name] = n.Line
		all = append(all, o)
	}
	return all
}

// simple refuses what makes a file mean more than it says.
func (p *parser) simple(n *yaml.Node) bool {
	why := yamlfile.Refused(n)
	if why != "" {
		p.fail(n, "%s", why)
	}
	return why == ""
}

// members yields keys and values of an object, each key once.
func (p *parser) members(n *yaml.Node) func(yield func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		seen := make(map[string]bool)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			switch {
			case !p.simple(key) || !p.simple(value):
				continue
			case key.Kind != yaml.ScalarNode || key.Tag != "!!str":
				p.fail(key, "a key is a word")
				continue
			case seen[key.Value]:
				p.fail(key, "%.40q is listed twice", key.Value)
				continue
			}
			seen[key.Value] = true
			if !yield(key, value) {
				return
			}
		}
	}
}

func (p *parser) operation(n *yaml.Node) Operation {
	o := Operation{Line: n.Line}
	if n.Kind != yaml.MappingNode || !p.simple(n) {
		p.fail(n, "an operation is an object such as {run: edge-01, argv: [uptime]}")
		return o
	}
	var allowed []string
	for key, value := range p.members(n) {
		i := slices.IndexFunc(verbs, func(v struct {
			verb Verb
			keys []string
		}) bool {
			return string(v.verb) == key.Value
		})
		switch {
		case i < 0:
		case o.Verb != "":
			p.fail(key, "one operation cannot %s and %s", o.Verb, key.Value)
		default:
			o.Verb, allowed = verbs[i].verb, verbs[i].keys
			o.Where = p.text(value)
		}
	}
	if o.Verb == "" {
		p.fail(n, "no operation: use one of %s", verbWords())
		return o
	}
	for key, value := range p.members(&yaml.Node{Content: n.Content}) {
		switch {
		case key.Value == string(o.Verb) || isVerb(key.Value):
		case !slices.Contains(allowed, key.Value) && !slices.Contains(common(), key.Value):
			p.fail(key, "%s takes no %.40q: want %s", o.Verb, key.Value, strings.Join(append(common(), allowed...), ", "))
		default:
			p.member(&o, key.Value, value)
		}
	}
	p.complete(n, &o)
	return o
}

func isVerb(s string) bool {
	return slices.ContainsFunc(verbs, func(v struct {
		verb Verb
		keys []string
	}) bool {
		return string(v.verb) == s
	})
}

func verbWords() string {
	var all []string
	for _, v := range verbs {
		all = append(all, string(v.verb))
	}
	return strings.Join(all, ", ")
}

func (p *parser) member(o *Operation, key string, n *yaml.Node) {
	switch key {
	case "name":
		o.Name = p.text(n)
	case "wait":
		o.Wait = p.duration(n)
	case "argv":
		o.Argv = p.texts(n)
	case "as":
		o.User = p.text(n)
	case "cwd":
		o.Cwd = p.text(n)
	case "env":
		o.Env = p.texts(n)
	case "timeout":
		if n.Kind == yaml.ScalarNode && n.Value == "none" {
			o.NoTimeout = true
			return
		}
		o.Timeout = p.duration(n)
	case "exclusive":
		o.Exclusive = p.yes(n)
	case "from":
		o.From = p.text(n)
	case "to":
		o.To = p.text(n)
	case "template":
		o.Template = p.text(n)
	case "runtime":
		o.Runtime = p.text(n)
	case "class":
		o.Class = p.text(n)
	case "labels":
		o.Labels = p.texts(n)
	case "privileged":
		o.Privileged = p.yes(n)
	case "started":
		o.Started = p.yes(n)
	case "grace":
		o.Grace = p.duration(n)
	}
}

// complete looks at what is missing.
func (p *parser) complete(n *yaml.Node, o *Operation) {
	switch {
	case o.Where == "":
		p.fail(n, "%s says not where", o.Verb)
		return
	case (o.Verb == Run || o.Verb == Exec) && len(o.Argv) == 0:
		p.fail(n, "%s needs argv, the command and its arguments as a list", o.Verb)
	case o.Verb == Create && o.Template == "":
		p.fail(n, "create needs template")
	case o.Verb == Push:
		p.copies(n, o, "to", o.To)
	case o.Verb == Pull:
		p.copies(n, o, "from", o.From)
	}
	hasSlash := strings.Contains(o.Where, "/")
	switch onHost := o.Verb == Run || o.Verb == Ping; {
	case o.Verb == Push || o.Verb == Pull: // either
	case onHost && hasSlash:
		p.fail(n, "%s is done on a HOST, and %.80q is none", o.Verb, o.Where)
	case !onHost && !hasSlash:
		p.fail(n, "%s is done with a container, HOST/NAME, and %.80q is none", o.Verb, o.Where)
	}
}

// copies looks at the two ends of what is copied: path, the value of key, is the
// one on the host.
func (p *parser) copies(n *yaml.Node, o *Operation, key, path string) {
	switch {
	case o.From == "" || o.To == "":
		p.fail(n, "%s needs from and to, what is copied and where it goes", o.Verb)
	case !strings.HasPrefix(path, "/"):
		p.fail(n, "%s of a %s is a path on the host, and %.80q is not absolute", key, o.Verb, path)
	}
}

// text reads a text. Numbers are taken as they are written: an argument 07 is
// "07".
func (p *parser) text(n *yaml.Node) string {
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
		p.fail(n, "want a text")
	case n.Tag != "!!str" && n.Tag != "!!int" && n.Tag != "!!float":
		p.fail(n, "%.40q is no text: write it in quotes", n.Value)
	default:
		return n.Value
	}
	return ""
}

func (p *parser) texts(n *yaml.Node) []string {
	if n.Kind != yaml.SequenceNode {
		p.fail(n, "want a list of texts, such as [ls, -l]")
		return nil
	}
	var all []string
	for _, e := range n.Content {
		if p.simple(e) {
			all = append(all, p.text(e))
		}
	}
	return all
}

func (p *parser) yes(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode || n.Value != "true" && n.Value != "false" {
		p.fail(n, "want true or false")
	}
	return n.Value == "true"
}

// duration reads a number with a unit.
func (p *parser) duration(n *yaml.Node) time.Duration {
	d, err := api.ParseDuration(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode:
		p.fail(n, "want a number with a unit, as in 90s, 5m, 8h or 7d")
		return 0
	case err != nil:
		p.fail(n, "%s", err)
		return 0
	case d == 0 || d > maxDuration:
		p.fail(n, "%s is not a time of more than 0 and at most 1000d", n.Value)
		return 0
	}
	return d
}
