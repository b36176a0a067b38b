package access

import (
	"context"
	"errors"
	"sync"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// Why a request that goes on for long ends with its token.
var (
	ErrTokenRevoked = errors.New("the token was revoked")
	ErrTokenExpired = errors.New("the token has expired")
)

// bearers knows who is being served by which token, so that a token that ends
// takes with it what goes on by it: sessions in which its person types, followers,
// waiters.
type bearers struct {
	mu sync.Mutex
	// changes counts what has happened to the rows of tokens: a token that was read
	// before is read again.
	changes uint64
	served  map[string]map[*bearer]struct{} // by the id of the token
	// known are tokens by the digests of their secrets, as their rows are.
	known map[protocol.Digest]core.Token
}

// maxKnown bounds the tokens that are known. A fleet has some dozens.
const maxKnown = 1000

// bearer is one request.
type bearer struct {
	token core.Token
	end   func(why error)
}

// count returns how often rows of tokens have changed until now.
func (b *bearers) count() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changes
}

// recall returns the token of a secret if its row is known.
func (b *bearers) recall(secret protocol.Digest) (core.Token, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.known[secret]
	return t, ok
}

// add takes a request in, unless a token has changed since the count.
func (b *bearers) add(r *bearer, count uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changes != count {
		return false
	}
	if b.known == nil || len(b.known) >= maxKnown {
		b.known = make(map[protocol.Digest]core.Token)
	}
	b.known[r.token.Hash] = r.token
	if b.served == nil {
		b.served = make(map[string]map[*bearer]struct{})
	}
	of := b.served[r.token.ID]
	if of == nil {
		of = make(map[*bearer]struct{})
		b.served[r.token.ID] = of
	}
	of[r] = struct{}{}
	return true
}

func (b *bearers) remove(r *bearer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.served[r.token.ID]
	if delete(of, r); len(of) == 0 {
		delete(b.served, r.token.ID)
	}
}

// changed is called when rows of tokens have changed, or may have.
func (b *bearers) changed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changes++
	b.known = nil
}

// revoked ends what is served by a token.
func (b *bearers) revoked(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range b.served[id] {
		r.end(ErrTokenRevoked)
	}
}

// expire ends what is served by tokens whose life is over.
func (b *bearers) expire(lifeMS int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, of := range b.served {
		for r := range of {
			if r.token.ExpiresMS != 0 && core.Over(r.token.CreatedMS, r.token.ExpiresMS, lifeMS) {
				r.end(ErrTokenExpired)
			}
		}
	}
}

// Authenticate returns who bears a token; [core.ErrDenied] if nobody does. From then on
// until leave is called, end is called as soon as the token is revoked, and a
// moment after it has expired; it may be called more than once, and must not wait.
func (r *Room) Authenticate(ctx context.Context, secret string, end func(why error)) (by core.Actor, leave func(), err error) {
	for {
		count := r.bearers.count()
		t, err := r.token(ctx, secret)
		if err != nil {
			return core.Actor{}, nil, err
		}
		b := &bearer{token: t, end: end}
		if r.bearers.add(b, count) {
			return core.Actor{Name: t.Name, Person: t.Person, Role: t.Role}, func() { r.bearers.remove(b) }, nil
		}
	}
}
