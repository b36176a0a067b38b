package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// level says from which form of output on a column is there.
type level int

const (
	inTable level = iota // always
	inWide               // -o wide, -o csv and show
	inShow               // show and -o csv of one object
)

// column is one column of a noun. Its name is stable: scripts read it. A cell
// is a text, a number, or a time, which is relative on a terminal.
type column[T any] struct {
	name string
	at   level
	cell func(T) any
}

// noun is how things of one type are printed.
type noun[T any] struct {
	columns []column[T]
	name    func(T) string // for -o name, and to tell things apart
}

// format is the value of -o.
type format struct {
	word string // table, wide, json, yaml, csv, name, template
	tmpl *template.Template
}

// formats are the forms as errors name them.
const formats = "table|wide|json|yaml|csv|name|template=…"

func (f *format) String() string { return f.word }
func (f *format) Type() string   { return "FORMAT" }

func (f *format) Set(s string) error {
	if text, ok := strings.CutPrefix(s, "template="); ok {
		t, err := template.New("-o").Option("missingkey=error").Parse(text)
		if err != nil {
			return err
		}
		f.word, f.tmpl = "template", t
		return nil
	}
	if !slices.Contains([]string{"table", "wide", "json", "yaml", "csv", "name"}, s) {
		return fmt.Errorf("%q is no form of output: want %s", s, formats)
	}
	f.word = s
	return nil
}

// view is how the user wants to see something: the options of every list and
// show.
type view struct {
	format    format
	noHeaders bool
	watch     bool
	limit     int
	one       bool // a show: one object and no list
}

func completeFormats(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"table", "wide", "json", "yaml", "csv", "name", "template="}, cobra.ShellCompDirectiveNoFileComp
}

// formatFlags adds the options of a command that prints one thing once.
func formatFlags(cmd *cobra.Command) *view {
	v := &view{format: format{word: "table"}, one: true}
	cmd.Flags().VarP(&v.format, "output", "o", "form of the output: table, wide, json, yaml, csv, name, or template=… (Go's, over the JSON members)")
	cmd.Flags().BoolVar(&v.noHeaders, "no-headers", false, "leave the line of column names out")
	_ = cmd.RegisterFlagCompletionFunc("output", completeFormats) // it fails for unknown flags alone
	return v
}

// showFlags adds the options of a show.
func showFlags(cmd *cobra.Command) *view {
	v := formatFlags(cmd)
	cmd.Flags().BoolVarP(&v.watch, "watch", "w", false, "go on and print every change")
	return v
}

// listFlags adds the options of a list.
func listFlags(cmd *cobra.Command) *view { return limitedFlags(cmd, 0) }

// limitedFlags adds those of a list that is too long to be printed whole.
func limitedFlags(cmd *cobra.Command, limit int) *view {
	v := showFlags(cmd)
	v.one = false
	v.limit = limit
	cmd.Flags().Var(countFlag{&v.limit}, "limit", "print at most this many (0: all)")
	return v
}

// table prints things of one noun in the form that a view asks for.
type table[T any] struct {
	app  *app
	noun noun[T]
	view *view
	// widths are those of the columns so far, for lines that follow later.
	widths []int
	headed bool
}

// print prints what there is.
func (t *table[T]) print(w io.Writer, items []T) error {
	if t.view.limit > 0 && len(items) > t.view.limit {
		items = items[:t.view.limit]
	}
	switch t.view.format.word {
	case "json", "yaml":
		return t.printTree(w, items)
	case "csv":
		return t.printCSV(w, items)
	case "name":
		for _, it := range items {
			fmt.Fprintln(w, printable(t.noun.name(it)))
		}
		return nil
	case "template":
		return t.printTemplate(w, items)
	}
	if t.view.one {
		for _, it := range items {
			t.printFields(w, it)
		}
		return nil
	}
	t.printRows(w, items)
	return nil
}

func (t *table[T]) columns() []column[T] {
	upTo := inTable
	switch {
	case t.view.one:
		upTo = inShow
	case t.view.format.word == "wide" || t.view.format.word == "csv":
		upTo = inWide
	}
	return slices.DeleteFunc(slices.Clone(t.noun.columns), func(c column[T]) bool { return c.at > upTo })
}

func (t *table[T]) row(it T, machine bool) []string {
	columns := t.columns()
	row := make([]string, len(columns))
	for i, c := range columns {
		row[i] = t.app.cell(c.cell(it), machine)
	}
	return row
}

// cell writes a value for people, or for programs.
func (a *app) cell(v any, machine bool) string {
	switch v := v.(type) {
	case *time.Time:
		if v == nil {
			return ""
		}
		return a.cell(*v, machine)
	case time.Time:
		switch {
		case v.IsZero():
			return ""
		case machine || !a.outTTY:
			return v.UTC().Format(time.RFC3339)
		}
		return ago(v, a.now())
	case words:
		if machine {
			return v.machine
		}
		return printable(v.people)
	case []string:
		return printable(strings.Join(v, ","))
	case sentences:
		if machine {
			return printable(strings.Join(v, "; "))
		}
		var all []string
		for _, s := range v {
			all = append(all, printable(s))
		}
		return strings.Join(all, "\n")
	}
	return printable(fmt.Sprint(v))
}

// words are a state by its name, and as people read it.
type words struct{ machine, people string }

// sentences stand one below the other where one thing is shown.
type sentences []string

// gap stands between columns.
const gap = "   "

func (t *table[T]) printRows(w io.Writer, items []T) {
	columns := t.columns()
	rows := make([][]string, 0, len(items)+1)
	if !t.view.noHeaders && !t.headed {
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
	if t.widths == nil {
		t.widths = make([]int, len(columns))
	}
	for _, row := range rows {
		for i, s := range row {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(s))
		}
	}
	t.headed = true
	for n, row := range rows {
		var line strings.Builder
		for i, s := range row {
			pad := strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(s))
			if n >= first && columns[i].name == "state" {
				s = t.app.colour(s)
			}
			line.WriteString(s + pad + gap)
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// printFields prints one thing, a field per line, and what it holds of sentences one
// below the other. Empty fields are left out.
func (t *table[T]) printFields(w io.Writer, it T) {
	columns, row := t.columns(), t.row(it, false)
	for i, s := range row {
		if columns[i].name == "state" {
			s = t.app.colour(s)
		}
		if s != "" {
			head := columns[i].name + ": "
			fmt.Fprintf(w, "%s%s\n", head, strings.ReplaceAll(s, "\n", "\n"+strings.Repeat(" ", len(head))))
		}
	}
}

// dumb reports whether the terminal is one that only goes on: nothing on it can be
// painted, nor taken away again.
func (a *app) dumb() bool { return a.env("TERM") == "dumb" }

// colour paints the words that want to be seen, on a terminal alone.
func (a *app) colour(s string) string {
	if !a.outTTY || a.dumb() || a.env("NO_COLOR") != "" {
		return s
	}
	code := ""
	switch s {
	case "online", "running", "done", "approved":
		code = "32"
	case "suspect", "pending", "starting", "stopping", "queued", "undelivered", "cancelling", "waits for its host", "waits for approval":
		code = "33"
	case "offline", "revoked", "denied", "failed", "lost":
		code = "31"
	default:
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (t *table[T]) printCSV(w io.Writer, items []T) error {
	out := csv.NewWriter(w)
	if !t.view.noHeaders && !t.headed {
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
func (t *table[T]) printTree(w io.Writer, items []T) error {
	var documents []any
	switch {
	case t.view.one || t.view.watch:
		for _, it := range items {
			documents = append(documents, it)
		}
	case items == nil:
		documents = []any{[]T{}}
	default:
		documents = []any{items}
	}
	for _, d := range documents {
		b, err := encode(d, t.view.format.word == "json" && !t.view.watch)
		if err == nil && t.view.format.word == "yaml" {
			b, err = toYAML(b, t.view.watch)
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

// encode writes JSON with a line end, and without the escapes that are made
// for web pages.
func encode(v any, indent bool) ([]byte, error) {
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

func (t *table[T]) printTemplate(w io.Writer, items []T) error {
	for _, it := range items {
		b, err := encode(it, false)
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
		if err := t.view.format.tmpl.Execute(&line, tree); err != nil {
			return usage("-o json shows what there is", "the template does not fit: %s", err)
		}
		fmt.Fprintln(w, line.String())
	}
	return nil
}
