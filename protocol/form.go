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

	"github.com/hostler-io/hostler/protocol/ijson"
)

// head are the members that all specs have in common.
type head struct {
	Kind   Kind          `json:"kind" doc:"What the action does."`
	Target CTID          `json:"target,omitzero" doc:"The id of the container."`
	Name   ContainerName `json:"name,omitzero" doc:"The name of the container, for people; of a new container its name."`
}

// member describes one member of a spec.
type member struct {
	name     string
	doc      string
	required bool
	enum     []string // the words that are allowed; nil is any
	min, max *int64   // the bounds of a number; both are nil, or none is
	example  string   // JSON; empty is none
	field    reflect.StructField
}

// form is how the specs of a kind are written: the members of head and those of
// its arguments, in one flat object. It is never written to.
type form struct {
	args       reflect.Type // a struct
	head, tail []member     // of head and of args
}

// formOf derives the form from the declaration of the arguments.
func formOf(a Args) *form {
	t := reflect.TypeOf(a).Elem()
	return &form{args: t, head: membersOf(reflect.TypeFor[head]()), tail: membersOf(t)}
}

// members are all members of a spec, in their order.
func (f *form) members() []member { return slices.Concat(f.head, f.tail) }

// membersOf describes the members of a struct by their tags; those of embedded structs
// stand in the places of these.
func membersOf(t reflect.Type) (all []member) {
	var required []string
	if blank, ok := t.FieldByName("_"); ok {
		required = strings.Split(blank.Tag.Get("required"), ",")
	}
	for _, field := range reflect.VisibleFields(t) {
		if field.Anonymous || !field.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		m := member{
			name: name, doc: field.Tag.Get("doc"), required: slices.Contains(required, name),
			min: bound(field.Tag.Get("min")), max: bound(field.Tag.Get("max")), example: field.Tag.Get("example"), field: field,
		}
		if enum := field.Tag.Get("enum"); enum != "" {
			m.enum = strings.Split(enum, ",")
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

// encode writes a spec.
func (f *form) encode(s *Spec) ([]byte, error) {
	args := s.Args
	if args == nil {
		args = reflect.New(f.args).Interface().(Args)
	} else if t := reflect.TypeOf(args).Elem(); t != f.args {
		return nil, refuse(ErrSpec, "%s: its arguments are %s, not %s", s.Kind, f.args.Name(), t.Name())
	}
	front, err := encode(head{s.Kind, s.Target, s.Name})
	if err != nil {
		return nil, err
	}
	back, err := encode(args)
	if err != nil || len(back) == len("{}") {
		return front, err
	}
	return slices.Concat(front[:len(front)-1], []byte(","), back[1:]), nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // which is for the outer encoder to decide
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// decode reads what encode has written. Lax lets members of other kinds through.
func (f *form) decode(b []byte, lax bool) (Spec, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return Spec{}, err
	}
	if err := f.foreign(all, lax); err != nil {
		return Spec{}, err
	}
	var h head
	args := reflect.New(f.args)
	if err := errors.Join(fill(f.head, all, reflect.ValueOf(&h).Elem()), fill(f.tail, all, args.Elem())); err != nil {
		return Spec{}, err
	}
	return Spec{Kind: h.Kind, Target: h.Target, Name: h.Name, Args: args.Interface().(Args)}, nil
}

// fill decodes members into a struct.
func fill(members []member, all map[string]json.RawMessage, into reflect.Value) error {
	for _, m := range members {
		if raw, ok := all[m.name]; ok {
			if err := strict(m.name, raw, into.FieldByIndex(m.field.Index).Addr().Interface()); err != nil {
				return err
			}
		}
	}
	return nil
}

// strict decodes a member of what CheckJSON has taken.
func strict(name string, b []byte, v any) error {
	err := ijson.Decode(b, v, false)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s: it cannot be a JSON %s", strings.TrimSuffix(name+"."+wrong.Field, "."), wrong.Value)
	}
	return err
}

// foreign refuses members that a kind does not have. Until each kind had its own
// arguments, all of them were members of every spec: a zero value there was let
// through, and has to be today, because such bytes have been signed and accepted. (Of a
// create nothing was held against the others' members; lax lets those through in what
// was accepted then.)
func (f *form) foreign(all map[string]json.RawMessage, lax bool) error {
	own := f.members()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.ContainsFunc(own, func(m member) bool { return m.name == name }) {
			continue
		}
		typ := memberOfAny(name)
		if typ == nil {
			return fmt.Errorf("%.60s: there is no such member", name)
		}
		v := reflect.New(typ)
		if bad := strict(name, all[name], v.Interface()); bad != nil || !v.Elem().IsZero() && !lax {
			return fmt.Errorf("%s: this kind has none", name)
		}
	}
	return nil
}

// memberOfAny returns the type of a member that any kind has; nil if none has.
func memberOfAny(name string) reflect.Type {
	for _, k := range Kinds() {
		i, _ := KindOf(k)
		for _, m := range i.form.members() {
			if m.name == name {
				return m.field.Type
			}
		}
	}
	return nil
}

// check holds arguments to what their tags declare.
func (f *form) check(a Args) error {
	v := reflect.ValueOf(a).Elem()
	for _, m := range f.tail {
		v := v.FieldByIndex(m.field.Index)
		switch {
		case m.required && (v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0):
			return fmt.Errorf("%s: it is missing", m.name)
		case m.enum != nil && v.String() != "" && !slices.Contains(m.enum, v.String()):
			return fmt.Errorf("%s: %.40q is not allowed; use %s", m.name, v.String(), strings.Join(m.enum, " or "))
		case m.min != nil && v.Int() < *m.min, m.max != nil && v.Int() > *m.max:
			return fmt.Errorf("%s: %d is not between %d and %d", m.name, v.Int(), *m.min, *m.max)
		}
	}
	return nil
}

// Schema describes the specs of the kind in JSON Schema.
func (i *KindInfo) Schema() map[string]any {
	required := []string{"kind"}
	members := i.form.members()
	members[0].enum = []string{string(i.Kind)}
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

// ArgsSchema describes the arguments of the kind in JSON Schema.
func (i *KindInfo) ArgsSchema() map[string]any {
	s := object(i.form.tail)
	s["description"] = fmt.Sprintf("The arguments of %s. %s", i.Kind, i.Doc)
	return s
}

// ExampleArgs returns arguments that the kind takes: those that must be there.
func (i *KindInfo) ExampleArgs() map[string]any {
	all := map[string]any{}
	for _, m := range i.form.tail {
		if m.required {
			all[m.name] = json.RawMessage(m.example)
		}
	}
	return all
}

func object(members []member, required ...string) map[string]any {
	properties := map[string]any{}
	for _, m := range members {
		p := schemaOf(m.field.Type)
		p["description"] = m.doc
		if m.enum != nil {
			p["enum"] = m.enum
		}
		if m.min != nil {
			p["minimum"], p["maximum"] = *m.min, *m.max
		}
		if m.example != "" {
			p["examples"] = []json.RawMessage{json.RawMessage(m.example)}
		}
		properties[m.name] = p
		if m.required {
			required = append(required, m.name)
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
