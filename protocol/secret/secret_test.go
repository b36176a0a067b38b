package secret_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/secret"
)

var (
	theFleet, otherFleet = protocol.FleetID{1}, protocol.FleetID{2}

	anAction  = must(protocol.ParseActionID("01890a5d-ac96-774b-bcce-b302099a8057"))
	twoAction = must(protocol.ParseActionID("01890a5d-ac96-774b-bcce-b302099a8058"))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestSecret(t *testing.T) {
	s := secret.Values{Fleet: theFleet, Host: "edge-07", Action: anAction, Env: []string{"TOKEN=a b=c"}}
	b := must(s.Encode())
	got, err := secret.Open(b, nil, theFleet, "edge-07", anAction)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Env, got.Env); diff != "" {
		t.Error(diff)
	}
	for name, open := range map[string]func() (secret.Values, error){
		"another fleet":  func() (secret.Values, error) { return secret.Open(b, nil, otherFleet, "edge-07", anAction) },
		"another host":   func() (secret.Values, error) { return secret.Open(b, nil, theFleet, "edge-08", anAction) },
		"another action": func() (secret.Values, error) { return secret.Open(b, nil, theFleet, "edge-07", twoAction) },
		"another type": func() (secret.Values, error) {
			return secret.Open([]byte(strings.Replace(string(b), "secret/1", "secret/2", 1)), nil, theFleet, "edge-07", anAction)
		},
		"more members": func() (secret.Values, error) {
			return secret.Open([]byte(`{"a":1,`+string(b[1:])), nil, theFleet, "edge-07", anAction)
		},
		"no variable": func() (secret.Values, error) {
			return secret.Open([]byte(strings.Replace(string(b), "TOKEN=a b=c", "TOKEN", 1)), nil, theFleet, "edge-07", anAction)
		},
		"no JSON": func() (secret.Values, error) {
			return secret.Open([]byte("TOKEN=a b=c"), nil, theFleet, "edge-07", anAction)
		},
	} {
		if _, err := open(); !errors.Is(err, protocol.ErrSpec) || strings.Contains(err.Error(), "a b=c") {
			t.Errorf("%s: %v", name, err)
		}
	}
	two := secret.Values{Fleet: theFleet, Host: "edge-07", Action: anAction, Env: []string{"B=1", "A=2", "B=3"}}
	if diff := cmp.Diff([]string{"A", "B"}, two.Names()); diff != "" {
		t.Error(diff)
	}
	b = must(two.Encode())
	if _, err := secret.Open(b, two.Names(), theFleet, "edge-07", anAction); err != nil {
		t.Error(err)
	}
	for _, names := range [][]string{{"A"}, {"A", "B", "C"}, {"A", "LD_PRELOAD"}} {
		if _, err := secret.Open(b, names, theFleet, "edge-07", anAction); !errors.Is(err, protocol.ErrSpec) {
			t.Errorf("as %q: %v", names, err)
		}
	}
	for name, bad := range map[string]secret.Values{
		"nothing": {Fleet: theFleet, Host: "edge-07", Action: anAction},
		"long":    {Fleet: theFleet, Host: "edge-07", Action: anAction, Env: []string{"A=" + strings.Repeat("x", secret.Max)}},
		"no pair": {Fleet: theFleet, Host: "edge-07", Action: anAction, Env: []string{"TOKEN"}},
		"no host": {Fleet: theFleet, Action: anAction, Env: []string{"A=b"}},
	} {
		if _, err := bad.Encode(); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(must(secret.Values{Fleet: theFleet, Host: "edge-07", Action: anAction, Env: []string{"A=b"}}.Encode()))
	f.Add([]byte(`{"hostler":"secret/1","env":["A=b"]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := secret.Open(b, nil, theFleet, "edge-07", anAction)
		if err == nil && (len(s.Env) == 0 || s.Fleet != theFleet || s.Host != "edge-07" || s.Action != anAction) {
			t.Errorf("%+v was taken", s)
		}
	})
}
