package web

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

func (h actionHandlers) kinds(doc huma.API) {
	huma.Register(doc, operation(doc, "list-kinds", http.MethodGet, "/v1/kinds", "List the kinds of actions: what each promises, and the form of its specs", http.StatusOK),
		func(context.Context, *none) (*body[[]api.Kind], error) {
			all := make([]api.Kind, 0, len(protocol.Kinds()))
			for _, k := range protocol.Kinds() {
				i, _ := protocol.KindOf(k)
				all = append(all, kindOf(&i))
			}
			return &body[[]api.Kind]{all}, nil
		})
}

// kindOf is a row of the table of kinds as the API shows it.
func kindOf(i *protocol.KindInfo) api.Kind {
	k := api.Kind{
		Kind: string(i.Kind), Doc: i.Doc, Target: string(i.Target), Lane: string(i.Lane), Attempts: i.Attempts, StartTTL: i.StartTTL.String(),
		Needs: string(i.Needs), RootEquivalent: i.RootEquivalent, Cancellable: i.Cancellable, Progress: i.Progress, Preempts: i.Preempts(), Schema: i.Schema(),
	}
	if i.RunTimeout > 0 {
		k.RunTimeout = i.RunTimeout.String()
	}
	return k
}

// describeSpecs says in the document what the bytes of a spec are: one of the forms
// that the table of kinds has.
func describeSpecs(doc *huma.OpenAPI) {
	schemas := doc.Components.Schemas.Map()
	var forms []map[string]string
	for _, k := range protocol.Kinds() {
		i, _ := protocol.KindOf(k)
		name := "spec." + string(k)
		schemas[name] = &huma.Schema{Extensions: i.Schema()}
		forms = append(forms, map[string]string{"$ref": schemaPrefix + name})
	}
	for _, request := range []string{"NewAction", "NewBatch"} {
		schemas[request].Properties["spec"].Extensions = map[string]any{
			"contentMediaType": "application/json", "contentSchema": map[string]any{"oneOf": forms},
		}
	}
}
