package lease

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// Held is a unique container that runs, or is about to be started.
type Held struct {
	CTID  protocol.CTID
	Epoch protocol.Epoch
	// Group is the component of a control group by which its processes are known.
	Group string
	// UntilMS is the end of the newest grant that names it, by the boot clock.
	UntilMS int64
	// Keeps tells that it goes on without a lease: nothing kills it.
	Keeps bool
}

// Guard kills at the ends of leases, whatever becomes of this process. Its methods may be
// called from any goroutine.
type Guard interface {
	// Set replaces what the guard kills. When it returns nil, what outlives this process
	// has it.
	Set(ctx context.Context, all []Held) error
	// Former returns until when the guard lets what a former process has held run.
	Former(ctx context.Context) (map[protocol.CTID]int64, error)
}

// guardPatience is how long a lease waits for the guard: no grant waits longer.
const guardPatience = time.Second

// holder knows what is granted and what is held. Its methods may be called from any
// goroutine; none touches a disk.
type holder struct {
	cfg     *Config
	setting sync.Mutex // is held while the guard is told, so that tables come in their order

	mu     sync.Mutex
	names  map[protocol.CTID]protocol.Epoch // in the newest grant
	until  int64                            // of the newest grant
	ttl    time.Duration                    // likewise
	seq    protocol.Seq                     // of the newest grant
	held   map[protocol.CTID]Held
	former map[protocol.CTID]int64
	news   chan struct{} // is closed by the next grant
	behind bool          // the guard has what was released

	released chan struct{} // tells Run that something was released
}

func (h *holder) init(cfg *Config) {
	h.cfg, h.held, h.news, h.released = cfg, make(map[protocol.CTID]Held), make(chan struct{}), make(chan struct{}, 1)
}

// granted takes the newest grant: it is good until a time of the boot clock.
func (h *holder) granted(ctx context.Context, all []protocol.LeaseHeld, seq protocol.Seq, at, ttl int64) {
	until := at + ttl
	h.mu.Lock()
	h.ttl = time.Duration(ttl) * time.Millisecond
	names := make(map[protocol.CTID]protocol.Epoch, len(all))
	for _, x := range all {
		names[x.CTID] = x.Epoch
	}
	changed := !maps.Equal(names, h.names)
	h.names, h.seq, h.until = names, seq, until
	longer := false
	for id, x := range h.held {
		if e, ok := names[id]; ok && e == x.Epoch && until > x.UntilMS {
			x.UntilMS, longer = until, true
			h.held[id] = x
		}
	}
	close(h.news)
	h.news = make(chan struct{})
	h.mu.Unlock()
	if longer {
		ctx, cancel := context.WithTimeout(ctx, guardPatience)
		defer cancel()
		if err := h.tell(ctx); err != nil {
			h.cfg.Log.Error("the guard does not know that a lease goes on; what it holds ends at its old time", "error", err)
		}
	}
	if changed && h.cfg.Changed != nil {
		h.cfg.Changed()
	}
}

// tell gives the guard what is held.
func (h *holder) tell(ctx context.Context) error {
	h.setting.Lock()
	defer h.setting.Unlock()
	h.mu.Lock()
	all := h.sorted()
	h.behind = false
	h.mu.Unlock()
	err := h.cfg.Guard.Set(ctx, slices.DeleteFunc(all, func(x Held) bool { return x.Keeps }))
	if err != nil {
		h.mu.Lock()
		h.behind = true
		h.mu.Unlock()
	}
	return err
}

// catchUp tells the guard of what was released, if it was not told yet.
func (h *holder) catchUp(ctx context.Context) {
	h.mu.Lock()
	behind := h.behind
	h.mu.Unlock()
	if !behind {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, guardPatience)
	defer cancel()
	if err := h.tell(ctx); err != nil {
		h.cfg.Log.Error("the guard does not know what has ended; it may kill another container of the same name. The agent tells the guard again with the next lease", "error", err)
	}
}

func (h *holder) sorted() []Held {
	return slices.SortedFunc(maps.Values(h.held), func(a, b Held) int { return strings.Compare(a.CTID.String(), b.CTID.String()) })
}

// every is how far leases are apart: a third of what a grant is good for, so that the
// coordinator knows a host as present before it gives it anything to hold.
func (h *holder) every() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ttl <= 0 {
		return every
	}
	return max(time.Second, min(every, h.ttl/3))
}

// told is what a lease tells: what the newest grant names, and what is held.
func (h *holder) told() (all []protocol.LeaseHeld) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.sorted() {
		all = append(all, protocol.LeaseHeld{CTID: x.CTID, Epoch: x.Epoch, Running: true})
	}
	for id, e := range h.names {
		if _, runs := h.held[id]; !runs {
			all = append(all, protocol.LeaseHeld{CTID: id, Epoch: e})
		}
	}
	return all[:min(len(all), protocol.MaxHeld)]
}

func (h *holder) took() protocol.Seq {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seq
}

// Granted returns the epoch under which the newest grant names a container, or why none
// that is still good does.
func (l *Lease) Granted(id protocol.CTID) (protocol.Epoch, string) {
	h := &l.holder
	h.mu.Lock()
	defer h.mu.Unlock()
	e, ok := h.names[id]
	switch {
	case h.cfg.Guard == nil:
		return e, "nothing on this host would kill it at the end of its lease"
	case h.until == 0:
		return e, "the coordinator has granted nothing since the agent was started"
	case h.cfg.BootMS() >= h.until:
		return e, "the host's lease has ended: the coordinator was not heard in time"
	case !ok:
		return e, "the coordinator does not let it run on this host now"
	}
	return e, ""
}

// askAgain is how soon a lease is asked for again that did not bring what is awaited.
const askAgain = 2 * time.Second

// Await asks for leases, the first one at once, until a grant names the container. When ctx
// ends, the error says why none does.
func (l *Lease) Await(ctx context.Context, id protocol.CTID) (protocol.Epoch, error) {
	again := time.NewTicker(askAgain)
	defer again.Stop()
	l.Soon()
	for {
		l.holder.mu.Lock()
		news := l.holder.news
		l.holder.mu.Unlock()
		e, why := l.Granted(id)
		if why == "" {
			return e, nil
		}
		select {
		case <-ctx.Done():
			return e, errors.New(why)
		case <-news:
		case <-again.C:
			l.Soon()
		}
	}
}

// Hold has a container killed when its lease ends, and returns when that is, by the boot
// clock in milliseconds. It is called before the container is started, and again when it is
// seen to run.
func (l *Lease) Hold(ctx context.Context, id protocol.CTID, e protocol.Epoch, group string, keeps bool) (until int64, err error) {
	h := &l.holder
	if h.cfg.Guard == nil {
		return 0, errors.New("nothing on this host would kill it at the end of its lease")
	}
	former := l.formerly(ctx, id)
	h.mu.Lock()
	x, was := h.held[id]
	same := was && x.Epoch == e && x.Group == group && x.Keeps == keeps
	x = Held{CTID: id, Epoch: e, Group: group, UntilMS: x.UntilMS, Keeps: keeps}
	if !was {
		x.UntilMS = former
	}
	if h.names[id] == e {
		x.UntilMS = max(x.UntilMS, h.until)
	}
	x.UntilMS = max(1, x.UntilMS)
	h.held[id] = x
	h.mu.Unlock()
	if same {
		return x.UntilMS, nil
	}
	return x.UntilMS, h.tell(ctx)
}

// formerly is until when a container that a former process of the agent has held may run,
// as the guard knows; 0 if it knows nothing of it.
func (l *Lease) formerly(ctx context.Context, id protocol.CTID) int64 {
	h := &l.holder
	h.mu.Lock()
	known := h.former != nil
	h.mu.Unlock()
	if !known {
		former, err := h.cfg.Guard.Former(ctx)
		if err != nil {
			h.cfg.Log.Error("the guard does not say what is held", "error", err)
			return 0
		}
		h.mu.Lock()
		if h.former == nil {
			h.former = former
		}
		h.mu.Unlock()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.former[id]
}

// Release tells that nothing of a container runs. The loop calls it, so it does not wait
// for the guard: [Lease.Run] tells the guard at once. Else the guard would kill, at the old
// deadline, another container that has got the name meanwhile.
func (l *Lease) Release(id protocol.CTID) {
	h := &l.holder
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, held := h.held[id]; !held || h.cfg.Guard == nil {
		return
	}
	delete(h.held, id)
	h.behind = true
	select {
	case h.released <- struct{}{}:
	default:
	}
}

// Held returns what is held, for people.
func (l *Lease) Held() []Held {
	l.holder.mu.Lock()
	defer l.holder.mu.Unlock()
	return l.holder.sorted()
}
