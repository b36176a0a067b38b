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
	Min, Max *int64   // the bounds of a number; both are nil, or none is
	typ      reflect.Type
}

// Type is the type of the member in JSON Schema.
func (a *Argument) Type() string { return schemaOf(a.typ)["type"].(string) }

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

// Schema describes the specs of the kind in JSON Schema.
func (i *KindInfo) Schema() map[string]any {
	required := []string{"kind"}
	members := slices.Clone(i.form.members)
	members[0].Enum = []string{string(i.Kind)}
	if i.OnContainer() {
		required = append(required, "target")
	} else {
		members = slices.Delete(members, 1, 2)
	}
	if i.Creates {
		required = append(required, "name")
	}
	s := object(members, required...)
	s["description"] = i.Doc
	return s
}

func object(members []Argument, required ...string) map[string]any {
	properties := map[string]any{}
	for _, m := range members {
		p := schemaOf(m.typ)
		p["description"] = m.Doc
		if m.Enum != nil {
			p["enum"] = m.Enum
		}
		if m.Min != nil {
			p["minimum"], p["maximum"] = *m.Min, *m.Max
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
		return object(membersOf(t))
	case t.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	}
	return map[string]any{"type": "integer"}
}
