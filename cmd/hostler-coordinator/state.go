package main

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// state is the coordinator's directory.
type state string

func (s state) path(name string) string { return filepath.Join(string(s), name) }

func (s state) identity() string  { return s.path("identity.pgp") } // our OpenPGP key
func (s state) authority() string { return s.path("ca.pem") }       // key and certificate of the fleet's authority
func (s state) caFile() string    { return s.path("ca.crt") }       // its certificate alone, for other people's tools
func (s state) tlsKey() string    { return s.path("tls.key") }
func (s state) tlsCert() string   { return s.path("tls.crt") }
func (s state) tickets() string   { return s.path("tickets.key") }
func (s state) shown() string     { return s.path("token.shown") } // init has printed the first token
func (s state) fleet() string     { return s.path("fleet.code") }  // the ring from which everything follows
func (s state) ring(number uint64) string {
	return filepath.Join(s.path("rings"), strconv.FormatUint(number, 10))
}
func (s state) store() string  { return s.path("store.db") }
func (s state) output() string { return s.path("output") }

// payloads is where what commands read waits for its hosts.
func (s state) payloads() string      { return s.path("payloads") }
func (s state) marker() string        { return s.path("recover.json") }   // see recoveryMark
func (s state) nextIdentity() string  { return s.path("recover.pgp") }    // our key after a recovery
func (s state) nextAuthority() string { return s.path("recover-ca.pem") } // and the authority, of another fleet
func (s state) report() string        { return s.path("recovery-report.txt") }

// missing tells that no coordinator was made in the directory.
func (s state) missing() error {
	return fmt.Errorf("%s holds no coordinator\nName another directory with --config FILE or HOSTLER_STATE_DIR", s)
}

// lock keeps another command of one kind out.
func (s state) lock(what string) (io.Closer, error) {
	f, err := os.OpenFile(s.path("."+what+"-lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another %s of %s is running: %w", what, s, err), f.Close())
	}
	return f, nil
}

// maxFile bounds what is read of the state directory's small files, in bytes.
const maxFile = 16 << 20

// code reads the fleet code that init was given.
func (s state) code() (enrol.FleetCode, error) {
	b, err := durable.ReadFile(s.fleet(), maxFile)
	if err != nil {
		return enrol.FleetCode{}, err
	}
	return enrol.ParseFleetCode(string(b))
}

// chain opens the rings that the coordinator was given, one file each: a chain
// may grow longer than what travels at once.
func (s state) chain() (*certs.Chain, error) {
	code, err := s.code()
	if err != nil {
		return nil, err
	}
	chain, err := openRings(code, func(number uint64) ([]byte, error) { return durable.ReadFile(s.ring(number), maxFile) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", s.path("rings"), err)
	}
	return chain, err
}

// openRings opens the rings from that of a code on, as many as there are.
func openRings(code enrol.FleetCode, read func(number uint64) ([]byte, error)) (*certs.Chain, error) {
	var parts [][]byte
	for number := code.Pin.Ring; ; number++ {
		b, err := read(number)
		if errors.Is(err, fs.ErrNotExist) && len(parts) > 0 {
			return certs.OpenChain(code.Pin, parts...)
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, b)
	}
}

// chainOf opens rings that are files of a backup.
func chainOf(code string, files map[string][]byte) (*certs.Chain, error) {
	fleet, err := enrol.ParseFleetCode(code)
	if err != nil {
		return nil, err
	}
	return openRings(fleet, func(number uint64) ([]byte, error) {
		b, ok := files["rings/"+strconv.FormatUint(number, 10)]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return b, nil
	})
}

// keep makes the rings of a chain durable, in order: after a crash the chain
// ends earlier, and the same rings can be given again.
func (s state) keep(chain *certs.Chain) error {
	code, err := s.code()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.path("rings"), 0o700); err != nil {
		return err
	}
	for i, ring := range chain.Rings() {
		failpoint.Before(failpoint.RingsKept)
		if err := durable.WriteFile(s.ring(code.Pin.Ring+uint64(i)), ring, 0o600, maxFile); err != nil {
			return err
		}
		failpoint.After(failpoint.RingsKept)
	}
	return nil
}

// certificate returns the coordinator's TLS certificate. It is made anew when
// it ages or is not valid yet, when the addresses change, or when it is not of
// this authority and this key.
func (s state) certificate(ca *certs.Authority, addresses []string, now time.Time) (*certs.TLSKey, []byte, error) {
	key, err := durable.LoadOr(certs.LoadTLSKey, s.tlsKey(), func() (*certs.TLSKey, error) { return certs.CreateTLSKey(s.tlsKey()) })
	if err != nil {
		return nil, nil, err
	}
	names := hostNames(addresses)
	if der, ok := s.current(ca, key, names, now); ok {
		return key, der, nil
	}
	request, err := key.Request()
	if err != nil {
		return nil, nil, err
	}
	der, err := ca.Issue(request, certs.Leaf{Name: protocol.SAN{Kind: protocol.SANCoordinator}, Server: true, Addresses: names, Now: now})
	if err != nil {
		return nil, nil, err
	}
	// The leaf comes last: while it is not there, both are made.
	for _, f := range []struct {
		path string
		der  []byte
	}{{s.caFile(), ca.Certificate()}, {s.tlsCert(), der}} {
		if err := durable.WriteFile(f.path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.der}), 0o644, maxFile); err != nil {
			return nil, nil, err
		}
	}
	return key, der, nil
}

// current returns the certificate that is there, if it still serves.
func (s state) current(ca *certs.Authority, key *certs.TLSKey, names []string, now time.Time) ([]byte, bool) {
	b, err := durable.ReadFile(s.tlsCert(), maxFile)
	if err != nil {
		return nil, false
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, false
	}
	cert, err := key.Certificate(block.Bytes)
	if err != nil {
		return nil, false
	}
	leaf := cert.Leaf
	root, err := x509.ParseCertificate(ca.Certificate())
	if err != nil || leaf.CheckSignatureFrom(root) != nil || now.Before(leaf.NotBefore) || now.After(certs.RenewAt(leaf)) {
		return nil, false
	}
	have := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		have = append(have, ip.String())
	}
	for _, n := range names {
		if !slices.Contains(have, n) {
			return nil, false
		}
	}
	return block.Bytes, true
}

// hostNames returns the host parts of addresses, each once, and the names by
// which a machine knows itself.
func hostNames(addresses []string) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	for _, a := range addresses {
		if h, _, err := net.SplitHostPort(a); err == nil && !slices.Contains(names, h) {
			names = append(names, h)
		}
	}
	return names
}
