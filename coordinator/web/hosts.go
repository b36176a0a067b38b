package web

import (
	"context"
	"net/http"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/protocol"
)

// page is a part of a list by host.
type page struct {
	After string `query:"after" maxLength:"63" doc:"Only what comes after this host; for the next page, the last host of this one"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"1000"`
}

// HostRef names a host.
type HostRef struct {
	Host string `path:"host" maxLength:"63" doc:"Host id"`
}

func (r HostRef) id() protocol.HostID { return protocol.HostID(r.Host) }

func (h hostHandlers) hosts() {
	serve(h.handlers, h.get("list-hosts", "/v1/hosts", "List hosts, by id"), h.listHosts)
	serve(h.handlers, h.get("get-host", "/v1/hosts/{host}", "Show a host"), h.getHost)
	serve(h.handlers, h.operation("revoke-host", http.MethodPost, "/v1/hosts/{host}/revoke", "Take all rights from a host", http.StatusOK), h.revokeHost)
	serve(h.handlers, h.operation("replace-host", http.MethodPost, "/v1/hosts/{host}/replace", "Shut the machine of a host out and invite another in its place; the code is shown once", http.StatusOK), h.replaceHost)
	serve(h.handlers, h.operation("readmit-host", http.MethodPost, "/v1/hosts/{host}/readmit", "End the quarantine of a host", http.StatusOK), h.readmitHost)
	serve(h.handlers, h.operation("label-host", http.MethodPost, "/v1/hosts/{host}/label", "Change the labels of a host", http.StatusOK), h.labelHost)
	serve(h.handlers, h.get("list-host-containers", "/v1/hosts/{host}/containers", "List the containers of a host"), h.hostContainers)
	serve(h.handlers, h.get("list-containers", "/v1/containers", "List the containers of all hosts, by host; a page ends with a whole host, so it may hold a few more than its limit"), h.listContainers)
}

func (h hostHandlers) listHosts(ctx context.Context, in *page) ([]api.Host, error) {
	views, err := h.c.Members().Hosts(ctx, protocol.HostID(in.After), in.Limit)
	return list(views, hostOf), err
}

func (h hostHandlers) getHost(ctx context.Context, in *HostRef) (api.Host, error) {
	v, err := h.c.Members().Host(ctx, in.id())
	return hostOf(v), err
}

// changed shows a host after a change, unless the change failed.
func (h hostHandlers) changed(ctx context.Context, host HostRef, err error) (api.Host, error) {
	if err != nil {
		return api.Host{}, err
	}
	return h.getHost(ctx, &host)
}

func (h hostHandlers) revokeHost(ctx context.Context, in *struct {
	HostRef
	Body *api.Reason
}) (api.Host, error) {
	return h.changed(ctx, in.HostRef, h.c.Members().Revoke(ctx, actor(ctx), in.id(), orZero(in.Body).Reason))
}

func (h hostHandlers) replaceHost(ctx context.Context, in *struct {
	HostRef
	Body api.Replace
}) (api.Replacement, error) {
	ttl, err := parseDuration("ttl", in.Body.TTL)
	if err != nil {
		return api.Replacement{}, err
	}
	r, err := h.c.Members().Replace(ctx, actor(ctx), in.id(), ttl, in.Body.Reason)
	return api.Replacement{
		Host: in.Host, Code: r.Code, ExpiresAt: webapi.At(r.Invite.ExpiresMS), Labels: webapi.Texts(r.Host.Labels),
		Unsent: r.Unsent, Unknown: r.Unknown, Unapproved: r.Unapproved,
		Containers: list(r.Containers, func(ct protocol.Container) string { return ct.Name }),
	}, err
}

func (h hostHandlers) readmitHost(ctx context.Context, in *HostRef) (api.Host, error) {
	return h.changed(ctx, *in, h.c.Members().Readmit(ctx, actor(ctx), in.id()))
}

func (h hostHandlers) labelHost(ctx context.Context, in *struct {
	HostRef
	Body api.Relabel
}) (api.Host, error) {
	return h.changed(ctx, in.HostRef, h.c.Members().Relabel(ctx, actor(ctx), in.id(), in.Body.Set, in.Body.Remove))
}

func (h hostHandlers) hostContainers(ctx context.Context, in *HostRef) ([]api.Container, error) {
	v, err := h.c.Members().Host(ctx, in.id())
	return containersOf(v), err
}

func (h hostHandlers) listContainers(ctx context.Context, in *page) ([]api.Container, error) {
	all := []api.Container{}
	for after := protocol.HostID(in.After); ; {
		views, err := h.c.Members().Hosts(ctx, after, containerStep)
		for _, v := range views {
			if all = append(all, containersOf(v)...); len(all) >= in.Limit {
				return all, nil
			}
			after = v.ID
		}
		if err != nil || len(views) < containerStep {
			return all, err
		}
	}
}

// containerStep is how many hosts are read at a time for their containers: their
// inventories are held in memory.
const containerStep = 100
