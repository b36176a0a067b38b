package protocol_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/protocol"
)

func TestSecret(t *testing.T) {
	s := protocol.Secret{Fleet: theFleet, Host: "edge-07", Action: anAction, Env: []string{"TOKEN=a b=c"}}
	b := must(s.Encode())
	got, err := protocol.OpenSecret(b, nil, theFleet, "edge-07", anAction)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Env, got.Env); diff != "" {
		t.Error(diff)
	}
	for name, open := range map[string]func() (protocol.Secret, error){
		"another fleet":  func() (protocol.Secret, error) { return protocol.OpenSecret(b, nil, otherFleet, "edge-07", anAction) },
		"another host":   func() (protocol.Secret, error) { return protocol.OpenSecret(b, nil, theFleet, "edge-08", anAction) },
		"another action": func() (protocol.Secret, error) { return protocol.OpenSecret(b, nil, theFleet, "edge-07", twoAction) },
		"another type": func() (protocol.Secret, error) {
			return protocol.OpenSecret([]byte(strings.Replace(string(b), "secret/1", "secret/2", 1)), nil, theFleet, "edge-07", anAction)
		},
		"more members": func() (protocol.Secret, error) {
			return protocol.OpenSecret([]byte(`{"a":1,`+string(b[1:])), nil, theFleet, "edge-07", anAction)
		},
		"no variable": func() (protocol.Secret, error) {
			return protocol.OpenSecret([]byte(strings.Replace(string(b), "TOKEN=a b=c", "TOKEN", 1)), nil, theFleet, "edge-07", anAction)
		},
		"no JSON": func() (protocol.Secret, error) {
			return protocol.OpenSecret([]byte("TOKEN=a b=c"), nil, theFleet, "edge-07", anAction)
		},
	} {
		if _, err := open(); codeOf(err) != protocol.ErrSpec || strings.Contains(err.Error(), "a b=c") {
			t.Errorf("%s: %v", name, err)
		}
	}
	two := protocol.Secret{Fleet: theFleet, Host: "edge-07", Action: anAction, Env: []string{"B=1", "A=2", "B=3"}}
	if diff := cmp.Diff([]string{"A", "B"}, two.Names()); diff != "" {
		t.Error(diff)
	}
	b = must(two.Encode())
	if _, err := protocol.OpenSecret(b, two.Names(), theFleet, "edge-07", anAction); err != nil {
		t.Error(err)
	}
	for _, names := range [][]string{{"A"}, {"A", "B", "C"}, {"A", "LD_PRELOAD"}} {
		if _, err := protocol.OpenSecret(b, names, theFleet, "edge-07", anAction); codeOf(err) != protocol.ErrSpec {
			t.Errorf("as %q: %v", names, err)
		}
	}
	for name, bad := range map[string]protocol.Secret{
		"nothing": {Fleet: theFleet, Host: "edge-07", Action: anAction},
		"long":    {Fleet: theFleet, Host: "edge-07", Action: anAction, Env: []string{"A=" + strings.Repeat("x", protocol.MaxSecret)}},
		"no pair": {Fleet: theFleet, Host: "edge-07", Action: anAction, Env: []string{"TOKEN"}},
		"no host": {Fleet: theFleet, Action: anAction, Env: []string{"A=b"}},
	} {
		if _, err := bad.Encode(); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func FuzzOpenSecret(f *testing.F) {
	f.Add(must(protocol.Secret{Fleet: theFleet, Host: "edge-07", Action: anAction, Env: []string{"A=b"}}.Encode()))
	f.Add([]byte(`{"hostler":"secret/1","env":["A=b"]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := protocol.OpenSecret(b, nil, theFleet, "edge-07", anAction)
		if err == nil && (len(s.Env) == 0 || s.Fleet != theFleet || s.Host != "edge-07" || s.Action != anAction) {
			t.Errorf("%+v was taken", s)
		}
	})
}
