// Package dbtest starts databases of measurements for tests, each with data of its own:
// VictoriaMetrics, InfluxDB 1.x and Prometheus, as Debian has them.
package dbtest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// User and Password are of databases that ask for them.
const (
	User     = "meter"
	Password = "ein Wort, 8 Zeichen"
)

// DB is a database that runs.
type DB struct {
	URL string
	// CA is the file of the authority that vouches for it, and Pool the same; of one
	// without TLS they are empty.
	CA   string
	Pool *x509.CertPool

	dir    string
	auth   bool
	args   []string
	ready  string // a path that is answered with less than 300 when it serves
	cmd    *exec.Cmd
	ended  chan struct{} // cmd has
	output *os.File
	client *http.Client
}

// Victoria starts VictoriaMetrics with TLS, which wants User and Password.
func Victoria(t testing.TB) *DB {
	t.Helper()
	d := open(t, "https", true)
	cert, key := d.certify(t)
	d.ready = "/api/v1/labels"
	d.args = []string{"victoria-metrics", "-httpListenAddr", d.address(t), "-storageDataPath", filepath.Join(d.dir, "data"), "-retentionPeriod", "100y",
		"-tls", "-tlsCertFile", cert, "-tlsKeyFile", key, "-httpAuth.username", User, "-httpAuth.password", Password, "-search.latencyOffset", "0s", "-memory.allowedBytes", "128MB"}
	d.Up(t)
	return d
}

// Influx starts InfluxDB 1.x without TLS, with a database of a name. It wants User and
// Password.
func Influx(t testing.TB, database string) *DB {
	t.Helper()
	d := open(t, "http", true)
	d.ready = "/ping"
	other := free(t)
	conf := fmt.Sprintf(`reporting-disabled = true
bind-address = %q
[meta]
dir = %q
[data]
dir = %q
wal-dir = %q
[http]
bind-address = %q
auth-enabled = true
`, other, filepath.Join(d.dir, "meta"), filepath.Join(d.dir, "data"), filepath.Join(d.dir, "wal"), d.address(t))
	path := filepath.Join(d.dir, "influxdb.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	d.args = []string{"influxd", "run", "-config", path}
	d.Up(t)
	d.Post(t, "/query?q="+url.QueryEscape(fmt.Sprintf("CREATE USER %s WITH PASSWORD '%s' WITH ALL PRIVILEGES", User, Password)))
	d.Post(t, "/query?q="+url.QueryEscape("CREATE DATABASE "+database))
	return d
}

// Prometheus starts Prometheus with a configuration.
func Prometheus(t testing.TB, config string) *DB {
	t.Helper()
	d := open(t, "http", false)
	d.ready = "/-/ready"
	path := filepath.Join(d.dir, "prometheus.yml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d.args = []string{"prometheus", "--config.file", path, "--storage.tsdb.path", filepath.Join(d.dir, "data"), "--web.listen-address", d.address(t)}
	d.Up(t)
	return d
}

func open(t testing.TB, scheme string, auth bool) *DB {
	t.Helper()
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	d := &DB{URL: scheme + "://" + free(t), dir: dir, auth: auth, output: log}
	t.Cleanup(func() {
		d.Down()
		d.output.Close()
	})
	return d
}

// free is an address that nothing listens on.
func free(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (d *DB) address(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(d.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// certify makes an authority and a certificate by it.
func (d *DB) certify(t testing.TB) (cert, key string) {
	t.Helper()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "database"}, NotBefore: ca.NotBefore,
		NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, kind string, raw []byte, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(d.dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	raw, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	d.CA = put("ca.pem", "CERTIFICATE", raw, err)
	authority, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	d.Pool = x509.NewCertPool()
	d.Pool.AddCert(authority)
	raw, err = x509.CreateCertificate(rand.Reader, leaf, ca, &leafKey.PublicKey, caKey)
	cert = put("cert.pem", "CERTIFICATE", raw, err)
	raw, err = x509.MarshalPKCS8PrivateKey(leafKey)
	return cert, put("key.pem", "PRIVATE KEY", raw, err)
}

// startTime is how long a database may take until it answers.
const startTime = time.Minute

// Up starts the database, and waits until it has answered a request.
func (d *DB) Up(t testing.TB) {
	t.Helper()
	d.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: d.Pool, MinVersion: tls.VersionTLS12}}}
	d.cmd = exec.Command(d.args[0], d.args[1:]...)
	d.cmd.Dir, d.cmd.Stdout, d.cmd.Stderr = d.dir, d.output, d.output
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	d.ended = ended
	go func() {
		_ = d.cmd.Wait() // it is ended by a signal
		close(ended)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	d.until(ctx, t, func() bool {
		_, status, err := d.ask(ctx, http.MethodGet, d.ready)
		return err == nil && status < 300
	})
}

// until looks again and again. It fails the test when ctx is over or the database ends.
func (d *DB) until(ctx context.Context, t testing.TB, found func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !found() {
		select {
		case <-tick.C:
			continue
		case <-d.ended:
		case <-ctx.Done():
		}
		log, err := os.ReadFile(d.output.Name())
		t.Fatalf("%s: %v %v\n%s", d.args[0], ctx.Err(), err, log[max(0, len(log)-4000):])
	}
}

// Down ends the database. Its data stay until the test ends.
func (d *DB) Down() {
	if d.cmd != nil && d.cmd.Process != nil {
		_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may have ended, and what it was sent is to be there again
		kill := time.AfterFunc(startTime, func() { _ = d.cmd.Process.Kill() })
		<-d.ended
		kill.Stop()
	}
	d.cmd = nil
}

// maxAnswer bounds an answer.
const maxAnswer = 16 << 20

func (d *DB) ask(ctx context.Context, method, path string) ([]byte, int, error) {
	req, err := http.NewRequestWithContext(ctx, method, d.URL+path, nil)
	if err != nil {
		return nil, 0, err
	}
	if d.auth {
		req.SetBasicAuth(User, Password)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return b, resp.StatusCode, err
}

// Get returns what the database answers.
func (d *DB) Get(t testing.TB, path string) []byte {
	t.Helper()
	return d.must(t, http.MethodGet, path)
}

// Post returns what the database answers.
func (d *DB) Post(t testing.TB, path string) []byte {
	t.Helper()
	return d.must(t, http.MethodPost, path)
}

func (d *DB) must(t testing.TB, method, path string) []byte {
	t.Helper()
	b, status, err := d.ask(t.Context(), method, path)
	if err != nil || status >= 300 {
		t.Fatalf("%s answers %s with %d %v %s", d.args[0], path, status, err, b)
	}
	return b
}

// Await asks until the answer holds a text, and returns that answer.
func (d *DB) Await(t testing.TB, path, text string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	var last []byte
	d.until(ctx, t, func() bool {
		b, status, err := d.ask(ctx, http.MethodGet, path)
		last = b
		return err == nil && status < 300 && bytes.Contains(b, []byte(text))
	})
	return last
}
