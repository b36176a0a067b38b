package web

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/explain"
	"github.com/hostler-io/hostler/coordinator/members"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// list converts every element; no list is never null.
func list[A, B any](all []A, convert func(A) B) []B {
	out := make([]B, 0, len(all))
	for _, a := range all {
		out = append(out, convert(a))
	}
	return out
}

// object reads a JSON object of a record. One that cannot be read is shown as
// nothing: it is data for people.
func object(b []byte) (m map[string]any) {
	if json.Unmarshal(b, &m) != nil {
		return nil
	}
	return m
}

// hostOf shows a host, with what other rooms know of it.
func (h hostHandlers) hostOf(v members.HostView) api.Host {
	out := memberOf(v)
	if v.State == core.HostApproved {
		lease := h.c.Workloads().Standing(v.ID)
		out.SelfFence, out.Pausable, out.LeaseLeftMS, out.Fencing = string(lease.Fence), lease.Pausable, lease.LeftMS, h.c.Fencing().Standing(v.Host)
		out.Features = lease.Features
	}
	return out
}

func memberOf(v members.HostView) api.Host {
	i := v.Inventory
	h := api.Host{
		ID: string(v.ID), State: string(v.State), Connectivity: string(v.Connectivity), Presence: v.Presence.Reason, Ring: v.Presence.Ring, AsleepUntil: webapi.Maybe(v.AsleepUntilMS), Quarantined: v.Quarantined,
		Key: v.Key.String(), Labels: webapi.Texts(v.Labels), SeenAt: webapi.Maybe(v.SeenMS), ApprovedAt: webapi.At(v.ApprovedMS), ApprovedBy: v.ApprovedBy,
		RevokedAt: webapi.Maybe(v.RevokedMS), Reason: v.Host.Reason, InventoryAt: webapi.Maybe(i.AtMS),
		Hostname: i.Host.Hostname, Arch: i.Host.Arch, Version: i.Host.Version, Kernel: i.Host.Kernel, CPUs: i.Host.CPUs,
		MemoryBytes: i.Host.MemoryBytes, MemoryFree: i.Host.MemoryFree, DiskBytes: i.Host.DiskBytes, DiskFree: i.Host.DiskFree,
		Load1: float64(i.Host.Load1000) / 1000, QueueDepth: i.Host.QueueDepth,
		Containers: len(i.Containers), Unsupported: i.Host.Unsupported,
		Degraded: i.Host.Degraded, ActiveAlerts: list(i.Alerts, alertOf), Interfaces: list(i.Host.Interfaces, interfaceOf),
	}
	if a := v.Availability; a.State != core.Open {
		h.Availability = &api.Availability{State: string(a.State), Reason: a.Reason, By: a.By, Since: webapi.At(a.SinceMS), Until: webapi.Maybe(a.UntilMS)}
	}
	if v.Heard || v.Connectivity == core.Goodbye {
		h.PresentSince = webapi.Maybe(v.SinceMS)
	}
	if p := i.Host.Policy; p != nil {
		h.Policy = &api.Policy{Source: p.Source, Number: p.Number, Bypass: p.Bypass, Broken: p.Broken}
		if !p.Digest.IsZero() {
			h.Policy.Digest = p.Digest.String()
		}
	}
	if i.Host.Rules != nil {
		h.AlertRules = i.Host.Rules.Number
	}
	if up := time.Duration(i.Host.UptimeMS) * time.Millisecond; up > 0 {
		h.Uptime = up.Truncate(time.Second).String()
	}
	if i.Host.ClockMS > 0 && i.AtMS > 0 {
		h.ClockOffset = (time.Duration(i.Host.ClockMS-i.AtMS) * time.Millisecond).String()
	}
	for _, c := range i.Containers {
		if c.State == "running" {
			h.Running++
		}
	}
	return h
}

func alertOf(a protocol.AlertInfo) api.Alert {
	return api.Alert{ID: a.ID, Severity: a.Severity, Text: a.Text, Since: webapi.At(a.SinceMS)}
}

func interfaceOf(i protocol.Interface) api.Interface {
	return api.Interface{Name: i.Name, MAC: i.MAC, Up: i.Up, Addresses: webapi.Texts(i.Addresses)}
}

// actionOf returns an action without its spec, which lists leave out.
func actionOf(a core.Action) api.Action {
	out := api.Action{
		ID: a.ID.String(), Host: string(a.Host), Kind: string(a.Kind), Name: string(a.Name),
		State: string(a.State), Reason: string(a.Reason), Detail: a.Detail, Shown: shown(a), Requester: a.Requester,
		Digest: a.Digest.String(), Attempt: a.Attempt, AcceptSeq: a.AcceptSeq, Cancelling: a.Cancelling,
		CancelRefused: !a.Cancelling && !a.State.Final() && strings.HasPrefix(a.Detail, protocol.NotCancelled),
		Conflict:      a.Conflict != nil, Corrected: a.Corrected,
		CreatedAt: webapi.At(a.CreatedMS), UpdatedAt: webapi.At(a.UpdatedMS), EndedAt: webapi.Maybe(a.EndedMS), ExpiresAt: webapi.Maybe(a.ExpiresMS),
		Exit: webapi.Exit(a.Exit), Output: webapi.Output(a.Output),
		SentAt: webapi.Maybe(a.SentMS), ReceiptedAt: webapi.Maybe(a.ReceiptedMS), HostAcceptedAt: webapi.Maybe(a.AcceptedMS),
		HostStartedAt: webapi.Maybe(a.StartedMS), HostEndedAt: webapi.Maybe(a.FinishedMS),
	}
	if !a.Target.IsZero() {
		out.Target = a.Target.String()
	}
	if !a.Batch.IsZero() {
		out.Batch = a.Batch.String()
	}
	if spec, err := protocol.DecodeSpec(a.Spec); err == nil {
		out.Argv, out.Session = spec.Process().Argv, webapi.Session(&spec, a.BegunOnHost())
	}
	return out
}

func waitsOf(w *explain.Waiting) *api.Waits {
	if w == nil {
		return nil
	}
	out := &api.Waits{For: string(w.For), Text: w.Text, LastSeen: webapi.Maybe(w.SinceMS), HostAt: webapi.Maybe(w.ToldMS)}
	if !w.Action.IsZero() {
		out.Action = w.Action.String()
	}
	return out
}

// wholeAction returns an action with its spec and its approvals.
func (h *handlers) wholeAction(a core.Action) api.Action {
	out := h.actionOf(a)
	out.Spec, out.Intent = a.Spec, a.Conflict
	counting := h.c.Approvals().Counting(a)
	for _, g := range a.Approvals {
		counts := slices.ContainsFunc(counting, func(o core.Approval) bool { return o.Person == g.Person })
		out.Approvals = append(out.Approvals, api.Approval{
			Person: g.Person, Key: g.Key.String(), IssuedAt: webapi.At(g.IssuedMS), NotBefore: webapi.At(g.NotBeforeMS), ExpiresAt: webapi.At(g.ExpiresMS),
			Counts: counts, Signed: g.Signed.Signed,
		})
	}
	return out
}

// actionOf returns an action as lists show it: with what it waits for.
func (h *handlers) actionOf(a core.Action) api.Action {
	out := actionOf(a)
	for _, n := range a.Needs {
		out.Needs = append(out.Needs, api.Need{
			Persons: n.Persons, Missing: h.c.Approvals().Missing(a, n), From: webapi.Texts(n.From), Not: n.Not, Why: n.Why,
		})
	}
	return out
}

// shown returns the state as people read it.
func shown(a core.Action) string {
	switch {
	case a.Cancelling && !a.State.Final():
		return "cancelling"
	case a.State == protocol.StatePendingApprove:
		return "waits for approval"
	case a.State == protocol.StatePendingSchedule && a.Unnumbered():
		return "waits for its host"
	case a.State == protocol.StatePendingSchedule:
		return "being sent"
	case a.State == protocol.StateNew:
		return "queued"
	}
	return strings.ToLower(string(a.State))
}

func tokenOf(t core.Token) api.Token {
	return api.Token{
		ID: t.ID, Name: t.Name, Person: t.Person, Role: string(t.Role), CreatedAt: webapi.At(t.CreatedMS), CreatedBy: t.CreatedBy,
		ExpiresAt: webapi.Maybe(t.ExpiresMS), RevokedAt: webapi.Maybe(t.RevokedMS),
	}
}

func viewerOf(v core.Viewer) api.Viewer {
	return api.Viewer{Name: v.Name, Serial: v.Serial, CreatedAt: webapi.At(v.CreatedMS), CreatedBy: v.CreatedBy, RevokedAt: webapi.Maybe(v.RevokedMS)}
}

func eventOf(e core.Event) api.Event {
	return api.Event{ID: e.ID, At: webapi.At(e.AtMS), Type: e.Type, Host: string(e.Host), Object: e.Object, Data: object(e.Data)}
}

func auditRecordOf(r audit.Record) api.AuditRecord {
	out := api.AuditRecord{
		N: r.N, At: webapi.At(r.AtMS), Actor: r.Actor, From: r.From, Verb: r.Verb, Host: string(r.Host), Object: r.Object, Detail: r.Detail,
	}
	if !r.Digest.IsZero() {
		out.Digest = r.Digest.String()
	}
	return out
}

// parseDuration reads the duration in a member of a request.
func parseDuration(what, s string) (time.Duration, error) {
	d, err := api.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", core.ErrInvalid, what, err)
	}
	return d, nil
}
