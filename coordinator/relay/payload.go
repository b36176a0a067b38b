package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/blob"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// Payloads are kept for as long as an action that has not ended names them, and
// for payloadKept after they were used: long enough to write the action that
// names one, and to repeat one that failed without sending its input again.
const (
	payloadKept  = 24 * time.Hour
	payloadSweep = time.Hour
	// payloadReserve is what payloads leave free on the disk, for the database.
	payloadReserve = 1 << 30
)

// Payload is what is known of one.
type Payload struct {
	SHA256 protocol.Digest
	// Bytes is its size once it is whole, else 0.
	Bytes int64
	// Have is how much of it is there: an upload goes on from here.
	Have int64
}

// Get tells how much of a payload is there. If there is nothing, it is [core.ErrNotFound].
func (p *Payloads) Get(by core.Actor, d protocol.Digest) (Payload, error) {
	if err := by.May(core.RoleOperator, "look for payloads"); err != nil {
		return Payload{}, err
	}
	blobs, err := p.of(by.Name)
	if err != nil {
		return Payload{}, err
	}
	size, _, err := blobs.Size(d)
	switch {
	case err == nil:
		return Payload{SHA256: d, Bytes: size, Have: size}, blobs.Use(d, time.Now())
	case !errors.Is(err, fs.ErrNotExist):
		return Payload{}, err
	}
	if have := blobs.Partial(d); have > 0 {
		return Payload{SHA256: d, Have: have}, nil
	}
	return Payload{}, fmt.Errorf("payload %s: %w", d, core.ErrNotFound)
}

// Put takes bytes of a payload from r. With a digest and a size it goes
// on at offset, which must be what [Payloads.Get] tells, and keeps what
// came when r ends early, so that the next call can go on. Without a digest it
// takes all of r, up to the largest payload, and tells what it was. A payload
// that is whole is durable. While another sends the same, it waits for the end of
// that, or takes over what has stalled. What is wrong with the bytes is
// [core.ErrInvalid], an offset beyond what is there [core.ErrConflict], a full disk, or
// another that has taken over, [core.ErrUnavailable].
func (p *Payloads) Put(ctx context.Context, by core.Actor, d protocol.Digest, size, offset int64, r io.Reader) (Payload, error) {
	if err := by.May(core.RoleOperator, "send payloads"); err != nil {
		return Payload{}, err
	}
	if size > p.cfg.MaxPayload {
		return Payload{}, fmt.Errorf("%w: a payload may have %d bytes here, this one has %d: split it, or raise max_payload_mib in the configuration of the coordinator", core.ErrInvalid, p.cfg.MaxPayload, size)
	}
	blobs, err := p.of(by.Name)
	if err != nil {
		return Payload{}, err
	}
	var f *blob.File
	followed := false // another that sent the same
	if d.IsZero() {
		f, err = blobs.FillNew(p.cfg.MaxPayload)
	} else {
		for {
			if have, _, err := blobs.Size(d); err == nil && have == size {
				return Payload{SHA256: d, Bytes: size, Have: size}, blobs.Use(d, time.Now())
			}
			if f, err = blobs.Fill(d, size); !errors.Is(err, blob.ErrBusy) {
				break
			}
			if err := blobs.Await(ctx, d); err != nil {
				return Payload{}, err
			}
			followed = true
		}
	}
	if err != nil {
		return Payload{}, payloadError(err)
	}
	defer f.Close()
	// Who has all of it, or has waited, may find that another has sent what comes first.
	if have := f.Offset(); (followed || offset == 0) && have > offset {
		if _, err := io.CopyN(io.Discard, r, have-offset); err != nil {
			return Payload{}, fmt.Errorf("%w: the payload broke off: %w", core.ErrInvalid, err)
		}
	} else if have != offset {
		return Payload{}, fmt.Errorf("%w: %d bytes of payload %s are here: go on from there", core.ErrConflict, f.Offset(), d)
	}
	return p.take(ctx, f, d, r)
}

func (p *Payloads) take(ctx context.Context, f *blob.File, d protocol.Digest, r io.Reader) (Payload, error) {
	buf := make([]byte, spanBuffer)
	for ctx.Err() == nil {
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := f.Write(buf[:n]); err != nil {
				return Payload{}, payloadError(err)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return Payload{}, fmt.Errorf("%w: the payload broke off after %d bytes: %w", core.ErrInvalid, f.Offset(), err)
		}
	}
	if ctx.Err() != nil {
		return Payload{}, context.Cause(ctx)
	}
	if f.Size() >= 0 && f.Offset() < f.Size() {
		return Payload{SHA256: d, Have: f.Offset()}, nil
	}
	if f.Offset() == 0 {
		return Payload{}, fmt.Errorf("%w: an empty payload needs none: leave stdin_sha256 out", core.ErrInvalid)
	}
	size := f.Offset()
	got, err := f.Finish()
	if err != nil {
		return Payload{}, payloadError(err)
	}
	return Payload{SHA256: got, Bytes: size, Have: size}, nil
}

// payloadError translates errors of the store for the client.
func payloadError(err error) error {
	switch {
	case errors.Is(err, blob.ErrDigest):
		return fmt.Errorf("%w: %w; nothing of it was kept: send it again", core.ErrInvalid, err)
	case errors.Is(err, blob.ErrSize):
		return fmt.Errorf("%w: %w", core.ErrInvalid, err)
	case errors.Is(err, blob.ErrSpace):
		return fmt.Errorf("%w: %w: make room on the coordinator", core.ErrUnavailable, err)
	case errors.Is(err, blob.ErrBusy):
		return fmt.Errorf("%w: %w: send it again, to go on behind the other", core.ErrUnavailable, err)
	}
	return err
}

// Has refuses a spec whose payload its requester has not sent, and notes its use. That
// another has sent it is not enough: a digest stands in specs that many read, and who
// knows one need not know the bytes.
func (p *Payloads) Has(by core.Actor, s *protocol.Spec) error {
	if !s.HasPayload() {
		return nil
	}
	blobs, err := p.of(by.Name)
	if err != nil {
		return err
	}
	size, _, err := blobs.Size(s.Input().StdinSHA256)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s has sent no payload %s: send it first, by PUT /v1/payloads/{sha256}", core.ErrInvalid, by.Name, s.Input().StdinSHA256)
	case err != nil:
		return err
	case size != s.Input().StdinBytes:
		return fmt.Errorf("%w: payload %s has %d bytes, not %d", core.ErrInvalid, s.Input().StdinSHA256, size, s.Input().StdinBytes)
	}
	return blobs.Use(s.Input().StdinSHA256, time.Now())
}

// SweepLoop removes payloads that no action needs any more.
func (p *Payloads) SweepLoop(ctx context.Context) error {
	return p.base.Every(ctx, payloadSweep, "cannot remove old payloads; it is tried again", func(ctx context.Context) error {
		return p.sweep(ctx, time.Now().Add(-payloadKept))
	})
}

// sweep removes those that were last used before a time, unless an
// action that has not ended names them.
func (p *Payloads) sweep(ctx context.Context, before time.Time) error {
	needed, former := make(map[payloadOf]bool), make(map[protocol.Digest]bool)
	err := p.base.View(ctx, func(tx core.Tx) error {
		clear(needed)
		clear(former)
		return core.EachAction(tx, core.ActionFilter{States: append(core.OpenStates(), protocol.StateLost)}, func(a core.Action) error {
			if s, err := protocol.DecodeSpec(a.Spec); err == nil && s.HasPayload() {
				needed[payloadOf{a.Requester, s.Input().StdinSHA256}] = true
				former[s.Input().StdinSHA256] = true
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	_, err = p.former.Sweep(before, func(d protocol.Digest) bool { return former[d] })
	owners, err2 := os.ReadDir(p.cfg.PayloadDir)
	err = errors.Join(err, err2)
	for _, e := range owners {
		if !e.IsDir() {
			continue
		}
		blobs, err2 := p.of(e.Name())
		if err2 == nil {
			_, err2 = blobs.Sweep(before, func(d protocol.Digest) bool { return needed[payloadOf{e.Name(), d}] })
		}
		err = errors.Join(err, err2)
	}
	return err
}

// payloadOf is a payload of whom has sent it.
type payloadOf struct {
	owner string
	sum   protocol.Digest
}

// payloadSource is a payload on its way down. It is used by one goroutine at a
// time.
type payloadSource struct {
	f    *os.File // nil if the payload is not here
	size int64
}

// open opens the payload of an action for its host: the one that its requester has
// sent. One that is not here has nothing to read: that tells the host.
func (p *Payloads) open(a core.Action, d protocol.Digest, size int64) (*payloadSource, error) {
	blobs, err := p.of(a.Requester)
	var f *os.File
	if err == nil {
		f, err = blobs.Open(d)
	}
	if errors.Is(err, fs.ErrNotExist) && a.N != 0 {
		f, err = p.former.Open(d)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, core.ErrNotFound) {
		p.base.Log.Error("a payload is missing", "sha256", d.String())
		return &payloadSource{size: size}, nil
	}
	if err != nil {
		return nil, err
	}
	return &payloadSource{f: f, size: size}, nil
}

// read returns up to n bytes from an offset within the payload on, none if it is
// not here.
func (s *payloadSource) read(offset int64, n int) ([]byte, error) {
	if s.f == nil {
		return nil, nil
	}
	buf := make([]byte, min(int64(n), s.size-offset))
	if n, err := s.f.ReadAt(buf, offset); err != nil {
		return nil, fmt.Errorf("payload: %d of %d bytes at %d: %w", n, len(buf), offset, err)
	}
	return buf, nil
}

func (s *payloadSource) close() {
	if s.f != nil {
		_ = s.f.Close() // it was only read
	}
}

// Payloads are the bytes that actions read, each under its digest, in a directory of
// whom has sent it.
type Payloads struct {
	base *core.Base
	cfg  Config
	// former are those that an earlier version has taken, which did not keep who had
	// sent them: actions that were numbered then still read them.
	former *blob.Store

	mu     sync.Mutex
	owners map[string]*blob.Store
}

// openPayloads opens the store of payloads.
func openPayloads(base *core.Base, cfg Config) (*Payloads, error) {
	former, err := blob.Open(cfg.PayloadDir, failpoint.PayloadPlaced, payloadReserve)
	return &Payloads{base: base, cfg: cfg, former: former, owners: make(map[string]*blob.Store)}, err
}

// of returns the payloads that a requester has sent. It fails with [core.ErrNotFound] for
// who can have sent none, as the users of a host.
func (p *Payloads) of(owner string) (*blob.Store, error) {
	if _, err := protocol.ParseHostID(owner); err != nil { // so are tokens called
		return nil, fmt.Errorf("payloads of %.70q: %w", owner, core.ErrNotFound)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if blobs := p.owners[owner]; blobs != nil {
		return blobs, nil
	}
	blobs, err := blob.Open(filepath.Join(p.cfg.PayloadDir, owner), failpoint.PayloadPlaced, payloadReserve)
	if err == nil {
		p.owners[owner] = blobs
	}
	return blobs, err
}
