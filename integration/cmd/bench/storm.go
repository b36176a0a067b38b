package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/sqlstore"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
	"github.com/hostler-io/hostler/protocol/san"
	"github.com/hostler-io/hostler/unique"
)

// stormHosts is how many agents come back at once, as after an outage of the
// coordinator's network.
const stormHosts = 2000

// storm measures how long a coordinator takes until each of its hosts has its
// answer.
func (b *bench) storm(ctx context.Context) error {
	return b.stormOf(ctx, stormHosts, func(_ *fleet, s *swarmProcess) error {
		want := row{name: "storm2k_s", unit: "s", target: 3, floor: func(f floors) float64 { return f.storm(stormHosts) }}
		return b.best(ctx, []row{want}, func() ([]float64, error) {
			seconds, err := s.say("connect 0s")
			if err != nil {
				return nil, err
			}
			return []float64{seconds}, pause(ctx, settle) // the coordinator notes that they have gone
		})
	})
}

// stormOf has something measured on a coordinator of its own, the built program, whose n
// hosts are simulated by one other process, with certificates and signed hellos of their
// own: they are ready to connect.
func (b *bench) stormOf(ctx context.Context, n int, do func(*fleet, *swarmProcess) error) (err error) {
	f, err := newFleet(b.fleet.bin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close(context.WithoutCancel(ctx))) }()
	if err := f.configure(); err != nil {
		return err
	}
	if err := f.initCoordinator(ctx); err != nil {
		return err
	}
	if err := f.populate(ctx, n, ""); err != nil {
		return fmt.Errorf("making %d hosts: %w", n, err)
	}
	if err := f.startCoordinator(ctx); err != nil {
		return err
	}
	s, err := f.startSwarm(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(f, s), s.close())
}

// populate makes hosts known to a coordinator that does not run, as if each had
// been approved, and writes down what a swarm needs to be them; their keys too, into
// a directory, if it is named.
func (f *fleet) populate(ctx context.Context, n int, keys string) error {
	code, err := enrol.ParseFleetCode(f.code)
	if err != nil {
		return err
	}
	ca, err := certs.LoadAuthority(f.path("coordinator/ca.pem"))
	if err != nil {
		return err
	}
	s := swarm{Address: f.mqtt, Root: ca.Certificate(), Hosts: make([]swarmHost, n)}
	known, held := make([]core.Host, n), make([]core.Workload, n)
	if keys != "" {
		if err := os.Mkdir(keys, 0o700); err != nil {
			return err
		}
	}
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	for i := range n {
		g.Go(func() (err error) {
			known[i], s.Hosts[i], err = newSwarmHost(protocol.HostID(fmt.Sprintf("edge-%04d", i)), code, ca, keys)
			if f.unique {
				held[i] = uniqueOn(known[i].ID, i)
				s.Hosts[i].Held = []protocol.LeaseHeld{{CTID: held[i].CTID, Epoch: held[i].Epoch, Running: true}}
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	store, err := sqlstore.Open(ctx, sqlstore.Config{Path: f.path("coordinator/store.db")})
	if err != nil {
		return err
	}
	err = store.Update(ctx, func(tx core.Tx) error {
		for i, h := range known {
			err := tx.Hosts.Put(h)
			if f.unique {
				err = errors.Join(err, tx.Workloads.Put(held[i]))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, store.Close()); err != nil {
		return err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(f.path("swarm.json"), b, 0o600)
}

// uniqueOn is the unique workload of number i, which a host holds.
func uniqueOn(host protocol.HostID, i int) core.Workload {
	w := unique.Workload{
		Name: protocol.ContainerName(fmt.Sprintf("u%d", i)), Host: host, Phase: unique.Held, Data: unique.DataNone,
		Epoch: protocol.Epoch{Term: protocol.Term{Ring: 1, Counter: 1}, Counter: 1},
	}
	w.CTID = protocol.CTID{6: 0x70, 8: 0x80} // the form of an id
	binary.BigEndian.PutUint32(w.CTID[12:], uint32(i))
	return core.Workload{Workload: w}
}

// newSwarmHost makes one host: its keys, its certificate, and what it says when
// it connects for the first time, the second time and so on.
func newSwarmHost(id protocol.HostID, code enrol.FleetCode, ca *certs.Authority, keys string) (core.Host, swarmHost, error) {
	var none core.Host
	now := time.Now()
	h := swarmHost{ID: string(id), Fleet: code.Name}
	var key *certs.Identity
	var err error
	if name := "hostler host " + string(id); keys == "" {
		key, err = certs.Generate(name, now)
	} else {
		h.Identity = filepath.Join(keys, string(id))
		key, err = certs.CreateIdentity(h.Identity, name)
	}
	if err != nil {
		return none, swarmHost{}, err
	}
	tlsKey, err := certs.NewTLSKey()
	if err != nil {
		return none, swarmHost{}, err
	}
	request, err := tlsKey.Request()
	if err != nil {
		return none, swarmHost{}, err
	}
	h.Topic, h.Receipts = protocol.HostTopic(code.Name, id, protocol.ChannelPresence).String(), protocol.HostFilter(code.Name, id, protocol.ChannelReceipt)
	h.Filters = []string{protocol.FleetFilter(code.Name)}
	for _, c := range []protocol.Channel{protocol.ChannelOrder, protocol.ChannelControl, protocol.ChannelGrant, protocol.ChannelReceipt} {
		h.Filters = append(h.Filters, protocol.HostFilter(code.Name, id, c))
	}
	if h.Certificate, err = ca.Issue(request, certs.Leaf{Name: san.Name{Kind: san.Host, ID: string(id)}, Now: now}); err != nil {
		return none, swarmHost{}, err
	}
	if h.Key, err = tlsKey.PEM(); err != nil {
		return none, swarmHost{}, err
	}
	if err := h.write(key, id, code); err != nil {
		return none, swarmHost{}, err
	}
	return core.Host{
		ID: id, State: core.HostApproved, Key: key.Key(), PublicKey: key.Public(), ApprovedMS: now.UnixMilli(), ApprovedBy: "bench",
	}, h, nil
}

// write signs the host's words, one will and one hello for each connection.
func (h *swarmHost) write(key *certs.Identity, id protocol.HostID, code enrol.FleetCode) error {
	for _, b := range [][]byte{h.Inst[:], h.Store[:]} {
		if _, err := rand.Read(b); err != nil {
			return err
		}
	}
	for conn := range uint64(rounds) {
		header := protocol.Header{Type: protocol.TypePresence, Fleet: code.Fleet, From: protocol.HostParty(id), To: protocol.Coordinator,
			Ring: 1, Seq: protocol.Seq{Inc: 1, Conn: conn + 1, K: protocol.KWill}}
		will, err := sealJSON(key, protocol.Presence{Header: header, Kind: protocol.PresenceWill})
		if err != nil {
			return err
		}
		header.Seq.K = 1
		hello, err := sealJSON(key, protocol.Presence{Header: header, Kind: protocol.PresenceHello, Hello: &protocol.Hello{
			Proto: protocol.Proto, Inst: h.Inst, Boot: "bench", Store: h.Store, SelfFence: "none",
		}})
		if err != nil {
			return err
		}
		h.Wills, h.Hellos = append(h.Wills, will), append(h.Hellos, hello)
	}
	return nil
}

func sealJSON(key *certs.Identity, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return protocol.Seal(key, body, nil)
}

// swarmProcess is the process that simulates the hosts: this program once more.
type swarmProcess struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
}

func (f *fleet) startSwarm(ctx context.Context) (*swarmProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-swarm", f.path("swarm.json"))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &swarmProcess{cmd, stdin, bufio.NewReader(stdout)}
	if _, err := s.lines.ReadString('\n'); err != nil { // it is ready
		return nil, errors.Join(fmt.Errorf("starting the swarm: %w", err), s.close())
	}
	return s, nil
}

// say has the swarm do something and returns its answer.
func (s *swarmProcess) say(what string) (float64, error) {
	if _, err := io.WriteString(s.stdin, what+"\n"); err != nil {
		return 0, err
	}
	line, err := s.lines.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("the swarm failed: %w", err)
	}
	return strconv.ParseFloat(strings.TrimSpace(line), 64)
}

func (s *swarmProcess) close() error { return errors.Join(s.stdin.Close(), s.cmd.Wait()) }
