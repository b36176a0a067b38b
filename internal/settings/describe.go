package settings

import (
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// Description is what people have to know about a setting.
type Description struct {
	Name     string // with its section: "http.listen"
	Variable string // its name in the environment
	Default  string // as a file has it, in backquotes, or in words if it depends on the machine
	Unit     string // empty if it has none
	Does     string // sentences
	Reload   bool   // whether SIGHUP takes a change; else it takes a restart
	example  string // the default as a file has it, of a default in words an empty value
}

// Describe lists the settings of a struct that holds their defaults, and to which it
// takes a pointer. What it says stands in the tags of each field: does has its
// meaning, takes is reload or restart, unit is what it counts, and default says in
// words what the default depends on. A field without a meaning is an error.
func Describe(defaults any) ([]Description, error) {
	var all []Description
	for _, s := range settingsOf("", reflect.ValueOf(defaults).Elem()) {
		d := Description{Name: s.name, Variable: s.variable(), Default: s.tag.Get("default"), Unit: s.tag.Get("unit"), Does: s.tag.Get("does")}
		takes := s.tag.Get("takes")
		if d.Does == "" || takes != "reload" && takes != "restart" {
			return nil, fmt.Errorf("setting %s has no meaning, or takes neither reload nor restart", s.name)
		}
		d.Reload, d.example = takes == "reload", s.literal()
		if d.Default != "" {
			d.example = setting{value: reflect.New(reflect.TypeOf(s.value).Elem()).Interface()}.literal()
		} else {
			d.Default = "`" + d.example + "`"
		}
		all = append(all, d)
	}
	return all, nil
}

// literal is the value as a file has it.
func (s setting) literal() string {
	switch p := s.value.(type) {
	case *string:
		return strconv.Quote(*p)
	case *[]string:
		quoted := make([]string, len(*p))
		for i, e := range *p {
			quoted[i] = strconv.Quote(e)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	return s.get()
}

// Example writes a configuration file that has every setting with its meaning and its
// default, and sets none of them: each is in a comment.
func Example(w io.Writer, head string, all []Description) error {
	var b strings.Builder
	comment(&b, head)
	section := ""
	for _, d := range all {
		name := d.Name
		if dot := strings.LastIndexByte(d.Name, '.'); dot >= 0 {
			table := d.Name[:dot]
			if name = d.Name[dot+1:]; table != section {
				section = table
				fmt.Fprintf(&b, "\n[%s]\n", table)
			}
		}
		b.WriteString("\n")
		text := d.Does
		if d.Unit != "" {
			text += " In " + d.Unit + "."
		}
		if !d.Reload {
			text += " A change takes a restart."
		}
		if !strings.HasPrefix(d.Default, "`") {
			text += " Default: " + d.Default + "."
		}
		comment(&b, text)
		fmt.Fprintf(&b, "#%s = %s\n", name, d.example)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the example: %w", err)
	}
	return nil
}

// width is how wide a comment is.
const width = 88

// comment writes a text as a comment, in lines.
func comment(b *strings.Builder, text string) {
	for paragraph := range strings.SplitSeq(text, "\n") {
		line := "#"
		for _, word := range strings.Fields(paragraph) {
			if len(line)+1+len(word) > width {
				b.WriteString(line + "\n")
				line = "#"
			}
			line += " " + word
		}
		b.WriteString(line + "\n")
	}
}

// Reference writes the settings as a table in Markdown.
func Reference(w io.Writer, all []Description) error {
	var b strings.Builder
	b.WriteString("| setting | default | unit | meaning | a change takes |\n|---|---|---|---|---|\n")
	for _, d := range all {
		takes := "restart"
		if d.Reload {
			takes = "reload"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", d.Name, d.Default, d.Unit, strings.ReplaceAll(d.Does, "|", `\|`), takes)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the reference: %w", err)
	}
	return nil
}
