package certs_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol/san"
)

var (
	web1        = san.Name{Kind: san.Host, ID: "web1"}
	coordinator = san.Name{Kind: san.Coordinator}
)

// side is one end of a connection: a key and its certificate.
func side(t testing.TB, ca *certs.Authority, l certs.Leaf) func() *tls.Certificate {
	t.Helper()
	if l.Now.IsZero() {
		l.Now = time.Now()
	}
	k, err := certs.NewTLSKey()
	if err != nil {
		t.Fatal(err)
	}
	c, err := k.Certificate(issue(t, ca, k, l).Raw)
	if err != nil {
		t.Fatal(err)
	}
	return func() *tls.Certificate { return c }
}

func newAuthority(t testing.TB) *certs.Authority {
	t.Helper()
	ca, err := certs.NewAuthority("lab")
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func roots(t testing.TB, cas ...*certs.Authority) func() *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	for _, ca := range cas {
		c, err := x509.ParseCertificate(ca.Certificate())
		if err != nil {
			t.Fatal(err)
		}
		pool.AddCert(c)
	}
	return func() *x509.CertPool { return pool }
}

func everybody(san.Name, *x509.Certificate) error { return nil }

// handshake connects client and server once, over a real socket because TLS
// sessions are remembered by address, and has each say a byte to the other. It
// returns what either side says.
func handshake(t testing.TB, server, client *tls.Config) (resumed bool, serverErr, clientErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client.ServerName == "" {
		// Each listener has another port: let them be one server.
		client = client.Clone()
		client.ServerName = "coordinator"
	}
	var all sync.WaitGroup
	all.Go(func() {
		raw, err := l.Accept()
		if err != nil {
			serverErr = err
			return
		}
		defer raw.Close()
		serverErr = exchangeByte(tls.Server(raw, server))
	})
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	c := tls.Client(raw, client)
	clientErr = exchangeByte(c)
	raw.Close()
	all.Wait()
	return c.ConnectionState().DidResume, serverErr, clientErr
}

func exchangeByte(c *tls.Conn) error {
	if err := c.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

func TestMutualTLS(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	server := side(t, ca, certs.Leaf{Name: coordinator, Server: true, Addresses: []string{"127.0.0.1"}})
	for name, c := range map[string]struct {
		server, client func() *tls.Certificate
		roots          func() *x509.CertPool // of the server
		admit          error
		ok             bool
	}{
		"a host":                  {server: server, client: side(t, ca, certs.Leaf{Name: web1}), ok: true},
		"another authority":       {server: server, client: side(t, other, certs.Leaf{Name: web1})},
		"two authorities":         {server: server, client: side(t, other, certs.Leaf{Name: web1}), roots: roots(t, ca, other), ok: true},
		"revoked":                 {server: server, client: side(t, ca, certs.Leaf{Name: web1}), admit: errors.New("revoked")},
		"no certificate":          {server: server, client: func() *tls.Certificate { return nil }},
		"a broker as client":      {server: server, client: side(t, ca, certs.Leaf{Name: san.Name{Kind: san.Broker}, Server: true})},
		"the coordinator's one":   {server: server, client: side(t, ca, certs.Leaf{Name: coordinator, Server: true}), ok: true},
		"the coordinator":         {server: server, client: side(t, ca, certs.Leaf{Name: coordinator}), ok: true},
		"a host as server":        {server: side(t, ca, certs.Leaf{Name: web1}), client: side(t, ca, certs.Leaf{Name: web1})},
		"a hop as server":         {server: side(t, ca, certs.Leaf{Name: san.Name{Kind: san.Hop, ID: "a"}, Server: true}), client: side(t, ca, certs.Leaf{Name: web1})},
		"an external broker":      {server: side(t, ca, certs.Leaf{Name: san.Name{Kind: san.Broker}, Server: true}), client: side(t, ca, certs.Leaf{Name: web1}), ok: true},
		"a client as server":      {server: side(t, ca, certs.Leaf{Name: coordinator}), client: side(t, ca, certs.Leaf{Name: web1})},
		"a server of another":     {server: side(t, other, certs.Leaf{Name: coordinator, Server: true}), client: side(t, ca, certs.Leaf{Name: web1})},
		"a server without a leaf": {server: func() *tls.Certificate { return nil }, client: side(t, ca, certs.Leaf{Name: web1})},
		"a leaf of 1970":          {server: server, client: side(t, ca, certs.Leaf{Name: web1, Now: time.Unix(0, 0)}), ok: true},
		"a leaf of 2100":          {server: side(t, ca, certs.Leaf{Name: coordinator, Server: true, Now: time.Unix(4e9, 0)}), client: side(t, ca, certs.Leaf{Name: web1, Now: time.Unix(4e9, 0)}), ok: true},
	} {
		if c.roots == nil {
			c.roots = roots(t, ca)
		}
		var seen san.Name
		s := certs.ServerTLS{Certificate: c.server, Roots: c.roots, Admit: func(n san.Name, leaf *x509.Certificate) error { seen = n; return c.admit }}
		_, serverErr, clientErr := handshake(t, s.Mutual(), certs.ClientTLS{Certificate: c.client, Roots: roots(t, ca)}.Config())
		if ok := serverErr == nil && clientErr == nil; ok != c.ok {
			t.Errorf("%s: server says %v, client says %v", name, serverErr, clientErr)
		}
		if want, _ := certs.RoleOf(leafOf(c.client)); c.ok && seen != want {
			t.Errorf("%s: the server saw %q, want %q", name, seen, want)
		}
	}
}

func leafOf(c func() *tls.Certificate) *x509.Certificate {
	if c() == nil {
		return &x509.Certificate{}
	}
	return c().Leaf
}

// TestClocksStopNothing runs both sides' TLS at the ends of time.
func TestClocksStopNothing(t *testing.T) {
	ca := newAuthority(t)
	s := certs.ServerTLS{Certificate: side(t, ca, certs.Leaf{Name: coordinator, Server: true}), Roots: roots(t, ca), Admit: everybody}
	c := certs.ClientTLS{Certificate: side(t, ca, certs.Leaf{Name: web1}), Roots: roots(t, ca)}
	for _, serverYear := range []int{1970, 2026, 2100} {
		for _, clientYear := range []int{1970, 2026, 2100} {
			server, client := s.Mutual(), c.Config()
			server.Time = func() time.Time { return time.Date(serverYear, 1, 2, 0, 0, 0, 0, time.UTC) }
			client.Time = func() time.Time { return time.Date(clientYear, 1, 2, 0, 0, 0, 0, time.UTC) }
			for range 2 {
				if _, serverErr, clientErr := handshake(t, server, client); serverErr != nil || clientErr != nil {
					t.Errorf("server in %d, client in %d: server says %v, client says %v", serverYear, clientYear, serverErr, clientErr)
				}
			}
		}
	}
}

func TestResumedSessionsAreChecked(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	var revoked atomic.Bool
	pool := atomic.Pointer[x509.CertPool]{}
	pool.Store(roots(t, ca)())
	s := certs.ServerTLS{
		Certificate: side(t, ca, certs.Leaf{Name: coordinator, Server: true}),
		Roots:       pool.Load,
		Admit: func(san.Name, *x509.Certificate) error {
			if revoked.Load() {
				return errors.New("revoked")
			}
			return nil
		},
	}
	clientRoots := atomic.Pointer[x509.CertPool]{}
	clientRoots.Store(roots(t, ca)())
	server := s.Mutual()
	client := certs.ClientTLS{Certificate: side(t, ca, certs.Leaf{Name: web1}), Roots: clientRoots.Load}.Config()
	expect := func(name string, wantResumed, wantServer, wantClient bool) {
		t.Helper()
		resumed, serverErr, clientErr := handshake(t, server, client)
		if resumed != wantResumed || (serverErr == nil) != wantServer || (clientErr == nil) != wantClient {
			t.Errorf("%s: resumed %v, server says %v, client says %v", name, resumed, serverErr, clientErr)
		}
	}
	expect("first", false, true, true)
	expect("resumed", true, true, true)
	revoked.Store(true)
	expect("resumed, revoked meanwhile", true, false, false)
	revoked.Store(false)
	pool.Store(roots(t, other)())
	expect("resumed, the client's authority left the ring", true, false, false)
	pool.Store(roots(t, ca)())
	clientRoots.Store(roots(t, other)())
	resumed, _, clientErr := handshake(t, server, client)
	if !resumed || !errors.Is(clientErr, certs.ErrPeer) {
		t.Errorf("resumed, the server's authority left the ring: resumed %v, client says %v", resumed, clientErr)
	}
}

func TestTicketsSurviveARestart(t *testing.T) {
	ca := newAuthority(t)
	path := filepath.Join(t.TempDir(), "tls", "tickets")
	certificate := side(t, ca, certs.Leaf{Name: coordinator, Server: true})
	start := func() (*certs.TicketKeys, *tls.Config) {
		keys, err := certs.OpenTicketKeys(path)
		if err != nil {
			t.Fatal(err)
		}
		// Servers of HTTP copy what they are given.
		return keys, certs.ServerTLS{Certificate: certificate, Roots: roots(t, ca), Admit: everybody, Tickets: keys}.Mutual().Clone()
	}
	client := certs.ClientTLS{Certificate: side(t, ca, certs.Leaf{Name: web1}), Roots: roots(t, ca)}.Config()
	expect := func(name string, server *tls.Config, want bool) {
		t.Helper()
		if resumed, serverErr, clientErr := handshake(t, server, client); resumed != want || serverErr != nil || clientErr != nil {
			t.Errorf("%s: resumed %v, server says %v, client says %v", name, resumed, serverErr, clientErr)
		}
	}
	_, server := start()
	expect("first", server, false)
	keys, server := start()
	expect("after a restart", server, true)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.Rotate(); err != nil {
		t.Fatal(err)
	}
	expect("after a rotation", server, true)
	after, err := os.ReadFile(path)
	if err != nil || len(after) != len(before)+32 || !bytes.HasSuffix(after, before) {
		t.Errorf("the file has %d bytes after %d, %v", len(after), len(before), err)
	}
	for range 3 {
		if err := keys.Rotate(); err != nil {
			t.Fatal(err)
		}
	}
	expect("after all its keys are gone", server, false)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || info.Size() != 96 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := certs.OpenTicketKeys(path); err == nil {
		t.Error("a broken file is taken")
	}
}

// TestPlainTLS holds what browsers and enrolment see: no client certificate is
// asked for, names and dates can be checked as usual, HTTP/2 is not in the way.
func TestPlainTLS(t *testing.T) {
	ca := newAuthority(t)
	s := certs.ServerTLS{Certificate: side(t, ca, certs.Leaf{Name: coordinator, Server: true, Addresses: []string{"coordinator.example.org", "192.0.2.1", "2001:db8::1"}})}
	server := s.Plain()
	server.NextProtos = []string{"h2"}
	for _, name := range []string{"coordinator.example.org", "192.0.2.1", "2001:db8::1"} {
		client := &tls.Config{RootCAs: roots(t, ca)(), ServerName: name}
		if _, serverErr, clientErr := handshake(t, server, client); serverErr != nil || clientErr != nil {
			t.Errorf("%s: server says %v, client says %v", name, serverErr, clientErr)
		}
	}
	if _, _, err := handshake(t, server, &tls.Config{RootCAs: roots(t, ca)(), ServerName: "other.example.org"}); err == nil {
		t.Error("a name is taken that is not in the certificate")
	}
	if _, _, err := handshake(t, server, certs.ClientTLS{Roots: roots(t, ca)}.Config()); err != nil {
		t.Errorf("a host that enrols: %v", err)
	}
	if _, _, err := handshake(t, server, &tls.Config{RootCAs: roots(t, ca)(), ServerName: "192.0.2.1", MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 is spoken")
	}
	onlyBroker := certs.ClientTLS{Roots: roots(t, ca), Servers: []san.Kind{san.Broker}}.Config()
	if _, _, err := handshake(t, server, onlyBroker); !errors.Is(err, certs.ErrPeer) {
		t.Errorf("a coordinator where a broker is wanted: %v", err)
	}
}

// TestCurves: the key exchange is the cheap one, also with a peer that knows more.
func TestCurves(t *testing.T) {
	ca := newAuthority(t)
	for _, offered := range [][]tls.CurveID{nil, {tls.X25519MLKEM768, tls.X25519}} {
		var got tls.CurveID
		s := certs.ServerTLS{Certificate: side(t, ca, certs.Leaf{Name: coordinator, Server: true})}
		client := certs.ClientTLS{Roots: roots(t, ca)}.Config()
		if offered != nil {
			client.CurvePreferences = offered
		}
		verify := client.VerifyConnection
		client.VerifyConnection = func(cs tls.ConnectionState) error { got = cs.CurveID; return verify(cs) }
		if _, _, err := handshake(t, s.Plain(), client); err != nil || got != tls.X25519 {
			t.Errorf("offered %v: curve %v, %v", offered, got, err)
		}
	}
}

func TestAuthorityFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.pem")
	if _, err := certs.LoadAuthority(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("loading what is not there: %v", err)
	}
	made, err := certs.CreateAuthority(path, "lab")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certs.CreateAuthority(path, "lab"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("making it again: %v", err)
	}
	loaded, err := certs.LoadAuthority(path)
	if err != nil || !bytes.Equal(loaded.Certificate(), made.Certificate()) {
		t.Fatalf("what was loaded is not what was made: %v", err)
	}
	if _, err := leaf(t, loaded).Verify(x509.VerifyOptions{Roots: roots(t, made)(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Errorf("a leaf of the loaded one: %v", err)
	}
	keyPath := filepath.Join(t.TempDir(), "tls.key")
	key, err := certs.CreateTLSKey(keyPath)
	if err != nil {
		t.Fatal(err)
	}
	again, err := certs.LoadTLSKey(keyPath)
	if err != nil {
		t.Fatal(err)
	}
	c := issue(t, made, key, certs.Leaf{Name: web1, Now: time.Now()})
	if _, err := again.Certificate(c.Raw); err != nil {
		t.Errorf("the key that was loaded: %v", err)
	}
	if _, err := again.Certificate(leaf(t, made).Raw); err == nil {
		t.Error("a certificate for another key is taken")
	}
	if _, err := certs.LoadAuthority(keyPath); err == nil || !strings.Contains(err.Error(), "no certificate") {
		t.Errorf("a key alone as authority: %v", err)
	}
}

func TestTicketKeysRotateWithAge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tickets.key")
	keys, err := certs.OpenTicketKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	for _, c := range []struct {
		name  string
		age   time.Duration
		write bool
	}{{"fresh", time.Hour, false}, {"old", day + time.Minute, true}, {"from the future", -time.Hour, true}} {
		t.Run(c.name, func(t *testing.T) {
			at := time.Now().Add(-c.age)
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := keys.RotateAfter(day); err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if rotated := !bytes.Equal(before, after); rotated != c.write {
				t.Errorf("rotated: %v, want %v", rotated, c.write)
			}
		})
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := keys.RotateAfter(day); err != nil {
		t.Fatalf("a lost file: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("a lost file is not made again: %v", err)
	}
}
