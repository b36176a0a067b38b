package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/hostler-io/hostler/protocol/form"
)

// head are the members that all specs have in common.
type head struct {
	Kind   Kind          `json:"kind" doc:"What the action does."`
	Target CTID          `json:"target,omitzero" doc:"The id of the container."`
	Name   ContainerName `json:"name,omitzero" doc:"The name of the container, for people; of a new container its name."`
}

// specForm is how the specs of a kind are written: the members of head and those of
// its arguments, in one flat object. It is never written to.
type specForm struct {
	args       reflect.Type // a struct
	head, tail form.Members // of head and of args
}

// formOf derives the form from the declaration of the arguments.
func formOf(a Args) *specForm {
	t := reflect.TypeOf(a).Elem()
	return &specForm{args: t, head: form.Of(reflect.TypeFor[head]()), tail: form.Of(t)}
}

// members are all members of a spec, in their order.
func (f *specForm) members() form.Members { return slices.Concat(f.head, f.tail) }

// encode writes a spec.
func (f *specForm) encode(s *Spec) ([]byte, error) {
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
func (f *specForm) decode(b []byte, lax bool) (Spec, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return Spec{}, err
	}
	if err := f.foreign(all, lax); err != nil {
		return Spec{}, err
	}
	var h head
	args := reflect.New(f.args)
	if err := errors.Join(f.head.Fill(all, reflect.ValueOf(&h).Elem()), f.tail.Fill(all, args.Elem())); err != nil {
		return Spec{}, err
	}
	return Spec{Kind: h.Kind, Target: h.Target, Name: h.Name, Args: args.Interface().(Args)}, nil
}

// foreign refuses members that a kind does not have. Until each kind had its own
// arguments, all of them were members of every spec: a zero value there was let
// through, and has to be today, because such bytes have been signed and accepted. (Of a
// create nothing was held against the others' members; lax lets those through in what
// was accepted then.)
func (f *specForm) foreign(all map[string]json.RawMessage, lax bool) error {
	own := f.members()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if own.Has(name) {
			continue
		}
		typ := memberOfAny(name)
		if typ == nil {
			return fmt.Errorf("%.60s: there is no such member", name)
		}
		v := reflect.New(typ)
		if bad := form.Decode(name, all[name], v.Interface()); bad != nil || !v.Elem().IsZero() && !lax {
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
			if m.Name == name {
				return m.Field.Type
			}
		}
	}
	return nil
}

// Schema describes the specs of the kind in JSON Schema.
func (i *KindInfo) Schema() map[string]any {
	required := []string{"kind"}
	members := i.form.members()
	members[0].Enum = []string{string(i.Kind)}
	if i.OnContainer() {
		required = append(required, "target")
	} else {
		members = slices.Delete(members, 1, 2)
	}
	if i.Creates {
		required = append(required, "name")
	}
	s := members.Schema(required...)
	s["description"] = i.Doc
	return s
}

// ArgsSchema describes the arguments of the kind in JSON Schema.
func (i *KindInfo) ArgsSchema() map[string]any {
	s := i.form.tail.Schema()
	s["description"] = fmt.Sprintf("The arguments of %s. %s", i.Kind, i.Doc)
	return s
}

// ExampleArgs returns arguments that the kind takes: those that must be there.
func (i *KindInfo) ExampleArgs() map[string]any { return i.form.tail.Example() }
