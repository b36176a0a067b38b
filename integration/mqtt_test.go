//go:build integration

package integration

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

// login is what an MQTT client of somebody else connects with.
type login struct{ ca, cert, key string }

// viewer makes a certificate that reads all topics.
func (w *world) viewer(t testing.TB, name string) login {
	t.Helper()
	dir := w.path("viewer-" + name)
	w.must(t, "viewer", "create", name, "--out", dir)
	return login{filepath.Join(dir, "ca.crt"), filepath.Join(dir, "viewer.crt"), filepath.Join(dir, "viewer.key")}
}

// stolenCoordinator is the coordinator's own certificate, in the wrong hands.
func (w *world) stolenCoordinator() login {
	return login{w.path("coordinator/ca.crt"), w.path("coordinator/tls.crt"), w.path("coordinator/tls.key")}
}

// issue lets the fleet's authority make a certificate for whoever is asked for.
func (w *world) issue(t testing.TB, name san.Name) login {
	t.Helper()
	ca, err := certs.LoadAuthority(w.path("coordinator/ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return w.certificate(t, ca, name)
}

// certificate makes one from any authority.
func (w *world) certificate(t testing.TB, ca *certs.Authority, name san.Name) login {
	t.Helper()
	key, err := certs.NewTLSKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := key.Request()
	if err != nil {
		t.Fatal(err)
	}
	der, err := ca.Issue(request, certs.Leaf{Name: name, Server: name.Kind == san.Broker || name.Kind == san.Coordinator, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(w.dir, "issued-")
	if err != nil {
		t.Fatal(err)
	}
	l := login{w.path("coordinator/ca.crt"), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
	write(t, l.cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, l.key, string(secret))
	return l
}

// tlsOf is the certificate of a host, issued anew: what somebody has who
// copied its disk.
func (w *world) tlsOf(t testing.TB, host string) login {
	t.Helper()
	return w.issue(t, san.Name{Kind: san.Host, ID: host})
}

func (w *world) mosquitto(t testing.TB, l login, program string, args ...string) *process {
	t.Helper()
	host, port, _ := strings.Cut(w.mqtt, ":")
	argv := []string{"/usr/bin/" + program, "--cafile", l.ca, "--cert", l.cert, "--key", l.key, "-h", host, "-p", port}
	return w.spawn(t, program, w.env(), append(argv, args...)...)
}

// record lets mosquitto_sub write down everything that it may read of the
// topics, as "topic payload", and returns when it has begun.
func (w *world) record(t testing.TB, l login, filters ...string) *process {
	t.Helper()
	args := []string{"-F", "%t %p"}
	for _, f := range filters {
		args = append(args, "-t", f)
	}
	p := w.mosquitto(t, l, "mosquitto_sub", args...)
	p.says(t, p.out, "/fleet/coordinator ")
	return p
}

// everything is the filter of all topics of the fleet.
func (w *world) everything() string { return "hostler/v1/" + w.fleet + "/#" }

// topic is one of a host's.
func (w *world) topic(host, channel string) string {
	return fmt.Sprintf("hostler/v1/%s/host/%s/%s", w.fleet, host, channel)
}

// captured are the messages on a topic that a recorder has seen.
func captured(p *process, topic string) []string {
	var all []string
	for _, line := range p.out.lines() {
		if payload, ok := strings.CutPrefix(line, topic+" "); ok {
			all = append(all, payload)
		}
	}
	return all
}

// capture waits until a recorder has seen another message on a topic than the
// first so many, and returns it.
func capture(t testing.TB, p *process, topic string, after int) string {
	t.Helper()
	var all []string
	until(t, &p.out.change, "a message on "+topic, func() bool {
		all = captured(p, topic)
		return len(all) > after
	})
	return all[after]
}

// sealed is a captured message, opened up to be made into others.
type sealed struct {
	env protocol.Envelope
	h   protocol.Header
}

func open(t testing.TB, raw string) sealed {
	t.Helper()
	env, err := protocol.Split([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	var h protocol.Header
	if err := protocol.DecodeJSON(env.Body, &h, true); err != nil {
		t.Fatal(err)
	}
	return sealed{env, h}
}

// coordinatorKey is the coordinator's signing key, in the wrong hands.
func (w *world) coordinatorKey(t testing.TB) *certs.Identity {
	t.Helper()
	id, err := certs.LoadIdentity(w.path("coordinator/identity.pgp"))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// stranger is a key that nobody vouches for.
func stranger(t testing.TB) *certs.Identity {
	t.Helper()
	id, err := certs.Generate("hostler stranger", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// seal signs a body as it stands.
func seal(t testing.TB, key protocol.Signer, body string) []byte {
	t.Helper()
	b, err := protocol.Seal(key, []byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// envelope puts an envelope together from parts that need not fit.
func envelope(key protocol.KeyID, sig []byte, body string) []byte {
	return protocol.AppendEnvelope(nil, key, sig, []byte(body), nil)
}

// roots are the authorities of the fleet, for the tests' own HTTPS.
func (w *world) roots(t testing.TB) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(read(t, w.path("coordinator/ca.crt")))) {
		t.Fatal("ca.crt holds no certificate")
	}
	return pool
}

// TestRealCapture verifies what mosquitto_sub -v writes down while a command runs: rings
// of several lines, and chunks of output with bytes of any kind.
func TestRealCapture(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addHost(t, "edge-01", false)
	l := w.viewer(t, "recorder")
	file := w.path("captured")
	host, port, _ := strings.Cut(w.mqtt, ":")
	p := w.spawn(t, "mosquitto_sub", w.env(), "sh", "-c", `exec mosquitto_sub "$@" >"$0"`, file,
		"--cafile", l.ca, "--cert", l.cert, "--key", l.key, "-h", host, "-p", port, "-v", "-t", w.everything())
	fileUntil(t, file, "the retained messages", func(s string) bool { return strings.Contains(s, "/fleet/coordinator ") })
	w.must(t, "run", "edge-01", "--", "sh", "-c", `printf '\n%s {}\n\n' "$1"; head -c 200000 /dev/urandom; echo`, "sh", w.topic("edge-01", "presence"))
	fileUntil(t, file, "the report", func(s string) bool { return strings.Contains(s, w.topic("edge-01", "report")+" ") })
	p.signal(t, term)
	p.finish(t)
	verdicts := w.must(t, "verify", file, "-o", "template={{.ok}} {{.type}}")
	for _, want := range []string{"true ring/1", "true order/1", "true out/1", "true report/1"} {
		if !strings.Contains(verdicts, want) {
			t.Errorf("it has no %q in\n%s", want, verdicts)
		}
	}
}
