package web_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// TestKindsAreDescribed: each kind of the table is in /v1/kinds, and the document has
// the form of its specs where it says what is asked for.
func TestKindsAreDescribed(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		var kinds []api.Kind
		if err := json.Unmarshal(s.call(core.RoleViewer, http.MethodGet, "/v1/kinds", nil).body, &kinds); err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Components struct {
				Schemas map[string]struct {
					Required   []string
					Properties map[string]struct {
						Enum          []string
						ContentSchema struct {
							OneOf []map[string]string
						}
					}
				}
			}
		}
		if err := json.Unmarshal(s.call(core.RoleViewer, http.MethodGet, "/v1/openapi.json", nil).body, &doc); err != nil {
			t.Fatal(err)
		}
		forms := doc.Components.Schemas["NewAction"].Properties["spec"].ContentSchema.OneOf
		if len(kinds) != len(protocol.Kinds()) || len(forms) != len(kinds) {
			t.Fatalf("%d kinds and %d forms, want %d", len(kinds), len(forms), len(protocol.Kinds()))
		}
		for i, k := range protocol.Kinds() {
			if kinds[i].Kind != string(k) || kinds[i].Doc == "" || kinds[i].StartTTL == "" {
				t.Errorf("%s: %+v", k, kinds[i])
			}
			form := doc.Components.Schemas["spec."+string(k)]
			if forms[i]["$ref"] != "#/components/schemas/spec."+string(k) || len(form.Required) == 0 || form.Properties["kind"].Enum[0] != string(k) {
				t.Errorf("%s: %v, %+v", k, forms[i], form)
			}
		}
	})
}
