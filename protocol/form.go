package protocol

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// head are the members that all specs have in common.
type head struct {
	Kind   Kind          `json:"kind" doc:"What the action does."`
	Target CTID          `json:"target,omitzero" doc:"The id of the container."`
	Name   ContainerName `json:"name,omitzero" doc:"The name of the container, for people; of a new container its name."`
}

// headMembers is how many they are.
const headMembers = 3

// Argument describes one member of a spec.
type Argument struct {
	Name     string
	Doc      string
	Required bool
	Enum     []string // the words that are allowed; nil is any
	Min, Max *int64   // the bounds of a number; nil is none
	typ      reflect.Type
}

// Type is the type of the member in JSON Schema.
func (a *Argument) Type() string { return schemaOf(a.typ).Type }

// form is how the specs of a kind are written: the members of head and those of
// its arguments, in one flat object. It is never written to.
type form struct {
	args    reflect.Type          // a struct
	fields  []reflect.StructField // of args, the embedded ones in the place of their structs
	wire    reflect.Type          // a struct of the fields of head and args
	members []Argument            // of wire
}

// formOf derives the form from the declaration of the arguments.
func formOf(a Args) *form {
	f := &form{args: reflect.TypeOf(a).Elem()}
	f.fields = members(f.args)
	f.wire = reflect.StructOf(append(members(reflect.TypeFor[head]()), f.fields...))
	f.members = append(membersOf(reflect.TypeFor[head]()), membersOf(f.args)...)
	return f
}

// membersOf describes the members of a struct by their tags.
func membersOf(t reflect.Type) (all []Argument) {
	var required []string
	if blank, ok := t.FieldByName("_"); ok {
		required = strings.Split(blank.Tag.Get("required"), ",")
	}
	for _, field := range members(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		m := Argument{
			Name: name, Doc: field.Tag.Get("doc"), Required: slices.Contains(required, name),
			Min: bound(field.Tag.Get("min")), Max: bound(field.Tag.Get("max")), typ: field.Type,
		}
		if enum := field.Tag.Get("enum"); enum != "" {
			m.Enum = strings.Split(enum, ",")
		}
		all = append(all, m)
	}
	return all
}

// members lists the fields of a struct that are members of its JSON.
func members(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Anonymous || !f.IsExported() })
}

func bound(tag string) *int64 {
	if n, err := strconv.ParseInt(tag, 10, 64); err == nil {
		return &n
	}
	return nil
}

// pack returns a struct that encodes as the spec.
func (f *form) pack(s *Spec) (any, error) {
	args := reflect.Zero(f.args)
	if s.Args != nil {
		if args = reflect.ValueOf(s.Args).Elem(); args.Type() != f.args {
			return nil, refuse(ErrSpec, "%s: its arguments are %s, not %s", s.Kind, f.args.Name(), args.Type().Name())
		}
	}
	w := reflect.New(f.wire).Elem()
	for i, v := range []any{s.Kind, s.Target, s.Name} {
		w.Field(i).Set(reflect.ValueOf(v))
	}
	for i, field := range f.fields {
		w.Field(headMembers + i).Set(args.FieldByIndex(field.Index))
	}
	return w.Interface(), nil
}

// unpack reads what pack has written. Lax lets members of other kinds through.
func (f *form) unpack(b []byte, lax bool) (Spec, error) {
	p := reflect.New(f.wire)
	err := strict(b, p.Interface())
	if err != nil {
		p.Elem().SetZero()
		if b, err = f.without(b, lax, err); err == nil {
			err = strict(b, p.Interface())
		}
	}
	if err != nil {
		return Spec{}, err
	}
	w, args := p.Elem(), reflect.New(f.args)
	for i, field := range f.fields {
		args.Elem().FieldByIndex(field.Index).Set(w.Field(headMembers + i))
	}
	return Spec{
		Kind: w.Field(0).Interface().(Kind), Target: w.Field(1).Interface().(CTID), Name: w.Field(2).Interface().(ContainerName),
		Args: args.Interface().(Args),
	}, nil
}

// strict decodes what CheckJSON has taken.
func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s: it cannot be a JSON %s", strings.TrimPrefix(wrong.Field, "."), wrong.Value)
	}
	return err
}

// without takes the members of other kinds out of a spec that cannot be decoded
// because of err. Until each kind had its own arguments, all of them were members
// of every spec: a zero value there was let through, and has to be today, because
// such bytes have been signed and accepted. (Of a create nothing was held against
// the others' members; lax lets those through in what was accepted then.)
func (f *form) without(b []byte, lax bool, err error) ([]byte, error) {
	var all map[string]json.RawMessage
	if bad := json.Unmarshal(b, &all); bad != nil {
		return nil, bad
	}
	before := len(all)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.ContainsFunc(f.members, func(m Argument) bool { return m.Name == name }) {
			continue
		}
		typ := memberOfAny(name)
		if typ == nil {
			return nil, fmt.Errorf("%.60s: there is no such member", name)
		}
		v := reflect.New(typ)
		if bad := strict(all[name], v.Interface()); bad != nil || !v.Elem().IsZero() && !lax {
			return nil, fmt.Errorf("%s: this kind has none", name)
		}
		delete(all, name)
	}
	if len(all) == before {
		return nil, err
	}
	return json.Marshal(all)
}

// memberOfAny returns the type of a member that any kind has; nil if none has.
func memberOfAny(name string) reflect.Type {
	for _, k := range Kinds() {
		for _, m := range kinds[k].form.members {
			if m.Name == name {
				return m.typ
			}
		}
	}
	return nil
}

// check holds arguments to what their tags declare.
func (f *form) check(a Args) error {
	v := reflect.ValueOf(a).Elem()
	for i, field := range f.fields {
		m, v := f.members[headMembers+i], v.FieldByIndex(field.Index)
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

// Schema is the part of JSON Schema in which specs are described.
type Schema struct {
	Type                 string             `json:"type"`
	Description          string             `json:"description,omitempty"`
	Enum                 []string           `json:"enum,omitempty"`
	Minimum              *int64             `json:"minimum,omitempty"`
	Maximum              *int64             `json:"maximum,omitempty"`
	ContentEncoding      string             `json:"contentEncoding,omitempty"`
	Items                *Schema            `json:"items,omitempty"`
	Properties           map[string]*Schema `json:"properties,omitempty"`
	Required             []string           `json:"required,omitempty"`
	AdditionalProperties *bool              `json:"additionalProperties,omitempty"`
}

// Schema describes the specs of the kind.
func (i *KindInfo) Schema() *Schema {
	s := object(i.form.members)
	s.Description = i.Doc
	s.Properties["kind"].Enum = []string{string(i.Kind)}
	s.Required = append([]string{"kind"}, s.Required...)
	if !i.OnContainer() {
		delete(s.Properties, "target")
		return s
	}
	s.Required = append(s.Required, "target")
	if i.Creates {
		s.Required = append(s.Required, "name")
	}
	return s
}

func object(members []Argument) *Schema {
	s := &Schema{Type: "object", Properties: map[string]*Schema{}, AdditionalProperties: new(bool)}
	for _, m := range members {
		p := schemaOf(m.typ)
		p.Description, p.Enum, p.Minimum, p.Maximum = m.Doc, m.Enum, m.Min, m.Max
		s.Properties[m.Name] = p
		if m.Required {
			s.Required = append(s.Required, m.Name)
		}
	}
	return s
}

// schemaOf describes a type of Go as it is encoded.
func schemaOf(t reflect.Type) *Schema {
	switch {
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return &Schema{Type: "string"}
	case t == reflect.TypeFor[[]byte]():
		return &Schema{Type: "string", ContentEncoding: "base64"}
	case t.Kind() == reflect.Slice:
		return &Schema{Type: "array", Items: schemaOf(t.Elem())}
	case t.Kind() == reflect.Struct:
		return object(membersOf(t))
	case t.Kind() == reflect.Bool:
		return &Schema{Type: "boolean"}
	case t.Kind() == reflect.String:
		return &Schema{Type: "string"}
	}
	return &Schema{Type: "integer"}
}
