package web

import (
	"context"
	"errors"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/protocol"
)

func (h actionHandlers) kinds() {
	register(h.handlers, h.get("list-kinds", "/v1/kinds", "List the kinds of actions: what each promises, the form of its arguments, and an example of them"),
		func(ctx context.Context, in *struct {
			Listing
			Limit1000
		}) (*listed[api.Kind], error) {
			kinds := source[protocol.Kind, api.Kind]{show: kindOf, at: func(protocol.Kind) int64 { return 0 }}
			all := kinds.small(func(k protocol.Kind) string { return string(k) }, func(context.Context) ([]protocol.Kind, error) { return protocol.Kinds(), nil })
			return all.page(ctx, &in.Listing, in.Limit)
		})
	serve(h.handlers, h.get("get-capabilities", "/v1/capabilities", "Tell what this coordinator supports, so that clients need not guess by its version"), h.capabilities)
}

func (h actionHandlers) capabilities(ctx context.Context, _ *none) (api.Capabilities, error) {
	return api.Capabilities{
		Version: h.version, Role: string(actor(ctx).Role), Features: features().words, Kinds: kindWords().words,
		Limits: api.Limits{BodyBytes: maxBody, SpecBytes: protocol.MaxSpec, BatchHosts: protocol.MaxTargets, Wait: maxWait.String(), Rate: tokenRate, Burst: tokenBurst},
	}, nil
}

// kindOf is a row of the table of kinds as the API shows it.
func kindOf(kind protocol.Kind) api.Kind {
	i, _ := protocol.KindOf(kind)
	k := api.Kind{
		Kind: string(i.Kind), Doc: i.Doc, Target: string(i.Target), Lane: string(i.Lane), Attempts: i.Attempts, StartTTL: i.StartTTL.String(),
		Needs: string(i.Needs), RootEquivalent: i.RootEquivalent, Cancellable: i.Cancellable, Preempts: i.Preempts(), Admin: i.Admin,
		Schema: i.Schema(), Args: i.ArgsSchema(), Example: i.ExampleArgs(),
	}
	if i.RunTimeout > 0 {
		k.RunTimeout = i.RunTimeout.String()
	}
	return k
}

// spec returns the bytes of the spec that a request is for.
func (h actionHandlers) spec(ctx context.Context, n *api.NewAction, id protocol.ActionID) ([]byte, error) {
	b, err := webapi.Spec(n, id, func() ([]protocol.Container, error) {
		v, err := h.c.Members().Host(ctx, protocol.HostID(n.Host))
		return v.Inventory.Containers, err
	})
	if errors.Is(err, core.ErrNotFound) {
		return nil, err // the host
	}
	return b, invalid(err)
}
