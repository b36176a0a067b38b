package main

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol/san"
)

// floors are medians of what this machine takes at the moment for the things
// that an order cannot do without, in milliseconds.
type floors struct {
	exec    float64 // fork, exec and wait of /bin/true
	execCPU float64 // processor time of it, that of the parent included
	fsync   float64 // overwriting 4 KiB and fsync
	keys    float64 // one Ed25519 signature over 1 KiB, and checking it
	dial    float64 // processor time of a full TLS handshake, both ends
	copied  float64 // MB a second through two TLS connections and a file that is synced
	https   float64 // GET of /healthz on a warm connection
}

// The parts of a floor: an order is signed and checked on the way there, its
// end on the way back, and both are written down on both sides.
const (
	durable = 4
	sealed  = 2
)

// commits is those of an order that is written down on both sides both ways.
func (f floors) commits() float64 { return durable }

func (f floors) noop() float64 { return f.https + durable*f.fsync + sealed*f.keys }

func (f floors) roundtrip() float64 { return f.noop() + f.exec }

// cli adds the start of one more process.
func (f floors) cli() float64 { return f.roundtrip() + f.exec }

// storm is how long the processors take, in seconds, for a handshake and a signed
// question and answer of each of n hosts.
func (f floors) storm(n int) float64 {
	return float64(n) * (f.dial + sealed*f.keys) / float64(runtime.NumCPU()) / 1000
}

// keysUS is in microseconds.
func (f floors) keysUS() float64 { return 1000 * f.keys }

// firstByte is an order of which the end is not waited for.
func (f floors) firstByte() float64 { return f.https + 2*f.fsync + f.keys + f.exec + f.line() }

// line is a chunk that is signed, checked and written down once.
func (f floors) line() float64 { return f.keys + f.fsync + f.https }

func (f floors) pipe() float64 { return f.copied }

// calibrate measures the floors, in about a fifth of a second.
func (b *bench) calibrate(ctx context.Context) (floors, error) {
	var f floors
	var err error
	if f.exec, f.execCPU, err = timeExec(ctx); err != nil {
		return f, fmt.Errorf("starting /bin/true: %w", err)
	}
	if f.fsync, err = timeFsync(filepath.Join(b.fleet.dir, "fsync")); err != nil {
		return f, fmt.Errorf("measuring fsync: %w", err)
	}
	if f.keys, err = timeKeys(); err != nil {
		return f, err
	}
	if f.dial, err = timeDial(); err != nil {
		return f, fmt.Errorf("a TLS handshake: %w", err)
	}
	if f.https, err = median(100, func() error { return b.probe.ping(ctx) }); err != nil {
		return f, fmt.Errorf("asking /healthz: %w", err)
	}
	if f.copied, err = timePipe(b.fleet.dir); err != nil {
		return f, fmt.Errorf("copying over TLS: %w", err)
	}
	for i, v := range []float64{f.exec, f.fsync, f.keys, f.dial, f.https} {
		b.report.spreads[i].add(v)
	}
	return f, nil
}

// noSpreads names what calibrate adds, in its order.
func noSpreads() []spread {
	return []spread{{what: "fork, exec and wait of /bin/true"}, {what: "overwrite 4 KiB and fsync"}, {what: "Ed25519 sign and verify 1 KiB"}, {what: "TLS 1.3 handshake with two certificates"}, {what: "HTTPS GET /healthz, warm"}}
}

func timeExec(ctx context.Context) (wall, cpu float64, err error) {
	const n = 100
	before, err := spent()
	if err != nil {
		return 0, 0, err
	}
	if wall, err = median(n, func() error { return exec.CommandContext(ctx, "/bin/true").Run() }); err != nil {
		return 0, 0, err
	}
	after, err := spent()
	return wall, ms(after-before) / n, err
}

// spent is the processor time of this process and of the children that it has waited for.
func spent() (all time.Duration, err error) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		err = errors.Join(err, syscall.Getrusage(who, &u))
		all += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return all, err
}

func timeFsync(path string) (float64, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	page := make([]byte, 4096)
	return median(100, func() error {
		page[0]++
		if _, err := f.WriteAt(page, 0); err != nil {
			return err
		}
		return f.Sync()
	})
}

func timeKeys() (float64, error) {
	public, secret, err := ed25519.GenerateKey(nil)
	if err != nil {
		return 0, err
	}
	message := make([]byte, 1024)
	return median(300, func() error {
		if !ed25519.Verify(public, message, ed25519.Sign(secret, message)) {
			return fmt.Errorf("a fresh signature does not hold")
		}
		return nil
	})
}

// timeDial does full handshakes with a certificate at each end, over a pipe. The
// two ends take turns, so the time that passes is that of the processor.
func timeDial() (float64, error) {
	config, err := calibrationTLS()
	if err != nil {
		return 0, err
	}
	return median(50, func() error {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		var g errgroup.Group
		g.Go(tls.Server(far, config).Handshake)
		g.Go(tls.Client(near, config).Handshake)
		return g.Wait()
	})
}

// calibrationTLS is for both ends of a connection.
func calibrationTLS() (*tls.Config, error) {
	ca, err := certs.NewAuthority("bench")
	if err != nil {
		return nil, err
	}
	pair, err := calibrationPair(ca)
	if err != nil {
		return nil, err
	}
	root, err := x509.ParseCertificate(ca.Certificate())
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519}, Certificates: []tls.Certificate{*pair},
		ServerName: "127.0.0.1", RootCAs: roots, ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
	}, nil
}

// calibrationPair is a certificate for 127.0.0.1 with its key.
func calibrationPair(ca *certs.Authority) (*tls.Certificate, error) {
	key, err := certs.NewTLSKey()
	if err != nil {
		return nil, err
	}
	request, err := key.Request()
	if err != nil {
		return nil, err
	}
	der, err := ca.Issue(request, certs.Leaf{
		Name: san.Name{Kind: san.Coordinator}, Server: true, Addresses: []string{"127.0.0.1"}, Now: time.Now(),
	})
	if err != nil {
		return nil, err
	}
	return key.Certificate(der)
}

// median calls do n times and returns the median of its times in milliseconds.
func median(n int, do func() error) (float64, error) {
	values, err := times(n, do)
	if err != nil {
		return 0, err
	}
	return percentile(values, 50), nil
}

// times calls do n times, one after another, and returns how long each took in
// milliseconds.
func times(n int, do func() error) ([]float64, error) {
	values := make([]float64, n)
	for i := range values {
		begin := time.Now()
		if err := do(); err != nil {
			return nil, err
		}
		values[i] = ms(time.Since(begin))
	}
	return values, nil
}

// percentile returns the smallest of the values that is not below p percent of
// them.
func percentile(values []float64, p int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)*p+99)/100-1]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
