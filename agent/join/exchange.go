package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// Pauses between questions: a random time between firstPause and a bound that
// is enrol.PollMin for the first few and then doubles up to enrol.PollMax. An
// operator who stands beside the host is noticed at once, a host that nobody
// looks at asks seldom.
const (
	firstPause = time.Second
	atFirst    = 3
)

// pause is how long to wait before the question number n, from 0.
func pause(n int) time.Duration {
	bound := enrol.PollMin
	for ; n >= atFirst && bound < enrol.PollMax; n-- {
		bound *= 2
	}
	return firstPause + rand.N(min(bound, enrol.PollMax)-firstPause)
}

// Run takes a record to the operator's decision: it makes the exchange if there
// was none, and asks until it was approved. On nil the host is a member. Each
// step is kept before Run goes on, and the record that it returns is the one
// that was kept last.
func (c *Client) Run(ctx context.Context, r Record) (Record, error) {
	told := false
	for n := 0; ; n++ {
		next, err := c.step(ctx, r)
		if next.State != r.State || next.Exchange != r.Exchange || len(next.Rings) != len(r.Rings) {
			if kept := c.cfg.Keep(next); kept != nil {
				return r, fmt.Errorf("keeping the enrolment: %w", kept)
			}
			r = next
		}
		switch {
		case ctx.Err() != nil:
			return r, context.Cause(ctx)
		case errors.Is(err, errLater), errors.Is(err, errAgain):
			c.cfg.Log.Warn("the enrolment is tried again", "error", err)
		case err != nil:
			return r, err
		case r.Member():
			return r, nil
		}
		if r.State == enrol.Pending && !told && c.cfg.Waiting != nil {
			c.cfg.Waiting(r)
			told = true
		}
		select {
		case <-time.After(pause(n)):
		case <-ctx.Done():
			return r, context.Cause(ctx)
		}
	}
}

// step makes the exchange, or asks what became of it. The record that it
// returns is true whatever the error.
func (c *Client) step(ctx context.Context, r Record) (Record, error) {
	if r.Exchange != (enrol.ExchangeID{}) {
		next, err := c.Ask(ctx, r)
		if !errors.Is(err, errAgain) || r.Code == "" {
			return next, err
		}
		// The coordinator has forgotten us, after a restore perhaps.
		next.Exchange, next.State, next.Words = enrol.ExchangeID{}, "", ""
		return next, err
	}
	return c.exchange(ctx, r)
}

// Ask asks the coordinator once where the enrolment stands. A member gets a new
// TLS certificate so when the old one ages. The record that it returns is to be
// kept, whatever the error.
func (c *Client) Ask(ctx context.Context, r Record) (Record, error) {
	chain, err := r.Chain()
	if err != nil {
		return r, err
	}
	var problems []error
	for _, address := range r.Addresses {
		a, err := c.state(ctx, address, chain, r.Exchange)
		if errors.Is(err, ErrStranger) {
			// A ring that we have not seen may name another authority.
			if newer, missed := c.refresh(ctx, address, chain); missed == nil {
				chain, r = newer, r.withChain(newer)
				a, err = c.state(ctx, address, chain, r.Exchange)
			}
		}
		if errors.Is(err, ErrStranger) {
			// We know whom we asked before: this is a bad line to them, and the
			// host waits for a better one.
			err = fmt.Errorf("%w: %w", errLater, err)
		}
		if err == nil {
			return r.decided(a, c.cfg.TLS)
		}
		if !errors.Is(err, errLater) {
			return r, err
		}
		problems = append(problems, err)
	}
	return r, errors.Join(problems...)
}

// decided takes an answer and tells those that end an enrolment as errors.
func (r Record) decided(a enrol.StateResponse, key *certs.TLSKey) (Record, error) {
	r, err := r.accept(a, key)
	if err != nil {
		return r, err
	}
	because := ""
	if r.Reason != "" {
		because = ": " + r.Reason
	}
	switch r.State {
	case enrol.Denied:
		return r, fmt.Errorf("%w%s", ErrDenied, because)
	case enrol.Revoked:
		return r, fmt.Errorf("%w%s", ErrRevoked, because)
	}
	return r, nil
}

func (c *Client) state(ctx context.Context, address string, chain *certs.Chain, session enrol.ExchangeID) (a enrol.StateResponse, err error) {
	question, err := enrol.Attempt{Fleet: chain.Ring().Fleet, Signer: c.cfg.Identity}.Poll(session)
	if err != nil {
		return a, err
	}
	w := c.coordinator(address, chain)
	defer w.close()
	err = w.ask(ctx, "state", question, &a)
	return a, err
}

// refresh walks the chain forward with what an address serves.
func (c *Client) refresh(ctx context.Context, address string, chain *certs.Chain) (*certs.Chain, error) {
	for {
		b, err := c.rings(ctx, address, chain.Ring().Number+1)
		if err != nil || len(b) == 0 {
			return chain, err
		}
		next, err := chain.Advance(b)
		if err != nil || next.Ring().Number == chain.Ring().Number {
			return next, err
		}
		chain = next
	}
}

// exchange makes an offer to the first address of the code that answers.
func (c *Client) exchange(ctx context.Context, r Record) (Record, error) {
	code, err := enrol.ParseJoinCode(r.Code)
	if err != nil {
		return r, fmt.Errorf("the join code that was kept: %w", err)
	}
	var problems []error
	for _, address := range code.Addresses {
		next, err := c.offer(ctx, r, code, address)
		if err == nil || !errors.Is(err, errLater) && !errors.Is(err, ErrStranger) {
			return next, err
		}
		problems = append(problems, err)
	}
	return r, worst(problems)
}

// worst joins the problems of all addresses. One stranger is reason to stop
// and look, even if other addresses merely did not answer.
func worst(problems []error) error {
	err := errors.Join(problems...)
	if !errors.Is(err, ErrStranger) {
		return err
	}
	for _, p := range problems {
		if errors.Is(p, ErrStranger) {
			return p
		}
	}
	return err
}

// offer makes the exchange with one server.
func (c *Client) offer(ctx context.Context, r Record, code enrol.JoinCode, address string) (Record, error) {
	rings, err := c.rings(ctx, address, code.Pin.Ring)
	if err != nil {
		return r, err
	}
	chain, err := certs.OpenChain(code.Pin, rings)
	if err != nil {
		return r, fmt.Errorf("%w: %s: %w", ErrStranger, address, err)
	}
	w := c.coordinator(address, chain)
	defer w.close()
	attempt, err := c.attempt(ctx, r, code, chain)
	if err != nil {
		return r, err
	}
	question, err := attempt.Begin()
	if err != nil {
		return r, err
	}
	var begun enrol.BeginResponse
	if err := w.ask(ctx, "begin", question, &begun); err != nil {
		return r, err
	}
	if begun.Ring > chain.Ring().Number {
		if chain, err = c.refresh(ctx, address, chain); err != nil {
			return r, fmt.Errorf("%w: it names ring %d: %w", errAgain, begun.Ring, err)
		}
	}
	ring, coordinator, err := vouched(chain, begun)
	if err != nil {
		return r, fmt.Errorf("%w: %s: %w", ErrStranger, address, err)
	}
	offer, transcript, err := attempt.Reveal(begun, ring, coordinator)
	if err != nil {
		return r, fmt.Errorf("%w: %s: %w", ErrStranger, address, err)
	}
	var answer enrol.StateResponse
	if err := w.ask(ctx, "offer", offer, &answer); err != nil {
		return r, err
	}
	words := enrol.Words(transcript)
	next := r.withChain(chain)
	next.Exchange, next.Words = begun.Exchange, strings.Join(words[:], " ")
	return next.decided(answer, c.cfg.TLS)
}

// vouched finds what the coordinator named in the rings that we hold.
func vouched(chain *certs.Chain, begun enrol.BeginResponse) (ring, coordinator protocol.Digest, err error) {
	ring, ok := chain.Digest(begun.Ring)
	if !ok {
		return ring, coordinator, fmt.Errorf("it works with ring %d, and we hold those up to %d", begun.Ring, chain.Ring().Number)
	}
	named, err := certs.ParsePublicKey(begun.CoordinatorKey)
	if err != nil {
		return ring, coordinator, err
	}
	key, ok := chain.Coordinator(named.Key())
	if !ok {
		return ring, coordinator, fmt.Errorf("ring %d has no coordinator of key %s", chain.Ring().Number, named.Key())
	}
	return ring, key.PrimaryDigest(), nil
}

// attempt fixes our side of an exchange.
func (c *Client) attempt(ctx context.Context, r Record, code enrol.JoinCode, chain *certs.Chain) (enrol.Attempt, error) {
	public := c.cfg.Identity.PublicKey()
	a := enrol.Attempt{Fleet: chain.Ring().Fleet, Secret: code.Secret, Signer: c.cfg.Identity, HostKey: public.PrimaryDigest()}
	if _, err := io.ReadFull(c.cfg.Rand, a.NonceA[:]); err != nil {
		return a, fmt.Errorf("drawing a nonce: %w", err)
	}
	o, err := c.cfg.Describe(ctx)
	if err != nil {
		return a, fmt.Errorf("describing the host: %w", err)
	}
	o.Type, o.Host, o.Labels, o.Key = enrol.OfferType, r.Host, r.Labels, public.Bytes()
	if o.CSR, err = c.cfg.TLS.Request(); err != nil {
		return a, fmt.Errorf("making the certificate request: %w", err)
	}
	a.Offer, err = o.Encode()
	return a, err
}
