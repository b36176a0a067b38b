package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/journal"
	"github.com/hostler-io/hostler/coordinator/members"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/protocol"
)

// byHost is a part of a list by host.
type byHost struct {
	Listing
	Limit1000
}

// HostRef names a host.
type HostRef struct {
	Host string `path:"host" maxLength:"63" doc:"Host id"`
}

func (r HostRef) id() protocol.HostID { return protocol.HostID(r.Host) }

func (h hostHandlers) hosts() {
	register(h.handlers, h.get("list-hosts", "/v1/hosts", "List hosts, by id"), h.listHosts)
	serve(h.handlers, h.get("get-host", "/v1/hosts/{host}", "Show a host"), h.getHost)
	serve(h.handlers, h.operation("revoke-host", http.MethodPost, "/v1/hosts/{host}/revoke", "Take all rights from a host", http.StatusOK), h.revokeHost)
	serve(h.handlers, h.operation("replace-host", http.MethodPost, "/v1/hosts/{host}/replace", "Shut the machine of a host out and invite another in its place; the code is shown once", http.StatusOK), h.replaceHost)
	serve(h.handlers, h.operation("readmit-host", http.MethodPost, "/v1/hosts/{host}/readmit", "End the quarantine of a host", http.StatusOK), h.readmitHost)
	serve(h.handlers, h.operation("set-availability", http.MethodPost, "/v1/hosts/{host}/availability", "Decide whether unique containers may be placed on a host", http.StatusOK), h.setAvailability)
	serve(h.handlers, h.operation("label-host", http.MethodPost, "/v1/hosts/{host}/label", "Change the labels of a host", http.StatusOK), h.labelHost)
	register(h.handlers, h.get("list-host-events", "/v1/hosts/{host}/events", "List what happened to a host, the newest last"), h.hostEvents)
	register(h.handlers, h.get("get-labels", "/v1/hosts/{host}/labels", "Show the labels of a host"), h.getLabels)
	register(h.handlers, h.operation("set-labels", http.MethodPut, "/v1/hosts/{host}/labels", "Give a host these labels and no other", http.StatusOK), h.setLabels)
	register(h.handlers, h.get("list-host-containers", "/v1/hosts/{host}/containers", "List the containers of a host"), h.hostContainers)
	serve(h.handlers, h.get("offline-preview", "/v1/hosts/{host}/offline-preview", "Say what becomes of the containers of a host while it is cut off, as it decides itself"), h.offlinePreview)
	register(h.handlers, h.get("list-containers", "/v1/containers", "List the containers of all hosts, by host; a page ends with a whole host, so it may hold a few more than its limit"), h.listContainers)
}

func (h hostHandlers) listHosts(ctx context.Context, in *byHost) (*listed[api.Host], error) {
	hosts := source[members.HostView, api.Host]{
		read: func(ctx context.Context, after string, n int) ([]members.HostView, error) {
			return h.c.Members().Hosts(ctx, protocol.HostID(after), n)
		},
		cursor: func(v members.HostView) string { return string(v.ID) },
		show:   h.hostOf,
		labels: func(v members.HostView) []string { return v.Labels },
		states: func(v members.HostView) []string { return []string{string(v.State), string(v.Connectivity)} },
		words: []string{
			string(core.HostApproved), string(core.HostRevoked), string(core.HostReplacing),
			string(core.Online), string(core.Late), string(core.Offline), string(core.Asleep), string(core.Goodbye), string(core.Unknown),
		},
		at: func(v members.HostView) int64 { return v.SeenMS },
	}
	return hosts.page(ctx, &in.Listing, in.Limit)
}

func (h hostHandlers) getHost(ctx context.Context, in *HostRef) (api.Host, error) {
	v, err := h.c.Members().Host(ctx, in.id())
	return h.hostOf(v), err
}

// maxEventsBack is how far the pages of what happened to a host go back.
const maxEventsBack = 10_000

// hostEvents answers with the newest page first, in the order of time within. A cursor is
// the time of the first question and how many were answered since.
func (h hostHandlers) hostEvents(ctx context.Context, in *struct {
	HostRef
	Listing
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The newest so many"`
}) (*listed[api.HostEvent], error) {
	events := source[journal.Happening, api.HostEvent]{}
	if _, err := events.filter(&in.Listing); err != nil {
		return nil, err
	}
	if _, err := h.c.Members().Host(ctx, in.id()); err != nil {
		return nil, err
	}
	until, skip := time.Now().Add(time.Hour).UnixMilli(), 0 // of clocks that are set
	if !in.Until.IsZero() {
		until = in.Until.UnixMilli()
	}
	if in.Cursor != "" {
		if n, err := fmt.Sscanf(in.Cursor, "%d.%d", &until, &skip); n != 2 || err != nil || skip < 0 || skip > maxEventsBack {
			return nil, fmt.Errorf("%w: cursor: it is none of this list", core.ErrInvalid)
		}
	}
	since := int64(0)
	if !in.Since.IsZero() {
		since = in.Since.UnixMilli()
	}
	all, err := h.c.Journal().Timeline(ctx, in.id(), since, until, skip+in.Limit+1)
	out := &listed[api.HostEvent]{}
	if len(all) > skip+in.Limit && skip+in.Limit <= maxEventsBack {
		out.Next = fmt.Sprintf("%d.%d", until, skip+in.Limit)
	}
	end := max(0, len(all)-skip)
	out.Body = list(all[max(0, end-in.Limit):end], func(e journal.Happening) api.HostEvent {
		out := api.HostEvent{At: webapi.At(e.AtMS), Who: e.Who, What: e.What, Object: e.Object, Detail: e.Detail}
		if e.Data != nil {
			out.Detail = object(e.Data)
		}
		return out
	})
	return out, err
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

func (h hostHandlers) setAvailability(ctx context.Context, in *struct {
	HostRef
	Body api.SetAvailability
}) (api.Host, error) {
	var lasts time.Duration
	var err error
	if in.Body.For != "" {
		lasts, err = parseDuration("for", in.Body.For)
	}
	if err == nil {
		state := core.AvailabilityState(in.Body.State)
		if in.Body.State == "open" {
			state = core.Open
		}
		err = h.c.Workloads().SetAvailability(ctx, actor(ctx), in.id(), state, in.Body.Reason, lasts)
	}
	return h.changed(ctx, in.HostRef, err)
}

// IfMatch makes a change depend on what the requester has read.
type IfMatch struct {
	IfMatch string `header:"If-Match" maxLength:"64" doc:"The ETag of what is changed, as it was read: if that is another by now, nothing is changed and the answer is 412"`
}

// tag returns the one that is wanted; empty is any.
func (m IfMatch) tag() (string, error) {
	if m.IfMatch == "" || m.IfMatch == "*" {
		return "", nil
	}
	if len(m.IfMatch) < 3 || m.IfMatch[0] != '"' || m.IfMatch[len(m.IfMatch)-1] != '"' {
		return "", fmt.Errorf("%w: If-Match: want one ETag in quotes, as it was answered", core.ErrInvalid)
	}
	return m.IfMatch[1 : len(m.IfMatch)-1], nil
}

// Replacing makes a change that leaves nothing of what is there depend on what the requester
// has read.
type Replacing struct {
	IfMatch string `header:"If-Match" maxLength:"64" doc:"The ETag of what is replaced or removed, as it was read: if that is another by now, nothing is changed and the answer is 412. With * it is replaced or removed whatever it is. Without the header only what is not there yet is made, and otherwise the answer is 428"`
}

// setting returns the part of the tag that names what people set, see [settingTag]; empty is
// any, and [core.Unread] that none was sent.
func (m Replacing) setting() (string, error) {
	if m.IfMatch == "" {
		return core.Unread, nil
	}
	tag, err := IfMatch(m).tag()
	setting, _, _ := strings.Cut(tag, "-")
	if err == nil && tag != "" && setting == "" {
		err = fmt.Errorf("%w: If-Match: %q is no ETag that was answered", core.ErrInvalid, tag)
	}
	return setting, err
}

// settingTag is the ETag of an answer that shows more than people set. Its first part names
// the setting, and is what If-Match is about: the rest changes by itself, and no edit is lost by that.
// Its second part names all that is shown, so that If-None-Match notices the rest too.
func settingTag(setting string, shown any) string {
	return `"` + setting + "-" + core.Tag(shown) + `"`
}

func (h hostHandlers) labelHost(ctx context.Context, in *struct {
	HostRef
	IfMatch
	Body api.Relabel
}) (api.Host, error) {
	as, err := in.tag()
	if err == nil {
		err = h.c.Members().Relabel(ctx, actor(ctx), in.id(), in.Body.Set, in.Body.Remove, as)
	}
	return h.changed(ctx, in.HostRef, err)
}

// labelsAnswer are the labels of a host, and how they are named.
type labelsAnswer struct {
	ETag string `header:"ETag" doc:"Names the labels as they are, for If-Match"`
	Body api.Labels
}

func (h hostHandlers) getLabels(ctx context.Context, in *HostRef) (*labelsAnswer, error) {
	v, err := h.c.Members().Host(ctx, in.id())
	return &labelsAnswer{`"` + members.LabelTag(v.Labels) + `"`, api.Labels{Labels: webapi.Texts(v.Labels)}}, err
}

func (h hostHandlers) setLabels(ctx context.Context, in *struct {
	HostRef
	Replacing
	Body api.Labels
}) (*labelsAnswer, error) {
	as, err := in.setting()
	if err == nil {
		err = h.c.Members().SetLabels(ctx, actor(ctx), in.id(), in.Body.Labels, as)
	}
	if err != nil {
		return nil, err
	}
	return h.getLabels(ctx, &in.HostRef)
}

func (h hostHandlers) hostContainers(ctx context.Context, in *struct {
	HostRef
	Listing
	Limit1000
}) (*listed[api.Container], error) {
	v, err := h.c.Members().Host(ctx, in.id())
	if err != nil {
		return nil, err
	}
	containers := containerSource()
	containers.show = func(c protocol.Container) api.Container { return webapi.Container(v.ID, c) }
	containers.at = func(protocol.Container) int64 { return v.Inventory.AtMS }
	all := containers.small(func(c protocol.Container) string { return c.Name + "/" + c.Runtime },
		func(context.Context) ([]protocol.Container, error) { return v.Inventory.Containers, nil })
	return all.page(ctx, &in.Listing, in.Limit)
}

// containerSource is what lists of containers have in common.
func containerSource() source[protocol.Container, api.Container] {
	return source[protocol.Container, api.Container]{
		labels: func(c protocol.Container) []string { return c.Labels },
		states: func(c protocol.Container) []string { return []string{c.State} },
		words:  only(container.States()).words,
	}
}

func (h hostHandlers) listContainers(ctx context.Context, in *byHost) (*listed[api.Container], error) {
	containers := containerSource()
	passes, err := containers.filter(&Listing{Label: in.Label, State: in.State, Fields: in.Fields})
	if err != nil {
		return nil, err
	}
	out := &listed[api.Container]{Body: []api.Container{}}
	for after := in.Cursor; ; {
		views, err := h.c.Members().Hosts(ctx, protocol.HostID(after), containerStep)
		for _, v := range views {
			after = string(v.ID)
			if !in.Since.IsZero() && v.Inventory.AtMS < in.Since.UnixMilli() || !in.Until.IsZero() && v.Inventory.AtMS >= in.Until.UnixMilli() {
				continue
			}
			for _, c := range v.Inventory.Containers {
				if passes(c) {
					out.Body = append(out.Body, webapi.Container(v.ID, c))
				}
			}
			if len(out.Body) >= in.Limit {
				out.Next = after
				return out, nil
			}
		}
		if err != nil || len(views) < containerStep {
			return out, err
		}
	}
}

// containerStep is how many hosts are read at a time for their containers: their
// inventories are held in memory.
const containerStep = 100
