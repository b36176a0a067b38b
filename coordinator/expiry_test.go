package coordinator_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
)

// TestOrderOfWhatEndedStartsNothing: the order of an action that has ended here
// goes out until it is receipted, but with no start budget left. A host that
// has forgotten it, or never had it, must not begin what may have been asked
// for again meanwhile.
func TestOrderOfWhatEndedStartsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		f.Delay(func(topic string, _ []byte) bool { return strings.HasSuffix(topic, "/ack") })
		a := propose(t, f, h)
		o := order(t, h)
		if o.Header.LeftMS <= 0 {
			t.Fatalf("a new order has %d ms left", o.Header.LeftMS)
		}
		h.Report(o.Started(h))
		h.Report(o.Done())
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		before := len(f.Published(h.ID, protocol.ChannelOrder))
		after(time.Minute)
		again := f.Published(h.ID, protocol.ChannelOrder)[before:]
		if len(again) == 0 {
			t.Fatal("an order without a receipt was not sent again")
		}
		for _, m := range again {
			var sent protocol.Header
			env, err := protocol.Split(m.Payload)
			if err == nil {
				err = protocol.DecodeJSON(env.Body, &sent, true)
			}
			if err != nil || sent.LeftMS != 0 {
				t.Errorf("the order of an action that has ended has %d ms left, %v; want none", sent.LeftMS, err)
			}
		}
	})
}

// meanwhile is a store in which another transaction changes each expired action
// between its being found and its being ended.
type meanwhile struct {
	core.Store
	change func(*core.Action)
}

func (s meanwhile) View(ctx context.Context, look func(core.Tx) error) error {
	var due []core.Action
	if err := s.Store.View(ctx, func(tx core.Tx) error {
		tx.Queue = dueQueue{tx.Queue, &due}
		return look(tx)
	}); err != nil || len(due) == 0 {
		return err
	}
	return s.Update(ctx, func(tx core.Tx) error {
		for _, a := range due {
			s.change(&a)
			if err := tx.Actions.Put(a); err != nil {
				return err
			}
		}
		return nil
	})
}

type dueQueue struct {
	core.Queue
	due *[]core.Action
}

func (q dueQueue) Expired(nowMS int64, limit int) ([]core.Action, error) {
	all, err := q.Queue.Expired(nowMS, limit)
	*q.due = all
	return all, err
}

// TestNumberedMeanwhileIsNotExpired: once an order has a number, only its host
// can say that it never began.
func TestNumberedMeanwhileIsNotExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := coordtest.NewOn(t, meanwhile{storetest.NewMem(storetest.Faults{}), func(a *core.Action) { a.N = 1 }})
		a := propose(t, f, f.AddHost("edge-07"))
		after(25 * time.Hour)
		if got := want(t, f, a.ID, protocol.StatePendingSchedule, ""); got.N != 1 {
			t.Errorf("the action has number %d; the expiry has not found it", got.N)
		}
	})
}

// TestGivenTimeMeanwhileIsNotExpired: an action whose time was lengthened when it had
// been found, by the approval that it waited for, goes on.
func TestGivenTimeMeanwhileIsNotExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const longer = int64(48 * time.Hour / time.Millisecond)
		f := coordtest.NewOn(t, meanwhile{storetest.NewMem(storetest.Faults{}), func(a *core.Action) { a.ExpiresMS += longer }})
		a := propose(t, f, f.AddHost("edge-07"))
		after(25 * time.Hour)
		if got := want(t, f, a.ID, protocol.StatePendingSchedule, ""); got.ExpiresMS != a.ExpiresMS+longer {
			t.Errorf("the action ends at %d; the expiry has not found it", got.ExpiresMS)
		}
	})
}
