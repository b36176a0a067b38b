// Package show prints things as the user wants to see them. A [Noun] names the
// columns of a thing; the options -o, --no-headers, --watch and --limit, which every
// list and show has, choose the form.
package show

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/hostler-io/hostler/internal/cli/term"
)

// level says from which form of output on a column is there.
type level int

const (
	inTable level = iota // always
	inWide               // +: -o wide, -o csv and show
	inShow               // ++: show and -o csv of one object
)

// Column is one column of a noun. Its name is stable: scripts read it. A cell
// is a text, a number, or a time, which is relative on a terminal.
type Column[T any] struct {
	name string
	at   level
	cell func(T) any
	long long
}

// Noun is how things of one type are printed.
type Noun[T any] struct {
	Columns []Column[T]
	Name    func(T) string // for -o name, and to tell things apart
	// Note is what people should see beside a line of a list, where there is room;
	// empty for nothing. Nil: there is never anything.
	Note func(T) string
	// None is what people are told where there is nothing to print; empty: they are told
	// nothing.
	None string
}

// Cells are what stands in columns that are no member of a thing, by their names.
type Cells[T any] map[string]func(T) any

// NounOf returns the noun of things that are printed as JSON, too. name is the member
// that names a thing. columns are in order, with spaces between: each is the JSON
// member of its name, or another one behind a colon, unless cells has it. One with a
// + is left out of narrow tables, one with ++ is there where one thing is shown. What
// does not fit the terminal is cut in columns with a ~, and stands below its row in those
// with ~~, and whole in those with a $, which hold commands.
func NounOf[T any](name, columns string, cells Cells[T]) Noun[T] {
	n := Noun[T]{Name: func(it T) string { return fmt.Sprint(member[T](name)(it)) }}
	for word := range strings.FieldsSeq(columns) {
		plain := strings.TrimRight(word, "+~$")
		column, from, _ := strings.Cut(plain, ":")
		cell, ok := cells[column]
		if !ok {
			cell = member[T](cmp.Or(from, column))
		}
		n.Columns = append(n.Columns, Column[T]{column, level(strings.Count(word, "+")), cell, longOf(word)})
	}
	return n
}

// member returns what reads a JSON member of a thing.
func member[T any](name string) func(T) any {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return func(it T) any { return reflect.ValueOf(it).FieldByIndex(f.Index).Interface() }
		}
	}
	panic(fmt.Sprintf("%s has no member %q", reflect.TypeFor[T](), name)) // a constant of ours
}

// Format is the value of -o.
type Format struct {
	Word string // table, wide, json, yaml, csv, name, template, jsonpath
	tmpl *template.Template
	path *jsonPath
}

// formats are the forms as errors name them.
const formats = "table|wide|json|yaml|csv|name|template=…|jsonpath=…"

func (f *Format) String() string { return f.Word }

// Type implements [pflag.Value].
func (f *Format) Type() string { return "FORMAT" }

// Set implements [pflag.Value].
func (f *Format) Set(s string) error {
	if text, ok := strings.CutPrefix(strings.TrimPrefix(s, "go-"), "template="); ok {
		t, err := template.New("-o").Option("missingkey=error").Parse(text)
		if err != nil {
			return fmt.Errorf("%q is no template: %s", text, templateFault(err))
		}
		f.Word, f.tmpl = "template", t
		return nil
	}
	if text, ok := strings.CutPrefix(s, "jsonpath="); ok {
		p, err := parseJSONPath(text)
		if err != nil {
			return err
		}
		f.Word, f.path = "jsonpath", p
		return nil
	}
	if !slices.Contains([]string{"table", "wide", "json", "yaml", "csv", "name"}, s) {
		return fmt.Errorf("%q is not an output format: use %s", s, formats)
	}
	f.Word = s
	return nil
}

// faultOf finds what a template's error says behind the place.
var faultOf = regexp.MustCompile(`^template: -o:[0-9:]+ (?:executing "-o" at <(.*?)>: )?(.*)$`)

// templateFault is an error of a template in our words.
func templateFault(err error) string {
	m := faultOf.FindStringSubmatch(err.Error())
	if m == nil {
		return "it cannot be used"
	}
	at, fault := m[1], m[2]
	if name, ok := strings.CutPrefix(fault, "map has no entry for key "); ok {
		return fmt.Sprintf("%s: there is no member %s", at, name)
	}
	if name, ok := strings.CutPrefix(fault, "function "); ok {
		return "there is no function " + strings.TrimSuffix(name, " not defined")
	}
	for _, known := range []struct{ text, ours string }{
		{"unclosed action", "a {{ has no }}"},
		{"unexpected EOF", "an {{if}}, {{range}} or {{with}} has no {{end}}"},
		{"missing value", "{{}} is empty"},
		{"unterminated", "a text in quotes does not end"},
		{"can't evaluate field", at + ": only objects have members"},
		{"nil pointer", at + " has no value"},
		{"range can't iterate", at + " is not a list"},
		{"error calling index", at + ": there is no such entry"},
	} {
		if strings.Contains(fault, known.text) {
			return known.ours
		}
	}
	if at != "" {
		return at + " cannot be computed"
	}
	return "what stands in {{ }} cannot be understood"
}

// View is how the user wants to see something: the options of every list and
// show.
type View struct {
	Format    Format
	noHeaders bool
	Watch     bool
	Limit     int
	One       bool // a show: one object and no list
	filters   Filters
}

func completeFormats(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"table", "wide", "json", "yaml", "csv", "name", "template=", "jsonpath="}, cobra.ShellCompDirectiveNoFileComp
}

// FormatFlags adds the options of a command that prints one thing once.
func FormatFlags(cmd *cobra.Command) *View {
	v := &View{Format: Format{Word: "table"}, One: true}
	cmd.Flags().VarP(&v.Format, "output", "o", "output format: table, wide, json, yaml, csv, name, template=… (a Go template over the JSON members; go-template=… is the same), or jsonpath=… (as $.state)")
	cmd.Flags().BoolVar(&v.noHeaders, "no-headers", false, "print no line of column names")
	_ = cmd.RegisterFlagCompletionFunc("output", completeFormats) // it fails for unknown flags alone
	return v
}

// ShowFlags adds the options of a show.
func ShowFlags(cmd *cobra.Command) *View {
	v := FormatFlags(cmd)
	cmd.Flags().BoolVarP(&v.Watch, "watch", "w", false, "keep running and print every change")
	return v
}

// ListFlags adds the options of a list.
func ListFlags(cmd *cobra.Command) *View {
	v := LimitedFlags(cmd, 0)
	cmd.Flags().Var(&v.filters, "filter", "only those whose member, as -o json names it, is this: MEMBER=VALUE or MEMBER!=VALUE; of a list, one of it; repeatable")
	return v
}

// LimitedFlags adds those of a list that is too long to be printed whole.
func LimitedFlags(cmd *cobra.Command, limit int) *View {
	v := ShowFlags(cmd)
	v.One = false
	v.Limit = limit
	cmd.Flags().Var(term.Count(&v.Limit), "limit", "print at most this many (0: all)")
	return v
}

// Table prints things of one noun in the form that a view asks for.
type Table[T any] struct {
	UI   *term.UI
	Noun Noun[T]
	View *View
	// Widths are those of the columns so far, for lines that follow later.
	Widths   []int
	headed   bool
	selected int // what a path has selected so far
}

// Print prints what there is.
func (t *Table[T]) Print(w io.Writer, items []T) error {
	items, err := choose(t.View.filters, items)
	if err != nil {
		return err
	}
	if t.View.Limit > 0 && len(items) > t.View.Limit {
		items = items[:t.View.Limit]
	}
	switch t.View.Format.Word {
	case "json", "yaml":
		return t.printTree(w, items)
	case "csv":
		return t.printCSV(w, items)
	case "name":
		for _, it := range items {
			if name := t.Noun.Name(it); name != "" { // a line may tell of what could not be listed
				fmt.Fprintln(w, term.Printable(name))
			}
		}
		return nil
	case "template":
		return t.printTemplate(w, items)
	case "jsonpath":
		for _, it := range items {
			n, err := t.View.Format.path.print(w, it)
			if t.selected += n; err != nil {
				return err
			}
		}
		return nil
	}
	if t.View.One {
		for _, it := range items {
			t.printFields(w, it)
		}
		return nil
	}
	t.printRows(w, items)
	return nil
}

func (t *Table[T]) columns() []Column[T] {
	upTo := inTable
	switch {
	case t.View.One:
		upTo = inShow
	case t.View.Format.Word == "wide" || t.View.Format.Word == "csv":
		upTo = inWide
	}
	return slices.DeleteFunc(slices.Clone(t.Noun.Columns), func(c Column[T]) bool { return c.at > upTo })
}

func (t *Table[T]) row(it T, machine bool) []string {
	columns := t.columns()
	row := make([]string, len(columns))
	for i, c := range columns {
		v := c.cell(it)
		if id, ok := v.(ID); ok && !machine && !t.View.One && t.View.Format.Word == "table" {
			v = id.short()
		}
		row[i] = cell(t.UI, v, machine)
	}
	return row
}

// cell writes a value for people, or for programs.
func cell(a *term.UI, v any, machine bool) string {
	switch v := v.(type) {
	case *time.Time:
		if v == nil {
			return ""
		}
		return cell(a, *v, machine)
	case time.Time:
		switch {
		case v.IsZero():
			return ""
		case machine || !a.OutTTY:
			return v.UTC().Format(time.RFC3339)
		}
		return term.Ago(v, a.Now())
	case Words:
		if machine {
			return v.Machine
		}
		return term.Printable(v.People)
	case []string:
		return term.Printable(strings.Join(v, ","))
	case map[string]any:
		if len(v) == 0 {
			return ""
		}
		b, err := Encode(v, false)
		if err != nil {
			return term.Printable(err.Error())
		}
		return term.Printable(string(b[:len(b)-1]))
	case []byte:
		return term.Printable(string(v))
	case Sentences:
		if machine {
			return term.Printable(strings.Join(v, "; "))
		}
		var all []string
		for _, s := range v {
			all = append(all, term.Printable(s))
		}
		return strings.Join(all, "\n")
	}
	return term.Printable(fmt.Sprint(v))
}

// ID is the id of a thing, of which a list for people shows the last group: ids of
// one hour all begin alike.
type ID string

// short is the last group of the id.
func (id ID) short() string { return string(id[strings.LastIndexByte(string(id), '-')+1:]) }

// Words are a state by its name, and as people read it.
type Words struct{ Machine, People string }

// Sentences stand one below the other where one thing is shown.
type Sentences []string

// gap stands between columns.
const gap = "   "

func (t *Table[T]) printRows(w io.Writer, items []T) {
	columns := t.columns()
	rows := make([][]string, 0, len(items)+1)
	if !t.View.noHeaders && !t.headed {
		head := make([]string, len(columns))
		for i, c := range columns {
			head[i] = strings.ToUpper(c.name)
		}
		rows = append(rows, head)
	}
	first := len(rows)
	for _, it := range items {
		rows = append(rows, t.row(it, false))
	}
	if t.Widths == nil {
		t.Widths = make([]int, len(columns))
	}
	for _, row := range rows {
		for i, s := range row {
			t.Widths[i] = max(t.Widths[i], utf8.RuneCountInString(s))
		}
	}
	t.headed = true
	folded := t.fit(columns)
	for n, row := range rows {
		var line, under strings.Builder
		for i, s := range row {
			switch {
			case folded && columns[i].long >= below:
				if n >= first {
					under.WriteString(columns[i].fold(s, t.UI.Width()))
				}
				continue
			case columns[i].long == cut:
				s = term.Cut(s, t.Widths[i])
			}
			pad := strings.Repeat(" ", max(0, t.Widths[i]-utf8.RuneCountInString(s)))
			if n >= first && columns[i].name == "state" {
				s = t.UI.Colour(s)
			}
			line.WriteString(s + pad + gap)
		}
		if n >= first && t.Noun.Note != nil {
			line.WriteString(t.note(items[n-first]))
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
		fmt.Fprint(w, under.String())
	}
}

// leastNote is the part of a note that tells anything.
const leastNote = 20

// note is what stands behind a row: on a terminal, as much as its line has room for.
func (t *Table[T]) note(it T) string {
	note := []rune(term.Printable(t.Noun.Note(it)))
	if !t.UI.OutTTY {
		return string(note)
	}
	room := t.UI.Columns()
	for _, width := range t.Widths {
		room -= width + len(gap)
	}
	switch {
	case len(note) <= room:
		return string(note)
	case room < leastNote:
		return ""
	}
	return string(note[:room-1]) + "…"
}

// printFields prints one thing, a field per line, and what it holds of sentences one
// below the other. Empty fields are left out.
func (t *Table[T]) printFields(w io.Writer, it T) {
	columns, row := t.columns(), t.row(it, false)
	for i, s := range row {
		if columns[i].name == "state" {
			s = t.UI.Colour(s)
		}
		if s != "" {
			head := columns[i].name + ": "
			fmt.Fprintf(w, "%s%s\n", head, strings.ReplaceAll(s, "\n", "\n"+strings.Repeat(" ", len(head))))
		}
	}
}

func (t *Table[T]) printCSV(w io.Writer, items []T) error {
	out := csv.NewWriter(w)
	if !t.View.noHeaders && !t.headed {
		var head []string
		for _, c := range t.columns() {
			head = append(head, c.name)
		}
		if err := out.Write(head); err != nil {
			return err
		}
	}
	t.headed = true
	for _, it := range items {
		if err := out.Write(t.row(it, true)); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// printTree prints JSON or YAML: an array for a list, an object for a show, an
// object per line while watching.
func (t *Table[T]) printTree(w io.Writer, items []T) error {
	var documents []any
	switch {
	case t.View.One || t.View.Watch:
		for _, it := range items {
			documents = append(documents, it)
		}
	case items == nil:
		documents = []any{[]T{}}
	default:
		documents = []any{items}
	}
	for _, d := range documents {
		b, err := Encode(d, t.View.Format.Word == "json" && !t.View.Watch)
		if err == nil && t.View.Format.Word == "yaml" {
			b, err = toYAML(b, t.View.Watch)
		}
		if err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// Encode writes JSON with a line end, and without the escapes that are made
// for web pages.
func Encode(v any, indent bool) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if indent {
		e.SetIndent("", "  ")
	}
	err := e.Encode(v)
	return b.Bytes(), err
}

// toYAML turns JSON into YAML with the members in the same order.
func toYAML(b []byte, separate bool) ([]byte, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(b, &n); err != nil {
		return nil, err
	}
	plain(&n)
	out, err := yaml.Marshal(&n)
	if separate {
		out = append([]byte("---\n"), out...)
	}
	return out, err
}

// plain drops the brackets that came from JSON, and the quotes of names. Values
// keep theirs: so no reader takes a text like "no" or "12" for something else.
func plain(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode && len(n.Content) > 0 {
		n.Style = 0
	}
	for i, c := range n.Content {
		if plain(c); n.Kind == yaml.MappingNode && i%2 == 0 {
			c.Style = 0
		}
	}
}

func (t *Table[T]) printTemplate(w io.Writer, items []T) error {
	for _, it := range items {
		b, err := Encode(it, false)
		if err != nil {
			return err
		}
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		var tree any
		if err := d.Decode(&tree); err != nil {
			return err
		}
		var line bytes.Buffer
		if err := t.View.Format.tmpl.Execute(&line, tree); err != nil {
			return term.Usage("-o json shows what there is", "the template does not fit the output: %s", templateFault(err))
		}
		fmt.Fprintln(w, line.String())
	}
	return nil
}
