package web

import (
	"context"
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
	c.Transformers = []huma.Transformer{asProblem, onlyFields}
	c.RejectUnknownQueryParameters = true
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		bearer: {Type: "http", Scheme: "bearer", Description: "An API token: hostler token create"},
	}
	return c
}

// register serves an operation, and answers what goes wrong with a problem.
func register[I, O any](h *handlers, op huma.Operation, answer func(context.Context, *I) (*O, error)) {
	huma.Register(h.doc, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := answer(ctx, in)
		if err != nil {
			return nil, h.asProblemOf(ctx, err)
		}
		return out, nil
	})
}

// serve is register for an operation that answers with a JSON body and no headers.
func serve[I, O any](h *handlers, op huma.Operation, answer func(context.Context, *I) (O, error)) {
	register(h, op, func(ctx context.Context, in *I) (*body[O], error) {
		out, err := answer(ctx, in)
		return &body[O]{out}, err
	})
}

// get declares an operation that reads.
func (h *handlers) get(id, path, summary string) huma.Operation {
	op := h.operation(id, http.MethodGet, path, summary, http.StatusOK)
	op.Responses[strconv.Itoa(http.StatusNotModified)] = unchanged()
	return op
}

// operation declares one operation. Its failures are problems.
func (h *handlers) operation(id, method, path, summary string, status int) huma.Operation {
	var params []*huma.Param
	if mayChange(method) && !strings.HasPrefix(path, payloadsPath) { // the digest of a payload is its key
		params = []*huma.Param{onceParam()}
	}
	return huma.Operation{
		Parameters:  params,
		OperationID: id, Method: method, Path: path, Summary: summary, DefaultStatus: status,
		MaxBodyBytes: maxBody,
		Security:     []map[string][]string{{bearer: {}}},
		Responses: map[string]*huma.Response{"default": {
			Description: "The request failed.",
			Content: map[string]*huma.MediaType{api.ContentProblem: {
				Schema: h.doc.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Problem](), true, "Problem"),
			}},
		}},
	}
}

// raw declares an operation whose answer is not JSON.
func (h *handlers) raw(id, path, summary, mediaType, description string) huma.Operation {
	op := h.operation(id, http.MethodGet, path, summary, http.StatusOK)
	op.Responses[strconv.Itoa(http.StatusOK)] = &huma.Response{
		Description: description,
		Content:     map[string]*huma.MediaType{mediaType: {Schema: &huma.Schema{Type: huma.TypeString}}},
	}
	return op
}

// body is an answer.
type body[T any] struct{ Body T }

// none is a request or an answer without anything in it.
type none struct{}

// orZero is a body that may be left out.
func orZero[T any](body *T) (v T) {
	if body != nil {
		v = *body
	}
	return v
}

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
