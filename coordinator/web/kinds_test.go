package web_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// TestKindsAreDescribed: each kind of the table is in /v1/kinds, and the document has
// the form of its arguments and specs where it says what is asked for.
func TestKindsAreDescribed(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		kinds := as[[]api.Kind](t, s.call(core.RoleViewer, http.MethodGet, "/v1/kinds", nil), http.StatusOK)
		type form struct {
			Required   []string
			Properties map[string]struct {
				Enum          []string
				AnyOf         []map[string]string
				ContentSchema struct {
					OneOf []map[string]string
				}
			}
		}
		doc := as[struct {
			Components struct{ Schemas map[string]form }
		}](t, s.call("", http.MethodGet, "/v1/openapi.json", nil), http.StatusOK)
		request := doc.Components.Schemas["NewAction"].Properties
		specs, args := request["spec"].ContentSchema.OneOf, request["args"].AnyOf
		if n := len(protocol.Kinds()); len(kinds) != n || len(specs) != n || len(args) != n {
			t.Fatalf("%d kinds, %d forms of specs and %d of arguments, want %d", len(kinds), len(specs), len(args), n)
		}
		for i, k := range protocol.Kinds() {
			if kinds[i].Kind != string(k) || kinds[i].Doc == "" || kinds[i].StartTTL == "" || len(kinds[i].Args) == 0 || kinds[i].Example == nil {
				t.Errorf("%s: %+v", k, kinds[i])
			}
			form := doc.Components.Schemas["spec."+string(k)]
			if specs[i]["$ref"] != "#/components/schemas/spec."+string(k) || len(form.Required) == 0 || form.Properties["kind"].Enum[0] != string(k) {
				t.Errorf("%s: %v, %+v", k, specs[i], form)
			}
			if _, there := doc.Components.Schemas["args."+string(k)]; args[i]["$ref"] != "#/components/schemas/args."+string(k) || !there {
				t.Errorf("%s: %v", k, args[i])
			}
		}
	})
}

// TestActionsByKind: who asks by kind and arguments gets the same bytes as who makes
// them, and sees them.
func TestActionsByKind(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		web, others := protocol.NewCTID(1, [10]byte{7}), "spec: it stands in place of kind, target, name and args"
		shop := protocol.NewCTID(1, [10]byte{8})
		s.host.Set(func(f *coordtest.Facts) {
			f.Containers = []protocol.Container{{CTID: web, Name: "web", Runtime: "lxc", State: "running"}, {Name: "foreign", Runtime: "lxc", State: "running"}}
		})
		s.host.Heartbeat()
		synctest.Wait()
		args := func(text string) json.RawMessage { return json.RawMessage(text) }
		for name, c := range map[string]struct {
			ask  api.NewAction
			want protocol.Spec
			code string
			says string
		}{
			"on a host": {
				ask:  api.NewAction{Kind: "host.run", Args: args(`{ "timeout_ms": 5000, "argv": ["uname"] }`)},
				want: protocol.Spec{Kind: protocol.KindRun, Args: &protocol.CommandArgs{Process: protocol.Process{Argv: []string{"uname"}}, TimeLimit: protocol.TimeLimit{TimeoutMS: 5000}}},
			},
			"without arguments": {ask: api.NewAction{Kind: "host.ping"}, want: protocol.Spec{Kind: protocol.KindPing}},
			"by name":           {ask: api.NewAction{Kind: "container.start", Name: "web"}, want: protocol.Spec{Kind: protocol.KindStart, Target: web, Name: "web"}},
			"by id":             {ask: api.NewAction{Kind: "container.start", Target: web.String()}, want: protocol.Spec{Kind: protocol.KindStart, Target: web}},
			"a new one": {
				ask:  api.NewAction{ID: protocol.ActionID(shop).String(), Kind: "container.create", Name: "shop", Args: args(`{"template":"debian"}`)},
				want: protocol.Spec{Kind: protocol.KindCreate, Target: shop, Name: "shop", Args: &protocol.CreateArgs{Template: "debian"}},
			},
			"no such container":      {ask: api.NewAction{Kind: "container.start", Name: "shop"}, code: api.CodeInvalid, says: "no container of ours"},
			"a foreign container":    {ask: api.NewAction{Kind: "container.start", Name: "foreign"}, code: api.CodeInvalid, says: "no container of ours"},
			"no container":           {ask: api.NewAction{Kind: "container.start"}, code: api.CodeInvalid, says: "name: container.start needs"},
			"no such host":           {ask: api.NewAction{Host: "nobody", Kind: "container.start", Name: "web"}, code: api.CodeUnknownHost},
			"no such kind":           {ask: api.NewAction{Kind: "host.fly"}, code: api.CodeInvalid, says: "want one of container.adopt"},
			"no such argument":       {ask: api.NewAction{Kind: "host.run", Args: args(`{"argv":["true"],"wings":2}`)}, code: api.CodeInvalid, says: "wings"},
			"of another type":        {ask: api.NewAction{Kind: "host.run", Args: args(`{"argv":"true"}`)}, code: api.CodeInvalid, says: "argv"},
			"an argument is missing": {ask: api.NewAction{Kind: "host.run"}, code: api.CodeInvalid, says: "argv: it is missing"},
			"no argument":            {ask: api.NewAction{Kind: "host.run", Args: args(`{"argv":["true"],"name":"x"}`)}, code: api.CodeInvalid, says: "no arguments"},
			"both forms":             {ask: api.NewAction{Kind: "host.ping", Spec: coordtest.RunSpec("true")}, code: api.CodeInvalid, says: others},
			"neither":                {ask: api.NewAction{}, code: api.CodeInvalid, says: "GET /v1/kinds"},
			"arguments of nothing":   {ask: api.NewAction{Args: args(`{}`), Spec: coordtest.RunSpec("true")}, code: api.CodeInvalid, says: "kind"},
		} {
			if c.ask.Host == "" {
				c.ask.Host = "edge-07"
			}
			r := s.call(core.RoleOperator, http.MethodPost, "/v1/actions?dry_run=true", c.ask)
			if c.code != "" {
				if p := wantProblem(t, r, c.code); !strings.Contains(p.Detail, c.says) {
					t.Errorf("%s: %s does not say %q", name, p.Detail, c.says)
				}
				continue
			}
			if got := as[api.Action](t, r, http.StatusOK); string(got.Spec) != string(coordtest.Spec(c.want)) {
				t.Errorf("%s: %s, want %s", name, got.Spec, coordtest.Spec(c.want))
			}
		}
		ask := api.NewBatch{Hosts: []string{"edge-07"}, Kind: "host.run", Args: args(`{"argv":["true"]}`)}
		b := as[api.Batch](t, s.call(core.RoleOperator, http.MethodPost, "/v1/batches", ask), http.StatusAccepted)
		if len(b.Actions) != 1 || b.Actions[0].Kind != "host.run" {
			t.Errorf("a batch by kind: %+v", b)
		}
		ask = api.NewBatch{Hosts: []string{"edge-07"}, Kind: "container.start"}
		wantProblem(t, s.call(core.RoleOperator, http.MethodPost, "/v1/batches", ask), api.CodeInvalid)
	})
}
