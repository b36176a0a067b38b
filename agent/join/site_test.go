package join_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent/join"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/coordinator/web"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
	"github.com/hostler-io/hostler/protocol/san"
)

// The addresses that join codes name.
const (
	first  = "a.example:8443"
	second = "b.example:8443"
)

// network connects clients with whoever listens on an address, in memory.
type network struct {
	mu    sync.Mutex
	hosts map[string]*listener
}

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.hosts[address]
	n.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// listener is one address of the network.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8443} }

// serve answers on an address until the test ends or stop is called.
func (n *network) serve(t *testing.T, address string, config *tls.Config, h http.Handler) (stop func()) {
	t.Helper()
	l := &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	if n.hosts == nil {
		n.hosts = make(map[string]*listener)
	}
	n.hosts[address] = l
	n.mu.Unlock()
	s := web.NewServer(h, config, web.NewNoise(slog.New(slog.DiscardHandler)))
	s.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.ServeTLS(l, "", "") }) // ends with the listener
	stop = func() { _ = s.Close(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

// desk is a coordinator whose owner can change the rings.
type desk struct {
	*certs.Keys
	owner *certs.Identity
	key   *certs.Identity
	ca    *certs.Authority
	leaf  *certs.TLSKey
	cert  []byte
	aged  bool // every certificate is old
	store *storetest.Mem

	coord *coordinator.Coordinator
	stop  func()
}

// TakeRings implements [core.Keys]: here rings change by other means.
func (*desk) TakeRings([]byte) (bool, error) { return false, errors.New("no rings are taken") }

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newIdentity(t testing.TB, name string) *certs.Identity {
	t.Helper()
	return must[*certs.Identity](t)(certs.Generate(name, time.Now()))
}

// newDesk returns a coordinator of a new fleet, in its second ring.
func newDesk(t testing.TB) *desk {
	t.Helper()
	d := &desk{owner: newIdentity(t, "owner"), key: newIdentity(t, "coordinator"), store: storetest.NewMem(storetest.Faults{})}
	d.ca = must[*certs.Authority](t)(certs.NewAuthority("lab"))
	var fleet protocol.FleetID
	_, _ = rand.Read(fleet[:]) // never fails
	ring := must[certs.Ring](t)(certs.NewFleet(fleet, "lab", "anna", d.owner.PublicKey()))
	raw := must[[]byte](t)(certs.SignRing(ring, d.owner))
	digest := protocol.Sum(must[[]byte](t)(ring.Body()))
	d.Keys = certs.NewKeys(must[*certs.Chain](t)(certs.OpenChain(enrol.PinOf(1, digest), raw)))
	d.nextRing(t, d.ca)
	return d
}

// nextRing makes a ring in which the coordinator has that authority.
func (d *desk) nextRing(t testing.TB, ca *certs.Authority) {
	t.Helper()
	ring := d.Chain().Next()
	if err := ring.AddCoordinator(enrol.CoordinatorRequest{Fleet: ring.Fleet, Key: d.key.Public(), TLSCA: ca.Certificate()}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Advance(must[[]byte](t)(certs.SignRing(ring, d.owner))); err != nil {
		t.Fatal(err)
	}
	d.ca, d.leaf = ca, must[*certs.TLSKey](t)(certs.NewTLSKey())
	d.cert = must[[]byte](t)(ca.Issue(must[[]byte](t)(d.leaf.Request()), certs.Leaf{
		Name: san.Name{Kind: san.Coordinator}, Server: true, Addresses: []string{"a.example"}, Now: time.Now(),
	}))
}

// start runs the coordinator and returns its API.
func (d *desk) start(t *testing.T) http.Handler {
	t.Helper()
	cfg := coordinator.Config{
		Store: d.store, Fleet: d.Chain().Ring().Fleet, FleetName: d.Chain().Ring().Name, Signer: d.key, Trust: d, Rings: d, HostKeys: d, Viewers: d, Authority: authority{d},
		Broker: silence{}, OutputDir: t.TempDir(), PayloadDir: t.TempDir(), Addresses: []string{first, second}, BrokerAddresses: []string{"a.example:8883"},
		Now: time.Now, Boot: time.Now().UnixMilli, Rand: rand.Reader,
	}
	d.coord = must[*coordinator.Coordinator](t)(coordinator.New(t.Context(), cfg))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = d.coord.Run(ctx) }) // returns what ended it
	d.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(d.stop)
	return must[http.Handler](t)(web.New(web.Config{Coordinator: d.coord, Version: "test"}))
}

func (d *desk) tls(t testing.TB) *tls.Config {
	t.Helper()
	cert := must[*tls.Certificate](t)(d.leaf.Certificate(d.cert))
	return certs.ServerTLS{Certificate: func() *tls.Certificate { return cert }}.Plain()
}

// admin may do everything.
func admin() core.Actor {
	return core.Actor{Name: "admin", Role: core.RoleAdmin}
}

func (d *desk) invite(t testing.TB, ttl time.Duration) string {
	t.Helper()
	_, code, err := d.coord.Members().Invite(t.Context(), admin(), ttl, []string{"site=lab"})
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func (d *desk) Ring() uint64               { return d.Chain().Ring().Number }
func (d *desk) RemovedCoordinator() uint64 { return d.Chain().RemovedCoordinator() }
func (d *desk) Revoked() uint64            { return d.RevokedNumber() }
func (d *desk) Roster() ([]byte, error)    { return d.Keys.Roster(1)[0].Seal(d.key) }
func (d *desk) SetViewer(_, _ string)      {}

// Former implements [core.Keys].
func (d *desk) Former() protocol.Keyring { return d.Past() }

func (d *desk) Rings(from uint64) []byte {
	if from == 0 {
		return d.Chain().Newest()
	}
	return d.Chain().From(from)
}

func (d *desk) RingInForce() (uint64, protocol.Digest) {
	n := d.Ring()
	digest, _ := d.Chain().Digest(n)
	return n, digest
}

func (d *desk) Own() ([]byte, protocol.Digest) {
	return d.key.Public(), d.key.PublicKey().PrimaryDigest()
}

func (d *desk) ParseHostKey(b []byte) (enrol.HostKey, error) { return certs.ParsePublicKey(b) }

func (d *desk) AddHost(id protocol.HostID, certificate []byte) error {
	key, err := certs.ParsePublicKey(certificate)
	if err != nil {
		return err
	}
	return d.SetHost(id, key)
}

func (d *desk) RevokeHost(_ protocol.HostID, key protocol.KeyID) { d.Revoke(d.RevokedNumber()+1, key) }

func (d *desk) PinHost(protocol.HostID, []byte) error { return nil }

// authority issues what the desk's authority of the moment signs.
type authority struct{ d *desk }

func (a authority) CA() []byte { return a.d.ca.Certificate() }

func (a authority) IssueHost(id protocol.HostID, csr []byte) ([]byte, error) {
	return a.d.ca.Issue(csr, certs.Leaf{Name: san.Name{Kind: san.Host, ID: string(id)}, Now: time.Now()})
}

func (a authority) Current(der []byte) bool {
	leaf, err := x509.ParseCertificate(der)
	return err == nil && !a.d.aged && time.Now().Before(certs.RenewAt(leaf))
}

func (a authority) IssueViewer(string) ([]byte, []byte, string, error) {
	return nil, nil, "", errors.New("no viewers here")
}

// silence is a broker that nobody listens to.
type silence struct{}

func (silence) Publish(string, []byte, bool) error { return nil }
func (silence) Disconnect(san.Name)                {}

// host is a machine that wants to join.
type host struct {
	client *join.Client
	kept   []join.Record
	words  chan string
}

func newHost(t testing.TB, n *network) *host {
	t.Helper()
	return newHostOf(t, n, newIdentity(t, "host"), must[*certs.TLSKey](t)(certs.NewTLSKey()))
}

func newHostOf(t testing.TB, n *network, id *certs.Identity, key *certs.TLSKey) *host {
	t.Helper()
	h := &host{words: make(chan string, 16)}
	h.client = must[*join.Client](t)(join.New(join.Config{
		Identity: id, TLS: key, Dial: n.dial,
		Describe: func(context.Context) (enrol.Offer, error) {
			return enrol.Offer{Hostname: "edge-01", Architecture: "amd64", Version: "1", Boot: "b"}, nil
		},
		Keep:    func(r join.Record) error { h.kept = append(h.kept, r); return nil },
		Waiting: func(r join.Record) { h.words <- r.Words },
		Log:     slog.New(slog.NewTextHandler(t.Output(), nil)),
	}))
	return h
}

func (h *host) newest() join.Record { return h.kept[len(h.kept)-1] }
