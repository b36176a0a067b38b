package conn

import (
	"context"
	"errors"
	"net/url"
	"slices"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// Host returns a host, or the newest enrolment of that name as one.
func (r *Remote) Host(ctx context.Context, id protocol.HostID) (HostView, error) {
	v, err := r.Member(ctx, id)
	if !term.IsNotFound(err) {
		return v, err
	}
	waiting, e := r.Enrolments(ctx)
	if e != nil {
		return HostView{}, errors.Join(err, e)
	}
	for _, w := range slices.Backward(waiting) {
		switch {
		case w.Host != string(id):
		case w.State == EnrolmentApproved: // perhaps since we asked for it
			return r.Member(ctx, id)
		default:
			return HostView{Host: api.Host{ID: w.Host, Key: w.Key, Labels: w.Labels, Hostname: w.Hostname, Arch: w.Arch, Version: w.Version, Reason: w.Reason}, State: w.State}, nil
		}
	}
	return HostView{}, err
}

// Member returns a host that was approved once.
func (r *Remote) Member(ctx context.Context, id protocol.HostID) (HostView, error) {
	var h api.Host
	err := r.Get(ctx, "/v1/hosts/"+url.PathEscape(string(id)), nil, &h)
	return HostView{Host: h, State: ShownState(h)}, err
}

// Hosts returns all hosts.
func (r *Remote) Hosts(ctx context.Context) ([]api.Host, error) {
	return pages[api.Host](ctx, r, "/v1/hosts", nil)
}

// Leases returns the unique containers.
func (r *Remote) Leases(ctx context.Context) ([]api.Lease, error) {
	return pages[api.Lease](ctx, r, "/v1/leases", nil)
}

// Alerts returns the alerts that are raised on hosts, as which chooses them.
func (r *Remote) Alerts(ctx context.Context, which url.Values) ([]api.RaisedAlert, error) {
	return pages[api.RaisedAlert](ctx, r, "/v1/alerts", which)
}

// Enrolments returns the enrolments, the newest last.
func (r *Remote) Enrolments(ctx context.Context) ([]api.Enrolment, error) {
	var all []api.Enrolment
	err := r.Get(ctx, "/v1/enrolments", nil, &all)
	slices.SortStableFunc(all, func(a, b api.Enrolment) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return all, err
}

const (
	// EnrolmentPending waits for a decision.
	EnrolmentPending = "pending"
	// EnrolmentApproved belongs to the fleet.
	EnrolmentApproved = "approved"
)

// HostView is a host with the one word that people ask for: pending, denied,
// replacing or revoked, else how it can be reached.
type HostView struct {
	api.Host
	State string `json:"state"` // instead of the host's own
}

// ShownState returns the one word that lists show of a host. A host in quarantine gets
// no orders, so that comes before whether it is there.
func ShownState(h api.Host) string {
	if h.State != EnrolmentApproved {
		return h.State
	}
	if h.Quarantined != "" {
		return "quarantined"
	}
	if h.Connectivity == "online" && h.Degraded != "" {
		return "degraded"
	}
	return h.Connectivity
}
