package relay

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/internal/blob"
	"github.com/hostler-io/hostler/protocol"
)

// The ways in which an input is refused.
var (
	// ErrNoInput refuses an action of the host's own people whose input they have not sent.
	ErrNoInput = errors.New("its input is not here")
	// ErrOtherInput refuses bytes that are not those that were promised.
	ErrOtherInput = errors.New("the input is another one")
	// ErrNoRoom says that the disk does not take an input, or that another sends it just now.
	ErrNoRoom = errors.New("the input cannot be kept now")
)

const (
	// maxSent is how many inputs are remembered as sent. What is forgotten is sent again.
	maxSent = 1000
	// unused is how long an input stays that no action reads.
	unused = time.Hour
)

// Uploads takes the inputs of actions that are asked for on the host itself. A requester
// can use what that requester has sent since the agent began: a digest stands in specs that
// many read, and knowing it is not knowing the bytes. It is safe for concurrent use.
type Uploads struct {
	cfg *Config

	mu   sync.Mutex
	sent map[upload]bool
}

// upload is an input that a requester has sent.
type upload struct {
	by     string
	digest protocol.Digest
}

func newUploads(cfg *Config) *Uploads { return &Uploads{cfg: cfg, sent: make(map[upload]bool)} }

// Uploads takes the inputs of actions that are asked for here.
func (r *Relay) Uploads() *Uploads { return r.uploads }

// Sent returns [ErrNoInput] if an action reads what its requester has not sent here.
func (r *Relay) Sent(by string, s *protocol.Spec) error {
	if !s.HasPayload() {
		return nil
	}
	if r.Lacks(s) || !r.uploads.has(by, s.Input().StdinSHA256) {
		return fmt.Errorf("%w: send it first, by PUT /v1/payloads/%s", ErrNoInput, s.Input().StdinSHA256)
	}
	return nil
}

func (u *Uploads) has(by string, d protocol.Digest) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sent[upload{by, d}]
}

// Size returns the size of an input that a requester has sent, or [ErrNoInput].
func (u *Uploads) Size(by string, d protocol.Digest) (int64, error) {
	if u.cfg.Payloads == nil || !u.has(by, d) {
		return 0, ErrNoInput
	}
	size, _, err := u.cfg.Payloads.Size(d)
	if err != nil {
		return 0, ErrNoInput // it was removed with the action that has read it
	}
	return size, nil
}

// Put reads an input of that digest and size, and keeps it until an action has read it, or
// for an hour. It fails with [ErrOtherInput], with [ErrNoRoom], or with [ErrNoInput] if the
// bytes end too early.
func (u *Uploads) Put(ctx context.Context, by string, d protocol.Digest, size int64, from io.Reader) error {
	if u.cfg.Payloads == nil {
		return fmt.Errorf("%w: this agent keeps no inputs", ErrNoInput)
	}
	needed, err := loop.Ask(ctx, u.cfg.Loop, func() (map[protocol.Digest]bool, error) { return u.cfg.Actions.Needed(), nil })
	if err != nil {
		return err
	}
	if _, err := u.cfg.Payloads.Sweep(time.Now().Add(-unused), func(d protocol.Digest) bool { return needed[d] }); err != nil {
		u.cfg.Log.Warn("old inputs stay", "error", err)
	}
	switch err := u.take(ctx, d, size, from); {
	case errors.Is(err, blob.ErrDigest) || errors.Is(err, blob.ErrSize):
		return fmt.Errorf("%w: %w", ErrOtherInput, err)
	case errors.Is(err, blob.ErrSpace) || errors.Is(err, blob.ErrBusy):
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	case err != nil:
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.sent) >= maxSent {
		clear(u.sent)
	}
	u.sent[upload{by, d}] = true
	return nil
}

// take keeps an input, or compares it with the same one that is here already.
func (u *Uploads) take(ctx context.Context, d protocol.Digest, size int64, from io.Reader) error {
	for {
		if have, _, err := u.cfg.Payloads.Size(d); err == nil && have == size {
			if err := compare(d, size, from); err != nil {
				return err
			}
			return u.cfg.Payloads.Use(d, time.Now())
		}
		f, err := u.cfg.Payloads.Fill(d, size)
		switch {
		case errors.Is(err, blob.ErrBusy):
			if err := u.cfg.Payloads.Await(ctx, d); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			return fill(f, size, from)
		}
	}
}

func compare(d protocol.Digest, size int64, from io.Reader) error {
	sum := sha256.New()
	if _, err := io.CopyN(sum, from, size); err != nil {
		return brokeOff(err)
	}
	if protocol.Digest(sum.Sum(nil)) != d {
		return blob.ErrDigest
	}
	return nil
}

// fill fills a file from its beginning: what is there of it may be of another requester.
func fill(f *blob.File, size int64, from io.Reader) error {
	defer f.Close()
	if err := f.Restart(); err != nil {
		return err
	}
	if _, err := io.CopyN(f, from, size); err != nil {
		return brokeOff(err)
	}
	_, err := f.Finish()
	return err
}

// brokeOff names an end that comes too early.
func brokeOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it broke off; send it again", ErrNoInput)
	}
	return err
}
