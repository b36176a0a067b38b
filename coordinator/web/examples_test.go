package web_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
)

// TestEveryPropertyHasAnExample that can be sent: those of all bodies of requests, and the
// arguments of all kinds.
func TestEveryPropertyHasAnExample(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		var doc struct {
			Paths map[string]map[string]struct {
				RequestBody struct {
					Content map[string]struct{ Schema schema } `json:"content"`
				} `json:"requestBody"`
			} `json:"paths"`
			document `json:"-"`
		}
		b := s.call(core.RoleViewer, http.MethodGet, "/v1/openapi.json", nil).body
		if err := json.Unmarshal(b, &doc); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &doc.document); err != nil {
			t.Fatal(err)
		}
		schemas := doc.Components.Schemas
		seen := map[string]bool{}
		var look func(name string, s schema)
		look = func(name string, s schema) {
			if ref, ok := s["$ref"].(string); ok {
				name = strings.TrimPrefix(ref, "#/components/schemas/")
				s = schemas[name]
			}
			if items, ok := s["items"].(map[string]any); ok {
				look(name, items)
			}
			properties, _ := s["properties"].(map[string]any)
			if properties == nil || seen[name] {
				return
			}
			seen[name] = true
			for property, p := range properties {
				p, at := schema(p.(map[string]any)), name+"."+property
				_, nested := p["$ref"]
				items, _ := p["items"].(map[string]any)
				look(at, p)
				if _, structs := items["properties"]; nested || structs || items["$ref"] != nil || p["properties"] != nil || p["type"] == "boolean" {
					continue // its members have theirs, and of two words none is a better example
				}
				examples, _ := p["examples"].([]any)
				if len(examples) == 0 {
					t.Errorf("%s has no example", at)
				}
				if _, any := p["anyOf"]; any {
					continue // that of one kind
				}
				for _, e := range examples {
					for _, wrong := range doc.validate(p, e, at) {
						t.Errorf("the example of %s: %s", at, wrong)
					}
				}
			}
		}
		for path, item := range doc.Paths {
			for method, op := range item {
				for _, c := range op.RequestBody.Content {
					look(method+" "+path, c.Schema)
				}
			}
		}
		if len(seen) < 10 {
			t.Errorf("only %d bodies were looked at", len(seen))
		}
		for name, sch := range schemas {
			if strings.HasPrefix(name, "args.") {
				look(name, sch)
			}
		}
	})
}
