package actions

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// MaxBatch is how many hosts one request names: as many as one approval covers,
// and few enough that their transaction holds up no other.
const MaxBatch = 500

// BatchRequest asks for the same action on many hosts, or notes that a batch
// begins whose actions are asked for one by one.
type BatchRequest struct {
	// ID is made by the requester; zero lets the coordinator make it. The ids of
	// the actions follow from it and from their hosts, so asking again is harmless.
	ID    protocol.BatchID
	Hosts []protocol.HostID
	Spec  []byte
	// Digest is that of the file that the batch is made of, Operations how many
	// there are; for one of many hosts they follow from the request.
	Digest     protocol.Digest
	Operations int
	// AtOnce is how many actions of the batch may be under way at once; the first that
	// fails ends those that were not sent. 0 is no limit. All requests for a batch give
	// the same.
	AtOnce int
}

// Proposed is what became of a request for one host of a batch.
type Proposed struct {
	Host   protocol.HostID
	Action core.Action
	// Refused is why there is no action for the host.
	Refused error
}

// ProposeMany writes an action down for each host, all in one transaction, and
// sends those on their way whose hosts are there. What is wrong with one host
// keeps nothing from the others. Its answer is in the order of the hosts.
func (r *Room) ProposeMany(ctx context.Context, by core.Actor, req BatchRequest) (protocol.BatchID, []Proposed, error) {
	if err := r.mayPropose(by); err != nil {
		return req.ID, nil, err
	}
	if len(req.Hosts) > MaxBatch {
		return req.ID, nil, fmt.Errorf("%w: %d hosts, at most %d fit into one request; more of them go into further requests for the same batch", core.ErrInvalid, len(req.Hosts), MaxBatch)
	}
	if req.AtOnce < 0 || req.AtOnce > MaxBatch {
		return req.ID, nil, fmt.Errorf("%w: %d actions at once, want 0 to %d", core.ErrInvalid, req.AtOnce, MaxBatch)
	}
	if req.ID.IsZero() {
		var random [10]byte
		r.base.Random(random[:])
		req.ID = protocol.NewBatchID(r.base.NowMS(), random)
	}
	all, err := r.proposals(ctx, by, &req)
	if err != nil {
		return req.ID, nil, err
	}
	var missing error
	if len(all) > 0 {
		missing = r.cfg.Payloads.Has(by, all[0].spec) // which is that of all
	}
	err = r.base.Update(ctx, failpoint.OrderNumbered, func(tx core.Tx) error {
		fresh := len(all) == 0
		for _, p := range all {
			if err := r.enter(tx, by, p); err != nil {
				return err
			}
			fresh = fresh || !p.old && p.refused == nil
		}
		if !fresh {
			return nil
		}
		if missing != nil {
			return missing
		}
		return r.base.Record(tx, by, audit.Record{Verb: "batch.request", Object: req.ID.String(), Digest: req.Digest, Detail: map[string]any{"operations": req.Operations}})
	})
	if err != nil {
		return req.ID, nil, err
	}
	var sends errgroup.Group
	sends.SetLimit(runtime.GOMAXPROCS(0))
	out := make([]Proposed, len(all))
	for i, p := range all {
		sends.Go(func() error { r.entered(p); return nil })
		out[i] = Proposed{Host: p.want.Host, Action: p.a, Refused: p.refused}
	}
	_ = sends.Wait() // none fails
	return req.ID, out, nil
}

// proposals drafts the actions of a batch, and completes what the request tells
// of it.
func (r *Room) proposals(ctx context.Context, by core.Actor, req *BatchRequest) ([]*proposal, error) {
	if len(req.Hosts) == 0 {
		if len(req.Spec) > 0 || req.Operations < 1 {
			return nil, fmt.Errorf("%w: a batch names hosts and what to do on them, or how many operations will follow", core.ErrInvalid)
		}
		return nil, nil
	}
	draft, spec, err := r.draft(by, req.Spec)
	if err != nil {
		return nil, err
	}
	req.Digest, req.Operations = draft.Digest, len(req.Hosts)
	all := make([]*proposal, 0, len(req.Hosts))
	seen := make(map[protocol.HostID]bool, len(req.Hosts))
	for _, host := range req.Hosts {
		if seen[host] {
			return nil, fmt.Errorf("%w: host %s is named twice", core.ErrInvalid, host)
		}
		seen[host] = true
		a := draft
		a.AtOnce = req.AtOnce
		a.Host, a.Batch, a.ID = host, req.ID, req.ID.Action(string(host))
		p := &proposal{want: a, spec: spec}
		if p.misnamed, err = r.misnamed(ctx, host, spec); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// maxCancels is how many actions of a batch are cancelled at a time: they share commits.
const maxCancels = 64

// CancelBatch asks for the end of every action of a batch that has not ended. It
// returns those that were open, as they stand then.
func (r *Room) CancelBatch(ctx context.Context, by core.Actor, id protocol.BatchID) ([]core.Action, error) {
	if err := by.May(core.RoleOperator, "cancel actions"); err != nil {
		return nil, err
	}
	all, err := r.Batch(ctx, id)
	if err != nil {
		return nil, err
	}
	var open []core.Action
	for _, a := range all {
		if !a.State.Final() {
			open = append(open, a)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxCancels)
	for i := range open {
		g.Go(func() (err error) {
			open[i], err = r.Cancel(ctx, by, open[i].ID)
			return err
		})
	}
	return open, g.Wait()
}

// Batch returns all actions of a batch, the newest first; [core.ErrNotFound] if it has
// none.
func (r *Room) Batch(ctx context.Context, id protocol.BatchID) (all []core.Action, err error) {
	if id.IsZero() {
		return nil, fmt.Errorf("%w: a batch has an id", core.ErrInvalid)
	}
	f := core.ActionFilter{Batch: id, Limit: core.PageSize}
	for {
		page, err := r.List(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < core.PageSize {
			break
		}
		f.Before = page[len(page)-1].ID
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("batch %s: %w", id, core.ErrNotFound)
	}
	return all, nil
}

// BatchFollowing tells of the actions of a batch as they change. It belongs to
// one goroutine.
type BatchFollowing struct {
	r     *Room
	id    protocol.BatchID
	begun bool
	news  *core.BatchNews
}

// FollowBatch begins to follow a batch.
func (r *Room) FollowBatch(id protocol.BatchID) *BatchFollowing {
	return &BatchFollowing{r: r, id: id, news: r.base.News.FollowBatch(id)}
}

// Close ends it.
func (f *BatchFollowing) Close() { f.news.Close() }

// Next returns all actions of the batch the first time, and those that changed
// since, as they stand now, each later time: it waits until there are some. An
// error is that of the store, [core.ErrNotFound], or the cause of ctx.
func (f *BatchFollowing) Next(ctx context.Context) ([]core.Action, error) {
	if !f.begun {
		f.begun = true
		return f.r.Batch(ctx, f.id)
	}
	changed, all, err := f.news.Next(ctx)
	if err != nil {
		return nil, err
	}
	if all {
		return f.r.Batch(ctx, f.id)
	}
	var now []core.Action
	for id, a := range changed {
		if a.ID.IsZero() {
			var err error
			if a, err = f.r.Get(ctx, id); errors.Is(err, core.ErrNotFound) {
				continue // pruned
			} else if err != nil {
				return nil, err
			}
		}
		if a.Batch == f.id {
			now = append(now, a)
		}
	}
	return now, nil
}
