package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/members"
	"github.com/hostler-io/hostler/internal/lobby"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// enrolments are the operations of people about hosts that want to join.
func (h hostHandlers) enrolments() {
	serve(h.handlers, h.operation("create-invite", http.MethodPost, "/v1/invites", "Invite a host; the code is shown once", http.StatusCreated), h.invite)
	register(h.handlers, h.get("list-invites", "/v1/invites", "List the invites that are valid, without their codes"), h.listInvites)
	register(h.handlers, h.operation("end-invite", http.MethodDelete, "/v1/invites/{id}", "End an invite", http.StatusNoContent), h.endInvite)
	register(h.handlers, h.get("list-auto-approve-rules", "/v1/auto-approve-rules", "List the rules that approve hosts without a person, also those that have ended"), h.listAutoRules)
	register(h.handlers, h.get("get-auto-approve-rule", "/v1/auto-approve-rules/{name}", "Show a rule that approves hosts without a person"), h.getAutoRule)
	register(h.handlers, h.operation("set-auto-approve-rule", http.MethodPut, "/v1/auto-approve-rules/{name}", "Have hosts approved without a person, by the labels of their invites and the networks that they ask from; it takes the place of an earlier rule of that name, and counts anew", http.StatusOK), h.setAutoRule)
	register(h.handlers, h.operation("remove-auto-approve-rule", http.MethodDelete, "/v1/auto-approve-rules/{name}", "Remove a rule that approves hosts; those that it has approved stay", http.StatusNoContent), h.removeAutoRule)
	register(h.handlers, h.get("list-enrolments", "/v1/enrolments", "List hosts that wait, or waited, for approval, the oldest first"), h.listEnrolments)
	serve(h.handlers, h.operation("approve-enrolment", http.MethodPost, "/v1/enrolments/{id}/approve", "Make a host a member", http.StatusOK), h.approve)
	serve(h.handlers, h.operation("deny-enrolment", http.MethodPost, "/v1/enrolments/{id}/deny", "Refuse a host, with a reason that it is told", http.StatusOK), h.deny)
}

func (h hostHandlers) invite(ctx context.Context, in *body[api.NewInvite]) (api.Invite, error) {
	ttl, err := parseDuration("ttl", in.Body.TTL)
	if err != nil {
		return api.Invite{}, err
	}
	i, code, err := h.c.Members().Invite(ctx, actor(ctx), ttl, in.Body.Labels)
	made := inviteOf(i)
	made.Code = code
	return made, err
}

func inviteOf(i core.Invite) api.Invite {
	v := api.Invite{
		ID: i.ID, Host: string(i.Host), Labels: webapi.Texts(i.Labels), Wrong: i.Wrong,
		CreatedAt: webapi.At(i.CreatedMS), CreatedBy: i.CreatedBy, ExpiresAt: webapi.At(i.ExpiresMS),
	}
	if i.BoundKey != (protocol.KeyID{}) {
		v.UsedBy = i.BoundKey.String()
	}
	return v
}

func (h hostHandlers) listInvites(ctx context.Context, in *struct {
	Listing
	Limit1000
}) (*listed[api.Invite], error) {
	invites := source[core.Invite, api.Invite]{
		show: inviteOf, words: []string{"unused", "used"}, at: func(i core.Invite) int64 { return i.CreatedMS },
		labels: func(i core.Invite) []string { return i.Labels },
		states: func(i core.Invite) []string {
			if i.BoundKey == (protocol.KeyID{}) {
				return []string{"unused"}
			}
			return []string{"used"}
		},
	}
	return invites.small(func(i core.Invite) string { return i.ID }, h.c.Members().Invites).page(ctx, &in.Listing, in.Limit)
}

func (h hostHandlers) endInvite(ctx context.Context, in *struct {
	ID string `path:"id" maxLength:"40" doc:"Id of the invite"`
}) (*none, error) {
	return nil, h.c.Members().EndInvite(ctx, actor(ctx), in.ID)
}

// AutoRuleRef names a rule that approves hosts.
type AutoRuleRef struct {
	Name string `path:"name" maxLength:"63" doc:"Name of the rule"`
}

func (h hostHandlers) autoRuleOf(a members.AutoRule) api.AutoRule {
	return api.AutoRule{
		Name: a.Name, Selector: a.Selector, Subnets: webapi.Texts(a.Subnets), Count: a.Count, Approved: a.Approved,
		State: cmp.Or(a.Ended(h.c.Members().Auto().LifeMS()), "open"), ExpiresAt: webapi.At(a.UntilMS), SetBy: a.SetBy, SetAt: webapi.At(a.SetMS),
	}
}

func (h hostHandlers) listAutoRules(ctx context.Context, in *struct {
	Listing
	Limit1000
}) (*listed[api.AutoRule], error) {
	rules := source[members.AutoRule, api.AutoRule]{
		show: h.autoRuleOf, at: func(a members.AutoRule) int64 { return a.SetMS }, words: []string{"open", "used up", "expired"},
		states: func(a members.AutoRule) []string { return []string{h.autoRuleOf(a).State} },
	}
	return rules.small(func(a members.AutoRule) string { return a.Name }, h.c.Members().Auto().Rules).page(ctx, &in.Listing, in.Limit)
}

// autoRuleAnswer is a rule that approves hosts, and how it is named.
type autoRuleAnswer struct {
	ETag string `header:"ETag" doc:"Names the rule as it was set, for If-Match"`
	Body api.AutoRule
}

func (h hostHandlers) answerAutoRule(a members.AutoRule, err error) (*autoRuleAnswer, error) {
	shown := h.autoRuleOf(a)
	return &autoRuleAnswer{settingTag(a.Tag(), shown), shown}, err
}

func (h hostHandlers) getAutoRule(ctx context.Context, in *AutoRuleRef) (*autoRuleAnswer, error) {
	return h.answerAutoRule(h.c.Members().Auto().Rule(ctx, in.Name))
}

func (h hostHandlers) setAutoRule(ctx context.Context, in *struct {
	AutoRuleRef
	Replacing
	Body api.NewAutoRule
}) (*autoRuleAnswer, error) {
	as, err := in.setting()
	if err != nil {
		return nil, err
	}
	ttl, err := parseDuration("ttl", in.Body.TTL)
	if err != nil {
		return nil, err
	}
	return h.answerAutoRule(h.c.Members().Auto().Set(ctx, actor(ctx), members.AutoRule{
		Name: in.Name, Selector: in.Body.Selector, Subnets: in.Body.Subnets, Count: in.Body.Count,
	}, ttl, as))
}

func (h hostHandlers) removeAutoRule(ctx context.Context, in *struct {
	AutoRuleRef
	Replacing
}) (*none, error) {
	as, err := in.setting()
	if err != nil {
		return nil, err
	}
	return nil, h.c.Members().Auto().Remove(ctx, actor(ctx), in.Name, as)
}

func (h hostHandlers) listEnrolments(ctx context.Context, in *struct {
	Listing
	Limit1000
}) (*listed[api.Enrolment], error) {
	enrolments := source[core.Enrolment, api.Enrolment]{
		show: enrolmentOf, at: func(e core.Enrolment) int64 { return e.CreatedMS },
		words:  []string{string(core.EnrolmentPending), string(core.EnrolmentApproved), string(core.EnrolmentDenied)},
		labels: func(e core.Enrolment) []string { return e.Labels },
		states: func(e core.Enrolment) []string { return []string{string(e.State)} },
	}
	state := core.EnrolmentState("")
	if len(in.State) == 1 {
		state = core.EnrolmentState(in.State[0])
	}
	all := enrolments.small(func(e core.Enrolment) string { return e.ID }, func(ctx context.Context) ([]core.Enrolment, error) { return h.c.Members().Enrolments(ctx, state) })
	return all.page(ctx, &in.Listing, in.Limit)
}

// decision names an enrolment by its id or by the host id that it wants.
type decision struct {
	ID   string `path:"id" maxLength:"63" doc:"Id of the enrolment, or the host id that it wants"`
	Body *api.Decision
}

func (h hostHandlers) approve(ctx context.Context, in *decision) (api.Enrolment, error) {
	e, err := h.c.Members().ApproveEnrolment(ctx, actor(ctx), in.ID, orZero(in.Body).Words)
	return enrolmentOf(e), err
}

func (h hostHandlers) deny(ctx context.Context, in *decision) (api.Enrolment, error) {
	e, err := h.c.Members().DenyEnrolment(ctx, actor(ctx), in.ID, orZero(in.Body).Reason)
	return enrolmentOf(e), err
}

func enrolmentOf(e core.Enrolment) api.Enrolment {
	out := api.Enrolment{
		ID: e.ID, Host: string(e.Host), Key: e.Key.String(), Words: e.Words, State: string(e.State), Reason: e.Reason,
		Labels: webapi.Texts(e.Labels), CreatedAt: webapi.At(e.CreatedMS), DecidedAt: webapi.Maybe(e.DecidedMS), DecidedBy: e.DecidedBy,
	}
	if o, err := enrol.DecodeOffer(e.Offer); err == nil {
		out.Hostname, out.Arch, out.Version = o.Hostname, o.Architecture, o.Version
	}
	return out
}

// enrolment is what hosts ask before they are members. Its words are those of
// package enrol, not of this API: both sides sign and hash them.
func (h hostHandlers) enrolment(mux routes) {
	limits := limits[netip.Prefix]{rate: enrolRate, burst: enrolBurst}
	handle := func(pattern string, serve func(w http.ResponseWriter, r *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if wait := limits.allow(lobby.Origin(r.RemoteAddr), time.Now()); wait > 0 {
				tooMany(w, max(wait, 5*time.Second), "too many enrolment requests come from your address")
				return
			}
			if err := serve(w, r); err != nil {
				writeProblem(w, h.asProblemOf(r.Context(), err))
			}
		})
	}
	handle("GET "+enrol.Path+"rings", func(w http.ResponseWriter, r *http.Request) error {
		from, err := strconv.ParseUint(cmp.Or(r.URL.Query().Get("from"), "0"), 10, 64)
		if err != nil {
			return fmt.Errorf("%w: from: want the number of a ring", core.ErrInvalid)
		}
		w.Header().Set("Content-Type", documentType)
		_, _ = w.Write(h.c.Rings(from)) // a client that is gone needs no answer
		return nil
	})
	handle("POST "+enrol.Path+"begin", exchange(func(ctx context.Context, _ netip.Addr, q enrol.BeginRequest) (enrol.BeginResponse, error) {
		return h.c.Members().BeginEnrolment(ctx, q)
	}))
	handle("POST "+enrol.Path+"offer", exchange(h.c.Members().OfferEnrolment))
	handle("POST "+enrol.Path+"state", exchange(h.c.Members().EnrolmentState))
}

// exchange reads a request of an enrolment strictly and writes the answer.
func exchange[Q, A any](ask func(context.Context, netip.Addr, Q) (A, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		b, err := io.ReadAll(r.Body)
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return newProblem(api.CodeTooLarge, fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit))
		}
		if err != nil {
			return fmt.Errorf("%w: the body broke off", core.ErrInvalid)
		}
		var q Q
		if err := enrol.Decode(b, &q); err != nil {
			return invalid(err)
		}
		from, _ := netip.ParseAddrPort(r.RemoteAddr) // a connection without one is from no network
		a, err := ask(r.Context(), from.Addr().Unmap(), q)
		if err != nil {
			return err
		}
		if b, err = json.Marshal(a); err != nil {
			return fmt.Errorf("encode the answer: %w", err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(b) // a client that is gone needs no answer
		return nil
	}
}
