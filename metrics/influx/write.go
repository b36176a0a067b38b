package influx

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	influxdb2 "github.com/influxdata/influxdb-client-go/v2"
	"github.com/influxdata/influxdb-client-go/v2/api"
	influxhttp "github.com/influxdata/influxdb-client-go/v2/api/http"
)

// writer sends one batch, and tries once.
type writer interface {
	write(ctx context.Context, lines []byte) error
}

// Error is what a database answered instead of taking a batch.
type Error struct {
	Status int
	Text   string
	// After is when it wants to be asked again; 0 is not told.
	After time.Duration
}

func (e *Error) Error() string {
	return strings.TrimSpace(fmt.Sprintf("the database answers %d %s", e.Status, e.Text))
}

// refused reports whether the database will never take this batch. An answer that
// depends on rights or on what is configured there may become another one.
func (e *Error) refused() bool {
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

const (
	// maxAnswer bounds what is read of an answer, and maxText what is repeated of it.
	maxAnswer = 64 << 10
	maxText   = 300
	// patience is how long one write may take.
	patience = 30 * time.Second
)

// door is the transport of all requests: it adds the credentials of the host, and limits
// how much of an answer is read.
type door struct {
	user   string
	secret func() (string, error)
	next   http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (d *door) RoundTrip(req *http.Request) (*http.Response, error) {
	if d.secret != nil {
		secret, err := d.secret()
		if err != nil {
			return nil, fmt.Errorf("reading the secret: %w", err)
		}
		req = req.Clone(req.Context())
		if d.user != "" {
			req.SetBasicAuth(d.user, secret)
		} else {
			req.Header.Set("Authorization", "Token "+secret)
		}
	}
	resp, err := d.next.RoundTrip(req)
	if err == nil {
		resp.Body = limited{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}

// limited is the beginning of an answer.
type limited struct {
	io.Reader
	io.Closer
}

// newWriter makes the writer of a checked configuration.
func newWriter(c Config) writer {
	client := &http.Client{
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the secret is for one address
		Transport: &door{c.User, c.Secret, &http.Transport{
			DialContext:         (&net.Dialer{Timeout: patience / 2}).DialContext,
			TLSClientConfig:     &tls.Config{RootCAs: c.CA, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: patience / 2,
			MaxIdleConns:        1,
			IdleConnTimeout:     2 * time.Minute,
		}},
	}
	if c.API == APIClassic {
		return &classic{client, classicURL(c)}
	}
	options := influxdb2.DefaultOptions().SetHTTPClient(client).SetUseGZip(true).SetPrecision(time.Millisecond).SetApplicationName("hostler")
	return &modern{influxdb2.NewClientWithOptions(c.URL, "", options).WriteAPIBlocking(c.Org, c.Bucket)}
}

// modern writes by /api/v2/write, with the client of InfluxData.
type modern struct{ api api.WriteAPIBlocking }

func (m *modern) write(ctx context.Context, lines []byte) error {
	err := m.api.WriteRecord(ctx, strings.TrimSuffix(string(lines), "\n"))
	var answer *influxhttp.Error
	if !errors.As(err, &answer) || answer.StatusCode == 0 {
		return err
	}
	return &Error{answer.StatusCode, brief(cmp.Or(answer.Message, answer.Code)), time.Duration(answer.RetryAfter) * time.Second}
}

// classic writes by /write, which InfluxDB 1.x has from its beginning.
type classic struct {
	client *http.Client
	url    string
}

// classicURL names the database, and the retention policy behind a slash.
func classicURL(c Config) string {
	db, policy, _ := strings.Cut(c.Bucket, "/")
	q := url.Values{"db": {db}, "precision": {"ms"}}
	if policy != "" {
		q.Set("rp", policy)
	}
	return strings.TrimSuffix(c.URL, "/") + "/write?" + q.Encode()
}

func (w *classic) write(ctx context.Context, lines []byte) error {
	body, err := compress(lines)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	req.Header.Set("Content-Encoding", "gzip")
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body) // its beginning tells enough
	if resp.StatusCode/100 == 2 {
		return nil
	}
	after, _ := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 32)
	return &Error{resp.StatusCode, brief(string(text)), time.Duration(after) * time.Second}
}

// brief is what is repeated of an answer.
func brief(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return s
}
