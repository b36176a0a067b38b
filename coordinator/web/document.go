package web

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler-io/hostler/api"
)

// Where the schemas of the document are.
const schemaPrefix = "#/components/schemas/"

// bearer is the one way to authenticate.
const bearer = "token"

func documentConfig(version string) huma.Config {
	c := huma.DefaultConfig("Hostler coordinator", version)
	c.Info.Description = "Hosts at the edge, what runs on them, and what they are asked to do. " +
		"An action is the long-running operation of this API: a request that changes a host answers 202 and where to look. " +
		"Every failure is a problem (RFC 9457) with a stable code."
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", "" // served by serveDocument
	c.CreateHooks = nil                                   // no $schema members in answers
	c.Transformers = []huma.Transformer{asProblem}
	c.RejectUnknownQueryParameters = true
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		bearer: {Type: "http", Scheme: "bearer", Description: "An API token: hostler token create"},
	}
	return c
}

// operation declares one operation. Its failures are problems.
func operation(doc huma.API, id, method, path, summary string, status int) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, DefaultStatus: status,
		MaxBodyBytes: maxBody,
		Security:     []map[string][]string{{bearer: {}}},
		Responses: map[string]*huma.Response{"default": {
			Description: "The request failed.",
			Content: map[string]*huma.MediaType{api.ContentProblem: {
				Schema: doc.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Problem](), true, "Problem"),
			}},
		}},
	}
}

// raw declares an operation whose answer is not JSON.
func raw(doc huma.API, id, path, summary, mediaType, description string) huma.Operation {
	op := operation(doc, id, http.MethodGet, path, summary, http.StatusOK)
	op.Responses[strconv.Itoa(http.StatusOK)] = &huma.Response{
		Description: description,
		Content:     map[string]*huma.MediaType{mediaType: {Schema: &huma.Schema{Type: huma.TypeString}}},
	}
	return op
}

// describeCodes lists the codes of problems, and what each means, in the schema
// of a problem.
func describeCodes(schema *huma.Schema) {
	code := schema.Properties["code"]
	var text strings.Builder
	text.WriteString("What went wrong, for programs:")
	for _, c := range api.Codes() {
		code.Enum = append(code.Enum, c.Name)
		fmt.Fprintf(&text, "\n- `%s` (%d): %s", c.Name, c.Status, c.Meaning)
	}
	code.Description = text.String()
}

// body is an answer.
type body[T any] struct{ Body T }

// none is a request or an answer without anything in it.
type none struct{}

// oneStatusForBadRequests gives everything that breaks the form of a request
// the one status that goes with the code "invalid".
func oneStatusForBadRequests(ctx huma.Context, next func(huma.Context)) {
	next(statusContext{ctx})
}

// inner lets statusContext embed the context without a method of that name.
type inner = huma.Context

type statusContext struct{ inner }

// Unwrap lets the adapter find the request.
func (c statusContext) Unwrap() huma.Context { return c.inner }

// SetStatus sets the status as problems have it.
func (c statusContext) SetStatus(code int) {
	if code >= http.StatusBadRequest {
		code = newProblem(codeOf(code), "").Status
	}
	c.inner.SetStatus(code)
}
