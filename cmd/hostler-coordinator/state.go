package main

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
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
	"github.com/hostler-io/hostler/protocol/san"
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

// waiting is locked by a coordinator that waits for its fleet, until it serves.
func (s state) waiting() string { return s.path(".waiting-lock") }

// reserve is set aside for a start on a full disk.
func (s state) reserve() durable.Reserve { return durable.Reserve(s.output() + "-reserve") }

func (s state) sink() string { return s.path("sink") } // samples that wait for the database

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

// handingOver runs do, and gives what root has made meanwhile in a directory of
// another user to that user, who runs the service. The rings come last: they are what
// a coordinator without a fleet waits for.
func (s state) handingOver(do func() error) (err error) {
	defer func() {
		info, missing := os.Stat(string(s))
		if missing != nil || os.Geteuid() != 0 {
			return
		}
		owner := info.Sys().(*syscall.Stat_t)
		if owner.Uid == 0 {
			return
		}
		give := func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, int(owner.Uid), int(owner.Gid))
		}
		rings := s.path("rings")
		err = errors.Join(err, filepath.WalkDir(string(s), func(path string, e fs.DirEntry, err error) error {
			if path == rings {
				return fs.SkipDir
			}
			return give(path, e, err)
		}))
		if _, missing := os.Stat(rings); missing == nil {
			err = errors.Join(err, filepath.WalkDir(rings, give))
		}
	}()
	return do()
}

// lock keeps another command of one kind out.
func (s state) lock(what string) (*durable.Lock, error) {
	l, err := durable.TryLock(s.path("." + what + "-lock"))
	if errors.Is(err, durable.ErrLocked) {
		err = fmt.Errorf("another %s of %s is running: %w", what, s, err)
	}
	return l, err
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
	der, err := ca.Issue(request, certs.Leaf{Name: san.Name{Kind: san.Coordinator}, Server: true, Addresses: names, Now: now})
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

// recoveryMark is the file that says that a state directory must not be used as it
// is, and how far it is on the way to be. Where there is none, it may be.
type recoveryMark struct {
	Stage    stage          `json:"stage"`
	BackupMS int64          `json:"backup_ms,omitzero"` // when the backup was made
	Former   protocol.KeyID `json:"former"`             // the coordinator's key until now
	// NewFleet is the code of the fleet that a copy becomes part of; empty if it
	// stays in its own, and FormerFleet is the one that it is of.
	NewFleet    string `json:"new_fleet,omitzero"`
	FormerFleet string `json:"former_fleet,omitzero"`
}

// stage is where a state directory stands.
type stage string

// The stages. A recovery ends with the removal of the file.
const (
	restoring  stage = "restoring"  // its files are being written
	restored   stage = "restored"   // it is what a backup holds
	recovering stage = "recovering" // it has a new key, which waits for its ring
)

// errNotUsable tells that a state directory waits for a step of a person.
var errNotUsable = errors.New("this state directory cannot be used yet")

func (s state) recovery() (r recoveryMark, ok bool, err error) {
	b, err := durable.ReadFile(s.marker(), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err == nil {
		err = protocol.DecodeJSON(b, &r, false)
	}
	if err == nil && r.Stage != restoring && r.Stage != restored && r.Stage != recovering {
		err = fmt.Errorf("unknown stage %.40q", r.Stage)
	}
	if err != nil {
		return r, false, fmt.Errorf("%s: %w", s.marker(), err)
	}
	return r, true, nil
}

func (s state) putRecovery(r recoveryMark) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return durable.WriteFile(s.marker(), append(b, '\n'), 0o600, maxFile)
}

// usable refuses a directory that waits for something, and says for what.
func (s state) usable() error {
	r, waits, err := s.recovery()
	switch {
	case err != nil:
		return err
	case !waits:
		return nil
	case r.Stage == restoring:
		return fmt.Errorf("%w: %s: a restore was interrupted\nRun it again: hostler-coordinator restore FILE", errNotUsable, s)
	case r.Stage == restored:
		return fmt.Errorf("%w: %s was restored from a backup of %s, and hosts may have seen more since\nRun: hostler-coordinator recover", errNotUsable, s, date(r.BackupMS))
	}
	return fmt.Errorf("%w: %s waits for the ring that names its new key\nRun hostler-coordinator recover, which says how to get it, then hostler-coordinator recover --ring FILE", errNotUsable, s)
}

func date(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
