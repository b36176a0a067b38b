// Package client speaks the HTTP API, to a coordinator over TLS or to the
// agent of this host over its unix socket. It is what the command line is
// built on.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/api"
)

// maxBody bounds every answer that is read whole, in bytes. Lists of ten
// thousand hosts fit.
const maxBody = 64 << 20

// maxTarget bounds the address of a request, in bytes. Agent and coordinator read 16 KiB of
// headers. They cut a connection with longer headers, and then they look unreachable.
const maxTarget = 12 << 10

// ErrUnreachable tells that no answer came: what was asked may or may not have
// been done.
var ErrUnreachable = errors.New("unreachable")

// Config says whom to speak to.
type Config struct {
	// Address is "https://host:port", or "unix:///path/of/agent.sock".
	Address string
	// Token authenticates over TLS. Empty for routes that need no token.
	Token string
	// CA is the certificate of the fleet's authority, DER. The server's
	// certificate must be signed by it; the system's authorities are not asked.
	CA []byte
	// Renew is asked when a server shows a certificate that CA has not signed. It
	// returns the authority that has taken the place of CA, DER, and is called by
	// several goroutines at once. Optional.
	Renew func(shown *x509.Certificate) ([]byte, error)
	// Timeout bounds requests that do not wait by themselves. Default 30 s.
	Timeout time.Duration
	// Patience is how long a coordinator is tried that refuses connections, as one
	// does that is being restarted: nothing was asked of it yet. Away, if set, is
	// called when it is away, and not again before it was reached. Default: not at all.
	Patience time.Duration
	Away     func(error)
	// Asked, if set, is called when an answer begins to be waited for that comes as soon
	// as it can; what it returns is called at its end. Optional.
	Asked func() (answered func())
}

// Client speaks to one coordinator or agent. It is safe for concurrent use.
type Client struct {
	base    string
	token   string
	timeout time.Duration
	asked   func() (answered func())
	http    *http.Client
	http1   *http.Client // for websockets
}

// New returns a client. It does not connect.
func New(cfg Config) (*Client, error) {
	c := &Client{token: cfg.Token, timeout: cfg.Timeout, asked: cfg.Asked, base: strings.TrimSuffix(cfg.Address, "/")}
	if c.timeout == 0 {
		c.timeout = 30 * time.Second
	}
	t := &http.Transport{
		ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
		// Frames of the default size are cut into two records each, and cost a
		// fifth of what the coordinator does for output.
		HTTP2: &http.HTTP2Config{MaxReadFrameSize: 256 << 10, SendPingTimeout: pingAfter, PingTimeout: pingTime},
	}
	// A path is taken as it is: in a URL a percent sign or a question mark means more.
	if path, ok := strings.CutPrefix(cfg.Address, "unix://"); ok {
		c.base = "http://agent"
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	} else {
		u, err := url.Parse(cfg.Address)
		if err != nil || u.Scheme != "https" {
			return nil, fmt.Errorf("address %q: use https://HOST:PORT or unix:///PATH", cfg.Address)
		}
		ca, err := x509.ParseCertificate(cfg.CA)
		if err != nil {
			return nil, fmt.Errorf("certificate of the fleet's authority: %w", err)
		}
		t.TLSClientConfig = fleetTLS(ca, u.Hostname(), cfg.Renew)
		t.DialContext = (&dialer{connect: new(net.Dialer).DialContext, patience: cfg.Patience, bound: c.timeout, away: cfg.Away}).dial
		t.TLSHandshakeTimeout = handshakeTime
	}
	// A request is bounded by its context: some wait for hours.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &http.Client{Transport: t, CheckRedirect: stay}
	one := t.Clone()
	one.ForceAttemptHTTP2, one.Protocols = false, new(http.Protocols)
	one.Protocols.SetHTTP1(true)
	if cfg.Patience > 0 {
		one.DialContext = new(net.Dialer).DialContext // a session has pauses of its own
	}
	c.http1 = &http.Client{Transport: one, CheckRedirect: stay}
	return c, nil
}

// fleetTLS wants a server whom the fleet's authority certified for the name. It
// judges no dates, as nobody does inside the fleet: the certificate is verified
// as of its own first day, so that neither our clock nor the coordinator's can
// lock an operator out.
func fleetTLS(ca *x509.Certificate, name string, renew func(*x509.Certificate) ([]byte, error)) *tls.Config {
	var current atomic.Pointer[x509.Certificate]
	current.Store(ca)
	verify := func(leaf, ca *x509.Certificate) error {
		roots := x509.NewCertPool()
		roots.AddCert(ca)
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: leaf.NotBefore})
		return err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// The usual check wants today's date; ours follows it in all else, and runs
		// for resumed sessions too.
		InsecureSkipVerify: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			leaf := cs.PeerCertificates[0] // a server shows one, or the handshake fails before
			err := verify(leaf, current.Load())
			if _, stranger := errors.AsType[x509.UnknownAuthorityError](err); stranger && renew != nil {
				var next *x509.Certificate
				der, e := renew(leaf)
				if e == nil {
					next, e = x509.ParseCertificate(der)
				}
				if e == nil {
					e = verify(leaf, next)
				}
				if err = e; err == nil {
					current.Store(next)
				}
			}
			if err != nil {
				return &tls.CertificateVerificationError{UnverifiedCertificates: cs.PeerCertificates, Err: err}
			}
			return nil
		},
	}
}

// Get reads a resource into v.
func (c *Client) Get(ctx context.Context, path string, query url.Values, v any) error {
	_, err := c.Page(ctx, path, query, v)
	return err
}

// Page is Get for a page of a list. next is the cursor of the page behind it; empty: there
// is none.
func (c *Client) Page(ctx context.Context, path string, query url.Values, v any) (next string, err error) {
	h, err := c.do(ctx, http.MethodGet, path, query, nil, v)
	return h.Get(api.NextCursor), err
}

// Post sends body (nil for none) and reads the answer into v (nil for none).
func (c *Client) Post(ctx context.Context, path string, query url.Values, body, v any) error {
	_, err := c.do(ctx, http.MethodPost, path, query, body, v)
	return err
}

// Put sends body as the resource, whatever it is now, and reads what it is then into v (nil
// for nothing).
func (c *Client) Put(ctx context.Context, path string, body, v any) error {
	_, err := c.do(ctx, http.MethodPut, path, nil, body, v)
	return err
}

// Delete removes a resource, whatever it is now.
func (c *Client) Delete(ctx context.Context, path string, v any) error {
	_, err := c.do(ctx, http.MethodDelete, path, nil, nil, v)
	return err
}

func (c *Client) do(ctx context.Context, method, path string, query url.Values, body, v any) (http.Header, error) {
	d := c.timeout
	if w, err := time.ParseDuration(query.Get("wait")); err == nil {
		d += w
	} else if c.asked != nil {
		defer c.asked()()
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var header http.Header
	if method == http.MethodPut || method == http.MethodDelete {
		header = http.Header{"If-Match": {"*"}} // who calls means the name, and names all that is to be
	}
	resp, err := c.request(ctx, method, path, query, body, header)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("%w: the answer of %s broke off: %w", ErrUnreachable, path, err)
	}
	if len(b) > maxBody {
		return nil, fmt.Errorf("the answer of %s is larger than %d bytes", path, maxBody)
	}
	if v == nil || len(b) == 0 {
		return resp.Header, nil
	}
	if raw, ok := v.(*[]byte); ok {
		*raw = b
		return resp.Header, nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("this program cannot read the answer of %s%s; look whether it is older than the coordinator: hostler version", path, member(err))
	}
	return resp.Header, nil
}

// member names the member of an answer that has another type here, as far as is known.
func member(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return ": " + wrong.Field + " has another type"
	}
	return ""
}

// request sends a request. An answer that is no success comes back as
// *api.Problem.
func (c *Client) request(ctx context.Context, method, path string, query url.Values, body any, header http.Header) (*http.Response, error) {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode: %w", err)
		}
		r = bytes.NewReader(b)
	}
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	if len(target) > maxTarget {
		return nil, &api.Problem{Code: api.CodeTooLarge, Status: http.StatusRequestURITooLong, Detail: fmt.Sprintf("the names and selectors of one request may have %d bytes together, and these have %d", maxTarget, len(target))}
	}
	req, err := http.NewRequestWithContext(ctx, method, target, r)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", path, err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.send(req)
}

// send sends a request with the token. An answer that is no success is an
// *api.Problem.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, problem(resp)
}

// Upload sends bytes of a payload from an offset on, as many as r has, and reads
// how much of it is there now into v. It is bounded by ctx alone.
func (c *Client) Upload(ctx context.Context, sha256 string, size, offset int64, r io.Reader, v any) error {
	q := url.Values{"bytes": {strconv.FormatInt(size, 10)}, "offset": {strconv.FormatInt(offset, 10)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, c.base+"/v1/payloads/"+url.PathEscape(sha256)+"?"+q.Encode(), r)
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	req.ContentLength = size - offset
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := c.send(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxProblem)).Decode(v); err != nil {
		return fmt.Errorf("%w: the answer broke off: %w", ErrUnreachable, err)
	}
	return nil
}

// maxProblem bounds what is read of a failed answer, in bytes.
const maxProblem = 64 << 10

func problem(resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	p := new(api.Problem)
	if json.Unmarshal(b, p) != nil || p.Code == "" {
		return &api.Problem{
			Title: resp.Status, Status: resp.StatusCode, Code: api.CodeInternal,
			Detail: fmt.Sprintf("the server answered %s, which is no answer of a coordinator", resp.Status),
			Hint:   "look whether the address is that of the coordinator's API",
		}
	}
	return p
}

// Lines copies a resource of any length, which tells itself where it ends, to w.
func (c *Client) Lines(ctx context.Context, path string, query url.Values, w io.Writer) error {
	resp, err := c.request(ctx, http.MethodGet, path, query, nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body := &watched{r: resp.Body}
	_, err = io.Copy(w, body)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !body.failed:
		return err // of w: the caller is in trouble, not the line
	}
	return fmt.Errorf("%w: %s broke off: %w", ErrUnreachable, path, err)
}

// watched tells apart whose error a copy ended with.
type watched struct {
	r      io.Reader
	failed bool
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	w.failed = w.failed || err != nil && err != io.EOF
	return n, err
}

// Reading is which output is to be read, and how.
type Reading struct {
	Action string
	FD     string // stdout, stderr
	Offset int64
	Follow bool // wait for more until the command has ended
	Hold   bool // and let a command in mode stream wait for this reader
}

// Output copies an output stream from an offset on to w, as it comes if it is
// followed. It returns the offset from which to read on: −1 if everything was
// read, and one beyond the last byte if bytes were left out there.
func (c *Client) Output(ctx context.Context, what Reading, w io.Writer) (next int64, err error) {
	offset, action := what.Offset, what.Action
	q := url.Values{"stream": {what.FD}, "offset": {strconv.FormatInt(offset, 10)}, "follow": {strconv.FormatBool(what.Follow)}}
	if what.Hold {
		q.Set("hold", "true")
	}
	resp, err := c.request(ctx, http.MethodGet, "/v1/actions/"+url.PathEscape(action)+"/output", q, nil, nil)
	if err != nil {
		return offset, err
	}
	defer resp.Body.Close()
	n, err := io.Copy(w, resp.Body)
	offset += n
	if err != nil {
		if ctx.Err() != nil {
			return offset, context.Cause(ctx)
		}
		return offset, fmt.Errorf("%w: output of %s broke off: %w", ErrUnreachable, action, err)
	}
	// The body has been read to its end, so the trailers are there. Without
	// them the connection was cut in a way that HTTP/1.1 cannot tell.
	next, err = strconv.ParseInt(resp.Trailer.Get(api.HeaderNext), 10, 64)
	if err != nil {
		return offset, fmt.Errorf("%w: output of %s ended without saying where", ErrUnreachable, action)
	}
	return next, nil
}
