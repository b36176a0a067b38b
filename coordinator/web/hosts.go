package web

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

// hostPage is the most that one answer lists: as many hosts as one coordinator
// serves.
const hostPage = 10_000

// hostRef names a host.
type hostRef struct {
	Host string `path:"host" maxLength:"63" doc:"Host id"`
}

func (h *handlers) hosts(doc huma.API) {
	huma.Register(doc, operation(doc, "list-hosts", http.MethodGet, "/v1/hosts", "List hosts, by id", http.StatusOK), h.listHosts)
	huma.Register(doc, operation(doc, "get-host", http.MethodGet, "/v1/hosts/{host}", "Show a host", http.StatusOK), h.getHost)
	huma.Register(doc, operation(doc, "revoke-host", http.MethodPost, "/v1/hosts/{host}/revoke", "Take all rights from a host", http.StatusOK), h.revokeHost)
	huma.Register(doc, operation(doc, "readmit-host", http.MethodPost, "/v1/hosts/{host}/readmit", "End the quarantine of a host", http.StatusOK), h.readmitHost)
	huma.Register(doc, operation(doc, "list-host-containers", http.MethodGet, "/v1/hosts/{host}/containers", "List the containers of a host", http.StatusOK), h.hostContainers)
	huma.Register(doc, operation(doc, "list-containers", http.MethodGet, "/v1/containers", "List the containers of all hosts", http.StatusOK), h.listContainers)
}

func (h *handlers) listHosts(ctx context.Context, in *struct {
	After string `query:"after" maxLength:"63" doc:"Only hosts with ids after this one"`
	Limit int    `query:"limit" minimum:"1" maximum:"10000" default:"10000"`
}) (*body[[]api.Host], error) {
	views, err := h.c.Hosts(ctx, protocol.HostID(in.After), in.Limit)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	return &body[[]api.Host]{list(views, hostOf)}, nil
}

func (h *handlers) getHost(ctx context.Context, in *hostRef) (*body[api.Host], error) {
	v, err := h.c.Host(ctx, protocol.HostID(in.Host))
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	return &body[api.Host]{hostOf(v)}, nil
}

func (h *handlers) revokeHost(ctx context.Context, in *struct {
	Host string `path:"host" maxLength:"63" doc:"Host id"`
	Body *api.Reason
}) (*body[api.Host], error) {
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	if err := h.c.Revoke(ctx, actor(ctx), protocol.HostID(in.Host), reason); err != nil {
		return nil, h.fail(ctx, err)
	}
	return h.getHost(ctx, &hostRef{in.Host})
}

func (h *handlers) readmitHost(ctx context.Context, in *hostRef) (*body[api.Host], error) {
	if err := h.c.Readmit(ctx, actor(ctx), protocol.HostID(in.Host)); err != nil {
		return nil, h.fail(ctx, err)
	}
	return h.getHost(ctx, in)
}

func (h *handlers) hostContainers(ctx context.Context, in *hostRef) (*body[[]api.Container], error) {
	v, err := h.c.Host(ctx, protocol.HostID(in.Host))
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	return &body[[]api.Container]{containersOf(v)}, nil
}

func (h *handlers) listContainers(ctx context.Context, _ *none) (*body[[]api.Container], error) {
	views, err := h.c.Hosts(ctx, "", hostPage)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	all := []api.Container{}
	for _, v := range views {
		all = append(all, containersOf(v)...)
	}
	return &body[[]api.Container]{all}, nil
}
