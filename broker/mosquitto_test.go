package broker_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler-io/hostler/broker"
	"github.com/hostler-io/hostler/broker/brokertest"
	"github.com/hostler-io/hostler/protocol/san"
)

// site is a broker on a real TCP port with real TLS, as other people's tools see
// it.
type site struct {
	t         testing.TB
	dir       string
	port      string
	authority *brokertest.Authority
	broker    *broker.Server
	ingested  chan string
}

func newSite(t testing.TB, change func(*broker.Config)) *site {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, dir: t.TempDir(), authority: brokertest.NewAuthority(t), ingested: make(chan string, 1000)}
	_, s.port, _ = net.SplitHostPort(ln.Addr().String())
	cfg := broker.Config{
		Fleet: brokertest.Fleet, Listener: ln, TLS: s.authority.Server(t),
		Ingest: func(topic string, payload []byte, from san.Name) error {
			s.ingested <- fmt.Sprintf("%v %s %s", from, topic, payload)
			return nil
		},
	}
	if change != nil {
		change(&cfg)
	}
	if s.broker, err = broker.New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.broker.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("broker ended with %v", err)
		}
	})
	s.write("ca.pem", "CERTIFICATE", s.authority.CertificateDER())
	return s
}

func (s *site) write(name, kind string, der []byte) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// issue writes a certificate and its key under the given file name.
func (s *site) issue(file, uri string) tls.Certificate {
	s.t.Helper()
	cert := s.authority.Issue(s.t, uri)
	key, err := x509.MarshalECPrivateKey(cert.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(file+".pem", "CERTIFICATE", cert.Certificate[0])
	s.write(file+".key", "EC PRIVATE KEY", key)
	return cert
}

// tool is a command line of mosquitto_sub or mosquitto_pub; cert may be empty.
func (s *site) tool(name, cert string, args ...string) *exec.Cmd {
	base := []string{"-h", "127.0.0.1", "-p", s.port, "--cafile", filepath.Join(s.dir, "ca.pem")}
	if cert != "" {
		base = append(base, "--cert", filepath.Join(s.dir, cert+".pem"), "--key", filepath.Join(s.dir, cert+".key"))
	}
	return exec.CommandContext(s.t.Context(), name, append(base, args...)...)
}

func (s *site) pub(cert string, args ...string) (string, error) {
	out, err := s.tool("mosquitto_pub", cert, args...).CombinedOutput()
	return string(out), err
}

// marker is a retained document by which a subscriber is known to be there.
const marker = root + "fleet/coordinator"

// sub starts mosquitto_sub and returns its lines once its subscription stands.
func (s *site) sub(cert string, args ...string) (lines <-chan string) {
	s.t.Helper()
	if err := s.broker.Publish(marker, []byte("here"), true); err != nil {
		s.t.Fatal(err)
	}
	cmd := s.tool("mosquitto_sub", cert, append([]string{"-F", "%t %p", "-t", marker}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	got := make(chan string, 1000)
	go func() {
		defer close(got)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			got <- scan.Text()
		}
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for range got { // Wait closes the pipe under its reader
		}
		_ = cmd.Wait()
	})
	if line := <-got; line != marker+" here" {
		s.t.Fatalf("mosquitto_sub %q said %q", args, line)
	}
	return got
}

func TestMosquittoViewerSeesAndCannotSpeak(t *testing.T) {
	s := newSite(t, nil)
	s.issue("host", web1.String())
	s.issue("viewer", viewer.String())

	lines := s.sub("viewer", "-t", root+"host/#")
	if out, err := s.pub("host", "-i", "web1", "-t", report, "-m", "r1"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := <-lines; got != report+" r1" {
		t.Errorf("viewer got %q", got)
	}
	if got := <-s.ingested; got != "hostler:host/web1 "+report+" r1" {
		t.Errorf("ingested %q", got)
	}

	// A viewer named like the host, under the client id of the host.
	for _, qos := range []string{"0", "1"} {
		_, _ = s.pub("viewer", "-i", "web1", "-q", qos, "-t", presence, "-r", "-m", "forged")
		_, _ = s.pub("viewer", "-i", "web1~bulk", "-q", qos, "-t", root+"fleet/ring", "-r", "-m", "forged")
	}
	if out, err := s.pub("host", "-i", "web1", "-q", "1", "-t", presence, "-r", "-m", "online"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := <-lines; got != presence+" online" {
		t.Errorf("viewer got %q, want only what the host said", got)
	}
	if got := <-s.ingested; got != "hostler:host/web1 "+presence+" online" {
		t.Errorf("ingested %q", got)
	}
	// Of those with QoS 0 nobody was told when they were read.
	for deadline := time.Now().Add(2 * time.Minute); s.broker.Stats().Denied < 4 && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	if n := s.broker.Stats().Denied; n != 4 {
		t.Errorf("%d publishes denied, want 4", n)
	}
	late := s.sub("viewer", "-V", "5", "-q", "1", "-t", root+"host/#")
	if got := <-late; got != presence+" online" {
		t.Errorf("retained: %q", got)
	}
}

func TestMosquittoHostIsBoundToItsName(t *testing.T) {
	s := newSite(t, nil)
	s.issue("host", web1.String())
	s.issue("viewer", viewer.String())
	for what, args := range map[string][]string{
		"a neighbour's orders": {"-i", "web1", "-t", root + "host/web2/order"},
		"everybody's orders":   {"-i", "web1", "-t", root + "host/+/order"},
		"everything":           {"-i", "web1", "-t", "#"},
		"a shared filter":      {"-i", "web1", "-t", "$share/g/" + root + "host/web2/order"},
	} {
		out, err := s.tool("mosquitto_sub", "host", append(args, "-W", "120")...).CombinedOutput()
		if !strings.Contains(string(out), "requests were denied") {
			t.Errorf("%s: %v, %s", what, err, out)
		}
	}
	for what, args := range map[string][]string{
		"another client id": {"-i", "web2", "-t", report, "-m", "x"},
		"no client id":      {"-t", report, "-m", "x"},
		"a foreign will":    {"-i", "web1", "-t", report, "-m", "x", "--will-topic", root + "host/web2/presence", "--will-payload", "x"},
		"too large":         {"-i", "web1", "-q", "1", "-t", report, "-m", strings.Repeat("x", 34<<10)},
	} {
		if out, err := s.pub("host", args...); err == nil {
			t.Errorf("%s: accepted: %s", what, out)
		}
	}
	lines := s.sub("host", "-i", "web1", "-t", order)
	for _, topic := range []string{root + "host/web2/order", order} {
		if err := s.broker.Publish(topic, []byte("do it"), false); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-lines; got != order+" do it" {
		t.Errorf("host got %q", got)
	}
	if n := len(s.ingested); n != 0 {
		t.Errorf("%d messages ingested: %q", n, <-s.ingested)
	}
}

func TestMosquittoWithoutCertificateIsRefused(t *testing.T) {
	s := newSite(t, nil)
	if out, err := s.pub("", "-t", report, "-m", "x"); err == nil {
		t.Errorf("TLS without a certificate was accepted: %s", out)
	}
	plain := exec.CommandContext(t.Context(), "mosquitto_pub", "-h", "127.0.0.1", "-p", s.port, "-t", report, "-m", "x")
	if out, err := plain.CombinedOutput(); err == nil {
		t.Errorf("no TLS at all was accepted: %s", out)
	}
	if got := s.broker.Stats(); got.Sessions != 0 || got.Messages != 0 {
		t.Errorf("stats %+v", got)
	}
}

func TestMosquittoIsCutOffWhenRevoked(t *testing.T) {
	var bad atomic.Pointer[x509.Certificate]
	s := newSite(t, func(cfg *broker.Config) {
		cfg.Revoked = func(c *x509.Certificate) bool { b := bad.Load(); return b != nil && b.Equal(c) }
	})
	cert := s.issue("host", web1.String())
	lines := s.sub("host", "-i", "web1", "-t", order)
	bad.Store(cert.Leaf)
	if n := s.broker.Recheck(); n != 1 {
		t.Fatalf("%d connections cut, want 1", n)
	}
	for line := range lines { // until the tool has given up
		t.Errorf("a revoked host got %q", line)
	}
	if out, err := s.pub("host", "-i", "web1", "-t", report, "-m", "x"); err == nil {
		t.Errorf("a revoked host was let in again: %s", out)
	}
}
