// Package bare does the work of an order and nothing else, to compare Hostler with.
package bare

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/internal/sqldb"
)

//go:embed 0001_row.sql
var schema embed.FS

// messageSize is that of an order and of a report with their envelopes, about.
const messageSize = 1 << 10

// Way does the work of an order and nothing else: it is asked for over HTTPS, written
// down, signed and sent over TLS, checked and written down there, perhaps carried out
// by the smallest honest supervisor, and its end goes the same way back. All of it is in
// this process, but for the supervisor. It judges nothing, keeps no history and
// recovers from nothing.
type Way struct {
	dir, supervisor string
	public          ed25519.PublicKey
	secret          ed25519.PrivateKey
	ours, theirs    *sqldb.DB
	server          *http.Server
	client          *http.Client
	url             string
	up, down        *tls.Conn // the coordinator's end and the host's
	served          sync.WaitGroup
	next            atomic.Uint64

	mu      sync.Mutex // also of writes to up
	pending map[uint64]chan error
	back    sync.Mutex // of writes to down
}

// New opens a way whose two sides speak TLS with a configuration that holds for both. The
// supervisor is barerun of a directory.
func New(ctx context.Context, bin string, config *tls.Config) (_ *Way, err error) {
	b := &Way{supervisor: filepath.Join(bin, "barerun"), pending: make(map[uint64]chan error)}
	if b.dir, err = os.MkdirTemp("/tmp", "hb-bare-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.public, b.secret, err = ed25519.GenerateKey(nil); err != nil {
		return nil, err
	}
	for _, db := range []struct {
		name string
		to   **sqldb.DB
	}{{"ours.db", &b.ours}, {"theirs.db", &b.theirs}} {
		cfg := sqldb.Config{Path: filepath.Join(b.dir, db.name), ApplicationID: 1, Migrations: schema}
		if *db.to, err = sqldb.Create(ctx, cfg); err != nil {
			return nil, err
		}
	}
	if err := b.connect(config); err != nil {
		return nil, err
	}
	return b, b.listen(config)
}

// connect makes the connection between the two sides.
func (b *Way) connect(config *tls.Config) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	far, err := l.Accept()
	if err != nil {
		return errors.Join(err, near.Close())
	}
	b.up, b.down = tls.Client(near, config), tls.Server(far, config)
	b.served.Go(func() { b.receive(b.up, b.ended) })
	b.served.Go(func() { b.receive(b.down, b.carryOut) })
	return nil
}

// listen begins to serve requests.
func (b *Way) listen(config *tls.Config) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	both := config.Clone()
	both.ClientAuth = tls.NoClientCert
	b.server = &http.Server{Handler: http.HandlerFunc(b.order), TLSConfig: both, ReadHeaderTimeout: time.Minute}
	b.served.Go(func() { _ = b.server.ServeTLS(l, "", "") })
	b.client = &http.Client{Transport: &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: 100}}
	b.url = "https://" + l.Addr().String()
	return nil
}

// Close ends it and removes its files.
func (b *Way) Close() error {
	var errs []error
	if b.server != nil {
		b.client.CloseIdleConnections()
		errs = append(errs, b.server.Close())
	}
	if b.up != nil {
		errs = append(errs, b.up.NetConn().Close(), b.down.NetConn().Close())
	}
	b.served.Wait()
	for _, db := range []*sqldb.DB{b.ours, b.theirs} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

// order takes a request, and answers when its end is durable here.
func (b *Way) order(w http.ResponseWriter, r *http.Request) {
	message := make([]byte, messageSize)
	if _, err := io.ReadFull(r.Body, message[:1]); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	n := b.next.Add(1)
	binary.BigEndian.PutUint64(message[1:], n)
	done := make(chan error, 1)
	b.mu.Lock()
	b.pending[n] = done
	b.mu.Unlock()
	err := b.keep(b.ours, message)
	if err == nil {
		err = b.send(b.up, &b.mu, message)
	}
	if err == nil {
		err = <-done
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// keep makes a message durable; those of many share a commit.
func (b *Way) keep(db *sqldb.DB, message []byte) error {
	return db.Update(context.Background(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec("INSERT INTO row (message) VALUES ($1)", message)
		return err
	})
}

func (b *Way) send(to *tls.Conn, mu *sync.Mutex, message []byte) error {
	signed := append(ed25519.Sign(b.secret, message), message...)
	mu.Lock()
	defer mu.Unlock()
	_, err := to.Write(signed)
	return err
}

// receive has each message taken that is signed, until the connection ends.
func (b *Way) receive(from *tls.Conn, take func([]byte)) {
	r := bufio.NewReader(from)
	for {
		signed := make([]byte, ed25519.SignatureSize+messageSize)
		if _, err := io.ReadFull(r, signed); err != nil {
			return
		}
		message := signed[ed25519.SignatureSize:]
		if ed25519.Verify(b.public, message, signed[:ed25519.SignatureSize]) {
			b.served.Go(func() { take(message) })
		}
	}
}

// carryOut is the host's side of an order.
func (b *Way) carryOut(message []byte) {
	err := b.keep(b.theirs, message)
	if err == nil && message[0] == 'x' {
		n := binary.BigEndian.Uint64(message[1:])
		if err = b.run(context.Background(), n); err == nil {
			err = b.keep(b.theirs, message)
		}
	}
	if err != nil {
		message[9] = 'f'
	}
	_ = b.send(b.down, &b.back, message)
}

// run runs /bin/true under the smallest honest supervisor.
func (b *Way) run(ctx context.Context, n uint64) error {
	return exec.CommandContext(ctx, b.supervisor, filepath.Join(b.dir, strconv.FormatUint(n, 10)), "/bin/true").Run()
}

// ended takes the end of an order.
func (b *Way) ended(message []byte) {
	err := b.keep(b.ours, message)
	if err == nil && message[9] == 'f' {
		err = errors.New("it was not carried out")
	}
	n := binary.BigEndian.Uint64(message[1:])
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending[n] <- err
	delete(b.pending, n)
}

// ask asks for one order: "x" is a command, "n" is nothing to do.
func (b *Way) ask(ctx context.Context, what string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, bytes.NewReader([]byte(what)))
	if err != nil {
		return err
	}
	resp, err := b.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the floor answered %s: %s", resp.Status, text)
	}
	return err
}

// rate is how many a second there are of what do does, so many at a time.
func rate(ctx context.Context, n, atOnce int, do func(context.Context) error) (float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var begun atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for range atOnce {
		all.Go(func() {
			for begun.Add(1) <= int64(n) {
				if err := do(ctx); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	all.Wait()
	return float64(n) / time.Since(begin).Seconds(), context.Cause(ctx)
}

// Command has one order run a command, and waits for its end.
func (b *Way) Command(ctx context.Context) error { return b.ask(ctx, "x") }

// Supervised is how many supervised commands end in a second, ten at a time.
func (b *Way) Supervised(ctx context.Context) (float64, error) {
	return rate(ctx, 300, 10, func(ctx context.Context) error { return b.run(ctx, b.next.Add(1)) })
}

// Messages is how many orders a second go both ways, fifty at a time.
func (b *Way) Messages(ctx context.Context) (float64, error) {
	return rate(ctx, 3000, 50, func(ctx context.Context) error { return b.ask(ctx, "n") })
}
