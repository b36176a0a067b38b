package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/protocol"
)

// defaultSocket is where the agent of a host listens.
const defaultSocket = "/run/hostler/agent.sock"

// remote is the other end: a coordinator, or the agent of this host. It has
// the requests whose path or form is needed more than once.
type remote struct {
	*client.Client
	local bool
}

// connect prepares to speak to the other end. It does not connect yet.
func (a *app) connect() (*remote, error) {
	t, err := a.target()
	if err != nil {
		return nil, err
	}
	socket, local := a.agentSocket(t)
	if local {
		c, err := client.New(client.Config{Address: "unix://" + socket})
		return &remote{c, true}, cannot("speak to the agent", err)
	}
	if t.Address == "" {
		return nil, &failure{
			code: exitUsage, what: "there is nobody to speak to",
			why:  "no context is in use, no address is given, and this host has no agent at " + socket,
			next: "hostler login ADDRESS --token-file FILE",
		}
	}
	if u, err := url.Parse(t.Address); err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, usage("hostler login https://HOST:PORT --token-file FILE", "%q is no address of a coordinator: want https://HOST:PORT", t.Address)
	}
	ca, err := a.authority(t)
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{Address: t.Address, Token: t.Token, CA: ca})
	if err != nil {
		return nil, usage("hostler login https://HOST:PORT --token-file FILE", "%s", err)
	}
	return &remote{c, false}, nil
}

// coordinator is connect for what only a coordinator knows.
func (a *app) coordinator() (*remote, error) {
	r, err := a.connect()
	if err == nil && r.local {
		return nil, usage("hostler login ADDRESS --token-file FILE", "the agent of a host does not know that: it takes a coordinator")
	}
	return r, err
}

// agentSocket returns the agent's socket, and whether it is the one to speak
// to: by option, or because there is no coordinator to speak to.
func (a *app) agentSocket(t target) (path string, local bool) {
	path = cmp.Or(a.socket, a.env("HOSTLER_SOCKET"), defaultSocket)
	if a.local || a.socket != "" {
		return path, true
	}
	if t.Address != "" {
		return path, false
	}
	info, err := os.Stat(path)
	return path, err == nil && info.Mode().Type() == os.ModeSocket
}

// authority returns the authority of a target's certificates: the one that was
// given, else that of the fleet's ring.
func (a *app) authority(t target) ([]byte, error) {
	if t.CA != "" {
		return decodeCA(t.CA)
	}
	all, err := a.ringAuthorities(t.Fleet)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, &failure{
			code: exitRefused, what: "cannot tell whom to trust at " + t.Address,
			why:  "no authority is given, and no ring of this machine names exactly one coordinator",
			next: "the same with --ca FILE, the ca.crt of the coordinator",
		}
	}
	return all[0], nil
}

// host returns a host, or the newest enrolment of that name as one.
func (r *remote) host(ctx context.Context, id protocol.HostID) (hostView, error) {
	v, err := r.member(ctx, id)
	if !isNotFound(err) {
		return v, err
	}
	waiting, e := r.enrolments(ctx)
	if e != nil {
		return hostView{}, errors.Join(err, e)
	}
	for _, w := range slices.Backward(waiting) {
		switch {
		case w.Host != string(id):
		case w.State == enrolmentApproved: // perhaps since we asked for it
			return r.member(ctx, id)
		default:
			return hostView{Host: api.Host{ID: w.Host, Key: w.Key, Labels: w.Labels, Hostname: w.Hostname, Arch: w.Arch, Version: w.Version, Reason: w.Reason}, State: w.State}, nil
		}
	}
	return hostView{}, err
}

// member returns a host that was approved once.
func (r *remote) member(ctx context.Context, id protocol.HostID) (hostView, error) {
	var h api.Host
	err := r.Get(ctx, "/v1/hosts/"+url.PathEscape(string(id)), nil, &h)
	return hostView{Host: h, State: shownState(h)}, err
}

func (r *remote) hosts(ctx context.Context) ([]api.Host, error) {
	return pages(ctx, r, "/v1/hosts", func(h api.Host) string { return h.ID })
}

// enrolments returns the enrolments, the newest last.
func (r *remote) enrolments(ctx context.Context) ([]api.Enrolment, error) {
	var all []api.Enrolment
	err := r.Get(ctx, "/v1/enrolments", nil, &all)
	slices.SortStableFunc(all, func(a, b api.Enrolment) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return all, err
}

// containers returns those of one host, or of all.
func (r *remote) containers(ctx context.Context, host protocol.HostID) ([]api.Container, error) {
	if host == "" && !r.local {
		return pages(ctx, r, "/v1/containers", func(c api.Container) string { return c.Host })
	}
	path := "/v1/containers"
	if host != "" {
		path = "/v1/hosts/" + url.PathEscape(string(host)) + "/containers"
	}
	var all []api.Container
	err := r.Get(ctx, path, nil, &all)
	return all, err
}

// pageSize is how many elements of a list are asked for at once.
const pageSize = 1000

// pages returns all of a list by host; host tells of which one an element is. A
// page that is not full is the last.
func pages[T any](ctx context.Context, r *remote, path string, host func(T) string) ([]T, error) {
	q := url.Values{"limit": {strconv.Itoa(pageSize)}}
	var all []T
	for {
		var page []T
		if err := r.Get(ctx, path, q, &page); err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < pageSize {
			return all, nil
		}
		q.Set("after", host(page[len(page)-1]))
	}
}

// container finds the container that a reference means.
func (r *remote) container(ctx context.Context, name ref) (api.Container, error) {
	all, err := r.containers(ctx, name.host)
	if err != nil {
		return api.Container{}, err
	}
	all = slices.DeleteFunc(all, func(c api.Container) bool {
		return c.Name != name.name || name.runtime != "" && c.Runtime != name.runtime
	})
	switch len(all) {
	case 0:
		next := "hostler ct ls"
		if name.host != "" {
			next += " " + string(name.host)
		}
		return api.Container{}, &failure{code: exitNotFound, what: fmt.Sprintf("there is no container %s", name), next: next}
	case 1:
		return all[0], nil
	}
	var both []string
	for _, c := range all {
		both = append(both, ref{host: name.host, runtime: c.Runtime, name: c.Name}.String())
	}
	return api.Container{}, usage("", "%s is ambiguous: want one of %q", name, both)
}

// action returns an action by its id or the beginning of it; wait is how long
// the other end may wait for its end.
func (r *remote) action(ctx context.Context, id string, wait time.Duration) (api.Action, error) {
	var q url.Values
	if wait > 0 {
		q = url.Values{"wait": {wait.String()}}
	}
	var act api.Action
	err := r.Get(ctx, "/v1/actions/"+url.PathEscape(id), q, &act)
	return act, err
}

// actionWhy is action, with what it waits for as its host says.
func (r *remote) actionWhy(ctx context.Context, id string) (api.Action, error) {
	var q url.Values
	if !r.local {
		q = url.Values{"why": {"true"}}
	}
	var act api.Action
	err := r.Get(ctx, "/v1/actions/"+url.PathEscape(id), q, &act)
	return act, err
}

// actionQuery chooses actions; the zero value is all.
type actionQuery struct {
	host, batch string
	states      []string
	limit       int // 0: all
}

// actions returns up to limit actions (0: all), the newest first.
func (r *remote) actions(ctx context.Context, host string, open bool, limit int) ([]api.Action, error) {
	f := actionQuery{host: host, limit: limit}
	if open {
		f.states = openStates()
	}
	return r.actionsIn(ctx, f)
}

// actionsIn returns actions, the newest first.
func (r *remote) actionsIn(ctx context.Context, f actionQuery) ([]api.Action, error) {
	q := url.Values{}
	if f.batch != "" {
		q.Set("batch", f.batch)
	}
	if f.host != "" {
		q.Set("host", f.host)
	}
	if len(f.states) > 0 {
		q.Set("state", strings.Join(f.states, ","))
	}
	var all []api.Action
	for {
		n := pageSize
		if f.limit > 0 {
			n = min(n, f.limit-len(all))
		}
		q.Set("limit", strconv.Itoa(n))
		var page []api.Action
		if err := r.Get(ctx, "/v1/actions", q, &page); err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < n || len(all) == f.limit {
			return all, nil
		}
		q.Set("before", page[len(page)-1].ID)
	}
}

// openStates are those of actions that have not ended.
func openStates() []string {
	var open []string
	for _, s := range protocol.States() {
		if !s.Final() && s != protocol.StateNone {
			open = append(open, string(s))
		}
	}
	return open
}

// untrusted reports whether the other end has a certificate of somebody else.
func untrusted(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}
