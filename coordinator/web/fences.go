package web

import (
	"context"
	"net/http"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/fencing"
	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/protocol"
)

// fenceHandlers answer about fence devices and fences.
type fenceHandlers struct{ *handlers }

func (h fenceHandlers) fences() {
	register(h.handlers, h.get("list-fence-devices", "/v1/fence-devices", "List the fence devices"), h.listDevices)
	register(h.handlers, h.get("get-fence-device", "/v1/fence-devices/{name}", "Show a fence device"), h.getDevice)
	register(h.handlers, h.operation("set-fence-device", http.MethodPut, "/v1/fence-devices/{name}", "Add or replace a fence device; it is asked for the status of its hosts at once", http.StatusOK), h.setDevice)
	register(h.handlers, h.operation("remove-fence-device", http.MethodDelete, "/v1/fence-devices/{name}", "Remove a fence device", http.StatusNoContent), h.removeDevice)
	serve(h.handlers, h.operation("test-fence-device", http.MethodPost, "/v1/fence-devices/{name}/test", "Ask a fence device for the status of its hosts; nothing is switched", http.StatusOK), h.testDevice)
	register(h.handlers, h.get("list-fences", "/v1/fences", "List what is held back, and the fences of the past, the newest first"), h.listFences)
	register(h.handlers, h.get("get-fence", "/v1/fences/{id}", "Show a fence"), h.getFence)
	serve(h.handlers, h.operation("fence-host", http.MethodPost, "/v1/hosts/{host}/fence", "Have a host switched off by its fence devices", http.StatusAccepted), h.fenceHost)
	serve(h.handlers, h.operation("unfence-host", http.MethodPost, "/v1/hosts/{host}/unfence", "Have a host switched on, or let one that is back in again", http.StatusAccepted), h.unfenceHost)
	register(h.handlers, h.get("get-fence-case", "/v1/hosts/{host}/fence-case", "Show what a person signs to confirm that a host is off"), h.getCase)
	serve(h.handlers, h.operation("confirm-fenced", http.MethodPost, "/v1/hosts/{host}/confirm-fenced", "Take the signed word of an approver that a host is off", http.StatusOK), h.confirmFenced)
}

// FenceDeviceRef names a fence device.
type FenceDeviceRef struct {
	Name string `path:"name" maxLength:"63" doc:"Name of the device"`
}

// span is a duration in milliseconds, for people.
func span(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

func deviceOf(d fence.Device) api.FenceDevice {
	out := api.FenceDevice{
		Name: d.Name, Agent: d.Agent, Via: string(d.Via), Params: d.Params, Secrets: d.Secrets, Hosts: []api.FenceTarget{}, Delay: span(d.DelayMS), Random: span(d.RandomMS),
		Tries: d.Tries, Timeout: span(d.TryMS), Trouble: d.Trouble, CheckedAt: webapi.Maybe(d.CheckedMS), AddedAt: webapi.At(d.AddedMS), AddedBy: d.AddedBy,
	}
	if out.Params == nil {
		out.Params = map[string]string{}
	}
	if out.Secrets == nil {
		out.Secrets = map[string]string{}
	}
	for _, t := range d.Targets {
		x := api.FenceTarget{Host: string(t.Host), Plug: t.Plug, Level: t.Level, Why: d.Usable(t), SeenAt: webapi.Maybe(t.SeenMS)}
		if t.DelayMS > 0 {
			x.Delay = span(t.DelayMS)
		}
		out.Hosts = append(out.Hosts, x)
	}
	return out
}

func (h fenceHandlers) listDevices(ctx context.Context, in *struct {
	Listing
	Limit1000
}) (*listed[api.FenceDevice], error) {
	devices := source[fence.Device, api.FenceDevice]{show: deviceOf, at: func(d fence.Device) int64 { return d.AddedMS }}
	all := devices.small(func(d fence.Device) string { return d.Name }, func(context.Context) ([]fence.Device, error) { return h.c.Fencing().Devices(), nil })
	return all.page(ctx, &in.Listing, in.Limit)
}

// deviceAnswer is a fence device, and how it is named.
type deviceAnswer struct {
	ETag string `header:"ETag" doc:"Names the device as it was set, for If-Match"`
	Body api.FenceDevice
}

func answerDevice(d fence.Device, err error) (*deviceAnswer, error) {
	shown := deviceOf(d)
	return &deviceAnswer{settingTag(fencing.Tag(d), shown), shown}, err
}

func (h fenceHandlers) getDevice(_ context.Context, in *FenceDeviceRef) (*deviceAnswer, error) {
	return answerDevice(h.c.Fencing().Device(in.Name))
}

// milliseconds reads a duration that may be missing.
func milliseconds(name, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	d, err := parseDuration(name, text)
	return d.Milliseconds(), err
}

func (h fenceHandlers) setDevice(ctx context.Context, in *struct {
	FenceDeviceRef
	Replacing
	Body api.NewFenceDevice
}) (*deviceAnswer, error) {
	as, err := in.setting()
	if err != nil {
		return nil, err
	}
	b := in.Body
	d := fence.Device{Name: in.Name, Agent: b.Agent, Via: protocol.HostID(b.Via), Params: b.Params, Secrets: b.Secrets, Tries: b.Tries}
	for _, x := range []struct {
		name, text string
		to         *int64
	}{{"delay", b.Delay, &d.DelayMS}, {"random", b.Random, &d.RandomMS}, {"timeout", b.Timeout, &d.TryMS}} {
		ms, err := milliseconds(x.name, x.text)
		if err != nil {
			return nil, err
		}
		*x.to = ms
	}
	for _, t := range b.Hosts {
		delay, err := milliseconds("delay", t.Delay)
		if err != nil {
			return nil, err
		}
		d.Targets = append(d.Targets, fence.Target{Host: protocol.HostID(t.Host), Plug: t.Plug, Level: t.Level, DelayMS: delay})
	}
	return answerDevice(h.c.Fencing().SetDevice(ctx, actor(ctx), d, as))
}

func (h fenceHandlers) removeDevice(ctx context.Context, in *struct {
	FenceDeviceRef
	Replacing
}) (*none, error) {
	as, err := in.setting()
	if err != nil {
		return nil, err
	}
	return nil, h.c.Fencing().RemoveDevice(ctx, actor(ctx), in.Name, as)
}

func (h fenceHandlers) testDevice(ctx context.Context, in *FenceDeviceRef) (api.FenceDevice, error) {
	d, err := h.c.Fencing().Test(ctx, actor(ctx), in.Name)
	return deviceOf(d), err
}

func fenceOf(o fence.Op) api.Fence {
	out := api.Fence{
		ID: o.ID, Host: string(o.Host), Action: string(o.Action), State: string(o.State), Cause: string(o.Cause), By: o.By, Reason: o.Reason,
		Evidence: webapi.Texts(o.Evidence), Proof: o.Proof, Log: []api.FenceLine{}, Closes: o.Closes(),
		BegunAt: webapi.Maybe(o.BegunMS), EndedAt: webapi.Maybe(o.EndedMS), ReturnedAt: webapi.Maybe(o.ReturnedMS),
	}
	for _, l := range o.Log {
		out.Log = append(out.Log, api.FenceLine{At: webapi.At(l.AtMS), Text: l.Text})
	}
	return out
}

// heldBack is the state of what is held back.
const heldBack = "held"

func (h fenceHandlers) listFences(ctx context.Context, in *struct {
	Listing
	Limit1000
}) (*listed[api.Fence], error) {
	words := []string{heldBack}
	for _, s := range []fence.State{fence.Delayed, fence.Sending, fence.Confirming, fence.Powering, fence.Done, fence.Failed} {
		words = append(words, string(s))
	}
	fences := source[api.Fence, api.Fence]{
		show: func(f api.Fence) api.Fence { return f }, states: func(f api.Fence) []string { return []string{f.State} }, words: words,
		at: func(f api.Fence) int64 {
			if f.BegunAt == nil {
				return time.Now().UnixMilli()
			}
			return f.BegunAt.UnixMilli()
		},
	}
	room := h.c.Fencing()
	all := fences.small(func(f api.Fence) string { return f.ID + "/" + f.Host }, func(context.Context) (all []api.Fence, _ error) {
		for _, d := range room.Held() {
			all = append(all, api.Fence{Host: string(d.Host), Action: string(fence.ActionOff), State: heldBack, Cause: string(d.Cause), Reason: d.Held, Evidence: webapi.Texts(d.Evidence), Log: []api.FenceLine{}})
		}
		for _, o := range room.Ops() {
			all = append(all, fenceOf(o))
		}
		return all, nil
	})
	return all.page(ctx, &in.Listing, in.Limit)
}

func (h fenceHandlers) getFence(_ context.Context, in *struct {
	ID string `path:"id" maxLength:"40" doc:"Id of the fence"`
}) (*body[api.Fence], error) {
	o, err := h.c.Fencing().Op(in.ID)
	return &body[api.Fence]{fenceOf(o)}, err
}

func (h fenceHandlers) fenceHost(ctx context.Context, in *struct {
	HostRef
	Body api.NewFence
}) (api.Fence, error) {
	tolerance, err := milliseconds("tolerance", in.Body.Tolerance)
	if err != nil {
		return api.Fence{}, err
	}
	o, err := h.c.Fencing().Fence(ctx, actor(ctx), fencing.Request{
		Host: in.id(), Action: fence.Action(in.Body.Action), Reason: in.Body.Reason, Tolerance: time.Duration(tolerance) * time.Millisecond,
	})
	return fenceOf(o), err
}

func (h fenceHandlers) unfenceHost(ctx context.Context, in *struct {
	HostRef
	Body api.NewUnfence
}) (api.Fence, error) {
	o, err := h.c.Fencing().Unfence(ctx, actor(ctx), fencing.Request{Host: in.id(), Reason: in.Body.Reason})
	return fenceOf(o), err
}

func (h fenceHandlers) getCase(_ context.Context, in *HostRef) (*body[api.FenceCase], error) {
	of, silent, err := h.c.Fencing().Case(in.id())
	out := api.FenceCase{Host: in.Host, Case: of.String()}
	if silent >= 0 {
		out.Silent = silent.Round(time.Second).String()
	}
	for _, w := range h.c.Workloads().List() {
		if w.Host == in.id() {
			out.Holds++
		}
	}
	return &body[api.FenceCase]{out}, err
}

func (h fenceHandlers) confirmFenced(ctx context.Context, in *struct {
	HostRef
	Body api.NewFenceConfirmation
}) (api.Fence, error) {
	o, err := h.c.Fencing().Confirm(ctx, actor(ctx), in.id(), in.Body.Signed)
	return fenceOf(o), err
}
