package web

import (
	"context"
	"net/http"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/access"
	"github.com/hostler-io/hostler/coordinator/core"
)

func (h *handlers) access() {
	serve(h, h.operation("create-token", http.MethodPost, "/v1/tokens", "Create an API token; its secret is shown once", http.StatusCreated), h.createToken)
	register(h, h.get("list-tokens", "/v1/tokens", "List API tokens"), h.listTokens)
	register(h, h.operation("revoke-token", http.MethodDelete, "/v1/tokens/{id}", "Revoke an API token", http.StatusNoContent), h.revokeToken)
	serve(h, h.operation("create-viewer", http.MethodPost, "/v1/viewers", "Create a certificate that reads all topics; its key is shown once", http.StatusCreated), h.createViewer)
	register(h, h.get("list-viewers", "/v1/viewers", "List viewers"), h.listViewers)
	register(h, h.operation("revoke-viewer", http.MethodDelete, "/v1/viewers/{name}", "Revoke a viewer", http.StatusNoContent), h.revokeViewer)
}

func (h *handlers) createToken(ctx context.Context, in *body[api.NewToken]) (api.Token, error) {
	var life time.Duration
	if in.Body.TTL != "" {
		var err error
		if life, err = parseDuration("ttl", in.Body.TTL); err != nil {
			return api.Token{}, err
		}
	}
	secret, t, err := h.c.Access().CreateToken(ctx, actor(ctx), access.Wish{Name: in.Body.Name, Person: in.Body.Person, Role: core.TokenRole(in.Body.Role), Life: life, Secret: in.Body.Secret})
	if err != nil {
		return api.Token{}, err
	}
	out := tokenOf(t)
	out.Secret = secret
	out.Login, err = h.c.LoginCode(secret)
	return out, err
}

func (h *handlers) listTokens(ctx context.Context, in *struct {
	Listing
	Limit1000
}) (*listed[api.Token], error) {
	tokens := source[core.Token, api.Token]{
		show: tokenOf, words: standings(), at: func(t core.Token) int64 { return t.CreatedMS },
		states: func(t core.Token) []string { return standing(t.RevokedMS, t.ExpiresMS, h.c.Access().LifeMS()) },
	}
	all := tokens.small(func(t core.Token) string { return t.ID }, func(ctx context.Context) ([]core.Token, error) { return h.c.Access().Tokens(ctx, actor(ctx)) })
	return all.page(ctx, &in.Listing, in.Limit)
}

func (h *handlers) revokeToken(ctx context.Context, in *struct {
	ID string `path:"id" maxLength:"40" doc:"Id of the token"`
}) (*none, error) {
	return nil, h.c.Access().RevokeToken(ctx, actor(ctx), in.ID)
}

func (h *handlers) createViewer(ctx context.Context, in *body[api.NewViewer]) (api.Viewer, error) {
	pass, err := h.c.Access().CreateViewer(ctx, actor(ctx), in.Body.Name)
	if err != nil {
		return api.Viewer{}, err
	}
	s, err := h.c.Summary(ctx)
	out := viewerOf(pass.Viewer)
	out.Certificate, out.Key, out.CA, out.Brokers = string(pass.Certificate), string(pass.Key), string(pass.CA), s.Brokers
	return out, err
}

func (h *handlers) listViewers(ctx context.Context, in *struct {
	Listing
	Limit1000
}) (*listed[api.Viewer], error) {
	viewers := source[core.Viewer, api.Viewer]{
		show: viewerOf, words: standings(), at: func(v core.Viewer) int64 { return v.CreatedMS },
		states: func(v core.Viewer) []string { return standing(v.RevokedMS, 0, 0) },
	}
	all := viewers.small(func(v core.Viewer) string { return v.Serial }, func(ctx context.Context) ([]core.Viewer, error) { return h.c.Access().Viewers(ctx, actor(ctx)) })
	return all.page(ctx, &in.Listing, in.Limit)
}

func (h *handlers) revokeViewer(ctx context.Context, in *struct {
	Name string `path:"name" maxLength:"63"`
}) (*none, error) {
	return nil, h.c.Access().RevokeViewer(ctx, actor(ctx), in.Name)
}
