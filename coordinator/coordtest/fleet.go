package coordtest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/access"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

// FleetName is the name of every fleet here.
const FleetName protocol.FleetName = "lab"

// Fleet is a coordinator and its hosts. Its methods are safe for concurrent
// use.
type Fleet struct {
	t     testing.TB
	ID    protocol.FleetID
	Trust *Trust
	dir   string
	born  time.Time
	moved atomic.Int64 // of the date, in nanoseconds

	mu        sync.Mutex
	store     core.Store
	running   *coordinator.Coordinator
	stop      func()
	ended     error
	hosts     []*Host
	published []Message
	cut       []san.Name
	delay     func(topic string, payload []byte) bool
	delayed   []func() error
	tune      func(*coordinator.Config)
}

// Message is what the coordinator published.
type Message struct {
	Topic    protocol.Topic
	Payload  []byte
	Retained bool
}

// errTestEnded is why coordinators here stop.
var errTestEnded = errors.New("the test stopped the coordinator")

// New returns a fleet without hosts whose coordinator runs until the test
// ends.
func New(t testing.TB) *Fleet {
	t.Helper()
	return NewOn(t, storetest.NewMem(storetest.Faults{}))
}

// NewOn is New on a store of the caller's, which the caller closes.
func NewOn(t testing.TB, store core.Store) *Fleet {
	t.Helper()
	f := &Fleet{t: t, dir: t.TempDir(), born: time.Now(), store: store}
	_, _ = rand.Read(f.ID[:]) // never fails
	var err error
	if f.Trust, err = newTrust(f.ID); err != nil {
		t.Fatal(err)
	}
	f.start()
	t.Cleanup(f.close)
	return f
}

// close ends the coordinator, then the hosts, which might wait for it.
func (f *Fleet) close() {
	f.Stop()
	f.mu.Lock()
	hosts := f.hosts
	f.mu.Unlock()
	for _, h := range hosts {
		h.end()
	}
}

func (f *Fleet) start() {
	f.t.Helper()
	cfg := coordinator.Config{
		Store: f.store, Fleet: f.ID, FleetName: FleetName, Signer: f.Trust.self, Trust: f.Trust, Rings: f.Trust, HostKeys: f.Trust, Viewers: f.Trust,
		Authority: authority{}, Broker: wire{f}, OutputDir: f.dir, PayloadDir: filepath.Join(f.dir, "payloads"),
		Addresses: []string{"coordinator.example:8443"}, BrokerAddresses: []string{"coordinator.example:8883"},
		Fences: coordinator.Fences{Programs: &Power{}, Secret: func(string) (string, error) { return "secret", nil }},
		Now:    f.now, Boot: f.boot, Rand: rand.Reader, Log: slog.New(slog.NewTextHandler(f.t.Output(), nil)),
	}
	if f.tune != nil {
		f.tune(&cfg)
	}
	c, err := coordinator.New(context.Background(), cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := c.Run(ctx)
		if !errors.Is(err, errTestEnded) && !errors.Is(err, core.ErrRemoved) {
			f.t.Errorf("the coordinator ended: %v", err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ended = err
	}()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = c
	f.stop = func() { cancel(errTestEnded); <-ended }
}

// SetDate makes the coordinator's date wrong by d from now on, or right again
// with 0, as a person or a time server does. Time since boot stays what it is.
func (f *Fleet) SetDate(d time.Duration) { f.moved.Store(int64(d)) }

func (f *Fleet) now() time.Time { return time.Now().Round(0).Add(time.Duration(f.moved.Load())) }

// Tune changes the configuration of coordinators that are started from now on.
func (f *Fleet) Tune(change func(*coordinator.Config)) { f.tune = change }

// boot is a clock that nobody sets. It starts at an hour, as if the machine
// had been up for a while.
func (f *Fleet) boot() int64 { return (time.Hour + time.Since(f.born)).Milliseconds() }

// Coordinator returns the one that runs, or ran last.
func (f *Fleet) Coordinator() *coordinator.Coordinator {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running
}

// Stop ends the coordinator as a clean exit does. Hosts are not told.
func (f *Fleet) Stop() {
	f.mu.Lock()
	stop := f.stop
	f.stop = nil
	f.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// Ended returns why the coordinator ended that ended last, if one did.
func (f *Fleet) Ended() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

// Restart ends the coordinator and starts another on the same store and files.
// Its hosts stay connected to the broker and hear of the new one.
func (f *Fleet) Restart() {
	f.t.Helper()
	f.Stop()
	f.start()
}

// RestartOn is Restart on another store, as after a restore.
func (f *Fleet) RestartOn(store core.Store) {
	f.t.Helper()
	f.Stop()
	f.mu.Lock()
	f.store = store
	f.mu.Unlock()
	f.start()
}

// Store returns the store of the coordinator that runs, or ran last.
func (f *Fleet) Store() core.Store {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.store
}

// Admin returns somebody who may do everything.
func (f *Fleet) Admin() core.Actor {
	return core.Actor{Name: "admin", Role: core.RoleAdmin}
}

// Token returns the secret of a new API token, called as its role. One that it made
// before is revoked.
func (f *Fleet) Token(role core.TokenRole) string {
	f.t.Helper()
	room := f.Coordinator().Access()
	all, err := room.Tokens(f.t.Context(), f.Admin())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, t := range all {
		if t.Name != string(role) {
			continue
		}
		if err := room.RevokeToken(f.t.Context(), f.Admin(), t.ID); err != nil {
			f.t.Fatal(err)
		}
	}
	secret, _, err := room.CreateToken(f.t.Context(), f.Admin(), access.Wish{Name: string(role), Role: role, Life: 0})
	if err != nil {
		f.t.Fatal(err)
	}
	return secret
}

// Authenticate returns who bears a token now.
func (f *Fleet) Authenticate(secret string) (core.Actor, error) {
	by, leave, err := f.Coordinator().Access().Authenticate(f.t.Context(), secret, func(error) {})
	if err == nil {
		leave()
	}
	return by, err
}

// AddHost makes an approved host, which is not connected yet.
func (f *Fleet) AddHost(id protocol.HostID) *Host {
	f.t.Helper()
	key := NewKey("host " + string(id))
	f.Put(core.Host{ID: id, State: core.HostApproved, Key: key.Key(), PublicKey: key.Certificate(), ApprovedBy: "admin", ApprovedMS: time.Now().UnixMilli()})
	return f.attach(newHost(f, id, key))
}

// Put stores a host and makes its key known, without asking anybody.
func (f *Fleet) Put(h core.Host) {
	f.t.Helper()
	f.mu.Lock()
	store, c := f.store, f.running
	f.mu.Unlock()
	if err := store.Update(f.t.Context(), func(tx core.Tx) error { return tx.Hosts.Put(h) }); err != nil {
		f.t.Fatal(err)
	}
	if c != nil { // which has not put it, and is to read it
		c.Workloads().Stored(0, h, false)
		c.Alerts().Stored(0, h, false)
	}
	if err := f.Trust.AddHost(h.ID, h.PublicKey); err != nil {
		f.t.Fatal(err)
	}
}

// PutEnrolments stores enrolments as they are, without asking anybody.
func (f *Fleet) PutEnrolments(all func(put func(core.Enrolment))) {
	f.t.Helper()
	f.mu.Lock()
	store := f.store
	f.mu.Unlock()
	err := store.Update(f.t.Context(), func(tx core.Tx) (err error) {
		all(func(e core.Enrolment) { err = errors.Join(err, tx.Enrolments.Put(e)) })
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *Fleet) attach(h *Host) *Host {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts = append(f.hosts, h)
	return h
}

// Published returns what the coordinator published on a channel of a host, or
// of the fleet if host is empty, in order.
func (f *Fleet) Published(host protocol.HostID, ch protocol.Channel) []Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Message
	for _, m := range f.published {
		if m.Topic.Host == host && m.Topic.Channel == ch {
			all = append(all, m)
		}
	}
	return all
}

// Cut returns whose connections the coordinator ended, in order.
func (f *Fleet) Cut() []san.Name {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]san.Name(nil), f.cut...)
}

// OutputFiles returns how many files of output the coordinator keeps of an
// action.
func (f *Fleet) OutputFiles(id protocol.ActionID) int {
	f.t.Helper()
	files, err := os.ReadDir(filepath.Join(f.dir, id.String()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.t.Fatal(err)
	}
	return len(files)
}

// Ingest hands a message to the coordinator as the broker does.
func (f *Fleet) Ingest(topic string, payload []byte) error {
	f.mu.Lock()
	delayed := f.delay != nil && f.delay(topic, payload)
	if delayed {
		f.delayed = append(f.delayed, func() error { return f.Ingest(topic, payload) })
	}
	f.mu.Unlock()
	if delayed {
		return nil
	}
	return f.Coordinator().Ingest(topic, payload)
}

// Delay keeps back what goes up and for which the function says so. Nil delays
// nothing any more, and what was kept back arrives now, late.
func (f *Fleet) Delay(fn func(topic string, payload []byte) bool) {
	f.mu.Lock()
	late := f.delayed
	f.delay, f.delayed = fn, nil
	f.mu.Unlock()
	for _, deliver := range late {
		_ = deliver() // a refusal is for the coordinator to count
	}
}

// wire is the broker: what is published is in the hosts' mailboxes at once.
type wire struct{ f *Fleet }

// maxPublished bounds what a long test remembers.
const maxPublished = 10_000

// Publish implements [core.Broker].
func (w wire) Publish(topic string, payload []byte, retained bool) error {
	t, err := protocol.ParseTopic(topic)
	if err != nil {
		return err
	}
	m := Message{t, payload, retained}
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	if len(w.f.published) < maxPublished {
		w.f.published = append(w.f.published, m)
	}
	for _, h := range w.f.hosts {
		if t.Host == h.ID || t.Host == "" {
			h.post(m)
		}
	}
	return nil
}

// Disconnect implements [core.Broker].
func (w wire) Disconnect(name san.Name) {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	w.f.cut = append(w.f.cut, name)
	for _, h := range w.f.hosts {
		if name.Kind == san.Host && name.ID == string(h.ID) {
			h.post(Message{})
		}
	}
}

// Approval returns the approval of a spec for targets, signed by a person's key
// now and good for life. Change may alter what is signed.
func (f *Fleet) Approval(k *Key, spec []byte, life time.Duration, change func(*protocol.Approval), list ...protocol.Target) []byte {
	f.t.Helper()
	targets, err := protocol.NewTargets(list...)
	if err != nil {
		f.t.Fatal(err)
	}
	a, err := protocol.NewApproval(f.ID, f.Trust.Ring(), spec, targets, f.now(), life)
	if err != nil {
		f.t.Fatal(err)
	}
	if change != nil {
		change(&a)
	}
	signed, err := a.Seal(k)
	if err != nil {
		f.t.Fatal(err)
	}
	return signed
}

// RunSpec returns the spec of a command on a host.
func RunSpec(argv ...string) []byte {
	return Spec(protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command(argv...)})
}

// Spec returns the bytes of a spec.
func Spec(s protocol.Spec) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a spec holds nothing that cannot be encoded
	}
	return b
}

// LoseOutput removes the files of output that the coordinator keeps of an
// action, as a restore without them does.
func (f *Fleet) LoseOutput(id protocol.ActionID) {
	f.t.Helper()
	if err := os.RemoveAll(filepath.Join(f.dir, id.String())); err != nil {
		f.t.Fatal(err)
	}
}
