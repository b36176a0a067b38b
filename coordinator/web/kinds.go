package web

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

func (h actionHandlers) kinds() {
	serve(h.handlers, h.get("list-kinds", "/v1/kinds", "List the kinds of actions: what each promises, and the form of its specs"),
		func(context.Context, *none) ([]api.Kind, error) { return list(protocol.Kinds(), kindOf), nil })
}

// kindOf is a row of the table of kinds as the API shows it.
func kindOf(kind protocol.Kind) api.Kind {
	i, _ := protocol.KindOf(kind)
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
