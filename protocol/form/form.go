// Package form reads what a struct declares of itself by the tags of its fields: the
// members of a JSON object, their bounds, their meaning, and their JSON Schema; pure.
// [protocol.Args] says which tags there are.
package form

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler-io/hostler/protocol/ijson"
)

// Member describes one member of an object.
type Member struct {
	Name     string
	Doc      string
	Required bool
	Enum     []string // the words that are allowed; nil is any
	Min, Max *int64   // the bounds of a number; both are nil, or none is
	Example  string   // JSON; empty is none
	Field    reflect.StructField
}

// Members are those of an object, in their order. They are never written to.
type Members []Member

// Of describes the members of a struct; those of embedded structs stand in the
// places of these.
func Of(t reflect.Type) (all Members) {
	var required []string
	if blank, ok := t.FieldByName("_"); ok {
		required = strings.Split(blank.Tag.Get("required"), ",")
	}
	for _, field := range reflect.VisibleFields(t) {
		if field.Anonymous || !field.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		m := Member{
			Name: name, Doc: field.Tag.Get("doc"), Required: slices.Contains(required, name),
			Min: bound(field.Tag.Get("min")), Max: bound(field.Tag.Get("max")), Example: field.Tag.Get("example"), Field: field,
		}
		if enum := field.Tag.Get("enum"); enum != "" {
			m.Enum = strings.Split(enum, ",")
		}
		all = append(all, m)
	}
	return all
}

func bound(tag string) *int64 {
	if n, err := strconv.ParseInt(tag, 10, 64); err == nil {
		return &n
	}
	return nil
}

// Has reports whether there is a member of that name.
func (all Members) Has(name string) bool {
	return slices.ContainsFunc(all, func(m Member) bool { return m.Name == name })
}

// Fill decodes members into a struct. Each was taken by [ijson.Check].
func (all Members) Fill(members map[string]json.RawMessage, into reflect.Value) error {
	for _, m := range all {
		if raw, ok := members[m.Name]; ok {
			if err := Decode(m.Name, raw, into.FieldByIndex(m.Field.Index).Addr().Interface()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Decode decodes one member into v. Unknown members of it are an error.
func Decode(name string, b []byte, v any) error {
	err := ijson.Decode(b, v, false)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s: it cannot be a JSON %s", strings.TrimSuffix(name+"."+wrong.Field, "."), wrong.Value)
	}
	return err
}

// Check holds a struct to what its tags declare.
func (all Members) Check(s reflect.Value) error {
	for _, m := range all {
		v := s.FieldByIndex(m.Field.Index)
		switch {
		case m.Required && (v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0):
			return fmt.Errorf("%s: it is missing", m.Name)
		case m.Enum != nil && v.String() != "" && !slices.Contains(m.Enum, v.String()):
			return fmt.Errorf("%s: %.40q is not allowed; use %s", m.Name, v.String(), strings.Join(m.Enum, " or "))
		case m.Min != nil && v.Int() < *m.Min, m.Max != nil && v.Int() > *m.Max:
			return fmt.Errorf("%s: %d is not between %d and %d", m.Name, v.Int(), *m.Min, *m.Max)
		}
	}
	return nil
}

// Example returns a value for each member that must be there.
func (all Members) Example() map[string]any {
	values := map[string]any{}
	for _, m := range all {
		if m.Required {
			values[m.Name] = json.RawMessage(m.Example)
		}
	}
	return values
}

// Schema describes the object in JSON Schema. Required are members that must be there,
// beside those that say so themselves.
func (all Members) Schema(required ...string) map[string]any {
	properties := map[string]any{}
	for _, m := range all {
		p := schemaOf(m.Field.Type)
		p["description"] = m.Doc
		if m.Enum != nil {
			p["enum"] = m.Enum
		}
		if m.Min != nil {
			p["minimum"], p["maximum"] = *m.Min, *m.Max
		}
		switch {
		case m.Example != "":
			p["examples"] = []json.RawMessage{json.RawMessage(m.Example)}
		case m.Enum != nil:
			p["examples"] = m.Enum[:1]
		}
		properties[m.Name] = p
		if m.Required {
			required = append(required, m.Name)
		}
	}
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		s["required"] = required
	}
	return s
}

// schemaOf describes a type of Go as it is encoded.
func schemaOf(t reflect.Type) map[string]any {
	switch {
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem())
	case t.Kind() == reflect.String, reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return map[string]any{"type": "string"}
	case t == reflect.TypeFor[[]byte]():
		return map[string]any{"type": "string", "contentEncoding": "base64"}
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case t.Kind() == reflect.Struct:
		return Of(t).Schema()
	case t.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	}
	return map[string]any{"type": "integer"}
}
