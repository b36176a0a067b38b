package protocol

import (
	"fmt"
	"reflect"
	"time"
)

// Spec is what an action does: everything that changes the effect, but not the
// host. It is written once, where the action is created, and travels as bytes
// from then on: approvals and receipts name the digest of those bytes.
//
// It is one flat JSON object: the members below, and behind them the arguments of
// the kind.
type Spec struct {
	Kind Kind
	// Target is the container; a container that is renamed keeps its waiting
	// actions, a new one of the same name never gets them.
	Target CTID
	// Name is that of the container: the new one's of a create, else for people
	// only, who decide by it. Hosts refuse a name that the target neither has nor
	// had, nor will have by what was accepted before.
	Name ContainerName
	// Args are of the type of the kind; nil encodes as the zero arguments. It is
	// not nil in a spec that was decoded.
	Args Args
}

// MaxSpec is the longest spec, in bytes: with its approvals and two layers of
// base64 it still fits into one order.
const MaxSpec = 12 << 10

// MarshalJSON encodes the spec. It fails for an unknown kind, and for arguments
// of another kind.
func (s Spec) MarshalJSON() ([]byte, error) {
	info, ok := kinds[s.Kind]
	if !ok {
		return nil, refuse(ErrUnknownKind, "%.60q", s.Kind)
	}
	return info.form.encode(&s)
}

// UnmarshalJSON is [DecodeSpec].
func (s *Spec) UnmarshalJSON(b []byte) (err error) { *s, err = DecodeSpec(b); return err }

// DecodeSpec reads spec bytes. It returns [ErrUnknownKind] for a kind that this
// side does not know and [ErrSpec] for everything else that is wrong, each with
// a sentence that names the fault.
func DecodeSpec(b []byte) (Spec, error) { return decodeSpec(b, true) }

// DecodeRequest reads the spec bytes of a new request. It is stricter than
// [DecodeSpec], which also reads specs that were accepted before a rule existed:
// those have to come to their end.
func DecodeRequest(b []byte) (Spec, error) {
	s, err := decodeSpec(b, false)
	if l := get[TimeLimit](&s); err == nil && l.TimeoutMS > 0 && l.TimeoutMS < MinTimeout.Milliseconds() {
		err = refuse(ErrSpec, "%s: %s", s.Kind, l.bad())
	}
	return s, err
}

// ComposeSpec makes the bytes of a new spec from its arguments as a JSON object, of
// which empty is none. It fails as [DecodeRequest] does.
func ComposeSpec(k Kind, target CTID, name ContainerName, args []byte) ([]byte, error) {
	info, ok := kinds[k]
	if !ok {
		return nil, refuse(ErrUnknownKind, "%.60q", k)
	}
	if len(args) == 0 {
		args = []byte("{}")
	}
	if err := CheckJSON(args); err != nil {
		return nil, refuse(ErrSpec, "%s: args: %s", k, err)
	}
	s, err := info.form.decode(args, false)
	if err != nil {
		return nil, refuse(ErrSpec, "%s: args: %s", k, err)
	}
	if s.Kind != "" || !s.Target.IsZero() || s.Name != "" {
		return nil, refuse(ErrSpec, "%s: args: kind, target and name are no arguments", k)
	}
	s.Kind, s.Target, s.Name = k, target, name
	b, err := s.MarshalJSON()
	if err != nil {
		return nil, err
	}
	_, err = DecodeRequest(b)
	return b, err
}

func decodeSpec(b []byte, accepted bool) (Spec, error) {
	if len(b) > MaxSpec {
		return Spec{}, refuse(ErrSpec, "it has %d bytes, at most %d are allowed; push larger input as a file", len(b), MaxSpec)
	}
	// The kind comes first: a newer kind may well have members that this side
	// does not know, and "unknown kind" is the truer answer.
	var k struct {
		Kind Kind `json:"kind"`
	}
	if err := DecodeJSON(b, &k, true); err != nil {
		return Spec{}, refuse(ErrSpec, "%s", err)
	}
	info, ok := kinds[k.Kind]
	if !ok {
		return Spec{}, refuse(ErrUnknownKind, "%.60q", k.Kind)
	}
	s, err := info.form.decode(b, accepted && info.Creates)
	if err == nil {
		err = s.validate(&info)
	}
	if err != nil {
		return s, refuse(ErrSpec, "%s: %s", k.Kind, err)
	}
	return s, nil
}

func (s *Spec) validate(info *KindInfo) error {
	switch {
	case info.OnContainer() && s.Target.IsZero():
		return fmt.Errorf("target: the id of the container is missing")
	case !info.OnContainer() && !s.Target.IsZero():
		return fmt.Errorf("target: this kind has none")
	case info.Creates && s.Name == "":
		return fmt.Errorf("name: the new container needs one")
	}
	if err := s.Args.check(); err != nil {
		return err
	}
	return info.form.tail.Check(reflect.ValueOf(s.Args).Elem())
}

// Texts returns every text among the arguments.
func (s *Spec) Texts() []string {
	if s.Args == nil {
		return nil
	}
	return texts(nil, reflect.ValueOf(s.Args))
}

func texts(all []string, v reflect.Value) []string {
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		all = texts(all, v.Elem())
	case v.Kind() == reflect.String:
		all = append(all, v.String())
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			all = texts(all, v.Field(i))
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String:
		for i := range v.Len() {
			all = texts(all, v.Index(i))
		}
	}
	return all
}

// Timeout returns the time limit that applies; 0 means none.
func (s *Spec) Timeout() time.Duration {
	l := get[TimeLimit](s)
	switch {
	case l.TimeoutMS == NoTimeout:
		return 0
	case l.TimeoutMS > 0:
		return time.Duration(l.TimeoutMS) * time.Millisecond
	case ArgsOf[CommandArgs](s).Daemon:
		return 0
	default:
		return kinds[s.Kind].RunTimeout
	}
}

// Renames returns the name that the action gives to its container: that of a new
// one, or the next name of one that exists. Empty is none.
func (s *Spec) Renames() ContainerName {
	if kinds[s.Kind].Creates {
		return s.Name
	}
	return ArgsOf[RenameArgs](s).NewName
}
