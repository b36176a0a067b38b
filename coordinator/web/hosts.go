package web

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/protocol"
)

// page is a part of a list by host.
type page struct {
	After string `query:"after" maxLength:"63" doc:"Only what comes after this host; for the next page, the last host of this one"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"1000"`
}

// hostRef names a host.
type hostRef struct {
	Host string `path:"host" maxLength:"63" doc:"Host id"`
}

func (h hostHandlers) hosts(doc huma.API) {
	huma.Register(doc, operation(doc, "list-hosts", http.MethodGet, "/v1/hosts", "List hosts, by id", http.StatusOK), h.listHosts)
	huma.Register(doc, operation(doc, "get-host", http.MethodGet, "/v1/hosts/{host}", "Show a host", http.StatusOK), h.getHost)
	huma.Register(doc, operation(doc, "revoke-host", http.MethodPost, "/v1/hosts/{host}/revoke", "Take all rights from a host", http.StatusOK), h.revokeHost)
	huma.Register(doc, operation(doc, "replace-host", http.MethodPost, "/v1/hosts/{host}/replace", "Shut the machine of a host out and invite another in its place; the code is shown once", http.StatusOK), h.replaceHost)
	huma.Register(doc, operation(doc, "readmit-host", http.MethodPost, "/v1/hosts/{host}/readmit", "End the quarantine of a host", http.StatusOK), h.readmitHost)
	huma.Register(doc, operation(doc, "label-host", http.MethodPost, "/v1/hosts/{host}/label", "Change the labels of a host", http.StatusOK), h.labelHost)
	huma.Register(doc, operation(doc, "list-host-containers", http.MethodGet, "/v1/hosts/{host}/containers", "List the containers of a host", http.StatusOK), h.hostContainers)
	huma.Register(doc, operation(doc, "list-containers", http.MethodGet, "/v1/containers", "List the containers of all hosts, by host; a page ends with a whole host, so it may hold a few more than its limit", http.StatusOK), h.listContainers)
}

func (h hostHandlers) listHosts(ctx context.Context, in *page) (*body[[]api.Host], error) {
	views, err := h.c.Members().Hosts(ctx, protocol.HostID(in.After), in.Limit)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	return &body[[]api.Host]{list(views, hostOf)}, nil
}

func (h hostHandlers) getHost(ctx context.Context, in *hostRef) (*body[api.Host], error) {
	v, err := h.c.Members().Host(ctx, protocol.HostID(in.Host))
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	return &body[api.Host]{hostOf(v)}, nil
}

func (h hostHandlers) revokeHost(ctx context.Context, in *struct {
	Host string `path:"host" maxLength:"63" doc:"Host id"`
	Body *api.Reason
}) (*body[api.Host], error) {
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	if err := h.c.Members().Revoke(ctx, actor(ctx), protocol.HostID(in.Host), reason); err != nil {
		return nil, h.fail(ctx, err)
	}
	return h.getHost(ctx, &hostRef{in.Host})
}

func (h hostHandlers) replaceHost(ctx context.Context, in *struct {
	Host string `path:"host" maxLength:"63" doc:"Host id"`
	Body api.Replace
}) (*body[api.Replacement], error) {
	ttl, err := parseDuration("ttl", in.Body.TTL)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	r, err := h.c.Members().Replace(ctx, actor(ctx), protocol.HostID(in.Host), ttl, in.Body.Reason)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	done := api.Replacement{
		Host: in.Host, Code: r.Code, ExpiresAt: webapi.At(r.Invite.ExpiresMS), Labels: webapi.Texts(r.Host.Labels),
		Unsent: r.Unsent, Unknown: r.Unknown, Unapproved: r.Unapproved, Containers: []string{},
	}
	for _, ct := range r.Containers {
		done.Containers = append(done.Containers, ct.Name)
	}
	return &body[api.Replacement]{done}, nil
}

func (h hostHandlers) readmitHost(ctx context.Context, in *hostRef) (*body[api.Host], error) {
	if err := h.c.Members().Readmit(ctx, actor(ctx), protocol.HostID(in.Host)); err != nil {
		return nil, h.fail(ctx, err)
	}
	return h.getHost(ctx, in)
}

func (h hostHandlers) labelHost(ctx context.Context, in *struct {
	Host string `path:"host" maxLength:"63" doc:"Host id"`
	Body api.Relabel
}) (*body[api.Host], error) {
	if err := h.c.Members().Relabel(ctx, actor(ctx), protocol.HostID(in.Host), in.Body.Set, in.Body.Remove); err != nil {
		return nil, h.fail(ctx, err)
	}
	return h.getHost(ctx, &hostRef{in.Host})
}

func (h hostHandlers) hostContainers(ctx context.Context, in *hostRef) (*body[[]api.Container], error) {
	v, err := h.c.Members().Host(ctx, protocol.HostID(in.Host))
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	return &body[[]api.Container]{containersOf(v)}, nil
}

func (h hostHandlers) listContainers(ctx context.Context, in *page) (*body[[]api.Container], error) {
	all := []api.Container{}
	for after := protocol.HostID(in.After); ; {
		views, err := h.c.Members().Hosts(ctx, after, containerStep)
		if err != nil {
			return nil, h.fail(ctx, err)
		}
		for _, v := range views {
			if all = append(all, containersOf(v)...); len(all) >= in.Limit {
				return &body[[]api.Container]{all}, nil
			}
			after = v.ID
		}
		if len(views) < containerStep {
			return &body[[]api.Container]{all}, nil
		}
	}
}

// containerStep is how many hosts are read at a time for their containers: what is
// held in memory is their inventories.
const containerStep = 100
