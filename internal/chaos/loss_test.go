package chaos

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/recovery"
	"github.com/hostler-io/hostler/protocol"
)

// loss draws when the coordinator is backed up, and when its machine is lost. It has
// chances of its own: what else a seed has in store stays as it is.
func (w *world) loss() []step {
	r := rand.New(rand.NewPCG(w.seed, 17))
	at := func() time.Duration { return time.Duration(r.Int64N(int64(w.plan.length))) }
	all := []step{{at() / 2, "back up", w.backUp}, {at(), "lose the coordinator", w.lose}}
	for range r.IntN(3) {
		all = append(all, step{at(), "back up", w.backUp})
	}
	return all
}

// backUp copies the coordinator's store as it is, whatever is under way.
func (w *world) backUp() {
	if !w.center.recovered {
		w.center.backup = w.center.store.Backup()
	}
}

// lose loses the machine of the coordinator and makes another one from the newest
// backup, in the ring that the owners sign for it. Without a backup nothing happens.
func (w *world) lose() {
	c := w.center
	if c.backup == nil || c.recovered {
		return
	}
	if c.coord != nil {
		c.end(true)
	}
	ring := w.ring.number.Add(1)
	c.store, c.dir, c.recovered = c.backup, w.t.TempDir(), true
	if _, err := recovery.Recover(context.Background(), c.store, recovery.Config{Key: coordinatorKey.Key(), Ring: ring, Now: time.Now(), Rand: w.dice}); err != nil {
		w.t.Errorf("the coordinator is not recovered: %v", err)
	}
	c.start()
}

// unlessForgotten is an error of the coordinator, but for one: of what was asked after
// the backup it knows only what the hosts have told. Until they have, it is asked again.
func (w *world) unlessForgotten(ctx context.Context, c *coordinator.Coordinator, err error) error {
	if !errors.Is(err, core.ErrNotFound) {
		return err
	}
	r, failed := c.Recoveries().Progress(ctx)
	switch {
	case failed != nil || r.Left > 0:
		return errEnd
	case r.AtMS == 0:
		return err
	}
	return nil
}

// cancelAgain asks for the end of what should have ended, as people do who see that a
// recovered coordinator does not know that they wanted it.
func (w *world) cancelAgain() {
	if !w.center.recovered {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.asked {
		if !a.cancel {
			continue
		}
		w.work.Go(func() {
			w.insist(func(ctx context.Context, c *coordinator.Coordinator) error {
				_, err := c.Actions().Cancel(ctx, ann, a.id)
				return w.unlessForgotten(ctx, c, err)
			})
		})
	}
}

// checkRecovered holds what a recovered coordinator says of an action against the host
// and against what was done. Whatever the host knows it knows as well; nothing was
// carried out twice; and what nobody can know is LOST, or was forgotten before it was
// sent.
func (w *world) checkRecovered(a asked, report reporter) {
	ctx := w.t.Context()
	text := string(encode(a.spec))
	view, err := w.center.coord.Actions().Get(ctx, a.id)
	own, unknown := a.host.agent.Action(ctx, a.id)
	did := a.host.machine.did(a.id)
	if did.begun > 1 {
		report("%s %s began %d times", a.host.id, text, did.begun)
	}
	switch {
	case unknown == nil && own.AcceptSeq == 0 && own.State == protocol.StateCancelled && errors.Is(err, core.ErrNotFound):
		// The cancel of what it had not got came there: should that come yet, it is refused.
	case unknown == nil && (err != nil || view.State != own.State || view.Reason != own.Reason || own.Spec != nil && !bytes.Equal(own.Spec, view.Spec)):
		report("%s %s is %s %s there, and %s %s here, %v", a.host.id, text, own.State, own.Reason, view.State, view.Reason, err)
	case unknown == nil:
	case did.begun > 0:
		report("%s %s began, and its host does not know it", a.host.id, text)
	case errors.Is(err, core.ErrNotFound): // asked for after the backup, and never sent
	case err != nil || !slices.Contains([]protocol.Reason{protocol.ReasonRestored, protocol.ReasonCancelled, protocol.ReasonExpired}, view.Reason):
		report("%s %s is %s %s here, and its host does not know it, %v", a.host.id, text, view.State, view.Reason, err)
	}
	if a.followed != nil && did.begun > 0 && !bytes.HasPrefix(did.last.text, *a.followed) {
		report("%s %s: what was read of its output was never written", a.host.id, text)
	}
}
