package web

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
)

func (h *handlers) access(doc huma.API) {
	huma.Register(doc, operation(doc, "create-token", http.MethodPost, "/v1/tokens", "Create an API token; its secret is shown once", http.StatusCreated), h.createToken)
	huma.Register(doc, operation(doc, "list-tokens", http.MethodGet, "/v1/tokens", "List API tokens", http.StatusOK), h.listTokens)
	huma.Register(doc, operation(doc, "revoke-token", http.MethodDelete, "/v1/tokens/{id}", "Revoke an API token", http.StatusNoContent), h.revokeToken)
	huma.Register(doc, operation(doc, "create-viewer", http.MethodPost, "/v1/viewers", "Create a certificate that reads all topics; its key is shown once", http.StatusCreated), h.createViewer)
	huma.Register(doc, operation(doc, "list-viewers", http.MethodGet, "/v1/viewers", "List viewers", http.StatusOK), h.listViewers)
	huma.Register(doc, operation(doc, "revoke-viewer", http.MethodDelete, "/v1/viewers/{name}", "Revoke a viewer", http.StatusNoContent), h.revokeViewer)
}

func (h *handlers) createToken(ctx context.Context, in *body[api.NewToken]) (*body[api.Token], error) {
	var life time.Duration
	if in.Body.TTL != "" {
		var err error
		if life, err = parseDuration("ttl", in.Body.TTL); err != nil {
			return nil, h.fail(ctx, err)
		}
	}
	secret, t, err := h.c.Access().CreateToken(ctx, actor(ctx), in.Body.Name, core.TokenRole(in.Body.Role), life)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	out := tokenOf(t)
	out.Secret = secret
	return &body[api.Token]{out}, nil
}

func (h *handlers) listTokens(ctx context.Context, _ *none) (*body[[]api.Token], error) {
	all, err := h.c.Access().Tokens(ctx, actor(ctx))
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	return &body[[]api.Token]{list(all, tokenOf)}, nil
}

func (h *handlers) revokeToken(ctx context.Context, in *struct {
	ID string `path:"id" maxLength:"40" doc:"Id of the token"`
}) (*none, error) {
	if err := h.c.Access().RevokeToken(ctx, actor(ctx), in.ID); err != nil {
		return nil, h.fail(ctx, err)
	}
	return nil, nil
}

func (h *handlers) createViewer(ctx context.Context, in *body[api.NewViewer]) (*body[api.Viewer], error) {
	pass, err := h.c.Access().CreateViewer(ctx, actor(ctx), in.Body.Name)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	s, err := h.c.Summary(ctx)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	out := viewerOf(pass.Viewer)
	out.Certificate, out.Key, out.CA, out.Brokers = string(pass.Certificate), string(pass.Key), string(pass.CA), s.Brokers
	return &body[api.Viewer]{out}, nil
}

func (h *handlers) listViewers(ctx context.Context, _ *none) (*body[[]api.Viewer], error) {
	all, err := h.c.Access().Viewers(ctx, actor(ctx))
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	return &body[[]api.Viewer]{list(all, viewerOf)}, nil
}

func (h *handlers) revokeViewer(ctx context.Context, in *struct {
	Name string `path:"name" maxLength:"63"`
}) (*none, error) {
	if err := h.c.Access().RevokeViewer(ctx, actor(ctx), in.Name); err != nil {
		return nil, h.fail(ctx, err)
	}
	return nil, nil
}
