package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/protocol"
)

// swarm is what a process needs to be a number of hosts.
type swarm struct {
	Address string // of the broker
	Root    []byte // the fleet's authority, DER
	Hosts   []swarmHost

	workers []*worker
	running *sync.WaitGroup // of them; nil: none work yet
}

// swarmHost is one of them. What it says was signed before, so that the swarm
// takes no more of the machine than the hosts would.
type swarmHost struct {
	ID               string
	Certificate, Key []byte // DER, PEM
	Topic, Receipts  string // of its presence, of its answers
	Filters          []string
	Wills, Hellos    [][]byte // one for each connection
	// What a worker needs beside that: the file of its key, and what its hellos name.
	Identity string
	Fleet    protocol.FleetName
	Store    protocol.StoreID
	Inst     protocol.Nonce
	// Held is the unique work that it runs.
	Held []protocol.LeaseHeld

	pair tls.Certificate
}

// swarmPatience is how long one round may take, and comeAgain after how long, about, a host
// connects again whose connection was closed.
const (
	swarmPatience = time.Minute
	comeAgain     = time.Second
)

// serveSwarm does with the hosts of a file what each line says that comes in, and answers
// with the seconds that it took: "connect WINDOW" has all connect anew, each at its moment
// of that time, "work" has them stay, "beat N" has those send N heartbeats each, "live
// TIME" has them live so long as hosts do, and "rest TIME" has them send leases alone. "at
// ADDRESS" has those leave, and names the broker of what follows.
func serveSwarm(ctx context.Context, path string, stdin io.Reader, stdout io.Writer) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s swarm
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	for i := range s.Hosts {
		h := &s.Hosts[i]
		block, _ := pem.Decode(h.Key)
		if block == nil {
			return fmt.Errorf("the key of %s is no PEM", h.ID)
		}
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return err
		}
		h.pair = tls.Certificate{Certificate: [][]byte{h.Certificate}, PrivateKey: key}
	}
	fmt.Fprintln(stdout, "ready")
	lines := bufio.NewScanner(stdin)
	defer s.dismiss()
	rounds := 0 // of those in which all hosts connect anew
	for lines.Scan() {
		var took time.Duration
		var err error
		switch verb, given, _ := strings.Cut(lines.Text(), " "); verb {
		case "work":
			err = s.work(ctx)
		case "at":
			s.dismiss()
			s.Address = given
		case "beat":
			n, _ := strconv.Atoi(given) // of this program
			took, err = s.beats(ctx, n)
		case "live":
			last, _ := time.ParseDuration(given) // likewise
			took, err = s.live(ctx, last)
		case "rest":
			last, _ := time.ParseDuration(given) // likewise
			took, err = s.rest(ctx, last)
		default:
			window, _ := time.ParseDuration(given) // likewise
			took, err = s.connect(ctx, rounds, window)
			rounds++
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, took.Seconds())
	}
	return lines.Err()
}

// connect has all hosts connect, spread evenly over a window, and waits for all their
// answers; then it ends the connections.
func (s *swarm) connect(ctx context.Context, round int, window time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, swarmPatience)
	defer cancel()
	roots := x509.NewCertPool()
	root, err := x509.ParseCertificate(s.Root)
	if err != nil {
		return 0, err
	}
	roots.AddCert(root)
	conns := make([]io.Closer, len(s.Hosts))
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	g, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	var again atomic.Int64
	for i := range s.Hosts {
		g.Go(func() error {
			if err := pause(ctx, window*time.Duration(i)/time.Duration(len(s.Hosts))); err != nil {
				return err
			}
			for {
				c, err := s.Hosts[i].connect(ctx, s.Address, roots, round)
				if err == nil {
					conns[i] = c
					return nil
				}
				// A coordinator that has too much to do closes connections; agents come again.
				if pause(ctx, comeAgain/2+rand.N(comeAgain)) != nil {
					return fmt.Errorf("host %s: %w", s.Hosts[i].ID, err)
				}
				again.Add(1)
			}
		})
	}
	err = g.Wait()
	if n := again.Load(); n > 0 {
		fmt.Fprintf(os.Stderr, "%d connections were closed before their answer, and made again\n", n)
	}
	return time.Since(begin), err
}

// connect does what an agent does: a full handshake, its will, its subscriptions,
// its hello; and it waits for the answer to that.
func (h *swarmHost) connect(ctx context.Context, address string, roots *x509.CertPool, round int) (io.Closer, error) {
	conn, err := h.dial(ctx, address, roots)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	if _, err := h.talk(conn, bufio.NewReaderSize(conn, 4096), round); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func (h *swarmHost) dial(ctx context.Context, address string, roots *x509.CertPool) (net.Conn, error) {
	dialer := tls.Dialer{Config: &tls.Config{
		MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519}, RootCAs: roots,
		ServerName: "127.0.0.1", Certificates: []tls.Certificate{h.pair},
	}}
	return dialer.DialContext(ctx, "tcp", address)
}

// The packets of MQTT 3.1.1 that are needed here.
const (
	mqttConnect   = 0x10
	mqttConnack   = 0x20
	mqttPublish   = 0x30
	mqttRetained  = 0x33 // a publish of QoS 1 that is retained
	mqttSubscribe = 0x82
	mqttSuback    = 0x90
	// A clean session, a will of QoS 1 that is retained, and the longest keep-alive: who has
	// connected first says nothing until the last of thousands has.
	mqttFlags, mqttKeepAlive = 0x02 | 0x04 | 0x08 | 0x20, 600
)

func (h *swarmHost) talk(conn io.Writer, r *bufio.Reader, round int) (receipt protocol.Receipt, err error) {
	hello := text(nil, "MQTT")
	hello = append(hello, 4, mqttFlags, mqttKeepAlive>>8, mqttKeepAlive&0xff)
	hello = text(text(text(hello, h.ID), h.Topic), string(h.Wills[round]))
	if err := ask(conn, r, mqttConnect, hello, mqttConnack); err != nil {
		return receipt, err
	}
	filters := []byte{0, 1} // the packet's number
	for _, f := range h.Filters {
		filters = append(text(filters, f), 0)
	}
	if err := ask(conn, r, mqttSubscribe, filters, mqttSuback); err != nil {
		return receipt, err
	}
	if err := send(conn, mqttRetained, append(append(text(nil, h.Topic), 0, 2), h.Hellos[round]...)); err != nil {
		return receipt, err
	}
	for {
		kind, body, err := receive(r)
		if err != nil {
			return receipt, err
		}
		payload, ok := cutTopic(kind, body, h.Receipts)
		if !ok {
			continue // what the fleet is told, and the acknowledgement of the hello
		}
		return answers(payload, uint64(round)+1)
	}
}

// cutTopic returns the payload of a packet that is a publish to a topic.
func cutTopic(kind byte, body []byte, topic string) ([]byte, bool) {
	payload, ok := bytes.CutPrefix(body, text(nil, topic))
	return payload, ok && kind&0xf0 == mqttPublish
}

// answers returns a receipt if it gives what a hello asks for.
func answers(payload []byte, conn uint64) (r protocol.Receipt, _ error) {
	e, err := protocol.Split(payload)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(e.Body, &r); err != nil {
		return r, err
	}
	if r.Give.IsZero() || r.Answers.Conn != conn {
		return r, fmt.Errorf("the receipt for connection %d answers %d, with the challenge %s", conn, r.Answers.Conn, r.Give)
	}
	return r, nil
}

// text appends a string as MQTT writes it.
func text(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func send(w io.Writer, kind byte, body []byte) error {
	packet := append(binary.AppendUvarint([]byte{kind}, uint64(len(body))), body...)
	_, err := w.Write(packet)
	return err
}

// ask sends a packet and expects one of another kind back, past what the broker
// says unasked.
func ask(w io.Writer, r *bufio.Reader, kind byte, body []byte, want byte) error {
	if err := send(w, kind, body); err != nil {
		return err
	}
	for {
		got, answer, err := receive(r)
		if err != nil {
			return err
		}
		if got&0xf0 == mqttPublish {
			continue
		}
		if got != want || want == mqttConnack && answer[1] != 0 {
			return fmt.Errorf("the broker answers %#x with %#x %x", kind, got, answer)
		}
		return nil
	}
}

func receive(r *bufio.Reader) (kind byte, body []byte, err error) {
	if kind, err = r.ReadByte(); err != nil {
		return 0, nil, err
	}
	size, err := binary.ReadUvarint(r)
	if err != nil {
		return 0, nil, err
	}
	if size > protocol.MaxDocument {
		return 0, nil, fmt.Errorf("a packet of %d bytes", size)
	}
	body = make([]byte, size)
	_, err = io.ReadFull(r, body)
	return kind, body, err
}
