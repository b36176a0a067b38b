package access

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// Requests with a key are noted for a day, the newest 64 of each of 256 places: so
// noting one costs the same however many there are.
const (
	onceLife  = 24 * time.Hour
	oncePlace = 64
)

// asked is a request with a key.
type asked struct {
	Key     protocol.Digest   `json:"key"`     // and who uses it
	Request protocol.Digest   `json:"request"` // what is asked for
	ID      protocol.ActionID `json:"id"`      // of what it makes, if that has an id
	AtMS    int64             `json:"at_ms"`
}

// Once notes a request with a key of the client's choice, before it is carried out. It
// returns the id of what the request makes, which is the one that was given with the
// first of its kind, and whether the request was noted before. Another request with
// the same key is [core.ErrConflict].
func (r *Room) Once(ctx context.Context, by core.Actor, key string, request protocol.Digest, id protocol.ActionID) (_ protocol.ActionID, again bool, err error) {
	now := r.base.LifeMS()
	note := asked{onceKey(by, key), request, id, now}
	err = r.updateOnce(ctx, note.Key, func(all []asked) ([]asked, error) {
		again = false
		all = slices.DeleteFunc(all, func(a asked) bool { return a.AtMS+onceLife.Milliseconds() <= now })
		if i := indexOf(all, note.Key); i >= 0 {
			if all[i].Request != request {
				return nil, fmt.Errorf("%w: the Idempotency-Key was used for another request", core.ErrConflict)
			}
			note, again = all[i], true
			return all, nil
		}
		return append(all[max(0, len(all)-oncePlace+1):], note), nil
	})
	return note.ID, again, err
}

// Unasked forgets a request with a key that was refused: it may come in another form.
func (r *Room) Unasked(ctx context.Context, by core.Actor, key string) error {
	digest := onceKey(by, key)
	return r.updateOnce(ctx, digest, func(all []asked) ([]asked, error) {
		return slices.DeleteFunc(all, func(a asked) bool { return a.Key == digest }), nil
	})
}

// updateOnce changes the notes in the place of a key.
func (r *Room) updateOnce(ctx context.Context, key protocol.Digest, change func([]asked) ([]asked, error)) error {
	name := "once." + hex.EncodeToString(key[:1])
	return r.base.Update(ctx, failpoint.AccessKept, func(tx core.Tx) error {
		var all []asked
		if _, err := core.GetJSON(tx, name, &all); err != nil {
			return err
		}
		all, err := change(all)
		if err != nil {
			return err
		}
		return core.PutJSON(tx, name, all)
	})
}

func onceKey(by core.Actor, key string) protocol.Digest {
	return protocol.Sum([]byte(by.LogName() + "\x00" + key))
}

func indexOf(all []asked, key protocol.Digest) int {
	return slices.IndexFunc(all, func(a asked) bool { return a.Key == key })
}
