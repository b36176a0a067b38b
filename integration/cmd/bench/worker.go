package main

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// manyHosts is how many hosts carry out one command at a time.
const manyHosts = 1000

// thousand is what is measured with a thousand hosts.
type thousand struct{ *bench }

// runMany measures a command on a thousand hosts, from the start of the program
// that asks for it until it has every result. The hosts are simulated by one other
// process; what they sign is signed then.
func (b thousand) runMany(ctx context.Context) error {
	return b.ofMany(ctx, manyHosts, asIs, func(f *fleet, s *swarmProcess) error {
		want := row{name: "run_1000_hosts_s", unit: "s", target: 3, floor: floors.many}
		return b.best(ctx, []row{want}, func() ([]float64, error) {
			if _, err := s.say("work"); err != nil {
				return nil, err
			}
			ms, err := median(1, func() error {
				out, err := f.must(ctx, "hostler", "run", "-A", "-o", "json", "--", "/bin/true")
				if err != nil {
					return err
				}
				return allDone([]byte(out), manyHosts)
			})
			return []float64{ms / 1000}, err
		})
	})
}

// ofMany has something measured on a coordinator of its own with n hosts, which are
// simulated by one other process. set changes the fleet before it is made.
func (b thousand) ofMany(ctx context.Context, n int, set func(*fleet), do func(*fleet, *swarmProcess) error) (err error) {
	f, err := newFleet(b.fleet.bin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close(context.WithoutCancel(ctx))) }()
	set(f)
	for _, step := range []func() error{
		f.configure,
		func() error { return f.initCoordinator(ctx) },
		func() error { return f.populate(ctx, n, f.path("keys")) },
		func() error { return f.startCoordinator(ctx) },
		func() error {
			_, err := f.must(ctx, "hostler", "login", f.url(), "--token", f.token, "--ca", f.ca())
			return err
		},
	} {
		if err := step(); err != nil {
			return err
		}
	}
	s, err := f.startSwarm(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(f, s), s.close())
}

// asIs leaves a fleet as it is.
func asIs(*fleet) {}

// allDone fails unless a command's results are those of n hosts that have done it.
func allDone(out []byte, n int) error {
	var parts []struct {
		Host  string         `json:"host"`
		State protocol.State `json:"state"`
	}
	if err := json.Unmarshal(out, &parts); err != nil {
		return err
	}
	done := make(map[string]bool)
	for _, p := range parts {
		done[p.Host] = p.State == protocol.StateDone
	}
	maps.DeleteFunc(done, func(_ string, ok bool) bool { return !ok })
	if len(done) != n || len(parts) != n {
		return fmt.Errorf("%d results, and %d hosts have done it, want %d", len(parts), len(done), n)
	}
	return nil
}

// many is how long the processors take, in seconds, to sign and check, for each
// host, its order, that it runs, and its end. All of it shares commits.
func (f floors) many() float64 {
	return manyHosts * 3 * f.keys / float64(runtime.NumCPU()) / 1000
}

// worker is a host of the swarm that carries out what it is told, by saying so.
type worker struct {
	*swarmHost
	key  *certs.Identity
	conn io.ReadWriteCloser
	r    *bufio.Reader
	// durable carries the number of the newest heartbeat that is durable.
	durable chan uint64

	mu   sync.Mutex // of what follows
	hd   protocol.Header
	chal protocol.Nonce
	k    uint64
	up   protocol.Position
	have map[protocol.Stream]protocol.Position
	seq  uint64 // of accepted actions
	beat uint64 // leases
	told uint64 // heartbeats
	made uint64 // changes that they told
}

// work has all hosts connect, if they have not yet, and say that they are there.
// They go on until the process ends.
func (s *swarm) work(ctx context.Context) error {
	if s.workers == nil {
		roots := x509.NewCertPool()
		root, err := x509.ParseCertificate(s.Root)
		if err != nil {
			return err
		}
		roots.AddCert(root)
		s.workers = make([]*worker, len(s.Hosts))
		var g errgroup.Group
		g.SetLimit(64)
		for i := range s.Hosts {
			g.Go(func() (err error) {
				s.workers[i], err = s.Hosts[i].employ(ctx, s.Address, roots)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		s.running = new(sync.WaitGroup)
		for _, w := range s.workers {
			s.running.Go(w.serve)
		}
	}
	for _, w := range s.workers {
		if err := w.lease(); err != nil {
			return err
		}
	}
	return nil
}

// dismiss ends what work has begun.
func (s *swarm) dismiss() {
	if s.running == nil {
		return
	}
	for _, w := range s.workers {
		_ = w.conn.Close()
	}
	s.running.Wait()
	s.workers, s.running = nil, nil
}

func (h *swarmHost) employ(ctx context.Context, address string, roots *x509.CertPool) (*worker, error) {
	key, err := certs.LoadIdentity(h.Identity)
	if err != nil {
		return nil, err
	}
	w := &worker{swarmHost: h, key: key, have: make(map[protocol.Stream]protocol.Position), durable: make(chan uint64, beatsEach)}
	if w.conn, err = h.dial(ctx, address, roots); err != nil {
		return nil, err
	}
	w.r = bufio.NewReaderSize(w.conn, 4096)
	receipt, err := h.talk(w.conn, w.r, 0)
	if err != nil {
		return nil, errors.Join(err, w.conn.Close())
	}
	w.chal, w.k = receipt.Give, 1
	w.hd = protocol.Header{Fleet: receipt.Fleet, From: receipt.To, To: protocol.Coordinator, Ring: receipt.Ring}
	w.up = protocol.Position{Store: h.Store, Stream: protocol.StreamReport}
	return w, w.state(protocol.ChannelPresence, protocol.TypePresence, func(hd protocol.Header) any {
		return protocol.Presence{Header: hd, Kind: protocol.PresenceOnline}
	})
}

// say sends a message of the host.
func (w *worker) say(ch protocol.Channel, v any) error {
	raw, err := sealJSON(w.key, v)
	if err != nil {
		return err
	}
	return send(w.conn, mqttPublish, append(text(nil, protocol.HostTopic(w.Fleet, protocol.HostID(w.ID), ch).String()), raw...))
}

// state says the next message of state.
func (w *worker) state(ch protocol.Channel, t protocol.Type, body func(protocol.Header) any) error {
	w.k++
	hd := w.hd
	hd.Type, hd.Seq, hd.Chal = t, protocol.Seq{Inc: 1, Conn: 1, K: w.k}, w.chal
	return w.say(ch, body(hd))
}

func (w *worker) lease() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beat++
	return w.state(protocol.ChannelLease, protocol.TypeLease, func(hd protocol.Header) any {
		return protocol.Lease{Header: hd, Number: w.beat, Boot: "bench", Inst: w.Inst, Held: w.Held}
	})
}

// serve answers what comes until the connection ends.
func (w *worker) serve() {
	for {
		kind, body, err := receive(w.r)
		if err != nil {
			return
		}
		if payload, ok := cutTopic(kind, body, w.Receipts); ok {
			w.heed(payload)
		}
		for _, ch := range []protocol.Channel{protocol.ChannelOrder, protocol.ChannelControl} {
			topic := protocol.HostTopic(w.Fleet, protocol.HostID(w.ID), ch).String()
			payload, ok := cutTopic(kind, body, topic)
			if !ok {
				continue
			}
			if err := w.take(payload); err != nil {
				return // the one who waits for the result will tell
			}
		}
	}
}

// heed takes a receipt. Only its newest heartbeat matters here.
func (w *worker) heed(payload []byte) {
	var r protocol.Receipt
	if e, err := protocol.Split(payload); err != nil || json.Unmarshal(e.Body, &r) != nil || r.Beat == 0 {
		return // the wait for the heartbeat reports that none came
	}
	select {
	case w.durable <- r.Beat:
	default: // it holds as many as the worker sends
	}
}

// take takes an item that is next in line, and reports that it is carried out.
func (w *worker) take(payload []byte) error {
	e, err := protocol.Split(payload)
	if err != nil {
		return err
	}
	var hd protocol.Header
	if err := json.Unmarshal(e.Body, &hd); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	have := w.have[hd.Stream]
	if have.Store.IsZero() {
		have = protocol.Position{Store: hd.Store, Stream: hd.Stream}
	}
	fresh := stream.Receive(have, hd.Store, hd.N) == stream.Deliver
	if fresh {
		have = stream.Next(have, hd.Item)
	}
	w.have[hd.Stream] = have
	if err := w.state(protocol.ChannelAck, protocol.TypeAck, func(hd protocol.Header) any {
		a := protocol.Ack{Header: hd}
		for _, p := range w.have {
			a.Have = append(a.Have, p)
		}
		return a
	}); err != nil || !fresh || hd.Stream != protocol.StreamOrder {
		return err
	}
	var o protocol.OrderItem
	if err := json.Unmarshal(hd.Item, &o); err != nil {
		return err
	}
	w.seq++
	r := protocol.Report{Action: o.Action, Digest: protocol.Sum(o.Spec), Event: protocol.EventStart, State: protocol.StateRunning, AcceptSeq: w.seq, Attempt: 1}
	if err := w.report(r); err != nil {
		return err
	}
	r.Event, r.State, r.Reason, r.Exit = protocol.EventSucceed, protocol.StateDone, protocol.ReasonOK, &protocol.Exit{RunMS: 1}
	return w.report(r)
}

func (w *worker) report(r protocol.Report) error {
	item, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode a report: %w", err)
	}
	w.up = stream.Next(w.up, item)
	hd := w.hd
	hd.Type, hd.Store, hd.Stream, hd.N, hd.Item = protocol.TypeReport, w.up.Store, w.up.Stream, w.up.N, item
	return w.say(protocol.ChannelReport, hd)
}
