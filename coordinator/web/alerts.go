package web

import (
	"cmp"
	"context"
	"net/http"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/alerting"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/protocol"
)

// alertHandlers answer about alerts and their rules.
type alertHandlers struct{ *handlers }

func (h alertHandlers) alerts() {
	register(h.handlers, h.get("list-alerts", "/v1/alerts", "List the alerts that are raised, by host; a page ends with a whole host, so it may hold a few more than its limit"), h.listAlerts)
	serve(h.handlers, h.operation("acknowledge-alert", http.MethodPost, "/v1/hosts/{host}/alerts/ack", "Acknowledge an alert; no more notifications are sent for it while it lasts", http.StatusOK), h.acknowledge)
	register(h.handlers, h.get("list-mutes", "/v1/alert-mutes", "List the mutes that have not ended"), h.listMutes)
	serve(h.handlers, h.operation("create-mute", http.MethodPost, "/v1/alert-mutes", "Keep alerts from being told for a time", http.StatusCreated), h.mute)
	register(h.handlers, h.operation("end-mute", http.MethodDelete, "/v1/alert-mutes/{id}", "End a mute", http.StatusNoContent), h.unmute)
	register(h.handlers, h.get("list-alert-rules", "/v1/alert-rules", "List the rules of alerts, by the time at which they were set"), h.listRules)
	register(h.handlers, h.get("get-alert-rule", "/v1/alert-rules/{name}", "Show a rule of alerts"), h.getRule)
	register(h.handlers, h.operation("set-alert-rule", http.MethodPut, "/v1/alert-rules/{name}", "Set a rule of alerts; the hosts that it is for have it from then on, also while they are offline", http.StatusOK), h.setRule)
	register(h.handlers, h.operation("remove-alert-rule", http.MethodDelete, "/v1/alert-rules/{name}", "Remove a rule of alerts", http.StatusNoContent), h.removeRule)
}

// RuleRef names a rule of alerts.
type RuleRef struct {
	Name string `path:"name" maxLength:"63" doc:"Name of the rule"`
}

// ruleAnswer is a rule, and how it is named.
type ruleAnswer struct {
	ETag string `header:"ETag" doc:"Names the rule as it is, for If-Match"`
	Body api.AlertRule
}

func answerRule(s alerting.RuleSet, err error) (*ruleAnswer, error) {
	return &ruleAnswer{`"` + s.Tag() + `"`, ruleOf(s)}, err
}

func ruleOf(s alerting.RuleSet) api.AlertRule {
	return api.AlertRule{
		Name: s.Name, Host: string(s.Host), Selector: s.Selector, Of: s.Of, Rules: webapi.Texts(s.Rules), Number: s.Number, SetBy: s.SetBy, SetAt: webapi.At(s.SetMS),
	}
}

func (h alertHandlers) listRules(ctx context.Context, in *struct {
	Listing
	Limit1000
}) (*listed[api.AlertRule], error) {
	rules := source[alerting.RuleSet, api.AlertRule]{show: ruleOf, at: func(s alerting.RuleSet) int64 { return s.SetMS }}
	all := rules.small(func(s alerting.RuleSet) string { return s.Name }, h.c.Alerts().Rules)
	return all.page(ctx, &in.Listing, in.Limit)
}

func (h alertHandlers) getRule(ctx context.Context, in *RuleRef) (*ruleAnswer, error) {
	return answerRule(h.c.Alerts().Rule(ctx, in.Name))
}

func (h alertHandlers) setRule(ctx context.Context, in *struct {
	RuleRef
	Replacing
	Body api.NewAlertRule
}) (*ruleAnswer, error) {
	as, err := in.setting()
	if err != nil {
		return nil, err
	}
	b := in.Body
	return answerRule(h.c.Alerts().SetRule(ctx, actor(ctx), alerting.RuleSet{
		Name: in.Name, Host: protocol.HostID(b.Host), Selector: b.Selector, Of: cmp.Or(b.Of, "host"), Rules: b.Rules,
	}, as))
}

func (h alertHandlers) removeRule(ctx context.Context, in *struct {
	RuleRef
	Replacing
}) (*none, error) {
	as, err := in.setting()
	if err != nil {
		return nil, err
	}
	return nil, h.c.Alerts().RemoveRule(ctx, actor(ctx), in.Name, as)
}

func raisedOf(a alerting.Raised) api.RaisedAlert {
	out := api.RaisedAlert{Host: string(a.Host), ID: a.ID, Severity: a.Severity, Text: a.Text, Since: webapi.At(a.SinceMS)}
	if a.Ack != nil {
		out.AckedBy, out.AckedAt, out.Note = a.Ack.By, webapi.Maybe(a.Ack.AtMS), a.Ack.Note
	}
	if a.Mute != nil {
		out.MutedUntil = webapi.Maybe(a.Mute.UntilMS)
	}
	return out
}

func (h alertHandlers) listAlerts(ctx context.Context, in *byHost) (*listed[api.RaisedAlert], error) {
	raised := source[alerting.Raised, api.RaisedAlert]{
		labels: func(a alerting.Raised) []string { return a.Labels },
		states: func(a alerting.Raised) []string { return []string{a.Severity} }, words: []string{"warning", "critical"},
		at: func(a alerting.Raised) int64 { return a.SinceMS },
	}
	passes, err := raised.filter(&in.Listing)
	if err != nil {
		return nil, err
	}
	out := &listed[api.RaisedAlert]{Body: []api.RaisedAlert{}}
	for after := in.Cursor; ; {
		all, next, err := h.c.Alerts().Raised(ctx, protocol.HostID(after), in.Limit)
		for _, a := range all {
			if passes(a) {
				out.Body = append(out.Body, raisedOf(a))
			}
		}
		if err != nil || next == "" || len(out.Body) >= in.Limit {
			out.Next = string(next)
			return out, err
		}
		after = string(next)
	}
}

func (h alertHandlers) acknowledge(ctx context.Context, in *struct {
	HostRef
	Body api.NewAck
}) (api.RaisedAlert, error) {
	a, err := h.c.Alerts().Acknowledge(ctx, actor(ctx), in.id(), in.Body.Alert, in.Body.Note)
	return raisedOf(a), err
}

func muteOf(k alerting.Mute) api.Mute {
	return api.Mute{
		ID: k.ID, Host: string(k.Host), Selector: k.Selector, Alert: k.Alert, Until: webapi.At(k.UntilMS), MutedBy: k.By, MutedAt: webapi.At(k.AtMS), Reason: k.Reason,
	}
}

func (h alertHandlers) listMutes(ctx context.Context, in *struct {
	Listing
	Limit1000
}) (*listed[api.Mute], error) {
	mutes := source[alerting.Mute, api.Mute]{show: muteOf, at: func(k alerting.Mute) int64 { return k.AtMS }}
	all := mutes.small(func(k alerting.Mute) string { return k.ID }, h.c.Alerts().Mutes)
	return all.page(ctx, &in.Listing, in.Limit)
}

func (h alertHandlers) mute(ctx context.Context, in *body[api.NewMute]) (api.Mute, error) {
	life, err := parseDuration("for", in.Body.For)
	if err != nil {
		return api.Mute{}, err
	}
	k, err := h.c.Alerts().Mute(ctx, actor(ctx), alerting.Mute{
		Host: protocol.HostID(in.Body.Host), Selector: in.Body.Selector, Alert: in.Body.Alert, Reason: in.Body.Reason,
	}, life)
	return muteOf(k), err
}

func (h alertHandlers) unmute(ctx context.Context, in *struct {
	ID string `path:"id" maxLength:"40" doc:"Id of the mute"`
}) (*none, error) {
	return nil, h.c.Alerts().Unmute(ctx, actor(ctx), in.ID)
}
