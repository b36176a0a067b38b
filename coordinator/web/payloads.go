package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/relay"
	"github.com/hostler-io/hostler/protocol"
)

// payloadsPath is where bodies may be large.
const payloadsPath = "/v1/payloads"

func (h actionHandlers) payloads() {
	serve(h.handlers, h.get("get-payload", payloadsPath+"/{sha256}", "Tell how much of a payload is here"), h.getPayload)
	register(h.handlers, h.upload("put-payload", http.MethodPut, payloadsPath+"/{sha256}", "Send a payload, or go on sending it", http.StatusOK), h.putPayload)
	register(h.handlers, h.upload("create-payload", http.MethodPost, payloadsPath, "Send a payload whose digest is not known yet", http.StatusCreated), h.createPayload)
}

// upload declares an operation whose request is bytes.
func (h *handlers) upload(id, method, path, summary string, status int) huma.Operation {
	op := h.operation(id, method, path, summary, status)
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
	}}
	op.Responses[fmt.Sprint(status)] = &huma.Response{
		Description: "How much of it is here.",
		Content: map[string]*huma.MediaType{"application/json": {
			Schema: h.doc.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Payload](), true, "Payload"),
		}},
	}
	return op
}

func payloadOf(p relay.Payload) api.Payload {
	return api.Payload{SHA256: p.SHA256.String(), Bytes: p.Bytes, Have: p.Have, Complete: p.Bytes > 0}
}

// PayloadRef names a payload.
type PayloadRef struct {
	SHA256 string `path:"sha256" minLength:"64" maxLength:"64" doc:"SHA-256 of the whole payload, in hexadecimal"`
}

func (h actionHandlers) getPayload(ctx context.Context, in *PayloadRef) (api.Payload, error) {
	d, err := protocol.ParseDigest(in.SHA256)
	if err != nil {
		return api.Payload{}, invalid(err)
	}
	p, err := h.c.Relay().Payloads.Get(actor(ctx), d)
	return payloadOf(p), err
}

func (h actionHandlers) putPayload(_ context.Context, in *struct {
	PayloadRef
	Bytes  int64 `query:"bytes" required:"true" minimum:"1" doc:"Size of the whole payload"`
	Offset int64 `query:"offset" minimum:"0" default:"0" doc:"Where the body belongs: what is here already"`
}) (*huma.StreamResponse, error) {
	d, err := protocol.ParseDigest(in.SHA256)
	if err != nil {
		return nil, invalid(err)
	}
	return h.takeUpload(http.StatusOK, d, in.Bytes, in.Offset), nil
}

func (h actionHandlers) createPayload(context.Context, *struct{}) (*huma.StreamResponse, error) {
	return h.takeUpload(http.StatusCreated, protocol.Digest{}, -1, 0), nil
}

// takeUpload reads the body of a request as it comes.
func (h actionHandlers) takeUpload(status int, d protocol.Digest, size, offset int64) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		ctx, stop := untilDrained(r.Context())
		defer stop()
		p, err := h.c.Relay().Payloads.Put(ctx, actor(ctx), d, size, offset, r.Body)
		if err == nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(payloadOf(p)) // a client that is gone asks again
			return
		}
		// The rest of the body is not read.
		w.Header().Set("Connection", "close")
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: the payload stopped coming; what came is kept: go on from there", core.ErrUnavailable)
		}
		writeProblem(w, h.asProblemOf(ctx, err))
	}}
}

// isUpload reports whether the body of a request may be large.
func isUpload(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, payloadsPath+"/") || r.Method == http.MethodPost && r.URL.Path == payloadsPath
}
