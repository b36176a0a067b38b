package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/window"
)

// Inputs are the streams of bytes that go down to actions. A host asks for what
// it wants by credit, and nothing is sent that it has not asked for: it knows
// its line, so its window is the pace.
type Inputs struct {
	base     *core.Base
	cfg      Config
	payloads *Payloads

	mu    sync.Mutex
	known map[inputID]*input
	hosts map[protocol.HostID]int // how many are known of each
}

type inputID struct {
	action  protocol.ActionID
	attempt int
}

// maxInputs is how many streams of one host are known at a time: more than it
// may run commands, and few enough that none can fill the memory.
const maxInputs = 64

// inputIdle is how long a stream is known of which no credit comes. A host that
// wants more of one asks at least once a minute.
const inputIdle = 3 * time.Minute

// input is one stream on its way down, served by a goroutine that ends by
// itself.
type input struct {
	m       *Inputs
	id      inputID
	host    protocol.HostID
	changed chan struct{} // one place: there is something to look at

	mu      sync.Mutex
	src     *payloadSource
	serving bool
	started bool            // a credit has come
	next    window.Resender // what may be sent
	broken  error           // why nothing goes down any more

	creditAt time.Time // of the newest credit
}

// with runs use with the stream of an attempt of an action of a host, which
// is made if it is not known. It is not forgotten before use has returned.
func (m *Inputs) with(ctx context.Context, host protocol.HostID, id inputID, use func(*input) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.known[id]; i != nil {
		if i.host != host {
			return fmt.Errorf("%w: action %s is not of host %s", protocol.ErrAction, id.action, host)
		}
		return use(i)
	}
	if m.hosts[host] >= maxInputs {
		return fmt.Errorf("%w: too many inputs of host %s are on their way", core.ErrUnavailable, host)
	}
	src, err := m.open(ctx, host, id.action)
	if err != nil {
		return err
	}
	if m.known == nil {
		m.known, m.hosts = make(map[inputID]*input), make(map[protocol.HostID]int)
	}
	i := &input{m: m, id: id, host: host, changed: make(chan struct{}, 1), src: src, creditAt: time.Now()}
	m.known[id] = i
	m.hosts[host]++
	return use(i)
}

// Credit takes what a host asks for.
func (m *Inputs) Credit(host protocol.HostID, cr protocol.Credit) error {
	if err := m.base.MayDecide(); err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrStale, err)
	}
	err := m.with(m.base.Ctx, host, inputID{cr.Action, cr.Attempt}, func(i *input) error {
		i.allow(cr.Offset, cr.Window, time.Now())
		i.serve()
		return nil
	})
	if errors.Is(err, core.ErrNotFound) {
		return fmt.Errorf("%w: no action %s of this host reads anything", protocol.ErrAction, cr.Action)
	}
	return err
}

// open finds where the bytes come from that an action reads.
func (m *Inputs) open(ctx context.Context, host protocol.HostID, id protocol.ActionID) (*payloadSource, error) {
	a, err := m.cfg.Action(ctx, id)
	if err == nil && a.Host != host {
		err = core.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	spec, err := protocol.DecodeSpec(a.Spec)
	if err != nil {
		return nil, err
	}
	if !spec.HasPayload() {
		return nil, core.ErrNotFound
	}
	return m.payloads.open(a, spec.Input().StdinSHA256, spec.Input().StdinBytes)
}

// allow takes a credit: everything before offset is of no interest any more, and
// window bytes behind it may be sent.
func (i *input) allow(offset, window int64, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.next.Allow(offset, window, now)
	i.started, i.creditAt = true, now
	i.look()
}

// look has the stream's goroutine look again.
func (i *input) look() {
	select {
	case i.changed <- struct{}{}:
	default:
	}
}

// serve sees to it that what may be sent is sent.
func (i *input) serve() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.serving {
		i.serving = i.m.cfg.Start(i.run)
	}
}

// run sends until there is nothing more to send, and no request for more.
func (i *input) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		sent, err := i.send()
		if err != nil {
			i.m.base.Log.Error("cannot send what an action reads", "host", i.host, "action", i.id.action, "err", err)
		}
		if sent {
			continue
		}
		pause, over := i.pause(time.Now())
		if over && i.forget() {
			return
		}
		timer.Reset(pause)
		select {
		case <-i.changed:
		case <-timer.C:
			i.again(time.Now())
		case <-i.m.base.Ctx.Done():
			i.mu.Lock()
			i.src.close()
			i.mu.Unlock()
			return
		}
	}
}

// pause is how long there is nothing to do unless something changes. over tells
// that nothing is expected of the stream any more.
func (i *input) pause(now time.Time) (_ time.Duration, over bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	idle := inputIdle - now.Sub(i.creditAt)
	if i.broken != nil || i.started && i.next.Have() >= i.src.size || idle <= 0 {
		return time.Second, true
	}
	if left, waits := i.next.Overdue(now); waits {
		idle = min(idle, max(time.Millisecond, left))
	}
	return idle, false
}

// again sends once more what no credit has covered in time.
func (i *input) again(now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.next.Again(now)
}

// forget ends the stream unless something has come meanwhile.
func (i *input) forget() bool {
	i.m.mu.Lock()
	defer i.m.mu.Unlock()
	select {
	case <-i.changed:
		return false
	default:
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.src.close()
	delete(i.m.known, i.id)
	if i.m.hosts[i.host]--; i.m.hosts[i.host] == 0 {
		delete(i.m.hosts, i.host)
	}
	return true
}

// send sends the next chunk, if there is one and it may be sent.
func (i *input) send() (bool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	offset, n := i.next.Next(), i.next.Chunk()
	if !i.started || i.broken != nil || n == 0 || offset >= i.src.size {
		return false, nil
	}
	data, err := i.src.read(offset, int(n))
	if err != nil {
		i.broken = err
		return false, err
	}
	if err := i.m.send(i.host, i.id, offset, data); err != nil {
		i.m.base.Log.Debug("cannot publish", "action", i.id.action, "err", err) // it is sent again
	}
	if n = int64(len(data)); n == 0 {
		n = i.src.size - offset // there is nothing more to say
	}
	i.next.Sent(n, time.Now())
	return true, nil
}

// send signs and publishes one chunk.
func (m *Inputs) send(host protocol.HostID, id inputID, offset int64, data []byte) error {
	h := m.cfg.Wire.Header(protocol.TypeIn, protocol.HostParty(host))
	h.Action, h.Attempt, h.FD, h.Offset = id.action, id.attempt, protocol.Stdin, offset
	h.Size, h.SHA256 = int64(len(data)), protocol.Sum(data)
	t := protocol.HostTopic(m.base.FleetName, host, protocol.ChannelIn)
	t.Action = id.action
	return m.cfg.Wire.PublishWith(t, h, data)
}
