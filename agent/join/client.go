package join

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol/enrol"
	"github.com/hostler-io/hostler/protocol/san"
)

// The ends of an exchange that no waiting can mend.
var (
	// ErrStranger: the server that answers is not a coordinator of the fleet that the
	// join code names. Someone may be intercepting the connection.
	ErrStranger = errors.New("the answering server is not of the fleet that the join code names")
	// ErrRefused: the coordinator does not take the offer. An [api.Problem] in
	// the same error says why.
	ErrRefused = errors.New("the coordinator refused")
	// ErrDenied: an operator has said no.
	ErrDenied = errors.New("the host was denied")
	// ErrRevoked: the host was a member and is none any more.
	ErrRevoked = errors.New("the host was revoked")
)

// The reasons to try again.
var (
	errLater = errors.New("no answer of the coordinator yet")
	errAgain = errors.New("the exchange has to begin again")
)

// Config is what a Client is made from.
type Config struct {
	// Identity is the host's key. Required.
	Identity *certs.Identity
	// TLS is the key of the host's TLS certificate. Required.
	TLS *certs.TLSKey
	// Describe tells about the host; type, id, keys and labels are filled in.
	// Required by Run.
	Describe func(context.Context) (enrol.Offer, error)
	// Keep makes a record durable before it returns. Required by Run.
	Keep func(Record) error
	// Waiting is called when the coordinator has the offer and an operator is to
	// decide, and once more by each Run that goes on waiting. Optional.
	Waiting func(Record)
	// Dial opens a TCP connection. Default: a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Timeout bounds each request, connecting included. Default 30 s: 64 KiB at
	// 19.2 kbit/s.
	Timeout time.Duration
	// Rand is the source of nonces. Default crypto/rand.
	Rand io.Reader
	// Log hears of what is tried again. Default: none.
	Log *slog.Logger
}

// Client is a host that speaks to the coordinator's enrolment. It is safe for
// concurrent use.
type Client struct{ cfg Config }

// New checks the configuration.
func New(cfg Config) (*Client, error) {
	if cfg.Identity == nil || cfg.TLS == nil {
		return nil, errors.New("join: Identity or TLS is missing")
	}
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Reader
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, 30*time.Second)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Client{cfg}, nil
}

// Rings fetches rings from a number on, as many as the coordinator serves at
// once and none if it has none, from whichever of its addresses answers. They
// are not verified: rings prove themselves, and who missed the one that names a
// new authority could not verify its server.
func (c *Client) Rings(ctx context.Context, addresses []string, from uint64) ([]byte, error) {
	var problems []error
	for _, a := range addresses {
		b, err := c.rings(ctx, a, from)
		if err == nil {
			return b, nil
		}
		problems = append(problems, err)
	}
	return nil, errors.Join(problems...)
}

func (c *Client) rings(ctx context.Context, address string, from uint64) ([]byte, error) {
	w := c.wire(address, certs.StrangerTLS())
	defer w.close()
	b, err := w.do(ctx, http.MethodGet, "rings?from="+strconv.FormatUint(from, 10), nil)
	if err != nil && !errors.Is(err, errLater) {
		// It is not yet known which server that is, so its no decides nothing.
		return nil, fmt.Errorf("%w: %v", errLater, err)
	}
	return b, err
}

// coordinator is a server that has to be a coordinator of the chain.
func (c *Client) coordinator(address string, chain *certs.Chain) *wire {
	return c.wire(address, certs.ClientTLS{
		Roots: func() *x509.CertPool { return chain.Roots() }, Servers: []san.Kind{san.Coordinator},
	}.Config())
}

// wire speaks to one server.
type wire struct {
	address string
	timeout time.Duration
	http    *http.Client
}

func (c *Client) wire(address string, t *tls.Config) *wire {
	return &wire{address, c.cfg.Timeout, &http.Client{
		Transport:     &http.Transport{DialContext: c.cfg.Dial, TLSClientConfig: t},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (w *wire) close() { w.http.CloseIdleConnections() }

// ask sends a question and reads the answer.
func (w *wire) ask(ctx context.Context, name string, question, answer any) error {
	b, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	if b, err = w.do(ctx, http.MethodPost, name, b); err != nil {
		return err
	}
	if err := enrol.Decode(b, answer); err != nil {
		return fmt.Errorf("%w: the answer of %s to %s: %w", errLater, w.address, name, err)
	}
	return nil
}

// do makes one request. A stranger is [ErrStranger]; otherwise the error tells
// by errLater, errAgain or [ErrRefused] what to do next.
func (w *wire) do(ctx context.Context, method, name string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "https://"+w.address+enrol.Path+name, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", w.address, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := w.http.Do(req)
	if err != nil {
		kind := errLater
		if errors.Is(err, certs.ErrPeer) {
			kind = ErrStranger
		}
		return nil, fmt.Errorf("%w: %w", kind, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, enrol.MaxBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: the answer of %s broke off: %w", errLater, w.address, err)
	case len(b) > enrol.MaxBody:
		return nil, fmt.Errorf("%w: the answer of %s is larger than %d bytes", errLater, w.address, enrol.MaxBody)
	case resp.StatusCode/100 != 2:
		return nil, fmt.Errorf("%s: %w", w.address, problem(resp.StatusCode, b))
	}
	return b, nil
}

// maxDetail bounds what is shown of a server's words, in bytes.
const maxDetail = 500

// problem reads an answer that is no success. Who is of the fleet says why in
// an [api.Problem]; anything else comes from something that stands in the way
// and may go away.
func problem(status int, body []byte) error {
	p := new(api.Problem)
	if json.Unmarshal(body, p) != nil || p.Code == "" {
		return fmt.Errorf("%w: status %d, which is no answer of a coordinator", errLater, status)
	}
	p.Detail = p.Detail[:min(len(p.Detail), maxDetail)]
	switch p.Code {
	case api.CodeNotFound, api.CodeGone:
		return fmt.Errorf("%w: %w", errAgain, p)
	case api.CodeInvalid, api.CodeDenied, api.CodeConflict, api.CodeExists, api.CodeTooLarge:
		return fmt.Errorf("%w: %w", ErrRefused, p)
	}
	return fmt.Errorf("%w: %w", errLater, p)
}
